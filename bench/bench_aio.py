"""
Thousands of coroutines that each enqueue one message durably, beside the ways there were before: a
thread of the event loop's own pool for each call, a crowd of threads, and one after the other.

    python bench/bench_aio.py [full] [normal]      the real sizes, a quarter of a minute each
    pytest bench                                   the smoke sizes, once

All put the same 200 bytes into one queue. `commits` are those of the file, counted in its
WAL-index; `threads` those that were there at the end and not at the beginning. `results` is the
whole way: a worker in the same process runs a job for each, whose result is awaited.
"""

from __future__ import annotations

import asyncio
import importlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pytest

import fencepost
from _rounds import file_system, refuse_test_core, rotated

SMOKE = {"coroutines": 30, "rounds": 1}
REAL = {"coroutines": 5_000, "rounds": 5}
CROWD = 64  # threads of the variant that has nothing else
ONE_BY_ONE = 10  # of so many only one is made
BODY = "x" * 198  # with its quotes, 200 bytes

VARIANTS = ("aio", "aio uvloop", "to_thread", "threads", "one by one")


class Run(NamedTuple):
    """One round of one variant."""

    rate: float
    commits: float  # for each message
    threads: int


@contextmanager
def opened(sync: str) -> Iterator[tuple[fencepost.App, Callable[[], int]]]:
    """An App on the disk, and how many commits its file has seen."""
    durability: Any = sync.lower()
    with tempfile.TemporaryDirectory(dir=".", prefix="bench-") as name:
        path = Path(name) / "aio.db"
        app = fencepost.App(path, durability=durability)
        app.store.queue("q", str).enqueue(BODY)

        def commits() -> int:
            shm = f"{path}-shm"  # iChange of the WAL-index header
            words = ["od", "-An", "-tu4", "-j8", "-N4", shm]
            return int(subprocess.run(words, check=True, capture_output=True, text=True).stdout)

        yield app, commits
        app.store.close()


def on_loop(library: str, main: Coroutine[Any, Any, None]) -> None:
    loop = importlib.import_module(library).new_event_loop()
    try:
        loop.run_until_complete(main)
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


async def gathered(queue: fencepost.Queue[str], count: int) -> None:
    await asyncio.gather(*(queue.aio.enqueue(BODY) for _ in range(count)))


async def to_thread(queue: fencepost.Queue[str], count: int) -> None:
    await asyncio.gather(*(asyncio.to_thread(queue.enqueue, BODY) for _ in range(count)))


def crowd(queue: fencepost.Queue[str], count: int) -> None:
    def work(share: int) -> None:
        for _ in range(share):
            queue.enqueue(BODY)

    shares = [len(range(at, count, CROWD)) for at in range(CROWD)]
    threads = [threading.Thread(target=work, args=[share]) for share in shares]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def run(variant: str, sync: str, count: int) -> Run:
    with opened(sync) as (app, commits):
        queue = app.store.queue("q", str)
        before, seen, there = set(threading.enumerate()), commits(), queue.size()
        most = 0

        async def counting(main: Coroutine[Any, Any, None]) -> None:
            nonlocal most
            await main
            most = len(set(threading.enumerate()) - before)

        begun = time.perf_counter()
        if variant == "threads":
            crowd(queue, count)
            most = CROWD
        elif variant == "one by one":
            count = max(1, count // ONE_BY_ONE)
            for _ in range(count):
                queue.enqueue(BODY)
        elif variant == "to_thread":
            on_loop("asyncio", counting(to_thread(queue, count)))
        else:
            library = "uvloop" if variant.endswith("uvloop") else "asyncio"
            on_loop(library, counting(gathered(queue, count)))
        took = time.perf_counter() - begun
        assert queue.size() - there == count
        return Run(count / took, (commits() - seen) / count, most)


def results(sync: str, count: int) -> Run:
    with opened(sync) as (app, commits):

        @app.job
        async def square(n: int) -> int:
            return n * n

        async def one(n: int) -> int:
            return await (await square.aio.enqueue(n)).result()

        async def main() -> None:
            async with app.worker():
                found = await asyncio.gather(*(one(n) for n in range(count)))
                assert found == [n * n for n in range(count)]

        before, seen, begun = set(threading.enumerate()), commits(), time.perf_counter()
        most = 0

        async def counting() -> None:
            nonlocal most
            await main()
            most = len(set(threading.enumerate()) - before)

        on_loop("asyncio", counting())
        took = time.perf_counter() - begun
        return Run(count / took, (commits() - seen) / count, most)


def measured(sync: str, coroutines: int, rounds: int) -> dict[str, list[Run]]:
    """Rounds alternate between the variants."""
    found: dict[str, list[Run]] = {}
    for number in range(rounds):
        for variant in rotated(VARIANTS, number):
            found.setdefault(variant, []).append(run(variant, sync, coroutines))
        found.setdefault("results", []).append(results(sync, coroutines))
    return found


def say(found: dict[str, list[Run]]) -> None:
    for variant, runs in found.items():
        rate = median(one.rate for one in runs)
        times = median(
            mine.rate / other.rate for mine, other in zip(runs, found["one by one"], strict=True)
        )
        print(
            f"  {variant:<11} {rate:8.0f}/s  x one by one {times:6.2f}"
            f"  commits/message {median(one.commits for one in runs):.4f}"
            f"  threads {max(one.threads for one in runs)}"
        )


@pytest.mark.parametrize("sync", ["NORMAL", "FULL"])
def test_all_variants_put_all_their_messages(benchmark: Any, sync: str) -> None:
    """Each variant fails by itself where a message is missing."""
    pytest.importorskip("uvloop")
    benchmark.pedantic(measured, args=(sync, *SMOKE.values()), rounds=1)


def main() -> None:
    refuse_test_core()
    for sync in [word.upper() for word in sys.argv[1:]] or ["FULL", "NORMAL"]:
        print(
            f"aio coroutines={REAL['coroutines']} payload=200B sync={sync}"
            f" fs={file_system(Path())} rounds={REAL['rounds']}"
        )
        say(measured(sync, **REAL))


if __name__ == "__main__":
    main()
