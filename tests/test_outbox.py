"""Outboxes: what is sent, how often, and what nobody can answer for."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

import fencepost
from fencepost import (
    App,
    Delivery,
    DeliveryUnknown,
    InvalidArgument,
)
from fencepost._binding.calls import FP
from fencepost._binding.pack import Put
from fencepost._worker import failpoints
from fencepost.testing import Kit, Point, override
from harness_core import lib
from harness_outbox import Receipt, handled, only, orders, raising

# ---- what is handed over -------------------------------------------------------------------------


def test_a_delivery_says_what_where_and_which(app: App, kit: Kit) -> None:
    outbox, sent = handled(app)
    id_ = outbox.send("https://a.example/in", Receipt(1), headers={"x-tenant": "7"}).id
    assert kit.drain().done == 1
    (d,) = sent
    assert (d.payload, d.destination, d.attempt) == (Receipt(1), "https://a.example/in", 1)
    uuid = d.event_id.removesuffix(f"-{id_}")
    assert d.headers == {
        "x-tenant": "7",
        "ce-id": d.event_id,
        "ce-source": f"urn:uuid:{uuid}",
        "ce-type": "receipt",
        "ce-time": d.enqueued_at.isoformat(),
        "ce-specversion": "1.0",
    }
    assert only(kit, "done").id == id_


def test_its_own_headers_may_say_where_the_event_is_from(app: App, kit: Kit) -> None:
    """Only what tells events apart, and how to read them, is not for the caller to say."""
    outbox, sent = handled(app)
    outbox.send("d", Receipt(1), headers={"ce-source": "/shop", "ce-id": "mine"})
    kit.drain()
    assert sent[0].headers["ce-source"] == "/shop"
    assert sent[0].headers["ce-id"] == sent[0].event_id != "mine"


def test_event_ids_are_of_one_file(app: App, kit: Kit, tmp_path: Path) -> None:
    outbox, sent = handled(app)
    outbox.send("d", Receipt(1))
    kit.drain()
    with override(app, tmp_path / "other.db") as other:
        outbox.send("d", Receipt(1))
        other.drain()
    first, second = sent
    assert first.id == second.id
    assert first.event_id != second.event_id


def test_what_is_rolled_back_is_not_sent(app: App, kit: Kit) -> None:
    outbox, sent = handled(app)
    with pytest.raises(ZeroDivisionError), app.transaction() as tx:
        outbox.send("d", Receipt(1), tx=tx)
        raise ZeroDivisionError
    with app.transaction() as tx:
        outbox.send("d", Receipt(2), tx=tx)
    kit.drain()
    assert orders(sent) == [2]


def test_a_key_is_one_message_to_one_destination(app: App, kit: Kit) -> None:
    outbox, sent = handled(app)
    first = outbox.send("d", Receipt(1), key="k")
    assert outbox.send("d", Receipt(1), key="k") == (first.id, False)
    for destination, receipt in (("e", Receipt(1)), ("d", Receipt(2))):
        with pytest.raises(fencepost.Conflict):
            outbox.send(destination, receipt, key="k")
    kit.drain()
    assert outbox.send("d", Receipt(1), key="k") == (first.id, False)
    kit.drain()
    assert orders(sent) == [1]


def test_the_destination_is_no_header_of_the_callers(app: App, kit: Kit) -> None:
    outbox, _ = handled(app)
    with pytest.raises(InvalidArgument, match="destination"):
        outbox.send("d", Receipt(1), headers={"fencepost-destination": "e"})


def test_a_message_without_a_destination_is_a_dead_letter(app: App, kit: Kit) -> None:
    """Somebody put it there as if this were a queue; the others flow."""
    outbox, sent = handled(app)
    outbox.send("d", Receipt(1))
    kit.drain()
    queue = kit.store._file.find("receipt")
    kit.store._file.core.enqueue(None, Put(queue, [b'{"order":2}']))
    kit.drain()
    failure = only(kit, "dead").failure
    assert failure is not None
    assert failure.kind == "undecodable"
    assert orders(sent) == [1]


# ---- begun, and what is said of it ---------------------------------------------------------------


def test_that_it_begins_is_in_the_file_before_the_handler_is_called(app: App, kit: Kit) -> None:
    seen: list[int] = []

    def look(d: Delivery[Receipt]) -> None:
        seen.append(int.from_bytes(kit.store._file.core.get(None, d.id).records[24:32], "little"))

    outbox, _ = handled(app, look)
    outbox.send("d", Receipt(1))
    kit.drain()
    assert seen == [FP.BEGUN]


def test_an_exception_is_the_word_that_nothing_arrived(app: App, kit: Kit) -> None:
    """It is tried again, as the same event; each attempt counts."""
    outbox, sent = handled(app, raising(OSError("no route"), OSError("no route"), None))
    outbox.send("d", Receipt(1))
    kit.drain()
    assert [d.attempt for d in sent] == [1, 2, 3]
    assert len({d.event_id for d in sent}) == 1
    assert only(kit, "done").attempt == 3


def test_what_fails_to_the_last_is_a_dead_letter(app: App, kit: Kit) -> None:
    outbox, sent = handled(app, raising(*[OSError()] * 2), max_attempts=2)
    outbox.send("d", Receipt(1))
    assert kit.drain().dead == 1
    assert len(sent) == 2


def test_permanent_means_what_it_says(app: App, kit: Kit) -> None:
    outbox, _ = handled(app, raising(fencepost.PermanentError("no such address", code="410")))
    outbox.send("d", Receipt(1))
    assert kit.drain().dead == 1
    assert only(kit, "dead").failure == ("error", "410", "no such address")


@pytest.mark.parametrize("error", [DeliveryUnknown("timed out"), SystemExit(), GeneratorExit()])
def test_what_nobody_can_answer_for_is_never_sent_again(
    app: App, kit: Kit, error: BaseException
) -> None:
    outbox, sent = handled(app, raising(error))
    outbox.send("d", Receipt(1))
    kit.drain(until_idle=True)
    kit.advance(timedelta(days=30))
    kit.drain(until_idle=True)
    message = only(kit, "unknown")
    assert message.failure is not None
    assert message.failure.code == type(error).__name__
    assert len(sent) == 1


@pytest.mark.parametrize(
    ("point", "ends", "sends"), [("claimed", "done", 1), ("begun", "unknown", 0)]
)
def test_where_the_worker_dies_says_what_is_known(
    app: App, kit: Kit, point: Point, ends: fencepost.State, sends: int
) -> None:
    """Before it has begun nothing was sent, and it is tried again; after that nobody knows."""
    outbox, sent = handled(app)
    outbox.send("d", Receipt(1))
    with kit.crash_at(point, "receipt"):
        kit.drain(until_idle=True)
    assert only(kit, ends).attempt == (2 if ends == "done" else 1)
    assert len(sent) == sends


def test_sent_and_not_marked_is_unknown(app: App, kit: Kit) -> None:
    """The worker dies between the handler's return and the mark: never sent again by itself."""
    outbox, sent = handled(app)
    outbox.send("d", Receipt(1))
    with kit.crash_at("sent", "receipt"):
        kit.drain(until_idle=True)
    assert only(kit, "unknown").failure == (
        "worker_lost",
        None,
        "its worker was lost after it had begun",
    )
    assert len(sent) == 1


