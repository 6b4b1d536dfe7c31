"""Inboxes: once for each message id, and all of it in one commit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import fencepost
from fencepost import App, Context, Inbox, InvalidArgument, Message
from fencepost.testing import Kit, Point, override
from harness_worker import AT_ONCE


@dataclass
class Paid:
    order: int
    cents: int = 0


@pytest.fixture
def kit(app: App, kit: Kit) -> Kit:
    with app.transaction() as tx:
        tx.execute("CREATE TABLE paid (id TEXT, orders INT)")
    return kit


def handled(app: App, address: str = "payments", **policy: Any) -> Inbox[Paid]:
    """An inbox whose handler writes a row for each message."""
    inbox = app.inbox(address, Paid, **{"backoff": AT_ONCE, **policy})

    @inbox.handler
    def paid(ctx: Context, event: Paid) -> None:
        ctx.tx.execute("INSERT INTO paid VALUES (?, ?)", [f"{address}/{ctx.key}", event.order])

    return inbox


def rows(app: App) -> list[tuple[Any, ...]]:
    with app.transaction() as tx:
        return list(tx.execute("SELECT * FROM paid ORDER BY id"))


def only(kit: Kit, state: fencepost.State) -> Message:
    (message,) = kit.store.messages(state)
    return message


# ---- once ----------------------------------------------------------------------------------------


def test_h11_the_same_message_twice_is_one(app: App, kit: Kit) -> None:
    """A duplicate, a conflict that changes nothing, and the same id at another address."""
    inbox, other = handled(app), handled(app, "refunds")
    assert inbox.accept("42", Paid(1)) == "accepted"
    assert inbox.accept("42", Paid(1)) == "duplicate"
    kit.drain()
    assert inbox.accept("42", Paid(1)) == "duplicate"
    assert inbox.accept("42", Paid(2)) == "conflict"
    assert other.accept("42", Paid(2)) == "accepted"
    kit.drain()
    assert rows(app) == [("payments/42", 1), ("refunds/42", 2)]
    assert len(kit.store.messages("done")) == 2


def test_what_came_as_bytes_is_what_it_says(app: App, kit: Kit) -> None:
    """Senders write JSON as they please: names in another order are the same message."""
    inbox = handled(app)
    assert inbox.accept("1", b'{"order": 7, "cents": 100}') == "accepted"
    assert inbox.accept("1", b'{ "cents":100,\n "order":7 }') == "duplicate"
    assert inbox.accept("1", Paid(7, 100)) == "duplicate"
    assert inbox.accept("1", b'{"order": 7, "cents": 100.0}') == "conflict"
    kit.drain()
    assert rows(app) == [("payments/1", 7)]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (b'{"a": [1, 2]}', b'{"a": [2, 1]}', False),
        (b'{"a": {"c": 1, "b": null}}', b'{"a": {"b": null, "c": 1}}', True),
        (b'{"a": 1}', b'{"a": "1"}', False),
        (b'{"a": 1e2}', b'{"a": 100}', False),
        (b'{"a": 0.10000000000000000001}', b'{"a": 0.1}', False),
        (b'"\\u00e9"', '"é"'.encode(), True),
        (b'{"a": 1, "a": 1}', b'{"a": 1}', False),
        (b"\x80 no json", b"\x80 no json", True),
        (b"\x80 no json", b"\x80  no json", False),
        (b'["b1"]', b"[b1]", False),
        (b"[true]", b'["True"]', False),
        (b"[" * 50_000, b"[" * 50_000, True),
    ],
)
def test_sameness_is_of_what_is_said(
    app: App, kit: Kit, one: bytes, other: bytes, same: bool
) -> None:
    inbox = app.inbox("any", Any)
    inbox.accept("1", one)
    assert inbox.accept("1", other) == ("duplicate" if same else "conflict")


def test_headers_are_part_of_a_message(app: App, kit: Kit) -> None:
    inbox = handled(app)
    inbox.accept("1", Paid(1), headers={"a": "1", "b": "2"})
    assert inbox.accept("1", Paid(1), headers={"b": "2", "a": "1"}) == "duplicate"
    for headers in ({"a": "1"}, {"a": "1", "b": "3"}, {}):
        assert inbox.accept("1", Paid(1), headers=headers) == "conflict"


def test_a_tombstone_answers_for_the_window_and_then_it_is_a_new_message(
    app: App, kit: Kit
) -> None:
    """The window is that of the policy, and `stats` says it."""
    inbox = handled(app, keep=3600, key_window=7200)
    inbox.accept("1", Paid(1))
    kit.drain()
    assert kit.store.stats()["queues"]["payments"]["dedupe_window"] == 7200
    kit.advance(7199)
    kit.store._file.core.retain(100)
    assert inbox.accept("1", Paid(1)) == "duplicate"
    kit.advance(2)
    while kit.store._file.core.retain(100)[1]:
        pass
    assert inbox.accept("1", Paid(2)) == "accepted"


def test_the_window_is_the_longer_of_keep_and_seven_days(app: App, kit: Kit) -> None:
    handled(app).accept("1", Paid(1))
    handled(app, "long", keep=30 * 86_400).accept("1", Paid(1))
    queues = kit.store.stats()["queues"]
    assert queues["payments"]["dedupe_window"] == 7 * 86_400
    assert queues["long"]["dedupe_window"] == 30 * 86_400


def test_what_is_rolled_back_was_not_accepted(app: App, kit: Kit) -> None:
    inbox = handled(app)
    with pytest.raises(ZeroDivisionError), app.transaction() as tx:
        assert inbox.accept("1", Paid(1), tx=tx) == "accepted"
        assert inbox.accept("1", Paid(1), tx=tx) == "duplicate"
        assert inbox.accept("1", Paid(2), tx=tx) == "conflict"
        raise ZeroDivisionError
    with app.transaction() as tx:
        assert inbox.accept("1", Paid(3), tx=tx) == "accepted"
        assert inbox.accept("1", Paid(4), tx=tx) == "conflict"
    kit.drain()
    assert rows(app) == [("payments/1", 3)]


def test_an_id_says_what_became_of_it(app: App, kit: Kit) -> None:
    inbox = handled(app)
    assert inbox.message("1") is None
    inbox.accept("1", Paid(1))
    message = inbox.message("1")
    assert message is not None
    assert (message.state, message.key) == ("pending", "1")
    kit.drain()
    ended = inbox.message("1")
    assert ended is not None
    assert (ended.id, ended.state) == (message.id, "done")
    assert inbox.message("2") is None


def test_the_id_is_the_key(app: App, kit: Kit) -> None:
    for wrong in ({"key": "k"}, {"unique": "k"}):
        with pytest.raises(InvalidArgument, match="key"):
            handled(app, str(wrong)).accept("1", Paid(1), **wrong)  # type: ignore[arg-type]


# ---- one commit ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("point", "attempts"), [("claimed", 2), ("handled", 2), ("committed", 1)])
def test_rows_and_the_end_are_one_commit_wherever_the_worker_dies(
    app: App, kit: Kit, point: Point, attempts: int
) -> None:
    inbox = handled(app)
    inbox.accept("1", Paid(1))
    with kit.crash_at(point, "payments"):
        kit.drain(until_idle=True)
    assert rows(app) == [("payments/1", 1)]
    assert only(kit, "done").attempt == attempts
    assert inbox.accept("1", Paid(1)) == "duplicate"


def test_what_follows_is_part_of_it(app: App, kit: Kit) -> None:
    """A job and a delivery: if the handler fails after them, there are none."""
    receipts = app.outbox("receipt", int)
    sent: list[int] = []
    inbox = app.inbox("payments", Paid, backoff=AT_ONCE)

    @receipts.handler
    def deliver(d: fencepost.Delivery[int]) -> None:
        sent.append(d.payload)

    @inbox.handler
    def paid(ctx: Context, event: Paid) -> None:
        receipts.send("d", event.order, key=f"receipt:{event.order}", tx=ctx.tx)
        if ctx.attempt == 1:
            raise OSError

    inbox.accept("1", Paid(1))
    kit.drain(until_idle=True)
    assert sent == [1]
    assert {message.attempt for message in kit.store.messages("done")} == {1, 2}


def test_a_lease_that_has_run_out_ends_nothing_though_nobody_took_it(app: App, kit: Kit) -> None:
    """Strict, as jobs are not: its rows are rolled back with its end."""
    inbox = app.inbox("payments", Paid, lease=30)

    @inbox.handler
    def paid(ctx: Context, event: Paid) -> None:
        if ctx.attempt == 1:
            kit.advance(31)
        ctx.tx.execute("INSERT INTO paid VALUES ('late', ?)", [ctx.attempt])

    inbox.accept("1", Paid(1))
    kit.drain(until_idle=True)
    assert rows(app) == [("late", 2)]
    assert only(kit, "done").attempt == 2


def test_what_cannot_be_read_is_a_dead_letter_and_delays_nobody(app: App, kit: Kit) -> None:
    """It still answers under its id; replayed, it is the same message."""
    inbox = handled(app)
    assert inbox.accept("1", b'{"order": "seven"}') == "accepted"
    inbox.accept("2", Paid(2))
    kit.drain()
    failure = only(kit, "dead").failure
    assert failure is not None
    assert failure.kind == "undecodable"
    assert rows(app) == [("payments/2", 2)]
    assert inbox.accept("1", b'{"order": "seven"}') == "duplicate"
    assert inbox.accept("1", Paid(7)) == "conflict"


def test_attempts_end_at_ten_by_default(app: App, kit: Kit) -> None:
    inbox = app.inbox("payments", Paid, backoff=AT_ONCE)

    @inbox.handler
    def paid(ctx: Context, event: Paid) -> None:
        raise OSError

    inbox.accept("1", Paid(1))
    kit.drain(until_idle=True)
    assert only(kit, "dead").attempt == 10


async def test_a_coroutine_may_handle() -> None:
    app = App()
    inbox = app.inbox("payments", Paid)
    seen: list[Paid] = []

    @inbox.handler
    async def paid(ctx: Context, event: Paid) -> None:
        seen.append(event)

    with override(app) as kit:
        inbox.accept("1", Paid(1))
        assert (await kit.adrain()).done == 1
    assert seen == [Paid(1)]


def test_what_is_around_jobs_is_around_receipts(app: App, kit: Kit) -> None:
    from contextlib import contextmanager

    entered: list[str | None] = []

    @contextmanager
    def around(ctx: Context) -> Iterator[None]:
        entered.append(ctx.key)
        yield

    app.around(around)
    handled(app).accept("1", Paid(1))
    kit.drain()
    assert entered == ["1"]


# ---- completed elsewhere -------------------------------------------------------------------------


def test_its_return_is_not_its_end_where_it_completes_elsewhere(app: App, kit: Kit) -> None:
    """The rows are there, the message is held; the word of the host ends it, once."""
    inbox = app.inbox("payments", Paid, lease=30)
    held: list[tuple[str, int]] = []

    @inbox.handler(settle="completed", timeout=60)
    def paid(ctx: Context, event: Paid) -> None:
        ctx.tx.execute("INSERT INTO paid VALUES ('begun', ?)", [ctx.attempt])
        held.append((str(ctx.key), ctx.token))

    inbox.accept("1", Paid(1))
    kit.drain()
    assert rows(app) == [("begun", 1)]
    ((id_, token),) = held
    assert only(kit, "leased").key == id_
    assert not inbox.complete(id_, token + 1)
    assert not inbox.complete("2", token)
    assert inbox.complete(id_, token)
    assert inbox.complete(id_, token)
    assert only(kit, "done").attempt == 1


def test_a_host_that_failed_has_it_tried_again(app: App, kit: Kit) -> None:
    inbox = app.inbox("payments", Paid, backoff=AT_ONCE)
    tokens: list[int] = []

    @inbox.handler(settle="completed")
    def paid(ctx: Context, event: Paid) -> None:
        tokens.append(ctx.token)

    inbox.accept("1", Paid(1))
    kit.drain()
    assert inbox.complete("1", tokens[0], error="no such order")
    failure = only(kit, "pending").failure
    assert failure == ("completion_failed", None, "no such order")
    kit.drain()
    assert not inbox.complete("1", tokens[0])
    assert inbox.complete("1", tokens[1])
    assert only(kit, "done").attempt == 2


def test_a_host_that_is_too_late_ends_nothing(app: App, kit: Kit) -> None:
    inbox = app.inbox("payments", Paid, lease=30)
    tokens: list[int] = []

    @inbox.handler(settle="completed")
    def paid(ctx: Context, event: Paid) -> None:
        tokens.append(ctx.token)

    inbox.accept("1", Paid(1))
    kit.drain()
    kit.advance(timedelta(seconds=31))
    assert not inbox.complete("1", tokens[0])
    kit.drain()
    assert inbox.complete("1", tokens[1])


def test_there_are_two_ways_to_settle(app: App) -> None:
    inbox = app.inbox("payments", Paid)
    with pytest.raises(InvalidArgument, match="settle"):
        inbox.handler(settle="later")  # type: ignore[call-overload]
    inbox.handler(lambda ctx, event: None)
    with pytest.raises(InvalidArgument, match="handler already"):
        inbox.handler(settle="completed")(lambda ctx, event: None)


# ---- two processes -------------------------------------------------------------------------------


def test_h11_two_processes_accept_one_message_once(
    tmp_path: Path, elsewhere: Callable[[str], str], path: Path
) -> None:
    """Each tries all; each id is accepted by one of them, and a duplicate for the other."""
    app = App(path)
    inbox = app.inbox("payments", int)
    program = """
import json
inbox = fencepost.App(path).inbox("payments", int)
print(json.dumps([inbox.accept(str(n), n) for n in range(50)]))
"""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        answers = [json.loads(said) for said in pool.map(elsewhere, [program] * 2)]
    assert all(sorted(pair) == ["accepted", "duplicate"] for pair in zip(*answers, strict=True))
    assert inbox.accept("7", 8) == "conflict"
    assert app.store.stats()["totals"]["pending"] == 50
    app.store.close()
