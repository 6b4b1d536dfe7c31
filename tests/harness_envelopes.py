"""What tests of envelopes and contracts have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fencepost import Fault, Inbox, Message
from fencepost._enqueue import entry, put_entries, sending
from fencepost._plans import here
from fencepost.testing import Kit

DECLINED = Fault("declined", "no cover", "bank", transient=True, details={"b": [1, 2], "a": 1.0})


@dataclass
class Paid:
    order: int


@dataclass
class Refunded:
    order: int
    cents: int


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
