"""
Which queues are claimed together, and what is done with what they hand out.

Messages that are run one by one are claimed for the slots that are free, and start at once; where
their handlers prove short, some more are claimed ahead and wait in the group's stock. A batch
handler's queue is claimed by itself, because a batch takes one slot, may linger until it is full,
and must not mix what was tried before with what was not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, Final, Protocol

from fencepost._binding.calls import FP
from fencepost._binding.pack import Take
from fencepost._worker.crew import Crew, Stock
from fencepost._worker.pace import Pace
from fencepost.claims import Claim
from fencepost.spans import SECOND

__all__ = ["AHEAD_MAX", "Batches", "Group", "Singles"]

AHEAD_MAX: Final = 250  # messages that a group reads ahead at the most

Claims = Sequence[Claim[Any]]
Start = Callable[["Group", Claims, int], None]  # so many slots of its sort are reserved for them


class Group(Protocol):
    """The two sorts below."""

    stock: Stock
    other: Stock  # of the other sort, for what is not of the group's own; read ahead is nothing

    @property
    def queues(self) -> Sequence[int]: ...
    @property
    def gathered(self) -> Claims: ...  # claimed, and no run was made of them yet

    def has_room(self) -> bool: ...
    def reserve(self, *, pressed: bool = False) -> Take | None: ...
    def accept(self, claims: Claims) -> Claims: ...
    def ripen(self) -> None: ...
    def ended(self) -> Sequence[Any]: ...
    def surplus(self, now: float) -> int: ...
    def give_up(self) -> Claims: ...


class Singles:
    """Queues whose messages are run one by one. `most`: as many are read ahead."""

    def __init__(
        self,
        queues: Sequence[int],
        crew: Crew,
        start: Start,
        told: Callable[[], None],
        *,
        coroutine: bool,
        most: int,
    ) -> None:
        self.queues = queues
        self.gathered: Claims = ()
        self.stock = Stock(coroutine=coroutine, told=told)
        self.other = Stock(coroutine=not coroutine, told=told)
        self._crew = crew
        self._start = start
        self._coroutine = coroutine
        self._pace = Pace(most)
        self._slots = 0
        self._turn = 0

    def has_room(self) -> bool:
        return self._crew.free(coroutine=self._coroutine) > 0

    def reserve(self, *, pressed: bool = False) -> Take | None:
        """
        What may be claimed now, with a slot or a place in the stock for each; None: nothing.

        A stock is filled up when half of it is gone, or when there will be a commit anyway.
        """
        stock, crew = self.stock, self._crew
        asker = None if stock.serving else self
        self._slots = crew.reserve(None, coroutine=self._coroutine, asker=asker)
        if stock.left and self._slots:  # its threads had left it to serve others
            serving = crew.staff(min(self._slots, stock.left), coroutine=self._coroutine)
            self._slots -= serving
            crew.serve(stock, serving)
        waiting = stock.left
        ahead = self._pace.judge(waiting, stock.serving, monotonic())
        # What has ended since the loop looked is not settled by this claim, and still counts.
        room = self._slots + ahead - max(waiting, stock.out - stock.serving)
        early = waiting > ahead // 2 and not pressed
        if room <= 0 or (not self._slots and (early or not stock.serving)):
            self._free()
            return None
        self._turn = (self._turn + 1) % len(self.queues)
        alone = FP.ALONE_LAPSED if self._slots else FP.ALONE_NEVER  # what may be deadly never waits
        ahead = max(0, room - self._slots)
        return Take(self.queues, room, alone=alone, turn=self._turn, ahead=ahead)

    def accept(self, claims: Claims) -> Claims:
        """Start them, or put them into the stock; those for which there is no room are returned."""
        if not claims or not (self._slots or self.stock.serving):
            self._free()
            return claims
        slots, self._slots = self._slots, 0
        self.stock.mark = self._pace.ahead // 2
        self._start(self, claims, slots)
        self._pace.refilled(monotonic())
        return ()

    def ripen(self) -> None:
        """Nothing lingers here."""

    def ended(self) -> Sequence[Any]:
        """The runs that have ended since it was asked last."""
        runs = _drained(self.stock)
        if runs:
            self._pace.ended(len(runs), max(run.ended_at for run in runs))
        return runs + _drained(self.other)

    def surplus(self, now: float) -> int:
        """How many that wait in the stock have proved to be too many."""
        waiting = self.stock.left
        return self._pace.surplus(waiting, self.stock.serving, now) if waiting else 0

    def give_up(self) -> Claims:
        self._crew.withdraw(self)
        return ()

    def _free(self) -> None:
        slots, self._slots = self._slots, 0
        self._crew.give_back(slots, coroutine=self._coroutine)


class Batches:
    """One queue, whose handler is given up to `size` messages at a time."""

    def __init__(
        self,
        queue: int,
        crew: Crew,
        start: Start,
        told: Callable[[], None],
        *,
        coroutine: bool,
        size: int,
        linger_us: int,
    ) -> None:
        self.queues = [queue]
        self.gathered: list[Claim[Any]] = []
        self.stock = Stock(coroutine=coroutine, told=told)
        self.other = Stock(coroutine=not coroutine, told=told)
        self._crew = crew
        self._start = start
        self._coroutine = coroutine
        self._size = size
        self._linger = linger_us / SECOND
        self._ripe_at = 0.0
        self._slot = False

    def has_room(self) -> bool:
        return self._slot or self._crew.free(coroutine=self._coroutine) > 0

    def reserve(self, *, pressed: bool = False) -> Take | None:
        """What is still missing in the batch that is gathered, in one slot; None: no slot."""
        if not self._slot:
            granted = self._crew.reserve(1, coroutine=self._coroutine, asker=self)
            self._slot = granted == 1
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

    def ended(self) -> Sequence[Any]:
        return _drained(self.stock)

    def surplus(self, now: float) -> int:
        return 0

    def give_up(self) -> Claims:
        """The worker stops: what was gathered and not started."""
        claims, self.gathered = self.gathered, []
        self._crew.withdraw(self)
        self._free()
        return claims

    def _go(self) -> None:
        claims, self.gathered, self._slot = self.gathered, [], False
        self._start(self, claims, 1)

    def _free(self) -> None:
        if self._slot:
            self._slot = False
            self._crew.give_back(1, coroutine=self._coroutine)


def _drained(stock: Stock) -> list[Any]:
    """What has ended, taken out. Threads go on putting in."""
    runs = [stock.ended.popleft() for _ in range(len(stock.ended))]
    stock.out -= len(runs)
    return runs