def test_by_name_it_is_sent_again_as_the_same_event(app: App, kit: Kit) -> None:
    outbox, sent = handled(app, on_unknown="retry")
    outbox.send("d", Receipt(1), headers={"h": "1"})
    with kit.crash_at("sent", "receipt"):
        kit.drain(until_idle=True)
    first, second = sent
    assert (first.event_id, first.headers) == (second.event_id, second.headers)
    assert (first.attempt, second.attempt) == (1, 2)
    assert only(kit, "done").attempt == 2


def test_by_name_what_nobody_can_answer_for_is_another_attempt(app: App, kit: Kit) -> None:
    """Whoever doubts it, the handler or what broke into it; a dead letter when they are used up."""
    doubts = (DeliveryUnknown("timed out"), SystemExit(), DeliveryUnknown("again"))
    outbox, sent = handled(app, raising(*doubts), on_unknown="retry", max_attempts=3)
    outbox.send("d", Receipt(1))
    kit.drain(until_idle=True)
    assert [d.attempt for d in sent] == [1, 2, 3]
    assert len({d.event_id for d in sent}) == 1
    failure = only(kit, "dead").failure
    assert failure is not None
    assert (failure.code, failure.text) == ("DeliveryUnknown", "again")


def test_an_object_may_be_the_handler(app: App, kit: Kit) -> None:
    """Also one whose call is a coroutine. It is given the bytes, too, as they are in the file."""

    class Relay:
        async def __call__(self, d: Delivery[Receipt]) -> None:
            await asyncio.sleep(0)
            bodies.append(d.body)

    bodies: list[bytes] = []
    outbox = app.outbox("receipt", Receipt)
    outbox.handler(Relay())
    outbox.send("d", Receipt(1))
    kit.drain()
    assert bodies == [b'{"order":1}']
    assert only(kit, "done").attempt == 1


