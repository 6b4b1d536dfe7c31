"""An SQLite that has the WAL-reset bug checkpoints beside us, and the file stays whole."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("fencepost._core_test")

from fencepost._surroundings import is_mended
from harness_outside import Outside
from harness_pause import checkpoint, lacks_symbols, paused
from harness_processes import heard, start

pytestmark = [
    pytest.mark.hostile,
    pytest.mark.usefixtures("no_process_left"),
    pytest.mark.skipif(lacks_symbols, reason="this Python's SQLite cannot be reached"),
    pytest.mark.skipif(is_mended(sqlite3.sqlite_version_info), reason="its SQLite has no such bug"),
]

WRITER = """
if sys.argv[2] == "off":
    lib.fp_locks_pretend(lib.FP_LOCKS_OFF)
with opened(path) as own:
    queue = define(own, "q")
    for line in sys.stdin:
        count, size = map(int, line.split())
        for _ in range(count):
            put(own, queue, os.urandom(size))
        say(count)
"""


def tell(writer: subprocess.Popen[str], count: int, size: int = 3000) -> None:
    assert writer.stdin is not None
    writer.stdin.write(f"{count} {size}\n")
    writer.stdin.flush()
    assert heard(writer) == count


def after_a_restart(path: Path, shim: str, outside: Outside) -> str:
    """
    What the file is after a guest was caught between a look at the header and its checkpoint: the
    writer would restart the WAL just then.
    """
    writer = start(WRITER, path, shim)
    tell(writer, 60)
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as other,
        paused(os.fsencode(path), lambda: tell(writer, 1)) as guest,
    ):
        tell(writer, 1)  # for the guest to find another header than it knows
        (told,) = other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        assert told[1] == told[2], "all of the WAL is in the database"
        assert checkpoint(guest) == 0
        tell(writer, 20)
        other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    writer.communicate(timeout=60)
    (words, *_) = outside.rows(path, "PRAGMA integrity_check")
    return str(words[0])


def test_a_guest_is_not_caught_inside_a_checkpoint(path: Path, outside: Outside) -> None:
    assert after_a_restart(path, "on", outside) == "ok"
    assert outside.rows(path, "SELECT count(*) FROM fencepost_due") == [[82]]


def test_without_the_shim_the_file_is_damaged(path: Path, outside: Outside) -> None:
    with pytest.raises(AssertionError, match="malformed"):
        after_a_restart(path, "off", outside)
