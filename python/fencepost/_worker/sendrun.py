"""
One delivery, sent.

    BEGIN is written --> the handler is called --> it returns --> the end is written

All of it in the handler's own thread, so that nothing waits between two of the steps: what is
begun is sent in that moment, and what has arrived is marked in that moment. Sends that begin, or
end, at the same time in several threads share a commit. Whoever dies before BEGIN is there has sent
nothing; whoever dies after it leaves a message of which only an operator can say what came of it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any, Final

from fencepost._binding.calls import FP
from fencepost._binding.pack import Verdict
from fencepost._checks import is_coroutine
from fencepost._verdicts import QUEUES_OWN, acked, begun, retry, text_of, unknown
from fencepost._worker import failpoints
from fencepost._worker.contextrun import Arguments, ContextRun
from fencepost._worker.runs import LOST, STOPPING, Host, log_raised
from fencepost.claims import Claim
from fencepost.context import Context
from fencepost.errors import Cancelled, DeliveryUnknown, Error, LeaseLost, RetryLater
from fencepost.outbox import Delivery, Outbox

__all__ = ["SendRun"]

NOT_BEGUN: Final = 1.0  # seconds until a send is tried again whose beginning cannot be written

log: Final = logging.getLogger("fencepost.worker")


class SendRun(ContextRun):
    def __init__(
        self, host: Host, outbox: Outbox[Any], claim: Claim[Any], *, resends: bool
    ) -> None:
        handler = outbox._handler
        assert handler is not None  # the loop claims from no other outbox
        coroutine = is_coroutine(handler)
        super().__init__(host, outbox.topic, claim, outbox.topic, self._send, coroutine=coroutine)
        self._handler = handler
        self._resends = resends
        self._core = self._file.core
        self._gate = threading.Lock()
        self._called = False  # something may have gone out
        self._barred = False  # the loop has given the message back: nothing may go out any more
        self._arrived = False
        if coroutine:
            self._fn = self._send_beside

    def give_up(self) -> list[Verdict]:
        """The worker ends, and the handler does not. What has not begun will not begin."""
        with self._gate:
            self._barred = True
        if self._called:
            return [self._open("stopped", None, "the worker ended in the middle")]
        return super().give_up()

    # ---- the steps -------------------------------------------------------------------------------

    def _make_context(self) -> Context:
        return Delivery(self._claim, self._queue, self, self._file)

    def _arguments(self, context: Context) -> Arguments:
        return [context], {}

    def _send(self, delivery: Delivery[Any]) -> None:
        self._begin()
        self._handler(delivery)
        self._arrived = True

    async def _send_beside(self, delivery: Delivery[Any]) -> None:
        await asyncio.to_thread(self._begin)
        sending: Any = self._handler(delivery)
        await sending
        self._arrived = True
        failpoints.at("sent", self.name)
        self.verdicts = [acked(self._claim._key)]  # also if it is cancelled in this moment
        await asyncio.to_thread(self._mark, self.verdicts[0])

    def _begin(self) -> None:
        """Written and synced. Raises where nothing may be sent."""
        try:
            (answer,) = self._core.settle(None, [begun(self._claim._key)])
        except Error as error:
            text = f"that it begins cannot be written: {error}"
            raise RetryLater(text, delay=NOT_BEGUN) from error
        if answer != FP.DONE:
            self._why = self._why or LOST
            raise LeaseLost(LOST)
        failpoints.at("begun", self.name)
        with self._gate:
            if self._barred:
                raise Cancelled(STOPPING)
            self._called = True

    def _returned(self, context: Context, result: object) -> None:
        if self.coroutine:
            return  # it is marked already
        failpoints.at("sent", self.name)
        verdict = acked(self._claim._key)
        if context._commit(verdict):
            failpoints.at("committed", self.name)
        elif context._settled_in is None:
            self._mark(verdict)
        else:  # in a transaction of the handler's own; if that is there, this changes nothing
            text = "it arrived, and was acked in a transaction that was not committed"
            self.verdicts = [unknown(self._claim._key, "error", "RolledBack", text)]

    def _mark(self, verdict: Verdict) -> None:
        """It has arrived. Where that cannot be written now, the loop says it again."""
        self.verdicts = [verdict]
        try:
            (answer,) = self._core.settle(None, self.verdicts)
        except Error as error:
            log.warning("%s it arrived, and is not marked yet: %s", self._spoken(), error)
            return
        self.verdicts = []
        if answer == FP.LOST:
            log.warning("%s it arrived, and was not its worker's any more", self._spoken())
        failpoints.at("committed", self.name)

    def _raised(self, error: BaseException) -> None:
        """
        An exception of the handler's is its word that nothing arrived. What broke into it, or came
        after it had returned, is not.
        """
        own = isinstance(error, Exception) and not isinstance(error, DeliveryUnknown)
        if not self._called or (own and not self._arrived):
            super()._raised(error)
        elif not self.verdicts:  # else it is being marked
            self._note_interruption(error)
            log_raised(self._spoken(), error)
            code, text = type(error).__name__, text_of(error)
            self.verdicts = [self._open("error", code, text)]

    def _open(self, kind: str, code: str | None, text: str) -> Verdict:
        """Nobody can say whether it arrived. By name it is sent again, and the attempt counts."""
        if self._resends:
            return retry(self._claim._key, QUEUES_OWN, kind, code, text)
        return unknown(self._claim._key, kind, code, text)
