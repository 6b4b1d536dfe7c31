"""Contracts: payload types by stable names, told apart by what an envelope says."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost import App, Context, Contracts, Envelope, Inbox, InvalidArgument
from fencepost.testing import Kit
from harness_envelopes import DECLINED, Paid, Refunded, dead, put_by_hand, why
from harness_worker import AT_ONCE

CONTRACTS = Contracts[Paid | Refunded]({"paid.v1": Paid, "refunded.v1": Refunded})


@pytest.fixture
def seen() -> list[Any]:
    return []


@pytest.fixture
def several(app: App, kit: Kit, seen: list[Any]) -> Inbox[Paid | Refunded]:
    inbox = app.inbox("several", CONTRACTS, backoff=AT_ONCE)

    @inbox.handler
    def came(ctx: Context, event: Paid | Refunded) -> None:
        seen.append((ctx.envelope.contract, event))

    return inbox


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
