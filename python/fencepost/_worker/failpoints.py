"""
Named moments between the steps of a worker, where the testing kit can let it die.

    claimed     the claim is committed, the handler has not begun
    begun       of an outbox: that the send begins is committed, the handler is not called yet
    handled     the handler has returned, nothing is settled
    sent        the same of an outbox
    committed   the settling is committed

and within a pass of a workflow

    step done       the step has returned, nothing of it is recorded
    step recorded   its record is committed
    sleep recorded  when it will go on is committed, the pass has not ended
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

__all__ = ["Point", "at", "watch"]

Point: TypeAlias = Literal[
    "claimed",
    "begun",
    "handled",
    "sent",
    "committed",
    "step done",
    "step recorded",
    "sleep recorded",
]

_watchers: Final[list[Callable[..., None]]] = []


def at(point: Point, *names: str) -> None:
    """
    The worker has reached `point` with a message for what has this name, a job or a queue; or in
    the workflow and the step of these names.
    """
    if _watchers:
        for watcher in tuple(_watchers):
            watcher(point, *names)


def watch(watcher: Callable[..., None]) -> Callable[[], None]:
    """
    Tell `watcher` of every point and its names, in the thread that reaches it. Returns what ends
    it.
    """
    _watchers.append(watcher)
    return lambda: _watchers.remove(watcher)
