"""Status from outside: counts of a file that is not opened as a store, and nothing is made."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

import fencepost
from fencepost import InvalidArgument, NewerSchema, StorageError, Store
from fencepost.testing import Clock
from harness_processes import stopped_meanwhile

# Killed with a commit in its log.
LEFT = "import os; store = fencepost.open(path); store.queue('q').enqueue(7); os._exit(0)"


def listed(folder: Path) -> list[str]:
    return sorted(found.name for found in folder.iterdir())


def test_status_says_what_stats_says_and_creates_nothing(
    store: Store, clock: Clock, path: Path, tmp_path: Path
) -> None:
    queue = store.queue("q", int, lease=30)
    queue.enqueue_many([1, 2])
    queue.enqueue(3, delay=100)
    queue.claim()
    clock.advance(10)
    told = store.stats()
    assert fencepost.status(path, at=clock.now) == told, "beside an open store"
    store.close()
    names = listed(tmp_path)
    assert names == ["app.db"]
    before = path.stat()
    assert fencepost.status(path, at=clock.now) == told, "of a file that nobody has open"
    assert listed(tmp_path) == names
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def test_status_is_of_the_moment_that_is_asked_for(store: Store, clock: Clock, path: Path) -> None:
    start = clock.now
    queue = store.queue("q", int, lease=30)
    queue.enqueue_many([1, 2])
    queue.claim()
    store.close()

    def at(after: float) -> dict[str, object]:
        told = fencepost.status(path, at=start + timedelta(seconds=after))["queues"]["q"]
        return {name: told[name] for name in ("oldest_age", "next_due_in", "lapsed")}

    assert at(0) == {"oldest_age": 0.0, "next_due_in": 30.0, "lapsed": 0}
    assert at(31) == {"oldest_age": 31.0, "next_due_in": None, "lapsed": 1}
    assert fencepost.status(path)["time"] >= start


def test_status_sees_what_only_the_log_has(
    elsewhere: Callable[[str], str], path: Path, tmp_path: Path
) -> None:
    """A process was killed, and left its -wal: what it had committed is counted."""
    elsewhere(LEFT)
    for _ in range(2):
        assert fencepost.status(path)["totals"]["pending"] == 1
    assert set(listed(tmp_path)) <= {"app.db", "app.db-wal", "app.db-shm"}


@pytest.mark.parametrize("name", ["a b.db", "100%20.db", "why?mode=rwc", "x#y.db", "größe.db", "&"])
def test_status_reads_the_file_of_any_name(tmp_path: Path, name: str) -> None:
    with fencepost.open(tmp_path / name) as store:
        store.queue("q").enqueue(1)
    assert fencepost.status(tmp_path / name)["totals"]["pending"] == 1
    assert fencepost.status(f"/{tmp_path / name}")["totals"]["pending"] == 1
    assert listed(tmp_path) == [name]


def test_status_refuses_what_is_no_store(
    store: Store, path: Path, tmp_path: Path, foreign: Callable[[str], str]
) -> None:
    copy = tmp_path / "copy.db"
    with pytest.raises(StorageError, match=r"none\.db"):
        fencepost.status(tmp_path / "none.db")
    copy.write_bytes(b"no database" * 1000)
    with pytest.raises(StorageError, match="not a database"):
        fencepost.status(copy)
    copy.write_bytes(b"")
    for name in (copy, "", ":memory:"):
        with pytest.raises((InvalidArgument, StorageError)):
            fencepost.status(name)
    store.close()
    foreign("UPDATE fencepost_meta SET version = 99")
    with pytest.raises(NewerSchema):
        fencepost.status(path)
    with pytest.raises(NewerSchema):
        fencepost.restore(path, tmp_path / "back.db")
    assert listed(tmp_path) == ["app.db", "copy.db"]


KILLED = """
import os, sys
import fencepost
from fencepost._binding.lib import lib

at = 0
while True:
    pid = os.fork()
    if pid == 0:
        lib.fp_fault_kill(at)
        fencepost.status(sys.argv[1])
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    print(os.WTERMSIG(status), *os.listdir(os.path.dirname(sys.argv[1])), flush=True)
    if not os.WIFSIGNALED(status):
        break
    at += 1
"""


@pytest.mark.hostile
def test_status_leaves_nothing_when_it_is_killed(path: Path) -> None:
    """There is nothing that it would have to take away again."""
    fencepost.open(path).close()
    command = [sys.executable, "-c", KILLED, str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    *killed, last = done.stdout.splitlines()
    assert len(killed) > 2
    assert set(killed) == {"9 app.db"}
    assert last == "0 app.db"


@pytest.mark.hostile
def test_status_is_of_one_moment_though_somebody_comes(path: Path) -> None:
    """Who read the file as one that is nobody's notices that somebody was there, and reads anew."""

    def put() -> None:  # and leave nothing beside the file
        with fencepost.open(path) as store:
            store.queue("q", int).enqueue(1)

    there = 0
    for step in count():
        put()
        program = 'print(fencepost.status(path)["totals"]["pending"])'
        said = stopped_meanwhile(program, path, step, put)
        if not said:
            break
        there += 2
        assert said == [str(there)], f"step {step}"
    assert step > 2
