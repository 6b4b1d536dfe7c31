"""
Variants of the same work in one run: rounds alternate, so that whatever else the machine does is
shared by all; what is said is medians, and the median of the ratios within a round.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

__all__ = [
    "Bytes",
    "Figure",
    "Spent",
    "file_system",
    "refuse_test_core",
    "rotated",
    "timed",
    "work_hash",
]


class Bytes:
    """A codec that does nothing."""

    def encode(self, value: Any, /) -> bytes:
        body: bytes = value
        return body

    def decode(self, body: bytes, type: Any, /) -> Any:
        return body


@dataclass(frozen=True, slots=True)
class Spent:
    """What one round of one variant cost, in nanoseconds."""

    wall: int
    cpu: int


@dataclass(slots=True)
class Figure:
    """One variant's rounds, each over `messages` messages."""

    messages: int
    rounds: list[Spent] = field(default_factory=list)

    def us(self, ns: float) -> float:
        """Per message."""
        return ns / self.messages / 1000

    def __str__(self) -> str:
        wall = [spent.wall for spent in self.rounds]
        cpu = [spent.cpu for spent in self.rounds]
        return (
            f"median={self.us(median(wall)):.2f}us worst={self.us(max(wall)):.2f}us"
            f" cpu={self.us(median(cpu)):.2f}us"
        )

    def times(self, other: Figure) -> str:
        """How many times the other this one costs, by the wall's clock and by the CPU's."""
        pairs = list(zip(self.rounds, other.rounds, strict=True))
        wall = median(mine.wall / its.wall for mine, its in pairs)
        cpu = median(mine.cpu / its.cpu for mine, its in pairs)
        return f"{wall:.2f} (cpu {cpu:.2f})"


def timed(work: Callable[[], object]) -> Spent:
    wall, cpu = time.perf_counter_ns(), time.process_time_ns()
    work()
    return Spent(time.perf_counter_ns() - wall, time.process_time_ns() - cpu)


def rotated(names: Sequence[str], number: int) -> list[str]:
    """The order of round `number`: each begins with another one."""
    turn = number % len(names)
    return [*names[turn:], *names[:turn]]


def work_hash(bodies: Sequence[bytes]) -> str:
    """Of what was delivered, in its order: whoever changes the work changes this."""
    return hashlib.sha256(b"\n".join(bodies)).hexdigest()[:8]


def file_system(path: Path) -> str:
    """The type of the file system that `path` is on, where the machine tells."""
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return "?"
    found = ("", "?")
    for line in mounts.read_text(encoding="utf-8").splitlines():
        _, folder, kind, *_ = line.split()
        if path.resolve().is_relative_to(folder) and len(folder) >= len(found[0]):
            found = (folder, kind)
    return found[1]


def refuse_test_core() -> None:
    """Figures are those of the core that wheels carry, never of its hostile twin."""
    if os.environ.get("FENCEPOST_TEST_CORE") == "1":
        sys.exit("FENCEPOST_TEST_CORE is set: figures are taken with the release core only")
    print("core=fencepost._core, the release build")
