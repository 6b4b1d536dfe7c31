"""
Pages that are programs: their blocks run, in their order, in one folder of their own.

What is done with a block follows from the language it is in:

    python      it is the file that its first line names, which is run, or left to pytest
    sh          each line is run; what serves is told to stop once it says that it does
    sql         the standard library's sqlite3 runs it, on the file that its first line names
    json, text  is what something prints, or a picture

and from a comment above it, where it runs elsewhere or cannot run:

    <!-- of examples/orders/shop.py -->         it stands there, word for word
    <!-- run by tests/test_relay_guide.py -->   which reads this page
    <!-- not run: it installs -->               any reason; it must parse all the same
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from commands import quiet_environment

ROOT: Final = Path(__file__).resolve().parent.parent
FENCE: Final = re.compile(
    r"^(?:<!-- ([^\n]+) -->\n)?```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
NAME: Final = re.compile(r"(?:#|--) (\w+\.\w+)\n")
PYTEST_RUNS: Final = ("test_", "conftest")
SHOWN: Final = ("json", "text")
SERVING: Final = {" work ": "working on", " dashboard ": "http://"}  # and what it says when it does


class Block(NamedTuple):
    mark: str  # what the comment above it says
    language: str
    text: str

    @property
    def name(self) -> str:
        """The file that its first line names."""
        named = NAME.match(self.text)
        assert named, f"its first line names no file:\n{self.text}"
        return named[1]


def blocks(page: Path) -> Iterator[Block]:
    for found in FENCE.findall(page.read_text(encoding="utf-8")):
        yield Block(*found)


def run_blocks(page: Path, folder: Path) -> None:
    """All must succeed; what is neither run nor marked fails."""
    environment = environment_of(folder)
    for block in blocks(page):
        if block.mark:
            look_up(block, page)
        elif block.language == "python":
            (folder / block.name).write_text(block.text, encoding="utf-8")
            if not block.name.startswith(PYTEST_RUNS):
                run(f"python {block.name}", folder, environment)
        elif block.language == "sh":
            for line in block.text.splitlines():
                run(line, folder, environment)
        elif block.language == "sql":
            execute(block.text, folder / block.name)
        else:
            assert block.language in SHOWN, f"what is it?\n{block.text}"


def run_block(page: str, name: str, folder: Path) -> None:
    """One block of a page, where not all of them can run."""
    (block,) = [one for one in blocks(ROOT / "docs" / page) if one.text.startswith(f"# {name}\n")]
    (folder / name).write_text(block.text, encoding="utf-8")
    run(f"python {name}", folder, environment_of(folder))


def look_up(block: Block, page: Path) -> None:
    """What its mark says is true, as far as that can be seen from here."""
    kind, _, rest = block.mark.partition(" ")
    if kind == "of":
        assert block.text in (ROOT / rest).read_text(encoding="utf-8"), block.text
    elif block.mark.startswith("run by "):
        test = (ROOT / rest.removeprefix("by ")).read_text(encoding="utf-8")
        assert page.name in test, f"{block.mark}: it does not name this page"
    else:
        assert block.mark.startswith("not run: "), block.mark
        parse(block)


def parse(block: Block) -> None:
    if block.language == "python":
        compile(block.text, "a page", "exec", dont_inherit=True)
    elif block.language == "sh":
        assert all(shlex.split(line, comments=True) for line in block.text.splitlines())


def execute(script: str, path: Path) -> None:
    connection = sqlite3.connect(path)
    try:
        connection.executescript(script)
    finally:
        connection.close()


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


def told(arguments: list[str], folder: Path) -> int:
    """What the command line answers in this process, which has imported it all: its exit code."""
    from fencepost.cli.root import run as answer

    here = Path.cwd()
    os.chdir(folder)
    try:
        return answer(arguments)
    finally:
        os.chdir(here)


def run(line: str, folder: Path, environment: dict[str, str]) -> None:
    """A line that ends with `# exit code 1` must end so."""
    command, _, code = line.partition("  # exit code ")
    command = re.sub(r" dashboard\b", " dashboard --port 0", command)  # one that is free
    serves = [says for word, says in SERVING.items() if word in f"{command} "]
    if command.startswith("fencepost ") and not serves:
        assert told(shlex.split(command)[1:], folder) == int(code or 0), line
        return
    process = subprocess.Popen(
        ["sh", "-c", f"exec {command}" if serves else command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said = ""
    for says in serves:
        assert process.stdout is not None
        while says not in said:
            heard = process.stdout.readline()
            assert heard, f"{line}: {said}"
            said += heard
        process.send_signal(signal.SIGTERM)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == int(code or 0), f"{line}: {said}{rest}"
