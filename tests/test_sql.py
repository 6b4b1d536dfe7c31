"""Connections of the standard library's sqlite3 as `tx=`, and in `fencepost.sql`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import fencepost
from commands import until
from fencepost import (
    App,
    Conflict,
    Enqueued,
    InvalidArgument,
    LeaseLost,
    PermanentError,
    Queue,
    QueueFull,
    Store,
    sql,
)


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


def mine(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        ((count,),) = connection.execute("SELECT count(*) FROM mine")
    return int(count)


# ---- one commit, or none -------------------------------------------------------------------------


def test_both_land_with_the_commit_and_neither_without(
    path: Path, queue: Queue[Any], foreign: sqlite3.Connection
) -> None:
    foreign.execute("INSERT INTO mine DEFAULT VALUES")
    assert queue.enqueue("a", tx=foreign).created
    foreign.rollback()
    assert (mine(path), queue.size()) == (0, 0)
    first = queue.enqueue("a", tx=foreign)
    foreign.execute("INSERT INTO mine DEFAULT VALUES")
    assert queue.size() == 0  # nobody sees it yet
    foreign.commit()
    assert (mine(path), queue.size()) == (1, 1)
    (claim,) = queue.claim()
    assert (claim.id, claim.payload) == (first.id, "a")


MODES: list[dict[str, Any]] = [
    {},
    {"isolation_level": "DEFERRED"},
    {"isolation_level": "IMMEDIATE"},
    {"isolation_level": None},
]


@pytest.mark.parametrize("mode", MODES)
def test_however_the_connection_begins_its_transactions(
    path: Path, queue: Queue[Any], foreign: sqlite3.Connection, mode: dict[str, Any]
) -> None:
    """Where none is open that would end with a commit, nothing is written by itself."""
    with closing(sqlite3.connect(path, **mode)) as connection:
        if "isolation_level" in mode and mode["isolation_level"] is None:
            with pytest.raises(InvalidArgument, match="no transaction open: begin one with"):
                queue.enqueue("a", tx=connection)
            connection.execute("BEGIN IMMEDIATE")
        queue.enqueue("a", tx=connection)
        assert connection.in_transaction
        connection.rollback()
        assert queue.size() == 0
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            queue.enqueue("a", tx=connection)
        assert queue.size() == 1


def test_all_options_pass_through_the_door(
    store: Store, queue: Queue[Any], foreign: sqlite3.Connection
) -> None:
    later = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(hours=1)
    options: list[dict[str, Any]] = [
        {"lane": "x", "priority": -3, "headers": {"trace": "ä"}, "key": "k"},
        {"due": later + timedelta(microseconds=1)},
        {"delay": timedelta(days=1)},
        {"unique": "u", "delay": 0},
    ]
    given = [queue.enqueue({"n": n}, tx=foreign, **one) for n, one in enumerate(options)]
    foreign.commit()
    unique, first = queue.claim(5)
    assert (first.lane, first.key, first.headers) == ("x", "k", {"trace": "ä"})
    assert (unique.key, unique.id) == ("u", given[3].id)
    found = store.message(given[1].id)
    assert found is not None
    assert found.due == later + timedelta(microseconds=1)


def test_a_key_means_the_same_on_both_sides(queue: Queue[Any], foreign: sqlite3.Connection) -> None:
    """Equal is answered with the first one, another raises, and says which one it met."""
    ours = queue.enqueue({"a": 1, "b": 2}, key="k")
    theirs = queue.enqueue({"b": 2}, unique="u", tx=foreign)
    assert queue.enqueue({"b": 2, "a": 1}, key="k", tx=foreign) == Enqueued(ours.id, False)
    with pytest.raises(Conflict, match=f"another message, {ours.id}, owns the key 'k'") as told:
        queue.enqueue({"a": 7}, key="k", tx=foreign)
    assert told.value.id == ours.id
    foreign.commit()
    assert queue.enqueue({"b": 2}, unique="u") == Enqueued(theirs.id, False)
    with pytest.raises(Conflict):
        queue.enqueue({"b": 3}, unique="u")


def test_many_are_all_or_none_and_what_was_before_stays(
    store: Store, foreign: sqlite3.Connection
) -> None:
    """The transaction goes on after a refusal, as it was before the call."""
    small = store.queue("small", max_size=3)
    foreign.execute("INSERT INTO mine DEFAULT VALUES")
    first = small.enqueue(0, tx=foreign)
    for error, key in ((QueueFull, None), (Conflict, lambda _: "k")):
        with pytest.raises(error):
            small.enqueue_many([1, 2, 3], key=key, tx=foreign)
    answers = small.enqueue_many([1, 1], key=lambda _: "k", lane=lambda _: "x", tx=foreign)
    assert [one.created for one in answers] == [True, False]
    assert answers[0].id == answers[1].id > first.id
    foreign.commit()
    assert [claim.payload for claim in small.claim(5)] == [0, 1]
    assert foreign.execute("SELECT count(*) FROM mine").fetchone() == (1,)


def test_a_queue_that_is_not_there_is_made_as_it_was_declared(
    app: App, path: Path, outside: Any
) -> None:
    """By the connection, since nobody else can write now; and it is gone after a rollback."""

    @app.job(queue="mail", max_attempts=2)
    def send(to: str) -> None: ...

    data = app.queue("data", int, lease=7, keep=60, lane_width=3)
    store = app.store  # opened before anybody holds the lock
    with closing(sqlite3.connect(path)) as connection:
        for end in (connection.rollback, connection.commit):
            handle = send.options(tx=connection, priority=3).enqueue("ann")
            data.enqueue(1, tx=connection)
            data.enqueue(2, tx=connection)
            end()
    assert sorted(store.stats()["queues"]) == ["data", "mail"]
    assert handle.status().state == "pending"
    fields = "lease, keep, lane_width, max_attempts, profile, addressed"
    rows = outside.rows(path, f"SELECT {fields} FROM fencepost_queue ORDER BY name")
    assert rows == [[7_000_000, 60_000_000, 3, 5, 0, 0], [30_000_000, 604_800_000_000, 1, 5, 1, 1]]
    (message,) = store.messages("pending", kind="send")
    assert message.id == handle.id
    data.enqueue(3)
    assert [claim.payload for claim in data.claim(5)] == [1, 2, 3]


# ---- settling ------------------------------------------------------------------------------------


def test_a_claim_is_found_at_the_moment_of_its_renewal(
    queue: Queue[Any], foreign: sqlite3.Connection
) -> None:
    """The door's clock counts milliseconds: it may be behind the one that the lease was made by."""
    queue.enqueue_many(range(50))
    for claim in queue.claim(50):
        claim.renew(7200)
        claim.ack(tx=foreign)
        foreign.commit()
    assert queue.size() == 0