@pytest.mark.hostile
def test_what_cannot_be_begun_is_not_sent_and_uses_no_attempt(app: App, kit: Kit) -> None:
    outbox, sent = handled(app)
    outbox.send("d", Receipt(1))
    with failing_at("claimed"):
        assert kit.drain().retried == 1
    assert sent == []
    assert only(kit, "pending").attempt == 0
    kit.drain(until_idle=True)
    assert [d.attempt for d in sent] == [1]


@pytest.mark.hostile
def test_a_mark_that_cannot_be_written_is_written_later(app: App, kit: Kit) -> None:
    outbox, sent = handled(app)
    outbox.send("d", Receipt(1))
    with failing_at("sent"):
        kit.drain()
    assert only(kit, "done").attempt == len(sent) == 1


class failing_at:  # noqa: N801 - read as a phrase
    """The first step behind a point fails."""

    def __init__(self, point: Point) -> None:
        self._point = point

    def __enter__(self) -> None:
        def arm(point: Point, name: str) -> None:
            if point == self._point:
                lib.fp_fault_step(0, 1)

        self._unwatch = failpoints.watch(arm)

    def __exit__(self, *exc: object) -> None:
        self._unwatch()
        assert lib.fp_fault_hits() == 1
        lib.fp_fault_step(-1, 0)


def test_what_was_taken_back_before_it_begins_is_not_sent(app: App, kit: Kit) -> None:
    """Whoever has lost the claim learns it where the send begins."""
    outbox, sent = handled(app)
    outbox.send("d", Receipt(1))

    def cancel(point: Point, name: str) -> None:
        if point == "claimed":
            assert kit.store.cancel(kit.store.messages("leased")) == 1

    unwatch = failpoints.watch(cancel)
    kit.drain()
    unwatch()
    assert sent == []
    assert only(kit, "cancelled")


# ---- a transaction at the end --------------------------------------------------------------------


def test_rows_written_after_the_answer_are_one_commit_with_the_mark(app: App, kit: Kit) -> None:
    def note(d: Delivery[Receipt]) -> None:
        d.tx.execute("INSERT INTO answered VALUES (?)", [d.event_id])

    outbox, sent = handled(app, note)
    with app.transaction() as tx:
        tx.execute("CREATE TABLE answered (id TEXT)")
        outbox.send("d", Receipt(1), tx=tx)
    kit.drain()
    with app.transaction() as tx:
        assert tx.execute("SELECT id FROM answered") == [(sent[0].event_id,)]
    assert only(kit, "done").attempt == 1


@pytest.mark.parametrize(("commits", "ends"), [(True, "done"), (False, "unknown")])
def test_an_ack_in_a_transaction_of_ones_own_is_its_end_if_that_is_there(
    app: App, kit: Kit, commits: bool, ends: fencepost.State
) -> None:
    """If it is not, the message has arrived all the same: it is not sent again by itself."""

    def note(d: Delivery[Receipt]) -> None:
        with suppress(ZeroDivisionError), app.transaction() as tx:
            d.ack(tx=tx)
            if not commits:
                raise ZeroDivisionError

    outbox, sent = handled(app, note)
    outbox.send("d", Receipt(1))
    kit.drain(until_idle=True)
    assert only(kit, ends).attempt == len(sent) == 1


def test_rows_that_cannot_be_committed_make_it_unknown() -> None:
    """It arrived, and what was to be noted of it was not: sent again it must not be."""

    def note(d: Delivery[Receipt]) -> None:
        d.tx.execute("INSERT INTO answered VALUES (7)")

    strict = App(foreign_keys=True)
    outbox, sent = handled(strict, note)
    with override(strict) as kit:
        with strict.transaction() as tx:
            tx.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
            tx.execute("CREATE TABLE answered (id REFERENCES orders DEFERRABLE INITIALLY DEFERRED)")
        outbox.send("d", Receipt(1))
        kit.drain(until_idle=True)
        assert only(kit, "unknown").attempt == len(sent) == 1


# ---- declaring -----------------------------------------------------------------------------------


def test_a_topic_is_the_name_of_its_queue_and_nobody_elses(app: App) -> None:
    app.outbox("receipt", Receipt)
    with pytest.raises(InvalidArgument, match="declared already"):
        app.queue("receipt", Receipt)
    with pytest.raises(InvalidArgument, match="Outbox"):
        app.job(queue="receipt")(lambda: None)


def test_an_outbox_has_one_handler(app: App) -> None:
    outbox, _ = handled(app)
    with pytest.raises(InvalidArgument, match="handler already"):
        outbox.handler(lambda d: None)
