"""
The command line: `fencepost --database app.db COMMAND`.

Exit codes: 0 done, and all is well; 1 not done, or not all of it; 2 the call itself was wrong.
This module imports neither click nor rich, so that it can say that they are missing.
"""

import os
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line on this process's arguments and exit."""
    _open_standard_streams()
    try:
        from fencepost.cli.root import run
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        print(
            f"fencepost: the command line needs {error.name}: pip install 'fencepost[cli]'",
            file=sys.stderr,
        )
        sys.exit(2)
    sys.exit(run(sys.argv[1:]))


def _open_standard_streams() -> None:
    """
    Stand-ins for those that the caller has closed. Else a pipe or the file itself would get their
    numbers, and a child that is started would take that for its output.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):  # by their numbers
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