def test_an_ack_lands_with_the_commit(
    path: Path, queue: Queue[Any], foreign: sqlite3.Connection
) -> None:
    """On a queue of data, whose claims only their own handle finds otherwise."""
    queue.enqueue_many(range(4))
    one, two, three, four = queue.claim(4)
    one.ack(tx=foreign)
    foreign.rollback()
    assert queue.size() == 4
    two.renew(3600)  # then it stands elsewhere than where it was put first
    foreign.execute("INSERT INTO mine DEFAULT VALUES")
    one.ack(tx=foreign)
    two.fail("broken", tx=foreign)
    three.retry(0, tx=foreign)
    four.release(tx=foreign)
    foreign.commit()
    assert (mine(path), queue.size()) == (1, 2)
    assert [claim.attempt for claim in queue.claim(5)] == [
        1,
        2,
    ]  # what is released has its old place
    for claim in (one, three, four):
        with pytest.raises(LeaseLost):
            claim.ack(tx=foreign)
    foreign.rollback()


def test_those_that_were_lost_are_told_and_the_others_settled(
    queue: Queue[Any], foreign: sqlite3.Connection
) -> None:
    queue.enqueue_many(range(3))
    claims = queue.claim(3)
    claims[1].ack()
    assert queue.ack(claims, tx=foreign) == [claims[1]]
    foreign.commit()
    assert queue.size() == 0


