"""
A worker is killed: how soon another one has what it held, what others feel of it, and what it costs
to look after those that live.

    python bench/bench_death.py     the real sizes, some minutes
    pytest bench                    the smoke sizes, once

Every lease is an hour. Times are those of one clock that all processes share. In a smoke run the
figures mean nothing; that all of it happens is what is checked.
"""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from _rounds import file_system, refuse_test_core

SMOKE = {"deaths": 2, "orphans": 600, "rounds": 1, "before": 0.2, "idle": 0.2}
REAL = {"deaths": 100, "orphans": 50_000, "rounds": 3, "before": 3.0, "idle": 10.0}
CROWD = (0, 1, 16)  # workers beside one that idles
LOOK_SECONDS = 0.02

HEAD = """
import json, sys, threading, time
import fencepost

path, count = sys.argv[1], int(sys.argv[2])
store = fencepost.open(path)

def queue(name):
    return store.queue(name, int, lease=3600, max_attempts=1_000_000)

def say(value):
    print(json.dumps(value), flush=True)

def over():
    said = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(1), said.set()), daemon=True).start()
    return said
"""

# Holds so many claims until it is killed.
HOLDS = """
queue("orphans").enqueue_many(range(count))
held = 0
while held < count:
    held += len(queue("orphans").claim(min(count - held, 10_000)))
say(held)
sys.stdin.read()
"""

# Waits for one message each time it is asked to, and says when it came.
WAITS = """
orphans = queue("orphans")
say(0)
for _ in sys.stdin:
    claims = []
    while not claims:
        claims = orphans.claim(wait=0.5)
    at = time.monotonic()
    claims[0].ack()
    say([at, claims[0].attempt])
"""

# Claims and acks all the time, and says at its end when each claim began and how long it took.
WORKS = """
live, done, took = queue("live"), over(), []
say(0)
while not done.is_set():
    live.enqueue_many(range(200))
    for _ in range(200):
        at = time.monotonic()
        (claim,) = live.claim()
        took.append([at, time.monotonic() - at])
        claim.ack()
say(took)
"""

# Waits, and says what that cost of a core.
IDLES = """
empty = queue("empty")
empty.claim(wait=0.3)
cpu, wall = time.process_time(), time.monotonic()
empty.claim(wait=count / 1000)
say([time.process_time() - cpu, time.monotonic() - wall])
"""

WAITS_FOR_NOTHING = """
say(0)
while True:
    queue("empty").claim(wait=1)
"""

# Is registered and lives.
LIVES = """
mine = queue(f"mine {count}")
mine.enqueue(1)
say(len(mine.claim()))
sys.stdin.read()
"""

Process = subprocess.Popen[str]


