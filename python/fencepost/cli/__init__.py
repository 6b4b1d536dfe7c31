"""
The command line: `fencepost --database app.db COMMAND`.

Exit codes: 0 done, and all is well; 1 not done, or not all of it; 2 the call itself was wrong.
This module imports neither click nor rich, so that it can say that they are missing.
"""

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line on this process's arguments and exit."""
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
