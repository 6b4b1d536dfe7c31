"""
What becomes garbage together goes in any order: whoever is finalized late may still call what was
finalized before it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BEGIN = """
import contextlib, gc, sys
import fencepost
from fencepost._binding.calls import Core

gc.disable()
ORDERS = "first", "last"


def opened():
    return Core(
        sys.argv[1].encode(), create=True, wal=True, network=False, foreign_keys=True,
        normal=0, hand_us=0, patience=30.0,
    )


def ringed(*parts):
    ring = [*parts]
    ring.append(ring)
"""

TRANSACTION = """
for turn in range(20):
    core = opened()
    ringed(core, core.begin(30))
    del core
    gc.collect()
"""

KEEPER = """
for turn in range(20):
    core = opened()
    ringed(core, core.keeper(1000))
    del core
    gc.collect()
"""

# Each stands before the store in the collector's list, and then behind it.
BLOCK = """
def block(held):
    with held[0].transaction() as tx:
        try:
            yield
        finally:
            with contextlib.suppress(fencepost.InvalidArgument):  # over, if it went before us
                tx.execute("SELECT 1")


for turn in range(20):
    for order in ORDERS:
        held = []
        if order == "first":
            one = block(held)
        held.append(fencepost.open(sys.argv[1]))
        if order == "last":
            one = block(held)
        next(one)
        ringed(held, one)
        del held, one
        gc.collect()
"""

CALLER = """
answers = []


class Caller:
    def __del__(self):
        self.held[0].queue("q").enqueue(len(answers))
        answers.append(self.held[0].queue("q").size())
        self.held[0].close()


for turn in range(20):
    for order in ORDERS:
        if order == "first":
            one = Caller()
        held = [fencepost.open(sys.argv[1])]
        if order == "last":
            one = Caller()
        one.held = held
        ringed(held, one)
        del held, one
        gc.collect()
assert answers == list(range(1, 41)), answers
"""

PARTS = """
errors = []


class Late:
    def __del__(self):
        tx, keeper = self.core.begin(30), self.core.keeper(1000)
        for one in tx, keeper:
            one.__del__()  # as the collector does it, if it comes to them first
        try:
            self.core.queue_define(tx, b"q", 0, {})
        except fencepost.InvalidArgument as error:
            errors.append(str(error))
        try:
            keeper.hold([1, 1, 1, 1])
        except fencepost.Closed as error:
            errors.append(str(error))
        keeper.drop([1, 1])
        assert keeper.lost(1, 1)


core, late = opened(), Late()
late.core = core
ringed(core, late)
del core, late
gc.collect()
assert errors == ["the transaction is over", "the keeper is stopped"], errors
"""

EXIT = """
class Caller:
    def __del__(self):
        try:
            self.store.queue("q").enqueue(1)
        except Exception:  # what it needs may be gone
            pass


caller = Caller()
caller.store = fencepost.open(sys.argv[1])
caller.ring = caller
kept = opened()
"""

PROGRAMS = {
    "an open transaction": TRANSACTION,
    "a keeper": KEEPER,
    "a suspended block": BLOCK,
    "a caller": CALLER,
    "what was finalized before": PARTS,
    "the end of the interpreter": EXIT,
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_handle_is_garbage_together_with(path: Path, program: str) -> None:
    """
    Nothing is touched after it was freed, nothing is written without its transaction, and the write
    lock is free again each time.
    """
    command = [sys.executable, "-W", "error", "-c", BEGIN + program, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "")
