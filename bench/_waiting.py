"""
Processes that wait for a message, each in its own way: python _waiting.py WAY PATH

A line on stdin is a question: "cpu" is answered with the clock and the CPU time so far, "end" with
the moments at which each message was had, by its number, and then the process ends.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import fencepost

had: dict[int, int] = {}
over = threading.Event()


def note(number: int) -> None:
    had[number] = time.monotonic_ns()


def claim(path: Path) -> None:
    """Fencepost: claim with a wait."""
    with fencepost.open(path, durability="normal") as store:
        queue = store.queue("q", int)
        ready()
        while not over.is_set():
            for claimed in queue.claim(wait=1):
                note(claimed.payload)
                claimed.ack()


def work(path: Path) -> None:
    """Fencepost: a worker."""
    app = fencepost.App(path, durability="normal")

    @app.queue("q", int).handler()
    def handle(batch: fencepost.Batch[int]) -> None:
        for number in batch.payloads:
            note(number)

    with app.worker(threads=1):
        ready()
        over.wait()


def poll(path: Path, seconds: float) -> None:
    """A queue written by hand, which looks at the data version so often."""
    db = sqlite3.connect(path, isolation_level=None)
    last, seen = 0, None
    ready()
    while not over.is_set():
        version = db.execute("PRAGMA data_version").fetchone()
        if version != seen:
            seen = version
            for (number,) in db.execute("SELECT id FROM job WHERE id > ? ORDER BY id", (last,)):
                note(number)
                last = number
        else:
            time.sleep(seconds)


WAYS: dict[str, Callable[[Path], None]] = {
    "claim": claim,
    "work": work,
    "poll-1ms": lambda path: poll(path, 0.001),
    "poll-50ms": lambda path: poll(path, 0.050),
}


def ready() -> None:
    print(json.dumps("ready"), flush=True)


def answer() -> None:
    for line in sys.stdin:
        if line.strip() == "cpu":
            print(json.dumps([time.monotonic_ns(), time.process_time_ns()]), flush=True)
        else:
            print(json.dumps(had), flush=True)
            break
    over.set()


if __name__ == "__main__":
    threading.Thread(target=answer, daemon=True).start()
    WAYS[sys.argv[1]](Path(sys.argv[2]))
