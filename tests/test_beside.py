"""What a store says of the SQLites beside it, and what it refuses where they cannot be kept out."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import fencepost
from commands import runner
from fencepost import _surroundings
from fencepost._surroundings import is_mended
from harness_processes import finish, start

hostile = pytest.mark.hostile


def test_others_in_this_process_are_counted(path: Path) -> None:
    """They are no finding: the locks keep them out."""
    with fencepost.open(path) as store:
        beside = store.surroundings()
        assert beside.locks == "ofd"
        assert beside.others == 0
        assert beside.python_sqlite == sqlite3.sqlite_version
        with closing(sqlite3.connect(path)) as guest:
            guest.execute("SELECT * FROM fencepost_due").fetchall()
            assert store.surroundings().others == 1
            assert store.check(full=True) == []
        assert store.surroundings().others == 0


def test_advice_is_given_where_it_is_due(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with fencepost.open(path) as store:
        monkeypatch.setattr(sqlite3, "sqlite_version", "3.51.2")
        (words,) = store.surroundings().advice
        assert "3.51.2" in words
        assert "PRAGMA wal_autocheckpoint=0" in words
        monkeypatch.setattr(sqlite3, "sqlite_version", "3.51.3")
        assert store.surroundings().advice == []


def test_several_other_copies_are_told_of(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would not keep each other out; a copy that has not opened the file does no harm."""
    monkeypatch.setattr(
        _surroundings, "_copies", lambda: ["/usr/lib/libsqlite3.so.0", "/a/apsw.so"]
    )
    with fencepost.open(path) as store:
        assert not any("apsw" in words for words in store.surroundings().advice)
        with closing(sqlite3.connect(path)) as guest:
            guest.execute("SELECT * FROM fencepost_due").fetchall()
            assert "/a/apsw.so" in store.surroundings().advice[0]


def test_the_copies_are_found_by_their_names(path: Path) -> None:
    with fencepost.open(path) as store:
        copies = store.surroundings().copies
    assert any("sqlite3" in copy for copy in copies) or not Path("/proc/self/maps").exists()
    assert not any("fencepost" in copy for copy in copies)


@pytest.mark.parametrize(
    ("version", "mended"),
    [
        ("3.6.23", True),
        ("3.7.0", False),
        ("3.40.1", False),
        ("3.44.5", False),
        ("3.44.6", True),
        ("3.45.0", False),
        ("3.50.6", False),
        ("3.50.7", True),
        ("3.51.2", False),
        ("3.51.3", True),
        ("3.54.0", True),
    ],
)
def test_which_versions_damage_a_wal(version: str, mended: bool) -> None:
    """3.7.0 to 3.51.2, but for two that were mended later."""
    assert is_mended(tuple(map(int, version.split(".")))) == mended


def test_the_command_says_it_all(tmp_path: Path, path: Path) -> None:
    run = runner(tmp_path)
    with fencepost.open(path) as store:
        store.queue("q").enqueue(1)
    lines = run("--database", str(path), "check", "--full").stdout.splitlines()
    assert lines[0] == "healthy"
    assert lines[1].startswith("locks: of open file descriptions")
    told = json.loads(run("--database", str(path), "check", "--json").stdout)
    assert told["findings"] == []
    assert told["surroundings"]["sqlite"] == lines[2].split()[1].rstrip(";")
    with closing(sqlite3.connect(path)) as guest, guest:
        guest.execute("DELETE FROM fencepost_due")
    done = run("--database", str(path), "check", code=1)
    assert "2 findings" in done.stdout


CLASSIC = """
import sqlite3, subprocess
from fencepost import InvalidArgument
import fencepost
lib.fp_locks_pretend(lib.FP_LOCKS_NO_OFD)

def elsewhere():
    program = ("import sqlite3, sys\\n"
               "c = sqlite3.connect(sys.argv[1], timeout=0)\\n"
               "try: c.execute('BEGIN IMMEDIATE'); print('got it')\\n"
               "except sqlite3.Error as error: print(error)")
    command = [sys.executable, "-c", program, str(path)]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()
"""

REFUSED = """
store = fencepost.open(path)
store.queue("q").enqueue(1)
say([store.surroundings().locks, store.surroundings().others, store.check()])
store.close()
guest = sqlite3.connect(path, isolation_level=None)
guest.execute("BEGIN IMMEDIATE")
try:
    fencepost.open(path)
except InvalidArgument as error:
    say(str(error))
say(elsewhere())
guest.close()
with fencepost.open(path) as store:
    say(store.queue("q").size())
    guest = sqlite3.connect(path)
    guest.execute("SELECT count(*) FROM fencepost_due").fetchall()
    say(store.check())
say(lib.fp_locks_held())
"""


@hostile
def test_without_such_locks_a_file_that_another_has_open_is_refused(path: Path) -> None:
    """And the refusal itself drops no lock of the other one; who comes later is found out."""
    classic, words, lock, size, findings, held = finish(start(CLASSIC + REFUSED, path))
    assert classic == ["classic", 0, []]
    assert "close it there first, or use the store in a process of its own" in words
    assert lock == "database is locked"
    assert size == 1
    assert len(findings) == 1
    assert "Another SQLite in this process has the file open" in findings[0]
    assert held == 0


AS_USUAL = """
with opened(path) as one, opened(path) as two:
    queue = define(one, "q")
    put(one, queue, b"1")
    put(two, queue, b"2")
    if os.fork() == 0:
        with opened(path) as own:
            put(own, queue, b"3")
        os._exit(0)
    os.wait()
    say([stats(one, queue).pending, elsewhere()])
say(lib.fp_locks_held())
"""


@hostile
def test_without_such_locks_the_rest_is_as_usual(path: Path) -> None:
    """Several handles, several processes, and forks."""
    assert finish(start(CLASSIC + AS_USUAL, path)) == [[3, "got it"], 0]
