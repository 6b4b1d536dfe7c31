"""An outbox of receipts, and what its handler is to answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import fencepost
from fencepost import App, Delivery, Message, Outbox
from fencepost.testing import Kit
from harness_worker import AT_ONCE

Sent = list[Delivery["Receipt"]]


@dataclass
class Receipt:
    order: int


def handled(
    app: App, answer: Callable[[Delivery[Receipt]], object] = lambda d: None, **policy: Any
) -> tuple[Outbox[Receipt], Sent]:
    """An outbox, and what its handler was given, in order."""
    outbox = app.outbox("receipt", Receipt, **{"backoff": AT_ONCE, **policy})
    sent: Sent = []

    @outbox.handler
    def deliver(d: Delivery[Receipt]) -> None:
        sent.append(d)
        answer(d)

    return outbox, sent


def only(kit: Kit, state: fencepost.State) -> Message:
    (message,) = kit.store.messages(state)
    return message


def orders(sent: Sent) -> list[int]:
    return [d.payload.order for d in sent]


def raising(*errors: BaseException | None) -> Callable[[Delivery[Receipt]], None]:
    """Raises these, one after the other."""
    left = list(errors)

    def answer(d: Delivery[Receipt]) -> None:
        error = left.pop(0)
        if error is not None:
            raise error

    return answer
