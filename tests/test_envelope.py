"""Envelopes: what stands around a payload, and how it is carried, compared and read."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from fencepost import (
    App,
    Context,
    Delivery,
    Envelope,
    Fault,
    Inbox,
    InvalidArgument,
    PayloadError,
)
from fencepost.envelope import HEADER
from fencepost.testing import Kit
from harness_envelopes import DECLINED, Paid, dead, put_by_hand, why
from harness_worker import AT_ONCE

SENT = datetime(2026, 3, 1, 9, 30, 0, 123456, tzinfo=timezone(timedelta(hours=5, minutes=30)))
WHOLE = Envelope("paid.v1", "trace-1", "order-7", "message-3", SENT, 700)


@pytest.fixture
def seen() -> list[Any]:
    return []


@pytest.fixture
def payments(app: App, kit: Kit, seen: list[Any]) -> Inbox[Paid]:
    """Its handler notes envelope, headers and payload."""
    inbox = app.inbox("payments", Paid, backoff=AT_ONCE)

    @inbox.handler
    def paid(ctx: Context, event: Paid) -> None:
        seen.append((ctx.envelope, dict(ctx.headers), event))

    return inbox


# ---- what stands around a payload ----------------------------------------------------------------


def test_an_envelope_comes_out_as_it_went_in(
    payments: Inbox[Paid], kit: Kit, seen: list[Any]
) -> None:
    """The moment with its offset and its last digit; headers are beside it."""
    assert payments.accept("1", Paid(7), envelope=WHOLE, headers={"h": "1"}) == "accepted"
    kit.drain()
    ((envelope, headers, event),) = seen
    assert (envelope, headers, event) == (WHOLE, {"h": "1"}, Paid(7))
    assert envelope.sent_at.utcoffset() == timedelta(hours=5, minutes=30)
    assert envelope.sent_at.isoformat() == SENT.isoformat()


def test_what_has_none_has_an_empty_one(payments: Inbox[Paid], kit: Kit, seen: list[Any]) -> None:
    payments.accept("1", Paid(7))
    kit.drain()
    assert seen == [(Envelope(), {}, Paid(7))]


def test_it_is_looked_up_with_the_content(payments: Inbox[Paid], kit: Kit) -> None:
    """Of a dead letter, too; no listing shows it."""
    payments.accept("1", b'"no payment"', envelope=WHOLE)
    kit.drain()
    assert "order-7" not in repr(kit.store.messages("dead"))
    assert Envelope.of(kit.store.content(dead(kit).id).headers) == WHOLE


@pytest.mark.parametrize(
    "other",
    [
        WHOLE._replace(contract="paid.v2"),
        WHOLE._replace(trace="trace-2"),
        WHOLE._replace(correlation=None),
        WHOLE._replace(causation="message-4"),
        WHOLE._replace(nanoseconds=701),
        WHOLE._replace(sent_at=SENT + timedelta(microseconds=1)),
        WHOLE._replace(sent_at=SENT.astimezone(timezone.utc)),
        WHOLE._replace(version=2),
        Envelope(),
    ],
    ids=repr,
)
def test_all_of_it_is_compared(payments: Inbox[Paid], other: Envelope) -> None:
    """The same is a duplicate; anything else under the id is a conflict, and changes nothing."""
    payments.accept("1", Paid(7), envelope=WHOLE)
    assert payments.accept("1", b'{ "order": 7 }', envelope=WHOLE) == "duplicate"
    assert payments.accept("1", Paid(7), envelope=other) == "conflict"


def test_what_is_empty_is_nothing(payments: Inbox[Paid]) -> None:
    payments.accept("1", Paid(7), envelope=Envelope(trace="t"))
    blank = Envelope(trace="t", correlation="", causation="")
    assert payments.accept("1", Paid(7), envelope=blank) == "duplicate"


@pytest.mark.parametrize(
    "wrong",
    [
        "envelope",
        Envelope(contract=" paid"),
        Envelope(contract=""),
        Envelope(contract=7),  # type: ignore[arg-type]
        Envelope(trace="\ud800"),
        Envelope(correlation=7),  # type: ignore[arg-type]
        Envelope(version=0),
        Envelope(nanoseconds=5),
        Envelope(sent_at=SENT, nanoseconds=1000),
        Envelope(sent_at=datetime(2026, 3, 1)),
        Envelope(sent_at=datetime(2026, 3, 1, tzinfo=timezone(timedelta(hours=15)))),
        Envelope(sent_at=datetime(2026, 3, 1, tzinfo=timezone(timedelta(seconds=30)))),
        Envelope(fault="broken"),  # type: ignore[arg-type]
        Envelope(fault=Fault("")),
        Envelope(fault=Fault("f", details=float("nan"))),
        Envelope(fault=Fault("f", details=object())),
    ],
    ids=repr,
)
def test_what_cannot_be_one_is_refused_before_it_is_written(
    payments: Inbox[Paid], kit: Kit, wrong: Any
) -> None:
    payload = Paid(1) if getattr(wrong, "fault", None) is None else None
    with pytest.raises(InvalidArgument):
        payments.accept("1", payload, envelope=wrong)
    assert payments.message("1") is None


def test_its_header_is_its_own_and_names_are_not_blank(payments: Inbox[Paid]) -> None:
    for headers in ({HEADER: "{}"}, {" ": "x"}, {"": "x"}):
        with pytest.raises(InvalidArgument):
            payments.accept("1", Paid(1), headers=headers)


UNREADABLE = [
    "{",
    "7",
    "{}",
    '{"version": 1, "trace": 7}',
    '{"version": 1, "nanoseconds": 5}',
    '{"version": 1, "sent_at": "2026-03-01T12:00:00"}',
    '{"version": 1, "fault": {"code": ""}}',
]


@pytest.mark.parametrize("text", UNREADABLE)
def test_one_that_cannot_be_read_is_a_dead_letter(
    payments: Inbox[Paid], kit: Kit, text: str
) -> None:
    """The one behind it is handled."""
    put_by_hand(kit, payments, {HEADER: text})
    payments.accept("1", Paid(2))
    kit.drain()
    assert why(kit) == "undecodable"
    with pytest.raises(PayloadError):
        Envelope.of({HEADER: text})
    assert len(kit.store.messages("done")) == 1


def test_one_that_was_written_by_hand_is_read(
    payments: Inbox[Paid], kit: Kit, seen: list[Any]
) -> None:
    """As docs/door.md has it: only what there is, and what is new to us beside it."""
    text = '{"version": 1, "trace": "t", "sent_at": "2026-03-01T09:30:00+05:30", "more": 1}'
    put_by_hand(kit, payments, {HEADER: text})
    fault = Envelope.of({HEADER: '{"version": 1, "fault": {"code": "f"}}'}).fault
    kit.drain()
    ((envelope, _, event),) = seen
    assert (envelope.trace, envelope.sent_at.isoformat()) == ("t", "2026-03-01T09:30:00+05:30")
    assert (event, fault) == (Paid(1), Fault("f"))


def test_a_foreign_connection_brings_one_by_the_same_rules(
    payments: Inbox[Paid], kit: Kit, seen: list[Any]
) -> None:
    """In the transaction of another SQLite; what came so is compared with what came otherwise."""
    payments.accept("0", Paid(0), envelope=WHOLE)
    with closing(sqlite3.connect(kit.store.path, isolation_level="IMMEDIATE")) as db:
        db.execute("CREATE TABLE mine (n INT)")
        for id_, again in (("0", "duplicate"), ("1", "accepted")):
            assert payments.accept(id_, Paid(int(id_)), envelope=WHOLE, tx=db) == again
        other = WHOLE._replace(trace="another")
        assert payments.accept("1", Paid(1), envelope=other, tx=db) == "conflict"
        db.commit()
    assert payments.accept("1", Paid(1), envelope=WHOLE) == "duplicate"
    assert payments.accept("1", Paid(1)) == "conflict"
    kit.drain()
    assert [(envelope, event) for envelope, _, event in seen] == [
        (WHOLE, Paid(0)),
        (WHOLE, Paid(1)),
    ]


def test_a_newer_one_is_a_dead_letter(payments: Inbox[Paid], kit: Kit, seen: list[Any]) -> None:
    """Whatever else it says, it is not guessed at; it may be replayed by who knows it."""
    newer = json.dumps({"version": 2, "trace": {"of": "another form"}})
    put_by_hand(kit, payments, {HEADER: newer})
    kit.drain()
    assert (why(kit), seen) == ("unsupported_version", [])


def test_what_follows_belongs_to_what_it_follows(app: App, kit: Kit) -> None:
    """From inbox to outbox: the same trace, caused by the message; out as CloudEvents say it."""
    receipts = app.outbox("receipts", int)
    payments = app.inbox("payments", Paid)
    sent: list[tuple[Envelope, dict[str, str]]] = []

    @payments.handler
    def paid(ctx: Context, event: Paid) -> None:
        following = ctx.envelope.following(str(ctx.key))
        receipts.send("d", event.order, envelope=following, headers={"h": "1"}, tx=ctx.tx)

    @receipts.handler
    def deliver(d: Delivery[int]) -> None:
        sent.append((d.envelope, dict(d.headers)))

    payments.accept("m1", Paid(1), envelope=Envelope(trace="t"))
    payments.accept("m2", Paid(1), envelope=Envelope(correlation="c"))
    kit.drain(until_idle=True)
    (first, headers), (second, _) = sent
    assert first == Envelope(trace="t", correlation="m1", causation="m1")
    assert second == Envelope(correlation="c", causation="m2")
    assert headers["h"] == "1"
    assert HEADER not in headers
    told = (headers["ce-traceparent"], headers["ce-correlationid"], headers["ce-causationid"])
    assert told == ("t", "m1", "m1")


# ---- faults --------------------------------------------------------------------------------------


def test_a_fault_is_for_a_handler_that_asks_for_them(app: App, kit: Kit) -> None:
    inbox = app.inbox("payments", Paid)
    seen: list[Paid | Fault] = []

    @inbox.handler(faults=True)
    def paid(ctx: Context, event: Paid | Fault) -> None:
        seen.append(event)

    inbox.accept("1", Paid(1))
    inbox.accept("2", None, envelope=Envelope(fault=DECLINED))
    assert inbox.accept("2", None, envelope=Envelope(fault=DECLINED)) == "duplicate"
    again = DECLINED._replace(details={"a": 1.0, "b": [1, 2]})
    assert inbox.accept("2", None, envelope=Envelope(fault=again)) == "duplicate"
    for other in (DECLINED._replace(details={"a": 1}), DECLINED._replace(transient=False)):
        assert inbox.accept("2", None, envelope=Envelope(fault=other)) == "conflict"
    kit.drain()
    assert seen == [Paid(1), DECLINED]


def test_a_fault_that_nobody_asked_for_is_a_dead_letter(
    payments: Inbox[Paid], kit: Kit, seen: list[Any]
) -> None:
    payments.accept("1", None, envelope=Envelope(fault=DECLINED))
    kit.drain()
    assert (why(kit), seen) == ("fault", [])


def test_a_fault_has_no_payload(payments: Inbox[Paid]) -> None:
    with pytest.raises(InvalidArgument, match="no payload"):
        payments.accept("1", Paid(1), envelope=Envelope(fault=DECLINED))


# ---- the window ----------------------------------------------------------------------------------


def test_an_inbox_says_for_how_long_it_knows_an_id(app: App, kit: Kit) -> None:
    """Also before the first message, for which nothing is written, and the same as `stats`."""
    assert app.inbox("a", int).dedupe_window == 7 * 86_400
    assert app.inbox("b", int, keep=30 * 86_400).dedupe_window == 30 * 86_400
    assert app.inbox("c", int, key_window=60).dedupe_window == 60
    assert kit.store.stats()["queues"] == {}
    for name, box in app._registry._boxes.items():
        assert isinstance(box, Inbox)
        box.accept(name, 1)
        assert box.dedupe_window == kit.store.stats()["queues"][name]["dedupe_window"]
    told = kit.store.stats()["queues"]
    assert {name: told[name]["dedupe_window"] for name in "abc"} == {
        "a": 7 * 86_400,
        "b": 30 * 86_400,
        "c": 60,
    }
