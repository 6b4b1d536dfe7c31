"""The write-ahead log stays short, nobody waits for that, and who keeps it long is told of."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from commands import until
from fencepost import App
from fencepost._binding.calls import Core
from harness_core import core as opening
from harness_core import define, lib, put, stats
from harness_ladder import disarm, findings, steps
from harness_line import counts, since, together

pytestmark = pytest.mark.hostile

PAGE = 4096
BOUND = 6 * 250 * PAGE  # the test's own core copies from 250 pages on, and waits at 1,000
LIMIT = 16 << 20  # of the file, once the log has begun anew
REAL = -1

READER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN")
connection.execute("SELECT count(*) FROM fencepost_message").fetchone()
print("reading", flush=True)
sys.stdin.readline()
"""

# One look after the other, and hardly anything between them.
RESTLESS = READER.replace(
    "sys.stdin.readline()",
    """
import threading, time
over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), over.set()), daemon=True).start()
while not over.wait(0.001):
    connection.execute("COMMIT")
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM fencepost_message").fetchone()
    time.sleep(0.02)
""",
)


@contextmanager
def a_reader(path: Path, program: str = READER) -> Iterator[subprocess.Popen[str]]:
    """Another program that has begun to read, and goes on until the block ends."""
    command = [sys.executable, "-c", program, str(path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, encoding="utf-8") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "reading\n"
        yield process
        process.communicate("\n")


def wal_bytes(path: Path) -> int:
    return path.with_name(path.name + "-wal").stat().st_size


def fill(core: Core, queue: int, pages: int, each: int = 20) -> None:
    for _ in range(pages // each):
        put(core, queue, b"x" * (each * PAGE))


@pytest.mark.parametrize("threads", [1, 4])
def test_the_log_stays_short(path: Path, threads: int) -> None:
    """However much is written: it is copied, and begins anew."""
    with opening(path) as core:
        queue = define(core, "q")
        work = [threading.Thread(target=fill, args=(core, queue, 2000)) for _ in range(threads)]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
        assert wal_bytes(path) < BOUND
        assert findings(core) == ""


def test_many_small_commits_keep_it_short(path: Path) -> None:
    """In groups, where others add to the log while it is copied."""
    with opening(path, normal=True) as core:
        queue = define(core, "q")

        def work() -> None:
            for _ in range(150):
                put(core, queue)

        before = counts(core)
        together(core, *(work for _ in range(8)))
        assert since(core, before).members == 8 * 150
        assert wal_bytes(path) < BOUND
        assert stats(core, queue).pending == 8 * 150


def test_a_copy_that_fails_is_made_later(path: Path) -> None:
    """Nobody is told: what was answered is in the log."""
    with opening(path) as core:
        queue = define(core, "q")
        put(core, queue)
        before = lib.fp_steps()
        put(core, queue)
        usual = lib.fp_steps() - before
        for _ in range(250 // 20 + 1):
            steps(1)(usual)  # the step behind the last one of an enqueue is the copy's
            fill(core, queue, 20)
            hits = lib.fp_fault_hits()
            disarm()
            if hits:
                break
        assert hits == 1
        fill(core, queue, 1000)
        assert wal_bytes(path) < BOUND


def test_a_reader_that_stays_is_told_of(path: Path) -> None:
    """Its size, and since when; the store goes on. When it is gone, the log shrinks again."""
    with opening(path) as core:
        queue = define(core, "q")
        with a_reader(path):
            fill(core, queue, 5000, each=100)
            assert wal_bytes(path) > LIMIT
            said = findings(core)
            assert "write-ahead log has grown to 2" in said
            assert "a connection has been reading" in said
            size, kept = core.wal()
            assert size == wal_bytes(path)
            assert kept >= 0
            assert stats(core, queue).pending == 50
        fill(core, queue, 300)
        assert core.wal()[1] == -1
        put(core, queue)
        assert findings(core) == ""
        assert wal_bytes(path) <= LIMIT + 10 * PAGE


def test_readers_without_a_gap_do_not_keep_it_for_ever(path: Path) -> None:
    """Each of them sees a newer state, but somebody always reads: it begins anew all the same."""
    with opening(path, normal=True) as core:
        queue = define(core, "q")
        with a_reader(path, RESTLESS):
            while wal_bytes(path) <= 2 * LIMIT:
                fill(core, queue, 1000, each=100)
            written = 0
            while wal_bytes(path) > LIMIT + 100 * PAGE:
                fill(core, queue, 1000, each=100)
                written += 1000
                assert written < 250_000
        assert findings(core) == ""


def test_a_short_reader_is_not_told_of(path: Path) -> None:
    with opening(path) as core:
        queue = define(core, "q")
        with a_reader(path):
            put(core, queue)
            assert findings(core) == ""


def test_a_worker_warns_of_a_reader_that_stays(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, and not each time that it looks."""
    from fencepost._worker import loop

    monkeypatch.setattr(loop, "RETAIN_FIRST", 0.0)
    monkeypatch.setattr(loop, "RETAIN_EVERY", 0.01)
    app = App(path)

    @app.job
    def work() -> None: ...

    core = app.store._file.core
    queue = define(core, "q", lib.FP_PROFILE_QUEUE)
    with a_reader(path), caplog.at_level(logging.WARNING, "fencepost.worker"), app.worker():
        fill(core, queue, 1100)
        until(lambda: "write-ahead log" in caplog.text)
        looked = lib.fp_steps()
        until(lambda: lib.fp_steps() > looked + 50)
    assert caplog.text.count("write-ahead log") == 1
    app.store.close()
