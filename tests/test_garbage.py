"""What becomes garbage together goes in any order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import gc, sys
import fencepost
from fencepost._binding.calls import Core

gc.disable()
for turn in range(20):
    core = Core(
        sys.argv[1].encode(), create=True, wal=True, network=False, foreign_keys=True,
        normal=0, hand_us=0, patience=30.0,
    )
    ring = [core, core.begin(30)]
    ring.append(ring)
    del core, ring
    gc.collect()
print("whole")
"""


def test_a_handle_and_its_open_transaction_are_garbage_together(path: Path) -> None:
    """Nothing is touched after it was freed, and the write lock is free again each time."""
    command = [sys.executable, "-c", PROGRAM, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout) == (0, "whole\n"), done.stderr
