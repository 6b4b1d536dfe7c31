"""What Fencepost set out to reach beside its peers, and whether a run says that it does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bench.peers.found import HAND, OUR_JOB, OURS, RAW, Found, ratio

__all__ = ["Aim", "aims"]


class Aim(NamedTuple):
    words: str
    asked: float
    found: float | None  # None: this run does not tell
    unit: str = "x"
    at_most: bool = False

    @property
    def met(self) -> bool:
        assert self.found is not None
        return self.found <= self.asked if self.at_most else self.found >= self.asked


def aims(found: Found) -> list[Aim]:
    every = [*commits(found), *bulk(found), *workers(found), *threads(found), *waiting(found)]
    return [aim for aim in every if aim.found is not None]


def commits(found: Found) -> Iterator[Aim]:
    one, bare = found.rates("full", "put", OURS), found.rates("full", "bare", RAW)
    yield Aim(
        "put one at FULL, time beside a bare commit in C", 1.5, ratio(bare, one), at_most=True
    )
    sixteen = found.rates("full", "threads 16", OURS)
    yield Aim("put one at FULL from 16 threads, beside one thread", 8, ratio(sixteen, one))


def bulk(found: Found) -> Iterator[Aim]:
    pages, many = found.rates("full", "pages", RAW), found.rates("full", "many", OURS)
    words = "put 1000 at FULL, time beside writing as many pages"
    yield Aim(words, 1.3, ratio(pages, many), at_most=True)
    for peer in ("plainjob", "localqueue"):
        words = f"put 1000 at NORMAL, beside {peer}"
        yield Aim(f"{words}, rows/s", 2, found.times("normal", "many", OURS, peer))
        cpus = (found.cpus("normal", "many", name) for name in (peer, OURS))
        yield Aim(f"{words}, CPU per message", 2, ratio(*cpus))


def workers(found: Found) -> Iterator[Aim]:
    best = found.best("full", "work", found.acking)
    for name, words in ((OUR_JOB, "a job"), (OURS, "a queue")):
        for other in (best, HAND):
            if other is not None:
                said = f"worker at FULL, {words}, beside {found.title(other)}"
                yield Aim(said, 10, found.times("full", "work", name, other))


def threads(found: Found) -> Iterator[Aim]:
    for number, asked in ((4, 2), (16, 6)):
        operation = f"threads {number}"
        best = found.best("full", operation, found.peers)
        if best is not None:
            words = f"put one at FULL from {number} threads, beside {found.title(best)}"
            yield Aim(words, asked, found.times("full", operation, OURS, best))


def waiting(found: Found) -> Iterator[Aim]:
    for part, asked in ((0.5, 0.2), (0.99, 1)):
        words = f"wake-up in another process, p{part * 100:.0f}"
        yield Aim(words, asked, found.late_ms(OURS, part), unit=" ms", at_most=True)
    yield Aim("a worker that waits, of a core", 0.1, found.idle(OURS), unit=" %", at_most=True)
