"""
A worker without threads: what is due becomes runs, one after the other, and what they said is
settled before the next is claimed.

The runs, what is claimed for them and what becomes of what they say are those of the worker's loop.
What is missing here is all that the loop does about time: no slots, no reading ahead, no beat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple, TypeVar

from fencepost._binding.calls import FP
from fencepost._binding.flow import End, RecordPut
from fencepost._binding.pack import Take, records
from fencepost._file import File, named
from fencepost._testing.clock import Clock
from fencepost._testing.crash import Crash, Life, living
from fencepost._worker.channel import Channel, let_go
from fencepost._worker.dispatcher import Dispatcher
from fencepost._worker.flowwriter import Answer, FlowWriter, Said
from fencepost._worker.leases import Leases
from fencepost._worker.registry import Registry
from fencepost._worker.routes import chosen, routes
from fencepost._worker.runs import Run
from fencepost._worker.scheduler import Scheduler
from fencepost._workflow.handle import SHOWN_AS
from fencepost.claims import Claim
from fencepost.errors import InvalidArgument
from fencepost.spans import MOMENT_MAX, SECOND, moment
from fencepost.store import Store
from fencepost.values import State

__all__ = ["Drain", "Drained", "fire", "next_due"]

PAUSED, OLDEST_DUE, NEXT_DUE = 2, 10, 11  # in fp_stats' records
T = TypeVar("T")
A_THOUSAND_STARTS_US: Final = 1000 * SECOND  # rates are in thousandths


class Drained(NamedTuple):
    """What became of the messages that were handed out, and how often the worker died."""

    done: int
    retried: int  # back in line: tried again later, put off, or given back
    dead: int  # or unknown: put aside for an operator
    crashed: int  # what was not committed by then comes back when its lease ends


class Drain:
    """
    One `Kit.drain`; the runs' `Host`. `of`: whose lives its runs are; `beside`: an event loop runs
    in this thread, and plain functions must not keep it waiting.
    """

    def __init__(
        self,
        of: object,
        store: Store,
        registry: Registry,
        clock: Clock,
        *,
        until_idle: bool,
        limit: int,
        beside: bool,
    ) -> None:
        self.store = store
        self.registry = registry
        self.leases: Leases = _Standing(store._file)
        self.flows: FlowWriter = _Inline(store._file, beside=beside)
        self._of = of
        self._hand = clock
        self._until_idle = until_idle
        self._left = limit
        self._file = store._file
        found = routes(self._file, registry, chosen(registry, None))
        self._routes = {route.queue.name: route for route in found}
        self._in_turn = found
        self._employ()
        self._done = self._retried = self._dead = self._crashed = 0

    def _employ(self) -> None:
        """A worker that has said nothing yet, and has nothing to say."""
        queues = {route.number: route.queue for route in self._in_turn}
        self._channel = Channel(self._file, queues)
        self._dispatcher = Dispatcher(self, self._file, self._channel, self._routes)

    def clock(self) -> float:
        return self._hand._now_us / SECOND

    def drained(self) -> Drained:
        return Drained(self._done, self._retried, self._dead, self._crashed)

    def runs(self) -> Iterator[Run]:
        """Each is to be run, in its `life`, before the next is asked for."""
        while let_go(self._file.core):
            pass
        while self._left > 0:
            fire(self._file, self.registry)
            claims = self._take()
            if claims:
                self._left -= len(claims)
                yield from self._made(claims)
            elif not (self._until_idle and self._turn_the_clock()):
                return

    @contextmanager
    def life(self, run: Run) -> Iterator[Life]:
        """
        The run is run within the block. Then what it said is settled, unless its worker has died.

        Raises what was no failure of the handler's: the interrupt of who waits for the test, or the
        word of the test's own framework that it is over.
        """
        with living(self._of) as life:
            try:
                with suppress(Crash):
                    yield life
            finally:
                with suppress(Crash):
                    self._say(run)
        if life.over:
            self._crashed += 1
            self._employ()
        self._count(run.claims)
        if run.interruption is not None and not isinstance(run.interruption, FAILURES):
            raise run.interruption

    # ---- claiming --------------------------------------------------------------------------------

    def _take(self) -> Sequence[Claim[Any]]:
        """From the first queue that has something due; each is the first in its turn."""
        for route in tuple(self._in_turn):
            self._in_turn.append(self._in_turn.pop(0))
            size = min(route.queue._batch, self._left)
            claims = self._channel.exchange(Take([route.number], size, alone=FP.ALONE_TRIED))
            if claims:
                return claims
        return ()

    def _made(self, claims: Sequence[Claim[Any]]) -> Iterator[Run]:
        route = self._routes[claims[0]._queue.name]
        self._dispatcher.learn(claims)
        one = len(claims) == 1
        run = self._dispatcher.alone(claims[0]) if one else self._dispatcher.together(route, claims)
        if run is None:
            self._channel.exchange(None)
            self._count(claims)
        else:
            yield run

    def _turn_the_clock(self) -> bool:
        """To the next due moment of our queues. False: there is none."""
        at = next_due(self._file, {route.number for route in self._in_turn})
        if at is None:
            return False
        fire(self._file, self.registry)
        self._hand.advance(moment(at))
        return True

    # ---- settling --------------------------------------------------------------------------------

    def _say(self, run: Run) -> None:
        progress = run.take_progress()
        if progress is not None:
            self._channel.note(run.claims[0].id, progress)
            self._channel.write_notes()
        self._channel.add(run.name, run.said())
        self._channel.exchange(None)
        if run.hold_us is not None:
            self._channel.hold(run.claims[0]._queue._declaration, run.hold_us)

    def _count(self, claims: Sequence[Claim[Any]]) -> None:
        for claim in claims:
            state = self._state(claim)
            self._done += state == "done"
            self._retried += state == "pending"
            self._dead += state in ("dead", "unknown")

    def _state(self, claim: Claim[Any]) -> State:
        if self._routes[claim._queue.name].workflows:
            row = self.flows.flow.get((claim.key or "").encode())
            return "cancelled" if row is None else SHOWN_AS.get(row.state, self._in_line(claim))
        return self._in_line(claim)

    def _in_line(self, claim: Claim[Any]) -> State:
        try:
            message = self.store.message(claim.id)
        except InvalidArgument:  # back in a line that is not `addressed`
            return "pending"
        return "done" if message is None else message.state


class _Standing(Leases):
    """No time passes while a handler runs, so no lease needs a beat; the file says who has it."""

    def __init__(self, file: File) -> None:
        self._file = file

    def lost(self, claim: Claim[Any]) -> bool:
        try:
            found = list(records(self._file.core.get(None, claim.id)))
        except InvalidArgument:  # in a line that is not `addressed` nobody else can have taken it
            return False
        for record in found:
            state, attempt, generation = record[3:6]
            ours = (claim.attempt, claim._generation)
            return state not in (FP.LEASED, FP.BEGUN) or (attempt, generation) != ours
        return True


class _Inline(FlowWriter):
    """Without threads of its own: what others would do for a pass is done where it is asked for."""

    def __init__(self, file: File, *, beside: bool) -> None:
        super().__init__(file, 1)
        self._beside = beside

    async def call(self, fn: Callable[[], T]) -> T:
        return await asyncio.to_thread(fn) if self._beside else fn()

    async def ask(self, fn: Callable[[], T]) -> T:
        return await self.call(fn)

    async def say(self, records: Sequence[RecordPut], end: End | None) -> Answer:
        if not records and end is None:
            return (), None
        (answer,) = await self.call(lambda: self._commit([Said(records, end)]))
        return answer


# What a handler may raise by itself, and the worker goes on. The rest breaks into it from outside.
FAILURES: Final = (Crash, SystemExit, GeneratorExit, asyncio.CancelledError)


def fire(file: File, registry: Registry) -> None:
    """What schedules are due for; those that are new begin now."""
    Scheduler(file, registry.schedules).turn()


def next_due(file: File, queues: Collection[int]) -> int | None:
    """The next moment at which something of these queues may be claimed; None: there is none."""
    now = file.core.now()
    moments: list[int] = []
    for record, name in named(file.core.stats()):
        if record[0] not in queues or record[PAUSED]:
            continue
        moments.append(record[NEXT_DUE])
        if record[OLDEST_DUE] >= 0:  # if it cannot be claimed, something keeps it back
            policy = file.core.queue_find(None, name.encode())[1]
            moments.append(policy["held_until_us"])
            if policy["rate_milli"]:  # by then the next one may start
                moments.append(now + -(-A_THOUSAND_STARTS_US // policy["rate_milli"]))
    return min((at for at in moments if now < at < MOMENT_MAX), default=None)
