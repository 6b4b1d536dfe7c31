"""
How soon a process that waits has what another one committed, and what waiting costs.

    python bench/bench_wake.py        the real sizes, two minutes
    pytest bench                      the smoke sizes, once

From the return of the commit to the return of the claim, in another process. All variants of a run
wait at the same time, each on a file of its own, and are written to in turn, so that whatever else
the machine does is shared by all. `foreign` is Fencepost's claim, woken by an INSERT through the
door with the standard library's sqlite3; the pollers are what one writes by hand. In the second run
each has a neighbour that enqueues into another queue of the same file all the time.
"""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import quantiles
from typing import Any

import _waiting
import fencepost
from _hand import HandQueue
from _rounds import file_system, refuse_test_core, rotated

SMOKE = {"rounds": 3, "settle": 0.0, "idle": 0.02, "pause": (0.001, 0.002), "busy": 0.0005}
REAL = {"rounds": 600, "settle": 1.0, "idle": 10.0, "pause": (0.003, 0.013), "busy": 0.0005}

PUT = "INSERT INTO fencepost_enqueue (queue, body) VALUES ('q', ?)"


class Waiting:
    """A process that waits, and how to give it something."""

    def __init__(self, name: str, way: str, path: Path, stack: ExitStack) -> None:
        self.name = name
        self.committed: dict[int, int] = {}
        command = [sys.executable, _waiting.__file__, way, str(path)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        stack.callback(end, self._process)
        assert self._heard() == "ready"

    def _heard(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def ask(self, what: str) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        return self._heard()

    def put(self, number: int, write: Callable[[int], object]) -> None:
        write(number)
        self.committed[number] = time.monotonic_ns()

    def spans_us(self) -> list[float]:
        """Commit to claim, of each message; a claim may even be first to return."""
        had = {int(number): moment for number, moment in self.ask("end").items()}
        self._process.wait()
        assert had.keys() == self.committed.keys(), f"{self.name} lost some"
        return [max(0, had[n] - at) / 1000 for n, at in self.committed.items()]


def end(process: subprocess.Popen[Any]) -> None:
    """Whatever it does."""
    with process:
        process.kill()


def by_hand(path: Path, stack: ExitStack) -> Callable[[int], object]:
    queue = HandQueue(path, sync="NORMAL")
    stack.callback(queue.close)
    return lambda number: queue.enqueue_many([number])


def through_us(path: Path, stack: ExitStack) -> Callable[[int], object]:
    store = stack.enter_context(fencepost.open(path, durability="normal"))
    return store.queue("q", int).enqueue


def through_sql(path: Path, stack: ExitStack) -> Callable[[int], object]:
    """The door: plain SQL of another SQLite. Fencepost only makes the file."""
    with fencepost.open(path) as store:
        store.queue("q").claim()
    db = sqlite3.connect(path, isolation_level=None)
    stack.callback(db.close)
    db.execute("PRAGMA synchronous = NORMAL")
    return lambda number: db.execute(PUT, (str(number),))


def neighbour(path: Path, span: float, stack: ExitStack) -> None:
    """Another process, which commits to another queue of the same file all the time."""
    program = (
        "import fencepost, sys, time\n"
        "queue = fencepost.open(sys.argv[1], durability='normal').queue('busy')\n"
        "while True: queue.enqueue(1); time.sleep(float(sys.argv[2]))"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(path), str(span)])
    stack.callback(end, process)


QUIET = ("claim", "work", "foreign", "poll-1ms", "poll-50ms")
BUSY = ("claim busy", "foreign busy")


def run(
    folder: Path, names: Sequence[str], sizes: dict[str, Any]
) -> dict[str, tuple[list[float], float]]:
    """By variant: microseconds from commit to claim, and the share of a core that idling costs."""
    with ExitStack() as stack:
        writes: dict[str, Callable[[int], object]] = {}
        everyone: dict[str, Waiting] = {}
        for name in names:
            path = folder / f"{name}.db"
            kind = name.partition(" ")[0]
            made = {"foreign": through_sql, "poll-1ms": by_hand, "poll-50ms": by_hand}
            writes[name] = made.get(kind, through_us)(path, stack)
            way = "claim" if kind == "foreign" else kind
            everyone[name] = Waiting(name, way, path, stack)
            if name.endswith("busy"):
                neighbour(path, sizes["busy"], stack)
        for number in range(1, sizes["rounds"] + 1):
            for name in rotated(names, number):
                time.sleep(random.uniform(*sizes["pause"]))
                everyone[name].put(number, writes[name])
        time.sleep(sizes["settle"])
        before = {name: one.ask("cpu") for name, one in everyone.items()}
        time.sleep(sizes["idle"])
        idle = {}
        for name, one in everyone.items():
            wall, cpu = one.ask("cpu")
            idle[name] = 100 * (cpu - before[name][1]) / (wall - before[name][0])
        return {name: (one.spans_us(), idle[name]) for name, one in everyone.items()}


def test_all_that_was_committed_is_had(benchmark: Any, tmp_path: Path) -> None:
    """Every way of waiting gets every message."""
    benchmark.pedantic(run, args=(tmp_path, (*QUIET, *BUSY), SMOKE), rounds=1)


def main() -> None:
    refuse_test_core()
    with tempfile.TemporaryDirectory(dir=".") as name:
        print(f"wake rounds={REAL['rounds']} sync=NORMAL fs={file_system(Path(name))}")
        for names in (QUIET, BUSY):
            for variant, (spans, idle) in run(Path(name), names, REAL).items():
                cuts = quantiles(spans, n=100)
                print(
                    f"  {variant:<13} p50={cuts[49]:.0f}us p90={cuts[89]:.0f}us"
                    f" p99={cuts[98]:.0f}us worst={max(spans):.0f}us idle={idle:.3f}%"
                )


if __name__ == "__main__":
    main()
