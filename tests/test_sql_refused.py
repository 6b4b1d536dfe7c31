"""What `tx=` refuses of other connections, and how a lock that was not to be had is told."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import fencepost
from fencepost import Busy, InvalidArgument, Queue, StorageError, Store


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    """By the real clock, as the other connections are."""
    with fencepost.open(path) as store:
        yield store
        assert store.check(full=True) == []


@pytest.fixture
def queue(store: Store) -> Queue[Any]:
    """In the file already."""
    queue = store.queue("data", lease=60)
    queue.claim()
    return queue


@pytest.fixture
def foreign(path: Path, store: Store) -> Iterator[sqlite3.Connection]:
    """As an application has it, without a word about transactions."""
    with closing(sqlite3.connect(path, timeout=0.2)) as connection:
        connection.execute("CREATE TABLE mine (id INTEGER PRIMARY KEY)")
        yield connection


def test_a_connection_to_another_file_is_refused(
    queue: Queue[Any], path: Path, tmp_path: Path
) -> None:
    """Also one of the same name that was opened from elsewhere, or of no name."""
    other = tmp_path / "other" / "app.db"
    fencepost.open(other).close()
    for name in (other, ":memory:", ""):
        with closing(sqlite3.connect(name)) as connection:
            with pytest.raises(InvalidArgument, match="the connection is to .*, and this is for"):
                queue.enqueue("a", tx=connection)
            assert not connection.in_transaction
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"ATTACH '{path}' AS aside")  # two files are no one commit
        with pytest.raises(InvalidArgument, match="the connection is to"):
            queue.enqueue("a", tx=connection)


def test_the_same_file_by_another_name_is_the_same(
    queue: Queue[Any], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = path.with_name("link.db")
    link.symlink_to(path)
    monkeypatch.chdir(path.parent)
    for name in ("link.db", f"file:{path}?mode=rw"):
        with closing(sqlite3.connect(name, uri=name.startswith("file:"))) as connection, connection:
            queue.enqueue("a", tx=connection)
    assert queue.size() == 2


def test_what_cannot_be_used_is_told(
    queue: Queue[Any], path: Path, foreign: sqlite3.Connection
) -> None:
    closed = sqlite3.connect(path)
    closed.close()
    with pytest.raises(InvalidArgument, match="the connection is closed"):
        queue.enqueue("a", tx=closed)
    for wrong in (7, "connection", object(), foreign.cursor()):
        with pytest.raises(InvalidArgument, match="takes a Transaction of Store.transaction"):
            queue.enqueue("a", tx=wrong)  # type: ignore[arg-type]
    told: list[BaseException] = []

    def elsewhere() -> None:
        try:
            queue.enqueue("a", tx=foreign)
        except InvalidArgument as error:
            told.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert "thread" in str(told[0])


def test_who_has_a_transaction_of_ours_open_uses_that(
    store: Store, queue: Queue[Any], foreign: sqlite3.Connection
) -> None:
    with (
        store.transaction(),
        pytest.raises(InvalidArgument, match="has a transaction of this store open"),
    ):
        queue.enqueue("a", tx=foreign)


def test_a_reader_that_writes_too_late_is_told_the_cure(
    queue: Queue[Any], foreign: sqlite3.Connection
) -> None:
    """SQLite fails at once there, whatever the time-out."""
    foreign.execute("BEGIN")
    foreign.execute("SELECT count(*) FROM mine").fetchall()
    queue.enqueue("a")  # somebody else writes
    with pytest.raises(Busy, match="begin with the lock: connection.execute\\(.BEGIN IMMEDIATE"):
        queue.enqueue("b", tx=foreign)
    foreign.rollback()
    foreign.execute("BEGIN IMMEDIATE")
    queue.enqueue("b", tx=foreign)
    foreign.commit()
    assert queue.size() == 2


def test_a_lock_that_others_hold_is_told_as_such(
    store: Store, queue: Queue[Any], foreign: sqlite3.Connection
) -> None:
    foreign.execute("PRAGMA busy_timeout = 0")
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with store.transaction() as tx:
            tx.execute("CREATE TABLE held (id)")
            held.set()
            done.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(20)
    try:
        with pytest.raises(Busy, match="another writer held it for longer"):
            queue.enqueue("a", tx=foreign)
        foreign.execute("BEGIN")
        foreign.execute("SELECT count(*) FROM mine").fetchall()
        with pytest.raises(Busy, match="begin with the lock"):
            queue.enqueue("a", tx=foreign)
    finally:
        done.set()
        holder.join()


def test_a_read_only_connection_is_told(queue: Queue[Any], path: Path) -> None:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        connection.execute("BEGIN")
        with pytest.raises(StorageError, match="readonly"):
            queue.enqueue("a", tx=connection)


def test_a_policy_that_cannot_be_is_refused_before_it_is_written(
    store: Store, foreign: sqlite3.Connection
) -> None:
    """As it is where the queue is made by the core."""
    for queue in (store.queue("a", lane_width=0), store.queue("a\0"), store.queue("b" * 256)):
        with pytest.raises(InvalidArgument):
            queue.enqueue("a", tx=foreign)
    foreign.rollback()
    assert store.stats()["queues"] == {}


def test_how_rows_are_made_is_the_connections_own_business(
    queue: Queue[Any], foreign: sqlite3.Connection
) -> None:
    foreign.row_factory = lambda cursor, row: {"row": row}
    foreign.text_factory = bytes
    with foreign:
        assert queue.enqueue("a", tx=foreign).created
