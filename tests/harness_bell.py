"""What the doorbell did, and how to take parts of it away."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from commands import until
from fencepost._binding.calls import Core
from fencepost.spans import MOMENT_MAX
from harness_core import ffi, lib, put

__all__ = ["ANY", "DEAF", "FOREVER", "LOCK", "NO_FUTEX", "NO_LISTENER", "Bell", "Waiter", "bell"]
__all__ += ["bit", "door", "until", "volley", "without"]

NO_FUTEX, NO_LISTENER, DEAF = 1, 2, 4  # as in csrc/fault.h
ANY, LOCK = 1 << 30, 1 << 31  # as in csrc/bell.h and csrc/wake.h
FOREVER = MOMENT_MAX


def bit(queue: int) -> int:
    return 1 << queue % 24


class Bell(NamedTuple):
    """Sleeps of one handle by their end, and what its listener did."""

    moved: int  # a commit, and somebody rang
    time: int
    nudged: int
    signal: int
    late: int  # a commit or a nudge that was noticed when the time was over: nobody woke it
    looks: int
    alarms: int
    asleep: int  # just now


def bell(core: Core) -> Bell:
    counts = ffi.new("int64_t[8]")
    lib.fp_bell(core._store, counts)
    return Bell(*counts)


@contextmanager
def without(bits: int) -> Iterator[None]:
    """Stores that are opened in it have no such thing."""
    lib.fp_fault_bell(bits)
    try:
        yield
    finally:
        lib.fp_fault_bell(0)


@contextmanager
def door() -> Iterator[None]:
    """Whoever is about to sleep stops between its last look and its sleep, to the block's end."""
    lib.fp_fault_door(1)
    try:
        yield
    finally:
        lib.fp_fault_door(0)


def volley(core: Core, theirs: int, mine: int, rounds: int, *, first: bool) -> None:
    """
    A message to the other side, an answer from there, so many times. Nobody claims: each commit is
    one that rings for the one who waits.
    """
    for had in range(rounds):
        if first:
            put(core, theirs)
        while True:
            version = core.version()
            if core.size(None, mine) > had:
                break
            core.wait(mine, version, FOREVER)
        if not first:
            put(core, theirs)


class Waiter(threading.Thread):
    """Waits for a change in a queue from now on; `error` is what ended it otherwise."""

    def __init__(self, core: Core, queue: int) -> None:
        super().__init__(daemon=True)
        self._core, self._queue, self._version = core, queue, core.version()
        self.error: Exception | None = None
        before = bell(core).asleep
        self.start()
        until(lambda: bell(core).asleep > before or lib.fp_fault_at_door() or not self.is_alive())

    def run(self) -> None:
        try:
            while self._core.wait(self._queue, self._version, FOREVER) == self._version:
                pass
        except Exception as error:
            self.error = error
