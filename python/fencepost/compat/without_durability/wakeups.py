"""Who owes which workflow a pass."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from threading import Lock
from typing import Final

import without_durability as origin

from fencepost._binding.calls import FP
from fencepost._binding.pack import Packed, Put, Take, Verdict, numbers, records
from fencepost.claims import ID, KEY, TOKEN
from fencepost.compat.without_durability.database import Database, id_of, spans
from fencepost.errors import Closed, Error
from fencepost.spans import moment_us

__all__ = ["Scheduler"]

POLL: Final = timedelta(milliseconds=50)


@dataclass(frozen=True)
class Scheduler:
    """
    Who owes which workflow a pass: its package's `Scheduler`.

    Whoever waits is woken by the commit that makes a workflow ready, and what a process held that
    was killed is handed out again at once. A wake-up that comes while its workflow is out is
    delivered after it; one that is in line already keeps its place. `poll` and `now` are taken as
    they were, and not needed: nobody polls, and ready is by the store's clock.
    """

    database: Database
    namespace: str = "workflow"
    lease: timedelta = origin.LEASE
    poll: timedelta = POLL
    now: Callable[[], datetime] = origin.now_utc

    def __post_init__(self) -> None:
        origin.check_duration("a lease", self.lease)
        origin.check_duration("a poll interval", self.poll)

    async def prepare(self) -> None:
        """Make the queue, if it is not there."""
        await self.database.insist(self.queue)

    async def make_ready(self, workflow: str) -> None:
        """It is due now, whatever it was: in line, asleep, out with somebody, or not there."""
        await self.database.call(partial(self._wake, id_of(workflow)))

    async def schedule(self, workflow: str, when: datetime) -> None:
        """It is due at `when` at the latest: one that is due before stays so."""
        put = partial(self._wake, id_of(workflow), moment_us(when, "when"))
        await self.database.call(put)

    def _wake(self, workflow: bytes, due_us: int | None = None) -> None:
        put = Put(self.queue(), [b""], keys=[workflow], life=FP.LIFE_LIVE)
        if due_us is not None:
            put.delay_us, put.absolute = due_us, True
        self.database.file.core.enqueue(None, put)

    async def next_ready(self, within: timedelta) -> origin.Delivery | None:
        """The next workflow that is due, held for the lease; None: there was none for so long."""
        waiting = _Waiting(self, within)
        try:
            return await self.database.insist(waiting.take)
        except asyncio.CancelledError:
            if waiting.leave():
                self.database.threads.submit(waiting.give_back)
            raise

    async def done(self, delivery: origin.Delivery) -> None:
        """Out of the line, unless a wake-up came meanwhile, or somebody else has it."""
        await self._say(delivery, FP.ACK)

    async def wake_at(self, delivery: origin.Delivery, when: datetime) -> None:
        """Due again at `when`, or at once where a wake-up came meanwhile."""
        delay_us = moment_us(when, "when") - self.database.file.wall_us()
        await self._say(delivery, FP.RELEASE, max(0, delay_us))

    async def extend(self, delivery: origin.Delivery, within: timedelta) -> origin.Delivery:
        """Hold it for `within` from now. It keeps its name, held or not."""
        await self._say(delivery, FP.RENEW, *spans(within))
        return delivery

    async def _say(self, delivery: origin.Delivery, verb: int, delay_us: int = 0) -> None:
        verdict = Verdict(*_receipt(delivery), verb, delay_us)
        await self.database.insist(partial(self.database.file.core.settle, None, [verdict]))

    async def cancel(self, workflow: str) -> None:
        """Out of the line, whatever it was; who holds it can put nothing back."""
        await self.database.call(partial(self._cancel, id_of(workflow)))

    def _cancel(self, workflow: bytes) -> None:
        core = self.database.file.core
        found = core.get_by_key(self.queue(), 0, FP.LIFE_LIVE, workflow)
        for record in records(found):
            core.cancel(None, [record[0]])

    async def wake_due(self, now: datetime) -> tuple[str, ...]:
        """Nothing: what is due is due by itself."""
        return ()

    async def reclaim(self, idle: timedelta) -> None:
        """Nothing: what was abandoned comes due by itself."""

    def queue(self) -> int:
        """Its number; it is made at its first use."""
        name = f"without_durability:{self.namespace}".encode()
        core = self.database.file.core
        number, _ = core.queue_find(None, name)
        return number or core.queue_define(None, name, FP.PROFILE_WAKEUP, {})


class _Waiting:
    """
    One `next_ready` in its thread. Who leaves it answers for nothing: what it has got by then, or
    gets all the same, is given back at once, and not only when its lease ends.
    """

    def __init__(self, scheduler: Scheduler, within: timedelta) -> None:
        self._scheduler = scheduler
        self._core = scheduler.database.file.core
        self._within_us, self._lease_us = spans(within, scheduler.lease)
        self._guard = Lock()
        self._left = False
        self._got: origin.Delivery | None = None

    def take(self) -> origin.Delivery | None:
        try:
            return self._take()
        except Closed:
            if self._left:  # nobody is there to be told
                return None
            raise

    def _take(self) -> origin.Delivery | None:
        take = Take([self._scheduler.queue()], 1, lease_us=self._lease_us)
        take.until_us = self._core.now() + self._within_us
        while not self._left:
            found = self._core.step(None, take)[1]
            if found.rows:
                return self._taken(found)
            if self._core.now() >= take.until_us:
                break
        return None

    def _taken(self, found: Packed) -> origin.Delivery | None:
        values = numbers(found)
        receipt = f"{values[ID]}:{values[TOKEN]}"
        with self._guard:
            self._got = origin.Delivery(found.blob[: values[KEY]].decode(), receipt)
            left = self._left
        if left:
            self.give_back()
        return self._got

    def leave(self) -> bool:
        """True: it has got something."""
        with self._guard:
            self._left = True
            return self._got is not None

    def give_back(self) -> None:
        assert self._got is not None
        with suppress(Error):  # who has closed the file does not hold it any more
            self._core.settle(None, [Verdict(*_receipt(self._got), FP.RELEASE)])


def _receipt(delivery: origin.Delivery) -> tuple[int, int]:
    message, _, token = delivery.receipt.partition(":")
    return int(message), int(token)