@contextmanager
def process(program: str, path: Path, count: int = 0) -> Iterator[Process]:
    """Runs it, until it has said its first word; at the end it is killed, if it still lives."""
    command = [sys.executable, "-c", HEAD + program, str(path), str(count)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as one:
        try:
            if program is not IDLES:
                heard(one)
            yield one
        finally:
            one.kill()


def heard(one: Process) -> Any:
    assert one.stdout is not None
    return json.loads(one.stdout.readline())


def killed(one: Process) -> float:
    """When."""
    at = time.monotonic()
    one.kill()
    return at


def percentile(values: Sequence[float], of_hundred: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * of_hundred // 100)]


# ---- from the kill to the next claim -------------------------------------------------------------


def deaths(folder: Path, count: int) -> list[float]:
    """Seconds from SIGKILL until a worker that waited had the message."""
    path, took = folder / "deaths.db", []
    dice = random.Random(1)
    with process(WAITS, path) as waiting:
        assert waiting.stdin is not None
        for _ in range(count):
            with process(HOLDS, path, 1) as holding:
                waiting.stdin.write("go\n")
                waiting.stdin.flush()
                time.sleep(dice.uniform(0.05, 0.15))  # anywhere between two looks
                at = killed(holding)
                came, attempt = heard(waiting)
                assert attempt == 2
                took.append(came - at)
    return took


# ---- what others feel ----------------------------------------------------------------------------


def workers(path: Path) -> list[int]:
    """Who is registered, the first one first; asked through another SQLite, which only reads."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        rows = connection.execute("SELECT id FROM fencepost_worker ORDER BY id").fetchall()
    finally:
        connection.close()
    return [number for (number,) in rows]


class Felt:
    """Latencies of live claims, in seconds, while nobody dies and while orphans are taken over."""

    def __init__(self) -> None:
        self.before: list[float] = []
        self.beside: list[float] = []
        self.seconds: list[float] = []


def crowd(folder: Path, orphans: int, before: float, *, idle_worker: bool, felt: Felt) -> None:
    """One round: orphans of one kill, beside a process that claims all the time."""
    path = folder / f"crowd-{idle_worker}-{len(felt.seconds)}.db"
    with ExitStack() as stack:
        holding = stack.enter_context(process(HOLDS, path, orphans))
        (number,) = workers(path)
        if idle_worker:
            stack.enter_context(process(WAITS_FOR_NOTHING, path))
        working = stack.enter_context(process(WORKS, path))
        time.sleep(before)
        at = killed(holding)
        while number in workers(path):
            time.sleep(LOOK_SECONDS)
        end = time.monotonic()
        took = json.loads(working.communicate("x")[0])
    felt.before += [span for began, span in took if began + span < at]
    felt.beside += [span for began, span in took if at < began < end]
    felt.seconds.append(end - at)


# ---- what a look costs ---------------------------------------------------------------------------


def idle(folder: Path, others: int, seconds: float) -> float:
    """The share of a core that a waiting worker takes beside so many others."""
    path = folder / f"idle-{others}.db"
    with ExitStack() as stack:
        for number in range(others):
            stack.enter_context(process(LIVES, path, number))
        cpu, wall = heard(stack.enter_context(process(IDLES, path, round(seconds * 1000))))
    return float(cpu) / float(wall)


def run(folder: Path, sizes: dict[str, Any]) -> dict[str, Any]:
    felt = {True: Felt(), False: Felt()}
    for _ in range(sizes["rounds"]):
        for idle_worker, one in felt.items():
            crowd(folder, sizes["orphans"], sizes["before"], idle_worker=idle_worker, felt=one)
    return {
        "deaths": deaths(folder, sizes["deaths"]),
        "felt": felt,
        "idle": {others: idle(folder, others, sizes["idle"]) for others in CROWD},
    }


def test_deaths_are_noticed_and_orphans_taken_over(benchmark: Any, tmp_path: Path) -> None:
    """All of it happens; how fast is for the real sizes to say."""
    found = benchmark.pedantic(run, args=(tmp_path, SMOKE), rounds=1)
    assert len(found["deaths"]) == SMOKE["deaths"]
    assert all(felt.before for felt in found["felt"].values())


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f}ms"


def main() -> None:
    refuse_test_core()
    with tempfile.TemporaryDirectory(dir=".") as name:
        found = run(Path(name), REAL)
        system = file_system(Path(name))
    took = found["deaths"]
    print(
        f"kill to claim deaths={len(took)} lease=1h sync=FULL fs={system}"
        f" p50={ms(median(took))} p99={ms(percentile(took, 99))} worst={ms(max(took))}"
    )
    for idle_worker, felt in found["felt"].items():
        who = "an idle worker takes over" if idle_worker else "alone"
        print(f"live claims beside {REAL['orphans']} orphans, {who}: rounds={REAL['rounds']}")
        for word, spans in (("before", felt.before), ("beside", felt.beside)):
            print(
                f"  {word:<8} claims={len(spans)} p50={ms(percentile(spans, 50))}"
                f" p99={ms(percentile(spans, 99))} worst={ms(max(spans))}"
            )
        print(f"  taken over in median={ms(median(felt.seconds))}")
    for others, share in found["idle"].items():
        print(f"idle beside {others} others: {share:.4%} of a core")


if __name__ == "__main__":
    main()
