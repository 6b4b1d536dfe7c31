"""
The worker, end to end: jobs that do nothing, enqueued beforehand, from the start of the worker to
the commit of the last one; beside the loop that one writes by hand: claim one, run it, ack it.

    python bench/bench_worker.py [full] [normal]     the real sizes, a few minutes
    pytest bench                                     the smoke sizes, once

All variants carry the same payloads to the same handler. Jobs are kept when they are done and can
be looked up; the hand-written queue deletes its rows.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import pytest

import _hand
import fencepost
from _hand import HandQueue
from _rounds import Figure, Spent, file_system, refuse_test_core, rotated, timed, work_hash
from fencepost.codec import JSON

SMOKE = {"jobs": 40, "by_hand": 40, "rounds": 1}
REAL = {"jobs": 20_000, "by_hand": 2_000, "rounds": 7}  # a job by hand costs two commits

Round = Callable[[Path, str, int], "tuple[Spent, list[int]]"]


def payload(number: int) -> dict[str, Any]:
    return {"number": number, "to": f"customer-{number % 977}@example.com"}


def ours(path: Path, sync: str, jobs: int, *, threads: int, coroutine: bool = False) -> Any:
    """One round: what it cost, and what the handlers were given."""
    durability: Any = sync.lower()
    app = fencepost.App(path, durability=durability)
    seen: list[int] = []
    over = threading.Event()

    def take(number: int, to: str) -> None:
        seen.append(number)
        if len(seen) == jobs:
            over.set()

    async def await_(number: int, to: str) -> None:
        take(number, to)

    job: Any = app.job(await_ if coroutine else take)
    for first in range(0, jobs, 1000):
        last = min(jobs, first + 1000)
        job.enqueue_many(job.call(**payload(number)) for number in range(first, last))

    def work() -> None:
        with app.worker(threads=threads):
            assert over.wait(600)

    spent = timed(work)
    with app.store as store:
        assert store.stats()["totals"]["done"] == jobs
    return spent, seen


def by_hand(path: Path, sync: str, jobs: int, *, threads: int) -> Any:
    open_queue = partial(HandQueue, path, sync=sync)
    queue = open_queue()
    queue.enqueue_many([payload(number) for number in range(jobs)])
    seen: list[int] = []
    spent = timed(
        lambda: _hand.work(open_queue, lambda given: seen.append(given["number"]), threads)
    )
    assert queue.claim(1) == []
    queue.close()
    return spent, seen


VARIANTS: dict[str, Round] = {
    "hand, 1 thread": partial(by_hand, threads=1),
    "1 thread": partial(ours, threads=1),
    "8 threads": partial(ours, threads=8),
    "async": partial(ours, threads=1, coroutine=True),
}


def run(sync: str, jobs: int, hand_jobs: int, rounds: int) -> dict[str, Figure]:
    """Rounds alternate; each begins with a new file on the disk."""
    sizes = {name: hand_jobs if name.startswith("hand") else jobs for name in VARIANTS}
    found = {name: Figure(size) for name, size in sizes.items()}
    for number in range(rounds):
        for name in rotated(list(VARIANTS), number):
            with tempfile.TemporaryDirectory(dir=".", prefix="bench-") as folder:
                spent, seen = VARIANTS[name](Path(folder) / "bench.db", sync, sizes[name])
            assert sorted(seen) == list(range(sizes[name])), f"{name} ran something else"
            found[name].rounds.append(spent)
    return found


@pytest.mark.parametrize("sync", ["NORMAL", "FULL"])
def test_every_worker_does_the_same_work(
    benchmark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: str
) -> None:
    """Each job is run once by each of them."""
    monkeypatch.chdir(tmp_path)
    args = (sync, SMOKE["jobs"], SMOKE["by_hand"], SMOKE["rounds"])
    benchmark.pedantic(run, args=args, rounds=1)


def per_second(figure: Figure) -> list[float]:
    return [figure.messages / spent.wall * 1e9 for spent in figure.rounds]


def main() -> None:
    refuse_test_core()
    for sync in [word.upper() for word in sys.argv[1:]] or ["FULL", "NORMAL"]:
        found = run(sync, REAL["jobs"], REAL["by_hand"], REAL["rounds"])
        bodies = [JSON.encode(payload(number)) for number in range(REAL["jobs"])]
        print(
            f"worker jobs={REAL['jobs']} by hand={REAL['by_hand']} sync={sync}"
            f" fs={file_system(Path())} rounds={REAL['rounds']} hash={work_hash(bodies)}"
        )
        hand = per_second(found["hand, 1 thread"])
        for name, figure in found.items():
            speed = per_second(figure)
            times = median(one / other for one, other in zip(speed, hand, strict=True))
            print(
                f"  {name:<15} {median(speed):>7.0f}/s (worst {min(speed):.0f}, best"
                f" {max(speed):.0f}) cpu={figure.us(median(s.cpu for s in figure.rounds)):.1f}us"
                f" x hand {times:.1f}"
            )


if __name__ == "__main__":
    main()
