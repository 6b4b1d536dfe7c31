"""Facts to wait for, and worker processes that can be killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import fencepost
from commands import until
from fencepost._binding.calls import FP

__all__ = ["AT_ONCE", "NOON", "Notes", "Process", "ask_to_stop", "errors_of", "failure", "kill"]
__all__ += ["lease", "start", "until", "worked", "workers"]

AT_ONCE = fencepost.Backoff(0, 1, 0, 0)  # no wait between two attempts
NOON = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)  # where clocks stand that are turned by hand


def lease(store: fencepost.Store, seconds: float, queue: str = "default", **fields: int) -> None:
    """Leases of a job queue, which is made if it is missing."""
    fields["lease_us"] = round(seconds * 1_000_000)
    store._file.core.queue_define(None, queue.encode(), FP.PROFILE_JOB, fields)


def failure(handle: fencepost.Handle[Any]) -> fencepost.Failure:
    """The last one; there must be one."""
    found = handle.status().failure
    assert found is not None
    return found


class Notes:
    """Lines that several processes write down, each in one stroke, in one order."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, *words: object) -> None:
        line = " ".join(map(str, words)) + "\n"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)

    def read(self) -> list[list[str]]:
        if not self.path.exists():
            return []
        return [line.split() for line in self.path.read_text().splitlines()]

    def count(self, *words: object) -> int:
        """Lines that begin with these words."""
        begin = list(map(str, words))
        return sum(line[: len(begin)] == begin for line in self.read())


Process = subprocess.Popen[bytes]


def start(path: Path, *arguments: str) -> Process:
    """A worker of its own process over the file, with the jobs of scenario_app."""
    program = Path(__file__).with_name("scenario_app.py")
    command = [sys.executable, "-W", "error", str(program), str(path), *arguments]
    with _errors(path).open("ab") as errors:
        return subprocess.Popen(command, stderr=errors)


def errors_of(path: Path) -> str:
    """What the workers of this file have written to stderr."""
    return _errors(path).read_text()


def _errors(path: Path) -> Path:
    return path.with_suffix(".errors")


@contextmanager
def workers(path: Path, count: int, *arguments: str) -> Iterator[list[Process]]:
    """So many worker processes; those that still live at the end are killed."""
    processes = [start(path, *arguments) for _ in range(count)]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def kill(process: Process) -> None:
    """SIGKILL, and wait until it is gone."""
    process.kill()
    process.wait()


def ask_to_stop(process: Process) -> int:
    """SIGTERM, and its exit code."""
    process.terminate()
    return process.wait(60)


@contextmanager
def worked(app: fencepost.App) -> Iterator[None]:
    """A worker for it, and at the end the file is sound."""
    with app.worker(threads=2, grace=5):
        yield
    assert app.store.check(full=True) == []
