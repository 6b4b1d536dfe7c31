"""Pages that are programs: their blocks run, in their order, in one folder."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from commands import quiet_environment

BLOCK: Final = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PYTEST_RUNS: Final = ("test_", "conftest")


def run_blocks(page: Path, folder: Path) -> int:
    """
    A Python block is the file that its first line names, which is run, or left to pytest; each line
    of a sh block is run. All must succeed. How many blocks there were.
    """
    environment = environment_of(folder)
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    for language, text in blocks:
        if language == "python":
            name = text.splitlines()[0].removeprefix("# ")
            (folder / name).write_text(text)
            if not name.startswith(PYTEST_RUNS):
                run(f"python {name}", folder, environment)
        else:
            for line in text.splitlines():
                run(line, folder, environment)
    return len(blocks)


def environment_of(folder: Path) -> dict[str, str]:
    """
    Where `python` and `fencepost` are those of this test run, and pytest finds Fencepost's plugin
    whether or not it is installed.
    """
    bin_ = folder / "bin"
    bin_.mkdir()
    for name, command in (("python", ""), ("fencepost", "-m fencepost")):
        script = bin_ / name
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {command} "$@"\n')
        script.chmod(0o755)
    environment = quiet_environment()
    return {
        **environment,
        "PATH": f"{bin_}:{environment['PATH']}",
        "PYTHONUNBUFFERED": "1",
        "PYTEST_ADDOPTS": "-pno:fencepost -pfencepost._pytest -pno:cacheprovider -pno:asyncio",
    }


def run(line: str, folder: Path, environment: dict[str, str]) -> None:
    """A worker is told to stop once it works; anything else ends by itself."""
    process = subprocess.Popen(
        shlex.split(line),
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said = ""
    if " work " in line:
        assert process.stdout is not None
        while "working" not in said:
            heard = process.stdout.readline()
            assert heard, f"{line}: {said}"
            said += heard
        process.send_signal(signal.SIGTERM)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 0, f"{line}: {said}{rest}"
