"""
The jobs of the scenarios, and their worker: `python scenario_app.py PATH NOTES [options]`.

What happens is written into the notes, one line in one stroke, so that it survives a SIGKILL in the
next moment.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fencepost import App, Backoff, Batch, Context, Job, Queue
from harness_worker import Notes

AT_ONCE = Backoff(0, 1, 0, 0)


@dataclass
class Jobs:
    app: App
    mark: Job[[int], int]
    hang_once: Job[[int], int]
    deadly: Job[[], None]
    sleep: Job[..., str]
    guarded: Job[[int], int]
    pay: Job[[], int]
    spin: Job[[], int]
    numbers: Queue[Any]


def declare(path: Path, notes_path: Path) -> Jobs:
    """The same for the test and for its workers."""
    app = App(path)
    notes = Notes(notes_path)

    @app.job(context=True)
    def mark(ctx: Context, n: int) -> int:
        notes.write("marked", n, ctx.attempt, os.getpid())
        return n

    @app.job(context=True)
    def hang_once(ctx: Context, n: int) -> int:
        notes.write("began", n, ctx.attempt, os.getpid())
        while ctx.attempt == 1:
            time.sleep(60)
        return ctx.attempt

    @app.job(context=True, max_attempts=3)
    def deadly(ctx: Context) -> None:
        notes.write("deadly", ctx.attempt)
        os._exit(1)

    @app.job(context=True)
    def sleep(ctx: Context, seconds: float, *, looks: bool = True) -> str:
        notes.write("sleeps", seconds, ctx.attempt)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.01)
            if looks:
                ctx.check()
        return f"slept {seconds:g}"

    @app.job(context=True, backoff=AT_ONCE)
    def guarded(ctx: Context, n: int) -> int:
        notes.write("enter", n, ctx.attempt, os.getpid())
        time.sleep(0.02)
        notes.write("leave", n, ctx.attempt, os.getpid())
        return n

    @app.job(context=True)
    def pay(ctx: Context) -> int:
        notes.write("began", ctx.attempt)
        while ctx.attempt == 1 and not notes.count("go"):
            time.sleep(0.01)
        notes.write("writes", ctx.attempt)
        ctx.tx.execute("INSERT INTO paid VALUES (?, ?)", (ctx.attempt, ctx.token))
        return ctx.attempt

    @app.job(context=True, timeout=0.2)
    def spin(ctx: Context) -> int:
        notes.write("spins", ctx.attempt)
        if ctx.attempt == 1:
            sys.setswitchinterval(600)  # no other thread of Python gets a turn
            end = time.monotonic() + 8
            while time.monotonic() < end:
                pass
            notes.write("spun")
        return ctx.attempt

    numbers = app.queue("numbers", int, max_attempts=3, lease=1.0, backoff=AT_ONCE)

    @numbers.handler(batch=100)
    def take(batch: Batch[int]) -> None:
        notes.write("batch", len(batch), *batch.payloads)
        if 0 in batch.payloads:
            os._exit(1)

    return Jobs(app, mark, hang_once, deadly, sleep, guarded, pay, spin, numbers)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("path", type=Path)
    parser.add_argument("notes", type=Path)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--grace", type=float, default=30.0)
    given = parser.parse_args()
    jobs = declare(given.path, given.notes)
    worker = jobs.app.worker(threads=given.threads, grace=given.grace)
    logger = logging.getLogger("fencepost.worker")
    logger.setLevel(logging.INFO)
    logger.addHandler(Noting(Notes(given.notes)))
    worker.run()


class Noting(logging.Handler):
    """What the worker logs is noted, too."""

    def __init__(self, notes: Notes) -> None:
        super().__init__()
        self.notes = notes

    def emit(self, record: logging.LogRecord) -> None:
        self.notes.write("log", record.getMessage().split(": ")[-1])


if __name__ == "__main__":
    main()
