"""Outboxes and inboxes in a transaction of another SQLite, and beside what is poisoned."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fencepost import App, Backoff, Context, Delivery, PermanentError
from fencepost.testing import Kit, override

POISONED = 200


@pytest.fixture
def kit(app: App, path: Path) -> Iterator[Kit]:
    with override(app, path) as kit:
        yield kit


def test_a_foreign_connections_commit_sends_and_its_rollback_does_not(
    app: App, kit: Kit, path: Path
) -> None:
    outbox = app.outbox("events", int)
    sent: list[tuple[str, int, str]] = []

    @outbox.handler
    def deliver(d: Delivery[int]) -> None:
        sent.append((d.destination, d.payload, d.headers["h"]))

    with closing(sqlite3.connect(path, isolation_level="IMMEDIATE")) as db:
        db.execute("CREATE TABLE mine (n INT)")
        db.commit()
        for n in (1, 2):
            db.execute("INSERT INTO mine VALUES (?)", [n])
            outbox.send("d", n, tx=db, headers={"h": str(n)}, key=f"k{n}", lane="l")
            db.commit() if n == 2 else db.rollback()
    kit.drain()
    assert sent == [("d", 2, "2")]
    assert outbox.send("d", 2, key="k2", headers={"h": "2"}).created is False


def test_a_foreign_connections_commit_accepts(app: App, kit: Kit, path: Path) -> None:
    inbox = app.inbox("payments", int)
    seen: list[int] = []

    @inbox.handler
    def paid(ctx: Context, n: int) -> None:
        seen.append(n)

    with closing(sqlite3.connect(path, isolation_level="IMMEDIATE")) as db:
        db.execute("CREATE TABLE mine (n INT)")
        db.commit()
        db.execute("INSERT INTO mine VALUES (1)")
        assert inbox.accept("1", 7, tx=db) == "accepted"
        assert inbox.accept("1", 7, tx=db) == "duplicate"
        assert inbox.accept("1", 8, tx=db) == "conflict"
        db.commit()
    assert inbox.accept("1", 7) == "duplicate"
    assert inbox.accept("1", 8) == "conflict"
    kit.drain()
    assert seen == [7]


def test_poisoned_ones_at_the_head_delay_nobody_by_more_than_one_cycle(app: App, kit: Kit) -> None:
    """Two hundred of them: each is tried once before the healthy ones behind it, and no more."""
    outbox = app.outbox("events", int, backoff=Backoff(60, 1, 60, 0))
    order: list[int] = []

    @outbox.handler
    def deliver(d: Delivery[int]) -> None:
        order.append(d.payload)
        if d.payload < POISONED:
            raise OSError

    with app.transaction() as tx:
        for n in range(POISONED + 3):
            outbox.send("d", n, lane=str(n % 7) if n < POISONED else "healthy", tx=tx)
    kit.drain()
    assert order[-3:] == [POISONED, POISONED + 1, POISONED + 2]
    assert len(order) == 7 + 3  # a lane has one head


def test_a_poisoned_lane_is_parked_where_an_operator_sees_it(app: App, kit: Kit) -> None:
    """Its head is a dead letter, the others wait; released, they go on in their order."""
    outbox = app.outbox("events", int, on_dead="halt")
    order: list[int] = []

    @outbox.handler
    def deliver(d: Delivery[int]) -> None:
        order.append(d.payload)
        if d.payload == 0:
            raise PermanentError

    for n in range(3):
        outbox.send("d", n, lane="a")
    outbox.send("d", 9, lane="b")
    kit.drain(until_idle=True)
    assert order == [0, 9]
    queue = kit.store.stats()["queues"]["events"]
    assert (queue["dead"], queue["waiting"]) == (1, 2)
    assert kit.store.release_lane("events", "a")
    kit.drain()
    assert order == [0, 9, 1, 2]
