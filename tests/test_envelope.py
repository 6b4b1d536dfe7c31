"""Envelopes and contracts: what stands around a payload, and what its type is found by."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from fencepost import (
    App,
    Backoff,
    Context,
    Contracts,
    Delivery,
    Envelope,
    Fault,
    Inbox,
    InvalidArgument,
    Message,
    PayloadError,
)
from fencepost._enqueue import entry, put_entries, sending
from fencepost._plans import here
from fencepost.envelope import HEADER
from fencepost.testing import Kit

AT_ONCE = Backoff(0, 1, 0, 0)
SENT = datetime(2026, 3, 1, 9, 30, 0, 123456, tzinfo=timezone(timedelta(hours=5, minutes=30)))
WHOLE = Envelope("paid.v1", "trace-1", "order-7", "message-3", SENT, 700)
DECLINED = Fault("declined", "no cover", "bank", transient=True, details={"b": [1, 2], "a": 1.0})


@dataclass
class Paid:
    order: int


@dataclass
class Refunded:
    order: int
    cents: int


CONTRACTS = Contracts[Paid | Refunded]({"paid.v1": Paid, "refunded.v1": Refunded})


@pytest.fixture
def app() -> App:
    return App()


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


@pytest.fixture
def several(app: App, kit: Kit, seen: list[Any]) -> Inbox[Paid | Refunded]:
    inbox = app.inbox("several", CONTRACTS, backoff=AT_ONCE)

    @inbox.handler
    def came(ctx: Context, event: Paid | Refunded) -> None:
        seen.append((ctx.envelope.contract, event))

    return inbox


def put_by_hand(kit: Kit, inbox: Inbox[Any], headers: dict[str, str]) -> None:
    """As somebody does who knows the table and not the rules."""
    file = kit.store._file
    one = entry(b'{"order": 1}', {"key": "by hand", "headers": headers})
    here(sending(file, inbox._declaration, put_entries(file, [one])))


def dead(kit: Kit) -> Message:
    (message,) = kit.store.messages("dead")
    return message


def why(kit: Kit) -> str:
    failure = dead(kit).failure
    assert failure is not None
    return failure.kind


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


@pytest.mark.parametrize("text", ["{", '{"version": 1, "trace": 7}', "7", "{}"])
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


# ---- contracts -----------------------------------------------------------------------------------


def test_a_payload_is_accepted_under_the_name_of_its_class(
    several: Inbox[Paid | Refunded], kit: Kit, seen: list[Any]
) -> None:
    several.accept("1", Paid(1))
    several.accept("2", Refunded(1, 5))
    assert several.accept("1", b'{"order":1}', envelope=Envelope("paid.v1")) == "duplicate"
    assert several.accept("1", b'{"order":1}', envelope=Envelope("refunded.v1")) == "conflict"
    several.accept("3", b'{"order": 2, "cents": 3}', envelope=Envelope("refunded.v1"))
    kit.drain()
    assert seen == [
        ("paid.v1", Paid(1)),
        ("refunded.v1", Refunded(1, 5)),
        ("refunded.v1", Refunded(2, 3)),
    ]


def test_a_class_without_a_name_is_refused_before_it_is_written(
    several: Inbox[Any], kit: Kit
) -> None:
    wrong: list[tuple[Any, Envelope]] = [
        ({"order": 1}, Envelope()),
        ({"order": 1}, Envelope("paid.v1")),
        (Paid(1), Envelope("refunded.v1")),
        (b'{"order": 1}', Envelope()),
    ]
    for payload, envelope in wrong:
        with pytest.raises(InvalidArgument):
            several.accept("1", payload, envelope=envelope)
    assert several.message("1") is None


def test_an_unknown_name_is_a_dead_letter_and_delays_nobody(
    several: Inbox[Paid | Refunded], kit: Kit, seen: list[Any]
) -> None:
    """Its bytes are kept: a worker that knows the name handles it when it is replayed."""
    several.accept("1", b'{"order": 1}', envelope=Envelope("paid.v2"))
    several.accept("2", Paid(2))
    kit.drain()
    assert seen == [("paid.v1", Paid(2))]
    assert why(kit) == "unknown_contract"
    assert dead(kit).attempt == 1
    assert kit.store.content(dead(kit).id).body == b'{"order": 1}'


def test_a_message_without_a_name_is_one_of_no_contract(several: Inbox[Any], kit: Kit) -> None:
    put_by_hand(kit, several, {})
    kit.drain()
    assert why(kit) == "unknown_contract"


def test_a_payload_that_is_not_its_contracts_is_a_dead_letter(
    several: Inbox[Any], kit: Kit
) -> None:
    several.accept("1", b'{"order": "one"}', envelope=Envelope("paid.v1"))
    kit.drain()
    assert why(kit) == "undecodable"


def test_a_fault_needs_no_contract(several: Inbox[Any], kit: Kit) -> None:
    several.accept("1", None, envelope=Envelope(fault=DECLINED))
    kit.drain()
    assert why(kit) == "fault"


@pytest.mark.parametrize(
    "types",
    [{}, [Paid], {"a": Paid, "b": Paid}, {" a": Paid}, {"": Paid}, {7: Paid}, {"a": "Paid"}],
    ids=repr,
)
def test_contracts_are_classes_by_name_each_once(types: Any) -> None:
    with pytest.raises(InvalidArgument):
        Contracts(types)


def test_a_contract_that_cannot_be_decoded_is_refused_where_it_is_declared(app: App) -> None:
    class Odd:
        pass

    with pytest.raises(InvalidArgument, match="cannot be decoded"):
        app.inbox("odd", Contracts({"odd": Odd}))


def test_the_list_of_contracts_cannot_be_changed() -> None:
    types = {"paid.v1": Paid}
    contracts = Contracts(types)
    types["more"] = Refunded  # type: ignore[assignment]
    assert contracts.types == {"paid.v1": Paid}


# ---- the window ----------------------------------------------------------------------------------


def test_an_inbox_says_for_how_long_it_knows_an_id(app: App, kit: Kit) -> None:
    """Also before the first message, and the same as `stats`."""
    assert app.inbox("a", int).dedupe_window == 7 * 86_400
    assert app.inbox("b", int, keep=30 * 86_400).dedupe_window == 30 * 86_400
    assert app.inbox("c", int, key_window=60).dedupe_window == 60
    told = kit.store.stats()["queues"]
    assert {name: told[name]["dedupe_window"] for name in "abc"} == {
        "a": 7 * 86_400,
        "b": 30 * 86_400,
        "c": 60,
    }
