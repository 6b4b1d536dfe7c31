"""The README is a program: its blocks run, in their order, in one folder."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from commands import quiet_environment

README = Path(__file__).resolve().parent.parent / "README.md"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
READING = '{"sensor": "roof", "celsius": 21.5}\n'


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Where `python` and `fencepost` are those of this test run."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    for name, command in (("python", ""), ("fencepost", "-m fencepost")):
        script = bin_ / name
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {command} "$@"\n')
        script.chmod(0o755)
    environment = quiet_environment()
    return {**environment, "PATH": f"{bin_}:{environment['PATH']}", "PYTHONUNBUFFERED": "1"}


def test_every_block_runs(tmp_path: Path, environment: dict[str, str]) -> None:
    """A Python block is the file that its first line names; each line of a sh block succeeds."""
    (tmp_path / "readings.jsonl").write_text(READING)
    blocks = BLOCK.findall(README.read_text(encoding="utf-8"))
    assert len(blocks) > 4
    for language, text in blocks:
        if language == "python":
            name = text.splitlines()[0].removeprefix("# ")
            (tmp_path / name).write_text(text)
            run(f"python {name}", tmp_path, environment)
        else:
            for line in text.splitlines():
                run(line, tmp_path, environment)


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


def test_it_names_files_that_are_there() -> None:
    root = README.parent
    text = README.read_text(encoding="utf-8")
    house = text[text.index("## The house") :]
    named = re.findall(r"^    (\S+)  ", house, re.MULTILINE) + re.findall(r"\]\((\S+?)\)", text)
    assert len(named) > 7
    assert [name for name in named if not (root / name).exists()] == []
