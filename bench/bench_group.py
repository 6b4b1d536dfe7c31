"""
Single durable enqueues from many threads and from several processes, beside what one writes by
hand: one connection behind a mutex, and a connection for each thread with a busy time-out.

    python bench/bench_group.py [full] [normal]      the real sizes, some minutes
    pytest bench                                     the smoke sizes, once

All variants put the same 200 bytes. `group` is Fencepost's core from C (bench/c/crowd.c), `mutex`
and `own` are SQLite from C with a table and an index; `python` is Fencepost through Python,
`python mutex` the standard library's sqlite3 with the statements of bench/_hand.py.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pytest

import fencepost
from _c import driver
from _hand import HandQueue
from _rounds import Bytes, file_system, refuse_test_core, rotated

SMOKE = {"messages": 12, "each": 1, "rounds": 1}
REAL = {"messages": 500, "each": 20, "rounds": 5}  # each: by a thread, at the least
THREADS = (1, 4, 8, 16, 64)
PROCESSES = (1, 2, 4)
BODY = b"x" * 200
IN_C = ("group", "mutex", "own")
IN_PYTHON = ("python", "python mutex")


class Run(NamedTuple):
    """One round of one variant: times in seconds, `between` in messages of others."""

    rate: float
    p50: float = 0
    p99: float = 0
    worst: float = 0
    between: int = 0
    slowest: float = 0  # of several processes: the slowest one's time by the fastest one's


@contextmanager
def folder() -> Iterator[Path]:
    """On the disk, and gone afterwards."""
    with tempfile.TemporaryDirectory(dir=".", prefix="bench-") as name:
        yield Path(name)


def in_c(sync: str, variant: str, processes: int, threads: int, each: int) -> Run:
    """So many processes of the driver, let go together on one file."""
    with folder() as at:
        words = [str(at / "crowd.db"), sync.lower(), variant, str(threads), str(each)]
        pipe = subprocess.PIPE
        running = []
        for _ in range(processes):
            call = [str(driver("crowd")), *words]
            running.append(subprocess.Popen(call, stdin=pipe, stdout=pipe, text=True))
            assert running[-1].stdout is not None
            assert running[-1].stdout.readline() == "ready\n"
        for one in running:
            assert one.stdin is not None
            one.stdin.write("\n")
            one.stdin.flush()
        found = [list(map(int, one.communicate()[0].split())) for one in running]
        assert all(one.returncode == 0 for one in running), "a driver said that it failed"
    took = [numbers[0] for numbers in found]
    rate = processes * threads * each / max(took) * 1e9
    p50, p99, worst = (max(numbers[i] for numbers in found) / 1e9 for i in (1, 2, 3))
    between = max(numbers[4] for numbers in found)
    return Run(rate, p50, p99, worst, between, max(took) / min(took))


def in_python(sync: str, variant: str, threads: int, each: int) -> Run:
    with folder() as at:
        if variant == "python":
            durability: Any = sync.lower()
            store = fencepost.open(at / "crowd.db", durability=durability, codec=Bytes())
            queue = store.queue("q")
            took = crowd(threads, each, lambda: queue.enqueue(BODY))
            assert queue.size() == threads * each
            store.close()
        else:
            hand = HandQueue(at / "crowd.db", sync=sync, encode=lambda body: BODY)
            mutex = threading.Lock()

            def put() -> None:
                with mutex:
                    hand.enqueue_many([BODY])

            took = crowd(threads, each, put)
            hand.close()
    return Run(threads * each / took)


def crowd(threads: int, each: int, put: Callable[[], object]) -> float:
    """Seconds that all of them took, from the moment at which all were ready."""
    ready = threading.Barrier(threads + 1)

    def work() -> None:
        ready.wait()
        for _ in range(each):
            put()

    all_ = [threading.Thread(target=work) for _ in range(threads)]
    for thread in all_:
        thread.start()
    ready.wait()
    begun = time.perf_counter()
    for thread in all_:
        thread.join()
    return time.perf_counter() - begun


def by_threads(
    sync: str, messages: int, least: int, rounds: int
) -> dict[tuple[str, int], list[Run]]:
    """Rounds alternate between the variants, and between the numbers of threads."""
    found: dict[tuple[str, int], list[Run]] = {}
    for number in range(rounds):
        for threads in THREADS:
            each = max(least, messages // threads)
            for variant in rotated((*IN_C, *IN_PYTHON), number):
                if variant in IN_C:
                    run = in_c(sync, variant, 1, threads, each)
                else:
                    run = in_python(sync, variant, threads, each)
                found.setdefault((variant, threads), []).append(run)
    return found


def by_processes(
    sync: str, messages: int, least: int, rounds: int
) -> dict[tuple[str, int], list[Run]]:
    found: dict[tuple[str, int], list[Run]] = {}
    for number in range(rounds):
        for processes in PROCESSES:
            for variant in rotated(("group", "own"), number):
                run = in_c(sync, variant, processes, 1, max(least, messages // processes))
                found.setdefault((variant, processes), []).append(run)
    return found


def middle(runs: list[Run], name: str) -> float:
    return median(getattr(run, name) for run in runs)


def times(mine: list[Run], other: list[Run]) -> float:
    """How many times the other's rate: the median over the rounds."""
    return median(a.rate / b.rate for a, b in zip(mine, other, strict=True))


