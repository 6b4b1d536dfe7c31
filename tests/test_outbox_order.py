"""Outboxes: in which order, in an outage, by coroutines; and what an operator says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import fencepost
from fencepost import (
    App,
    Backoff,
    Delivery,
    DeliveryUnknown,
    InvalidArgument,
)
from fencepost.testing import Kit, Point
from harness_outbox import Receipt, Sent, handled, only, orders, raising

# ---- order, and outages --------------------------------------------------------------------------


def test_nobody_overtakes_a_failed_one_of_its_lane(app: App, kit: Kit) -> None:
    outbox, sent = handled(
        app, raising(OSError(), None, OSError(), None, None), backoff=Backoff(60, 1, 60, 0)
    )
    for order, lane in ((1, "a"), (2, "a"), (3, "b")):
        outbox.send("d", Receipt(order), lane=lane)
    kit.drain()
    assert orders(sent) == [1, 3]
    kit.drain(until_idle=True)
    assert orders(sent) == [1, 3, 1, 1, 2]
    assert len(kit.store.messages("done")) == 3


def test_a_lane_halts_behind_an_unknown_one_until_it_is_confirmed(app: App, kit: Kit) -> None:
    outbox, sent = handled(app, raising(DeliveryUnknown(), None, None), on_dead="halt")
    for order, lane in ((1, "a"), (2, "a"), (3, "b")):
        outbox.send("d", Receipt(order), lane=lane)
    kit.drain(until_idle=True)
    assert orders(sent) == [1, 3]
    assert kit.store.confirm(kit.store.messages("unknown"), note="they have it") == 1
    kit.drain()
    assert orders(sent) == [1, 3, 2]


def test_an_outage_for_everybody_uses_up_nobodys_attempts(app: App, kit: Kit) -> None:
    later = fencepost.RetryLater("503", delay=60, whole_queue=True)
    outbox, sent = handled(app, raising(later, None, None, None), max_attempts=1)
    for order in (1, 2, 3):
        outbox.send("d", Receipt(order))
    kit.drain()
    assert orders(sent) == [1]
    assert [message.attempt for message in kit.store.messages("pending")] == [0, 0, 0]
    kit.drain(until_idle=True)
    assert sorted(orders(sent[1:])) == [1, 2, 3]
    assert all(d.attempt == 1 for d in sent)


# ---- coroutines ----------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [None, DeliveryUnknown(), asyncio.CancelledError()])
def test_a_coroutine_sends_by_the_same_rules(
    app: App, kit: Kit, error: BaseException | None
) -> None:
    outbox = app.outbox("receipt", Receipt)
    sent: Sent = []

    @outbox.handler
    async def deliver(d: Delivery[Receipt]) -> None:
        sent.append(d)
        await asyncio.sleep(0)
        if error is not None:
            raise error

    outbox.send("d", Receipt(1))
    kit.drain(until_idle=True)
    assert only(kit, "done" if error is None else "unknown").attempt == len(sent) == 1


@pytest.mark.parametrize("point", ["claimed", "begun", "sent"])
def test_a_coroutines_worker_dies_by_the_same_rules(app: App, kit: Kit, point: Point) -> None:
    outbox = app.outbox("receipt", Receipt)
    sent: Sent = []

    @outbox.handler
    async def deliver(d: Delivery[Receipt]) -> None:
        sent.append(d)

    outbox.send("d", Receipt(1))
    with kit.crash_at(point):
        kit.drain(until_idle=True)
    assert len(sent) == (0 if point == "begun" else 1)
    assert only(kit, "done" if point == "claimed" else "unknown")


# ---- operators -----------------------------------------------------------------------------------


@pytest.fixture
def doubtful(app: App, kit: Kit) -> tuple[Any, Sent]:
    """Three unknown ones; whoever is sent again arrives."""
    unknown = [DeliveryUnknown("timed out")] * 3
    outbox, sent = handled(app, raising(*unknown, None, None, None), max_attempts=1)
    for order in (1, 2, 3):
        outbox.send("d", Receipt(order))
    kit.drain()
    return outbox, sent


def test_operators_confirm_or_retry_one_or_many(
    app: App, kit: Kit, doubtful: tuple[Any, Sent]
) -> None:
    """Confirmed is never sent; retried is the same event, with an attempt of its own."""
    _, sent = doubtful
    first, *others = sorted(kit.store.messages("unknown"))
    assert kit.store.confirm([first], note="seen there") == 1
    assert [answer.outcome for answer in kit.store.replay(others)] == ["replayed"] * 2
    kit.drain(until_idle=True)
    assert sorted(orders(sent)) == [1, 2, 2, 3, 3]
    assert len({d.event_id for d in sent}) == 3
    assert {message.state for message in map(kit.store.message, range(1, 8)) if message} == {"done"}
    confirmed = kit.store.message(first.id)
    assert confirmed is not None
    assert confirmed.failure == ("confirmed", None, "seen there")


def test_a_word_fits_only_what_was_listed(app: App, kit: Kit, doubtful: tuple[Any, Sent]) -> None:
    listed = kit.store.messages("unknown")
    assert kit.store.confirm(listed[:1]) == 1
    assert kit.store.confirm(listed) == 2
    assert [answer.outcome for answer in kit.store.replay(listed)] == ["not dead"] * 3


def test_a_note_is_text_of_a_thousand_bytes(app: App, kit: Kit, doubtful: tuple[Any, Sent]) -> None:
    for note in ("x" * 1001, 7):
        with pytest.raises(InvalidArgument, match="note"):
            kit.store.confirm(kit.store.messages("unknown"), note=note)  # type: ignore[arg-type]
    assert len(kit.store.messages("unknown")) == 3
