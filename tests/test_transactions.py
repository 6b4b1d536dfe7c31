"""The caller's own SQL and our messages in one commit; and whose transaction it is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

import fencepost
from fencepost import InvalidArgument, Rows, StorageError, Store
from fencepost.testing import Clock
from harness_queue import notes

pytestmark = pytest.mark.usefixtures("orders")

# ---- all or none ---------------------------------------------------------------------------------


def test_commit_lands_all_of_it(store: Store) -> None:
    """A row, a new message and the ack of another are one commit."""
    queue = store.queue("q", str)
    queue.enqueue("first")
    (claim,) = queue.claim()
    with store.transaction() as tx:
        tx.execute("INSERT INTO orders (note) VALUES (?)", ["a"])
        queue.enqueue("second", tx=tx)
        claim.ack(tx=tx)
    assert notes(store) == ["a"]
    assert [c.payload for c in queue.claim(5)] == ["second"]


def test_a_block_that_raises_leaves_nothing(
    store: Store, path: Path, dump: Callable[[Path], str]
) -> None:
    """Its own error comes out; the file is what it was, and the claim may still be settled."""
    queue = store.queue("q", str)
    queue.enqueue("first")
    (claim,) = queue.claim()
    before = dump(path)
    with pytest.raises(ZeroDivisionError), store.transaction() as tx:
        tx.execute("INSERT INTO orders (note) VALUES ('a')")
        queue.enqueue_many(["x", "y"], tx=tx)
        assert queue.ack([claim], tx=tx) == []
        raise ZeroDivisionError
    assert dump(path) == before
    claim.ack()


def test_the_number_of_a_queue_is_not_remembered_from_a_rolled_back_transaction(
    store: Store,
) -> None:
    """The queue that it made is gone; the next use makes it again."""
    queue = store.queue("new", int, max_attempts=1)
    with pytest.raises(ZeroDivisionError), store.transaction() as tx:
        queue.enqueue(1, tx=tx)
        raise ZeroDivisionError
    assert store.stats()["queues"] == {}
    store.queue("other").enqueue(1)
    queue.enqueue(2)
    assert [c.payload for c in queue.claim(5)] == [2]


def test_others_see_nothing_before_the_commit(
    store: Store, path: Path, elsewhere: Callable[[str], str]
) -> None:
    queue = store.queue("q")
    size = "with fencepost.open(path) as s: print(s.queue('q').size())"
    with store.transaction() as tx:
        queue.enqueue(1, tx=tx)
        assert elsewhere(size) == "0\n"
    assert elsewhere(size) == "1\n"


def test_a_lost_claim_can_roll_the_rows_back(store: Store, clock: Clock) -> None:
    queue = store.queue("q")
    queue.enqueue(1)
    old = queue.claim(lease=1)
    clock.advance(1)
    queue.claim()
    with pytest.raises(fencepost.LeaseLost), store.transaction() as tx:
        tx.execute("INSERT INTO orders (note) VALUES ('a')")
        if queue.ack(old, tx=tx):
            raise fencepost.LeaseLost("lost")
    assert notes(store) == []


# ---- execute -------------------------------------------------------------------------------------


def test_every_type_of_sqlite_comes_back(store: Store) -> None:
    values: list[Any] = [None, 0, -(2**63), 2**63 - 1, 1.5, "é\0x", "", b"", b"\x00\xff"]
    with store.transaction() as tx:
        tx.executemany("INSERT INTO orders (note, data) VALUES ('', ?)", [(v,) for v in values])
        tx.execute("INSERT INTO orders (note, data) VALUES ('', ?)", (True,))
        tx.execute("INSERT INTO orders (note, data) VALUES ('', ?)", (memoryview(b"m"),))
        found = tx.execute("SELECT data FROM orders ORDER BY id")
    assert [row[0] for row in found] == [*values, 1, b"m"]


def test_rows_say_what_was_written(store: Store) -> None:
    with store.transaction() as tx:
        made = tx.execute("INSERT INTO orders (note) VALUES ('a'), ('b') RETURNING id, note")
        assert made == [(1, "a"), (2, "b")]
        assert isinstance(made, Rows)
        assert (made.rowcount, made.lastrowid) == (2, 2)
        assert tx.execute("UPDATE orders SET note = 'c'").rowcount == 2
        looked = tx.execute("SELECT count(*) FROM orders")
        assert (looked, looked.rowcount) == ([(2,)], 0)
        assert tx.execute("SELECT 1 WHERE 0") == []


@pytest.mark.parametrize("sign", [":", "@", "$"])
def test_parameters_by_name(store: Store, sign: str) -> None:
    with store.transaction() as tx:
        rows = tx.execute(f"SELECT {sign}b, {sign}a, {sign}b", {"a": 1, "b": 2, "unused": 3})
        assert rows == [(2, 1, 2)]
        with pytest.raises(InvalidArgument, match=f"no value for parameter \\{sign}b"):
            tx.execute(f"SELECT {sign}a, {sign}b", {"a": 1})
        assert tx.execute(f"SELECT {sign}a, {sign}b", (1, 2)) == [(1, 2)]


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ((1,), "2 parameters, not 1"),
        ((1, 2, 3), "2 parameters, not 3"),
        ("ab", "a sequence or a mapping, not str"),
        ({"a": 1}, "no value for parameter"),
        ((1, datetime(2026, 3, 1, tzinfo=timezone.utc)), "datetime is not a type of SQLite"),
        ((1, 2**63), "does not fit"),
        (7, "a sequence or a mapping, not int"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(store: Store, params: Any, words: str) -> None:
    with store.transaction() as tx:
        with pytest.raises(InvalidArgument, match=words):
            tx.execute("SELECT ?, ?", params)
        assert tx.execute("SELECT 1") == [(1,)], "and the transaction goes on"


def test_executemany_takes_an_iterable_of_any_length(store: Store) -> None:
    with store.transaction() as tx:
        written = tx.executemany(
            "INSERT INTO orders (id, note) VALUES (?, ?)", ((i, str(i)) for i in range(1, 2001))
        )
        assert written == 2000
        assert tx.executemany("INSERT INTO orders (note) VALUES (?)", []) == 0
        assert tx.execute("SELECT count(*), sum(id) FROM orders") == [(2000, 2001000)]


def test_a_failing_statement_says_it_in_sqlites_words(store: Store) -> None:
    """The words, the statement, SQLite's code; and the transaction is as it was before."""
    with store.transaction() as tx:
        tx.execute("INSERT INTO orders (note) VALUES ('a')")
        with pytest.raises(StorageError) as caught:
            tx.execute("INSERT INTO orders (note) VALUES (NULL)")
        assert "NOT NULL constraint failed: orders.note" in str(caught.value)
        assert "INSERT INTO orders (note) VALUES (NULL)" in str(caught.value)
        assert caught.value.sqlite_code == 1299
        with pytest.raises((StorageError, InvalidArgument), match="no such table: nowhere"):
            tx.execute("SELECT * FROM nowhere")
        with pytest.raises((StorageError, InvalidArgument), match="syntax error"):
            tx.execute("SELEC 1")
    assert notes(store) == ["a"]