def say_threads(found: dict[tuple[str, int], list[Run]]) -> None:
    for variant in (*IN_C, *IN_PYTHON):
        for threads in THREADS:
            runs = found[variant, threads]
            print(
                f"  {variant:<12} threads={threads:<3} {middle(runs, 'rate'):8.0f}/s"
                f"  x one thread {times(runs, found[variant, 1]):5.2f}"
                f"  x mutex {times(runs, found['mutex', threads]):5.2f}"
                f"  x own {times(runs, found['own', threads]):5.2f}"
                f"  p50 {middle(runs, 'p50') * 1e3:.2f} p99 {middle(runs, 'p99') * 1e3:.1f} ms"
            )


def say_processes(found: dict[tuple[str, int], list[Run]]) -> None:
    for (variant, processes), runs in sorted(found.items()):
        print(
            f"  {variant:<12} processes={processes} {middle(runs, 'rate'):8.0f}/s"
            f"  x one process {times(runs, found[variant, 1]):5.2f}"
            f"  slowest/fastest {middle(runs, 'slowest'):.2f}"
            f"  p99 {middle(runs, 'p99') * middle(runs, 'rate'):.0f} commits' time,"
            f" {middle(runs, 'between'):.0f} of others between two of one's own"
        )


def test_all_variants_put_all_their_messages(benchmark: Any) -> None:
    """Each variant fails by itself where an answer is not as it should be."""
    sizes = tuple(SMOKE.values())
    benchmark.pedantic(by_threads, args=("NORMAL", *sizes), rounds=1)


@pytest.mark.parametrize("sync", ["NORMAL", "FULL"])
def test_processes_put_all_their_messages(benchmark: Any, sync: str) -> None:
    sizes = tuple(SMOKE.values())
    benchmark.pedantic(by_processes, args=(sync, *sizes), rounds=1)


def main() -> None:
    refuse_test_core()
    syncs = [word.upper() for word in sys.argv[1:]] or ["FULL", "NORMAL"]
    for sync in syncs:
        messages = REAL["messages"] * (1 if sync == "FULL" else 20)
        sizes = (messages, REAL["each"], REAL["rounds"])
        print(
            f"crowd messages={messages} payload={len(BODY)}B sync={sync}"
            f" fs={file_system(Path())} rounds={REAL['rounds']}"
        )
        say_threads(by_threads(sync, *sizes))
        say_processes(by_processes(sync, *sizes))


if __name__ == "__main__":
    main()
