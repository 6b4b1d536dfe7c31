"""
The caller's own SQL is a guest on our connection: what of SQLite it can use, and what it cannot
touch, not by a detour either.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import fencepost
from fencepost import InvalidArgument, StorageError, Store, Transaction
from fencepost.testing import Clock


@pytest.fixture
def tx(store: Store) -> Iterator[Transaction]:
    with store.transaction() as tx:
        tx.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, word UNIQUE)")
        yield tx


def test_the_last_rowid_is_its_own(store: Store, tx: Transaction) -> None:
    """Whatever we insert in between, and only where the statement inserted."""
    tx.execute("CREATE TABLE part (of_t INTEGER, name TEXT)")
    assert tx.execute("INSERT INTO t (id, word) VALUES (77, 'a')").lastrowid == 77
    store.queue("q").enqueue_many(range(3), tx=tx)
    assert tx.execute("SELECT last_insert_rowid()") == [(77,)]
    tx.execute("INSERT INTO part SELECT last_insert_rowid(), 'b'")
    assert tx.execute("SELECT of_t FROM part") == [(77,)]
    for sql in ("SELECT 1", "UPDATE t SET word = 'c'", "INSERT OR IGNORE INTO t VALUES (77, 'd')"):
        assert tx.execute(sql).lastrowid is None


def test_rows_that_triggers_write_are_not_counted(tx: Transaction) -> None:
    """As in SQLite itself."""
    tx.execute("CREATE TABLE log (word)")
    tx.execute("CREATE TRIGGER g AFTER INSERT ON t BEGIN INSERT INTO log VALUES (new.word); END")
    assert tx.execute("INSERT INTO t (word) VALUES ('a'), ('b')").rowcount == 2
    assert tx.execute("SELECT * FROM log") == [("a",), ("b",)]
    assert tx.execute("DELETE FROM t WHERE word = 'none'").rowcount == 0


@pytest.mark.parametrize(
    ("make", "put", "ask"),
    [
        ("fts5 (word)", "INSERT INTO v VALUES ('a b')", "SELECT word FROM v WHERE v MATCH 'b'"),
        ("fts4 (word)", "INSERT INTO v VALUES ('a b')", "SELECT word FROM v WHERE v MATCH 'b'"),
        (
            "rtree (id, low, high)",
            "INSERT INTO v VALUES (1, 2, 3)",
            "SELECT * FROM v WHERE low < 3",
        ),
    ],
)
def test_virtual_tables_work(tx: Transaction, make: str, put: str, ask: str) -> None:
    """Their own inner statements are judged, too, and are allowed."""
    assert tx.execute(f"CREATE VIRTUAL TABLE v USING {make}").lastrowid is None
    tx.execute(put)
    assert len(tx.execute(ask)) == 1


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TRIGGER g AFTER INSERT ON fencepost_due BEGIN SELECT 1; END",
        "CREATE TEMP TRIGGER g AFTER INSERT ON fencepost_due BEGIN SELECT 1; END",
        "CREATE INDEX i ON fencepost_due (id)",
        "CREATE TEMP TABLE fencepost_due (id)",
        "CREATE TEMP VIEW Fencepost_Due AS SELECT 1",
        "CREATE TABLE fencepost_mine (id)",
        "EXPLAIN DELETE FROM fencepost_due",
        "WITH x AS (SELECT 1) DELETE FROM fencepost_due",
        "REPLACE INTO fencepost_kind SELECT 1, 'a'",
        "REINDEX fencepost_due_id",
        "ANALYZE",
    ],
)
def test_our_tables_cannot_be_changed_or_covered(tx: Transaction, sql: str) -> None:
    with pytest.raises(InvalidArgument, match="(?i)fencepost_.* belongs to Fencepost"):
        tx.execute(sql)


@pytest.mark.parametrize("view", ["fencepost_enqueue", "Fencepost_Settle"])
def test_the_door_is_for_others(tx: Transaction, view: str) -> None:
    """A transaction of ours remembers the counter; here the calls themselves take `tx=`."""
    with pytest.raises(InvalidArgument, match="is for connections of other libraries.*tx="):
        tx.execute(f"INSERT INTO {view} (id) VALUES (1)")


def test_a_temporary_table_cannot_take_our_place(tx: Transaction) -> None:
    tx.execute("CREATE TEMP TABLE mine (id)")
    with pytest.raises(InvalidArgument, match="ALTER TABLE of the temporary table mine"):
        tx.execute("ALTER TABLE mine RENAME TO fencepost_due")


def test_a_trigger_does_no_more_than_its_statement_may(tx: Transaction) -> None:
    """It can be made, and the statement that would fire it is refused."""
    tx.execute("CREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM fencepost_message; END")
    with pytest.raises(InvalidArgument, match="fencepost_message belongs to Fencepost"):
        tx.execute("INSERT INTO t (word) VALUES ('a')")
    assert tx.execute("SELECT count(*) FROM t") == [(0,)]


def test_what_python_made_elsewhere_is_told_with_a_way_out(tx: Transaction) -> None:
    for sql in ("SELECT f(1)", "SELECT * FROM t ORDER BY word COLLATE mine"):
        with pytest.raises(StorageError, match="no such .*made in Python.*pass it here"):
            tx.execute(sql)


def test_a_statement_that_ends_the_transaction_is_told(store: Store) -> None:
    """ON CONFLICT ROLLBACK is the statement's right; afterwards nothing pretends to be open."""
    queue = store.queue("q")
    with store.transaction() as tx:
        tx.execute("CREATE TABLE t (word UNIQUE)")
    with pytest.raises(InvalidArgument, match="rolled back"), store.transaction() as tx:
        tx.execute("INSERT INTO t VALUES ('a')")
        queue.enqueue(1, tx=tx)
        with pytest.raises(StorageError, match=r"UNIQUE.*the transaction was rolled back"):
            tx.execute("INSERT OR ROLLBACK INTO t VALUES ('a')")
        with pytest.raises(InvalidArgument, match="rolled back by an earlier failure"):
            tx.execute("SELECT 1")
        with pytest.raises(InvalidArgument, match="rolled back by an earlier failure"):
            queue.enqueue(2, tx=tx)
    assert queue.size() == 0
    with store.transaction() as tx:
        assert tx.execute("SELECT * FROM t") == []


