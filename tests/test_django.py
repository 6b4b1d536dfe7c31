"""A real Django on the same file: its project runs in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("django", minversion="5.1")

PROJECT = Path(__file__).parent / "programs" / "django_shop.py"


@pytest.mark.parametrize("mode", [[], ["IMMEDIATE"]])
def test_a_django_project_and_the_queue_are_one_commit(path: Path, mode: list[str]) -> None:
    """As Django comes, and as its documentation has it for SQLite under load."""
    command = [sys.executable, str(PROJECT), str(path), *mode]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr
