"""
Which queues are claimed together, and what is done with what they hand out.

Messages that are run one by one are claimed for the slots that are free, and start at once. A
batch handler's queue is claimed by itself, because a batch takes one slot, may linger until it is
full, and must not mix what was tried before with what was not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, Protocol

from fencepost._calls import FP
from fencepost._crew import Crew
from fencepost._pack import Take
from fencepost.claims import Claim
from fencepost.spans import SECOND

__all__ = ["Batches", "Group", "Singles"]

Claims = Sequence[Claim[Any]]


class Group(Protocol):
    """The two sorts below."""

    @property
    def queues(self) -> Sequence[int]: ...
    @property
    def gathered(self) -> Claims: ...  # claimed and not started

    def has_room(self) -> bool: ...
    def reserve(self) -> Take | None: ...
    def accept(self, claims: Claims) -> Claims: ...
    def ripen(self) -> None: ...
    def give_up(self) -> Claims: ...


class Singles:
    """Queues whose messages are run one by one."""

    def __init__(
        self,
        queues: Sequence[int],
        crew: Crew,
        start: Callable[[Claim[Any]], None],
        *,
        coroutine: bool,
    ) -> None:
        self.queues = queues
        self.gathered: list[Claim[Any]] = []
        self._crew = crew
        self._start = start
        self._coroutine = coroutine
        self._reserved = 0
        self._turn = 0

    def has_room(self) -> bool:
        return self._crew.free(coroutine=self._coroutine) > 0

    def reserve(self) -> Take | None:
        """What may be claimed now, with a slot for each; None: nothing."""
        self._reserved = self._crew.reserve(None, coroutine=self._coroutine)
        if not self._reserved:
            return None
        self._turn = (self._turn + 1) % len(self.queues)
        return Take(self.queues, self._reserved, alone=FP.ALONE_LAPSED, turn=self._turn)

    def accept(self, claims: Claims) -> Claims:
        """Start them in the slots that were reserved; those that have none are returned."""
        fitting = claims[: self._reserved]
        self._crew.give_back(self._reserved - len(fitting), coroutine=self._coroutine)
        self._reserved = 0
        for claim in fitting:
            self._start(claim)
        return claims[len(fitting) :]

    def ripen(self) -> None:
        """Nothing waits here."""

    def give_up(self) -> Claims:
        return ()


class Batches:
    """One queue, whose handler is given up to `size` messages at a time."""

    def __init__(
        self,
        queue: int,
        crew: Crew,
        start: Callable[[Claims], None],
        *,
        coroutine: bool,
        size: int,
        linger_us: int,
    ) -> None:
        self.queues = [queue]
        self.gathered: list[Claim[Any]] = []
        self._crew = crew
        self._start = start
        self._coroutine = coroutine
        self._size = size
        self._linger = linger_us / SECOND
        self._ripe_at = 0.0
        self._slot = False

    def has_room(self) -> bool:
        return self._slot or self._crew.free(coroutine=self._coroutine) > 0

    def reserve(self) -> Take | None:
        """What is still missing in the batch that is gathered, in one slot; None: no slot."""
        if not self._slot:
            self._slot = self._crew.reserve(1, coroutine=self._coroutine) == 1
        if not self._slot:
            return None
        return Take(self.queues, self._size - len(self.gathered), alone=FP.ALONE_TRIED)

    def accept(self, claims: Claims) -> Claims:
        """Gather them. What was tried before runs alone, at once; or is returned."""
        if claims and claims[0].attempt > 1:  # the core hands out such a one by itself
            if self.gathered:
                self._go()
            if self.reserve() is None:
                return claims
            self.gathered += claims
            self._go()
            return ()
        if claims and not self.gathered:
            self._ripe_at = monotonic() + self._linger
        self.gathered += claims
        if not self.gathered:
            self._free()
        return ()

    def ripen(self) -> None:
        """Start the batch if it is full, or has lingered for long enough."""
        full = len(self.gathered) >= self._size
        if self.gathered and (full or monotonic() >= self._ripe_at):
            self._go()

    def give_up(self) -> Claims:
        """The worker stops: what was gathered and not started."""
        claims, self.gathered = self.gathered, []
        self._free()
        return claims

    def _go(self) -> None:
        claims, self.gathered, self._slot = self.gathered, [], False
        self._start(claims)

    def _free(self) -> None:
        if self._slot:
            self._slot = False
            self._crew.give_back(1, coroutine=self._coroutine)
