"""What tests of queues put in, and the application's own table beside it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import fencepost

ORDERS = "CREATE TABLE orders (id INTEGER PRIMARY KEY, note TEXT NOT NULL, data)"


@dataclass
class Mail:
    to: str
    text: str = ""


def microseconds(count: int) -> timedelta:
    return timedelta(microseconds=count)


def notes(store: fencepost.Store) -> list[Any]:
    """Of the orders, in their order."""
    with store.transaction() as tx:
        return [note for (note,) in tx.execute("SELECT note FROM orders ORDER BY id")]
