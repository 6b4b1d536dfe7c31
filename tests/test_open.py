"""Opening: what is made, what is welcome, what is refused and left as it was."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

import fencepost
from fencepost import (
    Busy,
    InvalidArgument,
    NewerSchema,
    StorageError,
)
from harness_processes import finish, heard, start, stopped_meanwhile

LOCKS = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("CREATE TABLE t (a)")
connection.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.readline()
"""


def test_opening_makes_the_file_and_its_folders(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "app.db"
    with fencepost.open(path) as store:
        assert store.path == str(path)
        store.queue("q").enqueue(1)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


HOLDS = """
import sqlite3
connection = sqlite3.connect(path)
connection.execute("PRAGMA journal_mode = WAL")
connection.execute("CREATE TABLE mine (a)")
if sys.argv[2] == "hold":
    connection.execute("BEGIN IMMEDIATE")
    say("held")
    sys.stdin.readline()
"""


@pytest.mark.hostile
def test_who_comes_second_to_a_new_file_finds_it_made(tmp_path: Path) -> None:
    """Also if it had looked before the first one made it, and was about to make it itself."""
    lib = pytest.importorskip("fencepost._core_test").lib
    held, path = tmp_path / "held.db", tmp_path / "app.db"
    finish(start(HOLDS, path, "leave"))
    other = start(HOLDS, held, "hold")
    assert heard(other) == "held"
    steps = lib.fp_steps()
    with pytest.raises(Busy):
        fencepost.open(held, busy_timeout=0)
    asks = lib.fp_steps() - steps - 1  # the step that asks for the lock
    finish(other)

    def make() -> None:
        with fencepost.open(path) as store:
            store.queue("q").enqueue(1)

    program = 'print(fencepost.open(path).queue("q").size())'
    assert stopped_meanwhile(program, path, asks, make) == ["1"]


def test_what_is_not_there_is_not_made_unless_asked(tmp_path: Path) -> None:
    with pytest.raises(StorageError) as caught:
        fencepost.open(tmp_path / "none.db", create=False)
    assert "unable to open database file" in str(caught.value)
    assert "sqlite 14]" in str(caught.value)
    assert caught.value.sqlite_code == 14
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", ["wal", "delete"])
@pytest.mark.parametrize("tables", [0, 1])
def test_a_file_without_our_tables_gets_none_unless_asked(
    tmp_path: Path, tables: int, mode: str
) -> None:
    """Whoever names the wrong file to look at does not change it."""
    path = tmp_path / "another.db"
    path.touch()
    with closing(sqlite3.connect(path)) as connection:
        if tables:
            connection.execute(f"PRAGMA journal_mode = {mode}")
            connection.execute("CREATE TABLE own (n)")
    before = path.read_bytes()
    with pytest.raises(InvalidArgument, match="no tables of Fencepost|not in WAL mode"):
        fencepost.open(path, create=False)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_what_was_acknowledged_is_there_again(path: Path) -> None:
    with fencepost.open(path) as store:
        store.queue("q", str).enqueue("kept")
    with fencepost.open(path) as store:
        assert [c.payload for c in store.queue("q", str).claim()] == ["kept"]


@pytest.mark.parametrize("path", ["", ":memory:", "a\0b", b"a\0b"])
def test_paths_that_name_no_file_of_ones_own_are_refused(path: str) -> None:
    with pytest.raises(InvalidArgument):
        fencepost.open(path)


def test_a_second_hard_link_is_refused(path: Path, tmp_path: Path) -> None:
    fencepost.open(path).close()
    (tmp_path / "twin.db").hardlink_to(path)
    with pytest.raises((InvalidArgument, StorageError), match="link"):
        fencepost.open(path)


def test_garbage_is_told_and_left_alone(path: Path) -> None:
    path.write_bytes(b"this is no database, and longer than a header of one" * 100)
    before = path.read_bytes()
    with pytest.raises(StorageError, match="not a database"):
        fencepost.open(path)
    assert path.read_bytes() == before


def test_an_applications_own_database_is_welcome(path: Path, foreign: Callable[[str], str]) -> None:
    """It has to be asked for the change to WAL; its tables, versions and rows stay its own."""
    foreign("PRAGMA user_version = 7; PRAGMA application_id = 9; CREATE TABLE t (a);")
    foreign("INSERT INTO t VALUES (1);")
    with pytest.raises(InvalidArgument, match="wal=True"):
        fencepost.open(path)
    with fencepost.open(path, wal=True) as store, store.transaction() as tx:
        assert tx.execute("SELECT a FROM t") == [(1,)]
        assert tx.execute("PRAGMA user_version") == [(7,)]
        assert tx.execute("PRAGMA application_id") == [(9,)]
    fencepost.open(path).close()


@pytest.mark.parametrize("whose", ["another SQLite of this process", "another process"])
def test_a_file_that_is_locked_says_by_whom(path: Path, whose: str) -> None:
    """A program that keeps a file for itself: Busy names it and the file, and nothing is made."""
    with ExitStack() as held:
        if whose == "another process":
            child = subprocess.Popen(
                [sys.executable, "-c", LOCKS, str(path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                encoding="utf-8",
            )
            held.enter_context(child)
            held.callback(child.communicate, "\n")
            assert child.stdout is not None
            assert child.stdout.readline() == "locked\n"
            whose = f"process {child.pid}"
        else:
            connection = held.enter_context(closing(sqlite3.connect(path)))
            connection.execute("CREATE TABLE t (a)")
            connection.execute("BEGIN EXCLUSIVE")
        with pytest.raises(Busy, match=f"{whose} has locked the file: {path}"):
            fencepost.open(path, wal=True, busy_timeout=0)
    fencepost.open(path, wal=True).close()


def test_a_newer_schema_is_refused_and_left_alone(
    path: Path, foreign: Callable[[str], str], dump: Callable[[Path], str]
) -> None:
    fencepost.open(path).close()
    foreign("UPDATE fencepost_meta SET version = 1000000;")
    before = dump(path)
    with pytest.raises(NewerSchema):
        fencepost.open(path)
    assert dump(path) == before


def test_an_open_store_notices_a_newer_schema(path: Path, foreign: Callable[[str], str]) -> None:
    with fencepost.open(path) as store:
        store.queue("q").enqueue(1)
        foreign("UPDATE fencepost_meta SET version = 1000000;")
        with pytest.raises(NewerSchema):
            store.queue("q").enqueue(2)
        with pytest.raises(NewerSchema):
            store.stats()


def test_foreign_keys_are_enforced_where_asked_for(tmp_path: Path) -> None:
    for enforced in (False, True):
        path = tmp_path / f"{enforced}.db"
        with fencepost.open(path, foreign_keys=enforced) as store, store.transaction() as tx:
            tx.execute("CREATE TABLE a (id INTEGER PRIMARY KEY)")
            tx.execute("CREATE TABLE b (a REFERENCES a (id))")
            if enforced:
                with pytest.raises(StorageError, match="FOREIGN KEY constraint failed"):
                    tx.execute("INSERT INTO b VALUES (7)")
            else:
                tx.execute("INSERT INTO b VALUES (7)")


def test_durability_is_one_of_two_words(path: Path) -> None:
    with pytest.raises(InvalidArgument, match='"full" or "normal"'):
        fencepost.open(path, durability="off")  # type: ignore[arg-type]
    fencepost.open(path, durability="normal").close()


@pytest.mark.skipif(sys.platform != "linux", reason="a folder where not even root makes another")
def test_a_folder_that_cannot_be_made_says_why() -> None:
    """Why it was not made, and not what a look at it finds: that it is not there."""
    with pytest.raises(StorageError, match="cannot be made: .*(ermi|ead-only)"):
        fencepost.open("/sys/fencepost/app.db")
