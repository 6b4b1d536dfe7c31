"""The operations that bench/instructions.py counts, in tiny sizes and without valgrind."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from _c import driver
from instructions import OPERATIONS, SCENES


@pytest.mark.parametrize("one", OPERATIONS, ids=lambda one: f"{one.name} {one.profile}")
def test_every_operation_runs(tmp_path: Path, one: tuple[str, str, str, str]) -> None:
    """The driver itself ends with an error where an answer is not as it should be."""
    _, name, profile, _ = one
    call = [str(driver("ops")), name, profile, "5", "10", str(tmp_path / "ops.db")]
    rows, _ = subprocess.run(call, check=True, capture_output=True, text=True).stdout.split()
    assert rows == "10"


def test_scenes_are_set_once_and_claimed_from(tmp_path: Path) -> None:
    path = str(tmp_path / "ops.db")
    assert len({scene[1:] for scene in SCENES}) == len(SCENES)
    scene = ["320", "30", "16", "30", "5"]  # backlog, kept, levels, neighbours, held
    subprocess.run([str(driver("ops")), "look", "bulk", "1", "0", path, *scene], check=True)
    for _ in range(2):
        subprocess.run([str(driver("ops")), "claim_there", "bulk", "10", "20", path], check=True)
