"""A clock that is turned by hand, for `fencepost.testing`."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from fencepost.errors import Closed, InvalidArgument
from fencepost.spans import moment, moment_us, span_us
from fencepost.store import Store, opened
from fencepost.values import Span, StrPath

__all__ = ["Clock"]


class Clock:
    """
    Store time, standing still until it is turned, for the stores that are opened under it.

    Waiting answers to it, too: `claim(wait=1)` returns when the clock has been turned by a second
    or there is something to claim.
    """

    def __init__(self, now: datetime) -> None:
        self._now_us = moment_us(now, "now")
        self._stores: Final[list[Store]] = []

    @property
    def now(self) -> datetime:
        return moment(self._now_us)

    def open(self, path: StrPath, **options: Any) -> Store:
        """`fencepost.open` under this clock."""
        store = opened(path, hand=self.now, **options)
        self._stores.append(store)
        return store

    def advance(self, span: Span | datetime, /) -> None:
        """By a span, or to a moment. `InvalidArgument` for one that has passed."""
        if isinstance(span, datetime):
            to_us = moment_us(span, "to")
        else:
            to_us = self._now_us + span_us(span, "span")
        if to_us < self._now_us:
            raise InvalidArgument(f"store time never falls: it is {self.now.isoformat()}")
        self._now_us = to_us
        for store in tuple(self._stores):
            try:
                store._file.core.hand(to_us)
            except Closed:
                self._stores.remove(store)