def test_our_writes_go_back_with_a_savepoint(store: Store, clock: Clock, path: Path) -> None:
    """Counter, counts, keys and queues: the file fits together, for us and for another handle."""
    queue = store.queue("q", int, addressed=True)
    with store.transaction() as tx:
        kept = queue.enqueue(1, key="a", tx=tx)
        tx.execute("SAVEPOINT s")
        queue.enqueue(2, key="b", tx=tx)
        tx.execute("/* a comment first */ ROLLBACK TO s")
        again = queue.enqueue(3, key="b", tx=tx)
    assert again.created
    assert again.id > kept.id
    with clock.open(path) as other:
        assert other.check() == []
        assert other.queue("q", int, addressed=True).enqueue(4).id > again.id
    assert [claim.payload for claim in queue.claim(5)] == [1, 3, 4]
    assert store.check() == []


def test_a_long_statement_is_shown_short(tx: Transaction) -> None:
    """Whole characters, on one line."""
    with pytest.raises(StorageError) as caught:
        tx.execute("SELECT\n  nothing,\n" + "'é'," * 5000 + "1")
    words = str(caught.value)
    assert "SELECT nothing, 'é'," in words
    assert words.endswith(" ...")
    assert "\ufffd" not in words
    assert len(words.encode()) < 600


@pytest.mark.parametrize("sql", ["", "  ", "-- nothing", "/* nothing */;"])
def test_no_statement_is_refused(tx: Transaction, sql: str) -> None:
    with pytest.raises(InvalidArgument, match="there is no statement"):
        tx.execute(sql)


@pytest.mark.parametrize("sql", ["SELECT 1; SELECT 2", "SELECT 1; nonsense", "SELECT 1;; SELECT 2"])
def test_two_statements_are_refused(tx: Transaction, sql: str) -> None:
    with pytest.raises(InvalidArgument, match="more than one statement"):
        tx.execute(sql)


def test_one_statement_may_end_as_it_likes(tx: Transaction) -> None:
    assert tx.execute("SELECT 1 ; ; -- and a comment\n /* another */ ;") == [(1,)]
    with pytest.raises(InvalidArgument, match="NUL"):
        tx.execute("SELECT 1\0")


def test_foreign_keys_are_enforced_where_asked_for(path: Path) -> None:
    with fencepost.open(path, foreign_keys=True) as store, store.transaction() as tx:
        tx.execute("CREATE TABLE a (id INTEGER PRIMARY KEY)")
        tx.execute("CREATE TABLE b (a REFERENCES a)")
        with pytest.raises(StorageError, match="FOREIGN KEY constraint failed"):
            tx.execute("INSERT INTO b VALUES (1)")
        assert tx.execute("PRAGMA foreign_keys") == [(1,)]