def test_a_job_acks_in_its_own_connection(app: App, path: Path) -> None:
    """The rows, the follow-up, and the end of the job: one commit; a rollback is another try."""
    seen: list[int] = []

    @app.job
    def follow(n: int) -> None:
        seen.append(n)

    @app.job(context=True, backoff=fencepost.Backoff(base=0))
    def work(ctx: fencepost.Context, n: int) -> str:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("CREATE TABLE IF NOT EXISTS mine (id)")
            connection.execute("INSERT INTO mine VALUES (?)", (n,))
            follow.options(tx=connection).enqueue(n)
            ctx.ack("well", tx=connection)
            if ctx.attempt == 1:
                connection.rollback()
        return "not this"

    handle = work.enqueue(7)
    with app.worker(threads=2):
        assert handle.result(timeout=20) == "well"
        until(lambda: seen)
    assert handle.status().attempt == 2
    assert (mine(path), seen) == (1, [7])


def test_a_message_is_cancelled_with_the_commit(app: App, path: Path) -> None:
    @app.job
    def work() -> None: ...

    pending, leased, waiting = (work.options(lane=lane).enqueue() for lane in ("x", "y", "x"))
    with closing(sqlite3.connect(path)) as connection:
        for handle in (pending, leased, waiting):
            assert handle.cancel(tx=connection)
            connection.rollback()
            assert handle.status().state == "pending"
            assert handle.cancel(tx=connection)
            assert not handle.cancel(tx=connection)
            connection.commit()
            assert handle.status().state == "cancelled"
            assert not handle.cancel(tx=connection)
    assert app.store.check(full=True) == []


# ---- fencepost.sql -------------------------------------------------------------------------------


def test_a_process_without_a_store_puts_in_and_settles(path: Path) -> None:
    """All that is needed is the connection; the queue must be there."""
    with fencepost.open(path) as store:
        queue = store.queue("data", keep=60, addressed=True, max_attempts=9)
        queue.enqueue_many([1, 2, 3, 4, 5])
        claims = queue.claim(5)
    with closing(sqlite3.connect(path)) as connection, connection:
        sql.ack(connection, claims[0].id, claims[0].token, "7")
        sql.retry(connection, claims[1].id, claims[1].token, delay=0, error="once more")
        sql.release(connection, claims[2].id, claims[2].token)
        sql.fail(connection, claims[3].id, claims[3].token, "ä" * 2000)
        assert sql.cancel(connection, claims[4].id)
        assert not sql.cancel(connection, claims[4].id)
        assert not sql.cancel(connection, 10**9)
        with pytest.raises(LeaseLost):
            sql.ack(connection, claims[4].id, claims[4].token)
        first = sql.enqueue(connection, "data", "6", key="six", headers={"a": "b"})
        assert first.created
        assert sql.enqueue(connection, "data", b"6", key="six", headers={"a": "b"}) == (first.id, 0)
        with pytest.raises(Conflict) as told:
            sql.enqueue(connection, "data", b"7", key="six")
        assert told.value.id == first.id
        with pytest.raises(InvalidArgument, match="there is no such queue"):
            sql.enqueue(connection, "none", "6")
        with pytest.raises(InvalidArgument, match="only a queue of jobs takes a kind"):
            sql.enqueue(connection, "data", "6", kind="job")
        for body in (6, bytearray(b"6"), None, "\ud800"):
            with pytest.raises(InvalidArgument):
                sql.enqueue(connection, "data", body)  # type: ignore[arg-type]
    with fencepost.open(path) as store:
        states = [store.message(claim.id) for claim in claims]
        assert [one and one.state for one in states] == [
            "done",
            "pending",
            "pending",
            "dead",
            "cancelled",
        ]
        failure = states[3] and states[3].failure
        assert failure is not None
        assert (failure.kind, failure.text) == ("error", "ä" * 500)
        assert store.content(claims[0].id).result == b"7"
        assert [claim.payload for claim in store.queue("data").claim(5)] == [3, 2, 6]
        assert store.check(full=True) == []


def test_a_database_that_is_no_store_is_told(tmp_path: Path) -> None:
    with (
        closing(sqlite3.connect(tmp_path / "theirs.db")) as connection,
        pytest.raises(InvalidArgument, match="never opened by Fencepost"),
    ):
        sql.enqueue(connection, "data", "6")


def test_how_it_failed_comes_through_the_door(path: Path) -> None:
    with fencepost.open(path) as store, closing(sqlite3.connect(path)) as connection:
        queue = store.queue("data", addressed=True)
        queue.enqueue("a")
        (claim,) = queue.claim()
        claim.fail(PermanentError("no", code="gone"), tx=connection)
        connection.commit()
        found = store.message(claim.id)
        assert found is not None
        assert found.failure == ("error", "gone", "no")
