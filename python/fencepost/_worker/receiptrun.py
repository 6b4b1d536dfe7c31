"""
One message that came in, handled.

Where its handler only begins the work (`settle="completed"`), the run goes on after it: it holds
the message until somebody says how the work ended. Whoever says so settles it in the file; the run
sees that, and has nothing left to say.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from fencepost._binding import pack
from fencepost._binding.calls import FP
from fencepost._binding.pack import Verdict
from fencepost._checks import is_coroutine
from fencepost._verdicts import QUEUES_OWN, renewed, retry
from fencepost._worker import failpoints
from fencepost._worker.contextrun import Arguments, ContextRun
from fencepost._worker.runs import Host
from fencepost.claims import QUEUE, Claim
from fencepost.context import Context
from fencepost.envelope import Unfit
from fencepost.errors import Error, LeaseLost
from fencepost.inbox import Inbox
from fencepost.spans import SECOND

__all__ = ["ReceiptRun"]

LOOK_US: Final = 100_000  # between two looks at whether the worker stops

log: Final = logging.getLogger("fencepost.worker")


class ReceiptRun(ContextRun):
    def __init__(self, host: Host, inbox: Inbox[Any], claim: Claim[Any]) -> None:
        handler = inbox._handler
        assert handler is not None  # the loop claims from no other inbox
        coroutine = is_coroutine(handler)
        super().__init__(host, inbox.address, claim, inbox.address, handler, coroutine=coroutine)
        self._inbox = inbox
        self._held = False  # its work has begun elsewhere
        self._until_us = 0  # and is to be completed by then

    def call(self) -> None:
        super().call()
        if self._held:
            self._await_completion()

    async def await_(self) -> None:
        await super().await_()
        if self._held:
            # Looks are short: the threads beside the event loop are few, and others need them, too.
            while not await asyncio.to_thread(self._look):  # noqa: ASYNC110 - it is in a file
                await asyncio.sleep(LOOK_US / SECOND)

    def give_up(self) -> list[Verdict]:
        """What goes on elsewhere may still be completed, as long as its lease lasts."""
        return [] if self._held else super().give_up()

    # ---- the steps -------------------------------------------------------------------------------

    def _arguments(self, context: Context) -> Arguments:
        return [context, self._said(context)], {}

    def _said(self, context: Context) -> Any:
        """The payload, or the fault that is there instead. `PayloadError`."""
        envelope, contracts = context.envelope, self._inbox._contracts
        if envelope.fault is not None:
            if not self._inbox._faults:
                raise Unfit("fault", f"its sender says that it failed: {envelope.fault.code}")
            return envelope.fault
        if contracts is None:
            return self._claim.payload
        return self._file.codec.decode(self._claim.body, contracts.type_of(envelope.contract))

    def _returned(self, context: Context, result: object) -> None:
        if not self._inbox._completes:
            super()._returned(context, None)
            return
        failpoints.at("handled", self.name)
        refused = self._refused()
        if refused is not None:
            raise LeaseLost(refused)
        if context._settled_in is not None:
            self.verdicts = [self._doubted()]
            return
        context._commit(renewed(self._claim._key))  # its rows only while it is ours
        self._held = True

    def _await_completion(self) -> None:
        core = self._file.core
        with self._left_to_its_lease():
            while True:
                version = core.version()  # before the look: nothing is slept through
                if self._settled():
                    return
                core.wait(self._claim._number(QUEUE), version, core.now() + LOOK_US)

    def _look(self) -> bool:
        with self._left_to_its_lease():
            return self._settled()
        return True

    def _settled(self) -> bool:
        """Whether there is nothing to wait for any more; when the time is up, it says so."""
        if self._file.by_hand or self.why() is not None:  # by hand, time does not pass by itself
            return True
        now_us = self._file.core.now()
        self._until_us = self._until_us or now_us + self._inbox._completion_us
        if not self._is_held():
            return True
        if now_us < self._until_us:
            return False
        text = f"was not completed within {self._inbox._completion_us / SECOND:g} s"
        self.verdicts = [retry(self._claim._key, QUEUES_OWN, "completion_timeout", None, text)]
        return True

    @contextmanager
    def _left_to_its_lease(self) -> Iterator[None]:
        """A file that cannot be looked at: the message comes again, if nobody completes it."""
        try:
            yield
        except Error as error:
            log.warning("%s it is held no longer: %s", self._spoken(), error)

    def _is_held(self) -> bool:
        """Nobody has said how it ended, and nobody else has it."""
        for record in pack.records(self._file.core.get(None, self._claim.id)):
            state, attempt, generation = record[3:6]
            ours = (self._claim.attempt, self._claim._generation)
            return state == FP.LEASED and (attempt, generation) == ours
        return False
