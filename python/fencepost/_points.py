"""
Named moments between the steps of a worker, where the testing kit can let it die.

    claimed     the claim is committed, the handler has not begun
    begun       of an outbox: that the send begins is committed, the handler is not called yet
    handled     the handler has returned, nothing is settled
    sent        the same of an outbox
    committed   the settling is committed
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

__all__ = ["Point", "at", "watch"]

Point: TypeAlias = Literal["claimed", "begun", "handled", "sent", "committed"]

_watchers: Final[list[Callable[[Point, str], None]]] = []


def at(point: Point, name: str) -> None:
    """The worker has reached `point` with a message for `name`, a job or a queue."""
    if _watchers:
        for watcher in tuple(_watchers):
            watcher(point, name)


def watch(watcher: Callable[[Point, str], None]) -> Callable[[], None]:
    """Tell `watcher` of every point, in the thread that reaches it. Returns what ends it."""
    _watchers.append(watcher)
    return lambda: _watchers.remove(watcher)
