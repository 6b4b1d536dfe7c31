"""
As much of `without_durability` as our stores need, in its place where that package is not
installed, so that what it asks of a store is tried on every Python.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Generic, TypeVar

Encoded = TypeVar("Encoded")

REAL = importlib.util.find_spec("without_durability") is not None


def install() -> None:
    """Before our stores are imported."""
    if not REAL:
        sys.modules["without_durability"] = sys.modules[__name__]


LEASE = timedelta(minutes=1)


class Fenced(BaseException):
    pass


@dataclass(frozen=True)
class Pass:
    workflow: str
    token: int


@dataclass(frozen=True)
class Delivery:
    workflow: str
    receipt: str


@dataclass(frozen=True)
class Entry:
    key: str
    value: object


@dataclass(frozen=True)
class Written:
    value: object
    at: datetime


@dataclass(frozen=True)
class Recorded:
    value: object
    first: bool


class CheckpointCodec(Generic[Encoded]):
    def encode(self, value: object) -> str:
        return json.dumps(value, sort_keys=True, allow_nan=False)

    def decode(self, encoded: str) -> object:
        return json.loads(encoded)


JSON = CheckpointCodec[str]()


def now_utc() -> datetime:
    return datetime.now(timezone.utc)


def check_duration(name: str, duration: timedelta) -> None:
    if duration <= timedelta():
        raise ValueError(f"{name} is not positive: {duration}")