@pytest.mark.parametrize(
    "sql",
    [
        "BEGIN",
        "COMMIT",
        "ROLLBACK",
        "END",
        "ATTACH ':memory:' AS other",
        "DETACH other",
        "PRAGMA journal_mode = DELETE",
        "DELETE FROM fencepost_message",
        "UPDATE fencepost_tally SET last = 0",
        "INSERT INTO fencepost_kind (name) VALUES ('x')",
        "DROP TABLE fencepost_due",
        "ALTER TABLE fencepost_due RENAME TO x",
        "CREATE TRIGGER t AFTER INSERT ON fencepost_due BEGIN SELECT 1; END",
        "CREATE INDEX i ON fencepost_message(due)",
        "VACUUM",
    ],
)
def test_what_would_break_the_store_is_refused(store: Store, sql: str) -> None:
    with store.transaction() as tx:
        tx.execute("INSERT INTO orders (note) VALUES ('a')")
        with pytest.raises((InvalidArgument, StorageError)):
            tx.execute(sql)
        tx.execute("INSERT INTO orders (note) VALUES ('b')")
    assert notes(store) == ["a", "b"]


def test_savepoints_are_the_callers(store: Store) -> None:
    with store.transaction() as tx:
        tx.execute("SAVEPOINT s")
        tx.execute("INSERT INTO orders (note) VALUES ('a')")
        tx.execute("ROLLBACK TO s")
        tx.execute("INSERT INTO orders (note) VALUES ('b')")
        tx.execute("RELEASE s")
    assert notes(store) == ["b"]


def test_reading_our_tables_and_pragmas_is_allowed(store: Store) -> None:
    store.queue("q").enqueue(1)
    with store.transaction() as tx:
        assert tx.execute("SELECT count(*) FROM fencepost_message") == [(1,)]
        assert tx.execute("PRAGMA user_version") == [(0,)]


def test_only_one_statement_at_a_time(store: Store) -> None:
    with store.transaction() as tx, pytest.raises(InvalidArgument, match="one statement"):
        tx.execute("SELECT 1; SELECT 2")
