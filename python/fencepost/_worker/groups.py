"""
Which queues are claimed together, and what is done with what they hand out.

Messages that are run one by one are claimed for the slots that are free, and start at once; where
their handlers prove short, some more are claimed ahead and wait in the group's backlog. A batch
handler's queue is claimed by itself, because a batch takes one slot, may linger until it is full,
and must not mix what was tried before with what was not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, Final, Protocol

from fencepost._binding.calls import FP
from fencepost._binding.pack import Take
from fencepost._worker.executor import Backlog, Executor
from fencepost._worker.prefetch import Prefetch
from fencepost.claims import Claim
from fencepost.spans import SECOND

__all__ = ["AHEAD_MAX", "Batches", "Group", "Singles"]

AHEAD_MAX: Final = 250  # messages that a group reads ahead at the most

Claims = Sequence[Claim[Any]]
Start = Callable[["Group", Claims, int], None]  # so many slots of its sort are reserved for them


class Group(Protocol):
    """The two sorts below."""

    backlog: Backlog
    other: Backlog  # of the other sort, for what is not of the group's own; read ahead is nothing

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
        executor: Executor,
        start: Start,
        told: Callable[[], None],
        *,
        coroutine: bool,
        most: int,
    ) -> None:
        self.queues = queues
        self.gathered: Claims = ()
        self.backlog = Backlog(coroutine=coroutine, told=told)
        self.other = Backlog(coroutine=not coroutine, told=told)
        self._executor = executor
        self._start = start
        self._coroutine = coroutine
        self._prefetch = Prefetch(most)
        self._slots = 0
        self._turn = 0

    def has_room(self) -> bool:
        return self._executor.free(coroutine=self._coroutine) > 0

    def reserve(self, *, pressed: bool = False) -> Take | None:
        """
        What may be claimed now, with a slot or a place in the backlog for each; None: nothing.

        A backlog is filled up when half of it is gone, or when there will be a commit anyway.
        """
        backlog, executor = self.backlog, self._executor
        asker = None if backlog.serving else self
        self._slots = executor.reserve(None, coroutine=self._coroutine, asker=asker)
        if backlog.left and self._slots:  # its threads had left it to serve others
            try:
                serving = executor.staff(min(self._slots, backlog.left), coroutine=self._coroutine)
            except BaseException:
                self._free()
                raise
            self._slots -= serving
            executor.serve(backlog, serving)
        waiting = backlog.left
        ahead = self._prefetch.judge(waiting, backlog.serving, monotonic())
        # What has ended since the loop looked is not settled by this claim, and still counts.
        room = self._slots + ahead - max(waiting, backlog.out - backlog.serving)
        early = waiting > ahead // 2 and not pressed
        if room <= 0 or (not self._slots and (early or not backlog.serving)):
            self._free()
            return None
        self._turn = (self._turn + 1) % len(self.queues)
        alone = FP.ALONE_LAPSED if self._slots else FP.ALONE_NEVER  # what may be deadly never waits
        ahead = max(0, room - self._slots)
        return Take(self.queues, room, alone=alone, turn=self._turn, ahead=ahead)

    def accept(self, claims: Claims) -> Claims:
        """Start them, or put them into the backlog; those that have no room are returned."""
        if not claims or not (self._slots or self.backlog.serving):
            self._free()
            return claims
        slots, self._slots = self._slots, 0
        self.backlog.mark = self._prefetch.ahead // 2
        self._start(self, claims, slots)
        self._prefetch.refilled(monotonic())
        return ()

    def ripen(self) -> None:
        """Nothing lingers here."""

    def ended(self) -> Sequence[Any]:
        """The runs that have ended since it was asked last."""
        runs = _drained(self.backlog)
        if runs:
            self._prefetch.ended(len(runs), max(run.ended_at for run in runs))
        return runs + _drained(self.other)

    def surplus(self, now: float) -> int:
        """How many that wait in the backlog have proved to be too many."""
        waiting = self.backlog.left
        return self._prefetch.surplus(waiting, self.backlog.serving, now) if waiting else 0

    def give_up(self) -> Claims:
        self._executor.withdraw(self)
        return ()

    def _free(self) -> None:
        slots, self._slots = self._slots, 0
        self._executor.give_back(slots, coroutine=self._coroutine)


class Batches:
    """One queue, whose handler is given up to `size` messages at a time."""

    def __init__(
        self,
        queue: int,
        executor: Executor,
        start: Start,
        told: Callable[[], None],
        *,
        coroutine: bool,
        size: int,
        linger_us: int,
    ) -> None:
        self.queues = [queue]
        self.gathered: list[Claim[Any]] = []
        self.backlog = Backlog(coroutine=coroutine, told=told)
        self.other = Backlog(coroutine=not coroutine, told=told)
        self._executor = executor
        self._start = start
        self._coroutine = coroutine
        self._size = size
        self._linger = linger_us / SECOND
        self._ripe_at = 0.0
        self._slot = False

    def has_room(self) -> bool:
        return self._slot or self._executor.free(coroutine=self._coroutine) > 0

    def reserve(self, *, pressed: bool = False) -> Take | None:
        """What is still missing in the batch that is gathered, in one slot; None: no slot."""
        if not self._slot:
            granted = self._executor.reserve(1, coroutine=self._coroutine, asker=self)
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
        return _drained(self.backlog)

    def surplus(self, now: float) -> int:
        return 0

    def give_up(self) -> Claims:
        """The worker stops: what was gathered and not started."""
        claims, self.gathered = self.gathered, []
        self._executor.withdraw(self)
        self._free()
        return claims

    def _go(self) -> None:
        claims, self.gathered, self._slot = self.gathered, [], False
        self._start(self, claims, 1)

    def _free(self) -> None:
        if self._slot:
            self._slot = False
            self._executor.give_back(1, coroutine=self._coroutine)


def _drained(backlog: Backlog) -> list[Any]:
    """What has ended, taken out. Threads go on putting in."""
    runs = [backlog.ended.popleft() for _ in range(len(backlog.ended))]
    backlog.out -= len(runs)
    return runs
