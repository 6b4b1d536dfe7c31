"""
The ladder: an operation fails at its first step, at its second, and so on, until it passes.

After each rung the whole file, read by another process, is what it was; the same handle goes on,
and what it then does once it may is what it would have done at once.
"""

from __future__ import annotations

import gc
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from fencepost._binding.calls import Core
from fencepost.errors import StorageError
from harness_cases import Case, Context
from harness_core import START, lib, opened
from harness_outside import Outside

META = re.compile(r"(INSERT INTO \"fencepost_meta\" VALUES\(1,1),X'\w{32}','[^']*',-?\d+,-?\d+,")
WORKER = re.compile(r"(INSERT INTO \"fencepost_worker\" VALUES\(\d+),\d+,")
FOR_EVER = 1 << 30
WORDS = ("disk I/O error", "is full", "out of memory", "unable to open database file")

Arm = Callable[[int], None]


def steps(times: int) -> Arm:
    """That statement step fails with an I/O error, and `times` - 1 after it."""
    return lambda rung: lib.fp_fault_step(rung, times)


def memory(times: int) -> Arm:
    """That allocation fails, and `times` - 1 after it; SQLite's and ours alike."""
    return lambda rung: lib.fp_fault_memory(rung, times)


def disarm() -> None:
    lib.fp_fault_step(-1, 0)
    lib.fp_fault_memory(-1, 0)
    lib.fp_fault_write(-1, 0, 0)
    lib.fp_fault_sync(-1, 0)
    lib.fp_fault_io(-1, 0)


def fingerprint(dump: str) -> str:
    """
    The file without what makes each one different: its name, the clock when it was made, and the
    processes that use it.
    """
    return WORKER.sub(r"\1, …,", META.sub(r"\1, …,", dump))


def findings(core: Core) -> str:
    return core.check(full=True).blob.decode()


class Ladder:
    """One case on a file of its own; `fresh` begins it anew."""

    def __init__(self, case: Case, folder: Path, outside: Outside) -> None:
        self.case = case
        self.path = folder / "app.db"
        self._outside = outside
        self._core: Core | None = None
        self.context: Context = None
        self.allocations = 0

    def dump(self) -> str:
        return fingerprint(self._outside.dump(self.path))

    @property
    def core(self) -> Core:
        assert self._core is not None
        return self._core

    def fresh(self) -> str:
        """Prepares the case in a new file; what is in it then."""
        self.end()
        shutil.rmtree(self.path.parent, ignore_errors=True)
        self._core = opened(self.path)
        self.context = self.case.prepare(self.core)
        self._now = self.core.now()
        return self.dump()

    def operate(self) -> None:
        self.case.operate(self.core, self.context)

    def end(self) -> None:
        if self._core is not None:
            self._core.close()
        self._core = self.context = None

    def without_faults(self) -> str:
        """What the operation leaves when nothing fails."""
        self.fresh()
        calls = lib.fp_memory_calls()
        self.operate()
        self.allocations = lib.fp_memory_calls() - calls
        assert findings(self.core) == ""
        return self.dump()

    def climb(self, arm: Arm, rungs: int = FOR_EVER) -> int:
        """
        How many rungs there were. Of an operation with more allocations than `rungs`, about so
        many are tried, all over it.

        A failed allocation that SQLite or the core can do without is no failure: then the
        operation must have done the whole of its work.
        """
        after = self.without_faults()
        stride = 1 + self.allocations // rungs
        rung = 0
        while True:
            before = self.fresh()
            while (hits := self._hits(arm, rung)) < 0:
                assert self.dump() == before, f"rung {rung} left something behind"
                rung += stride
            assert self.dump() == after, f"after rung {rung} it did something else"
            assert findings(self.core) == ""
            if hits == 0:
                return rung
            rung += stride

    def _hits(self, arm: Arm, rung: int) -> int:
        """How many faults the operation met and overcame; -1: it failed of them."""
        arm(rung)
        try:
            self.operate()
        except StorageError as error:
            if lib.fp_fault_hits() == 0 or not told(error):
                raise
            return -1
        else:
            hits: int = lib.fp_fault_hits()
            return hits
        finally:
            disarm()


def told(error: StorageError) -> bool:
    """Does it say what the world did to it?"""
    return any(words in str(error) for words in WORDS)


def memory_live() -> int:
    """Allocations of ours that are not given back, those of collected handles aside."""
    gc.collect()
    live: int = lib.fp_memory_live()
    return live


__all__ = [
    "FOR_EVER",
    "START",
    "Arm",
    "Ladder",
    "disarm",
    "findings",
    "memory",
    "memory_live",
    "steps",
]
__all__ += ["told"]
