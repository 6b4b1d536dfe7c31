"""
One call of one handler under way, from its claim to what is to be said about it.

A run happens in the handler's own thread or task and ends with verdicts, which the worker's loop
settles with its next claim. A handler that began a transaction is settled inside it, and nothing is
left to say.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol

from fencepost._binding.calls import FP
from fencepost._binding.pack import Verdict
from fencepost._plans import here
from fencepost._verdicts import released, retry
from fencepost._worker.leases import Leases
from fencepost._worker.registry import Registry
from fencepost.claims import Claim, settling
from fencepost.errors import Cancelled, Error, InvalidArgument, LeaseLost, RetryLater
from fencepost.spans import SECOND, span_us
from fencepost.store import Store
from fencepost.transactions import Transaction, Tx, unwrap

if TYPE_CHECKING:
    from fencepost._worker.flowwriter import FlowWriter

__all__ = ["LOST", "STOPPING", "TIMED_OUT", "Host", "Run", "log_raised"]

log: Final = logging.getLogger("fencepost.worker")

LOST: Final = "the lease was lost"
STOPPING: Final = "the worker is stopping"
TIMED_OUT: Final = "its time is up"


class Host(Protocol):
    """What a run asks of the loop that started it."""

    store: Store
    leases: Leases
    registry: Registry
    flows: FlowWriter

    def clock(self) -> float:
        """Seconds, by which time-outs are counted."""


class Run:
    """The claims that one call is for, why it should stop, and what it ended with."""

    deadline: float | None = None  # from the moment it is entered
    hold_us: int | None = None  # how long nobody is to be handed anything from this queue
    entered = False  # it may never be: cancelled before its first step, or stopped too early
    abandoned = False  # the loop has settled it: what the handler says comes too late
    cancel: Callable[[], object] | None = None  # of a coroutine
    task: asyncio.Task[None] | None = None
    unwanted = False
    interruption: BaseException | None = None  # what it raised, if that is no Exception
    begin_by = inf  # later than that its lease is not safe enough to begin
    ended_at = 0.0
    _why: str | None = None

    def __init__(
        self,
        host: Host,
        name: str,
        claims: Sequence[Claim[Any]],
        *,
        coroutine: bool,
        timeout_us: int | None = None,
    ) -> None:
        self.name = name
        self.claims = claims
        self.coroutine = coroutine
        self.timeout_us = timeout_us
        self.store = host.store
        self.verdicts: list[Verdict] = []
        self._clock = host.clock
        self._leases = host.leases
        self._registry = host.registry
        self._file = host.store._file

    # ---- for the loop ----------------------------------------------------------------------------

    def call(self) -> None:
        """Run a plain handler, in this thread. Leaves `verdicts`."""
        raise NotImplementedError

    async def await_(self) -> None:
        """Run a coroutine, in this task. Leaves `verdicts`."""
        raise NotImplementedError

    def stop(self, why: str) -> None:
        """Ask the handler to stop; a coroutine is cancelled."""
        self._why = self._why or why
        self.tell()

    def tell(self) -> None:
        """Cancel a coroutine that has a reason to stop; a plain handler asks for itself."""
        if self.cancel is not None and self.why() is not None:
            self.cancel()
            self.cancel = None

    def said(self) -> list[Verdict]:
        """What is to be said about its claims, now that it has ended or is given up."""
        if self.abandoned:
            return self.give_up()
        return self.verdicts if self.entered else self.give_back()

    def give_back(self) -> list[Verdict]:
        """What is to be said about claims whose handler was not called."""
        return [released(claim._key) for claim in self.claims]

    def give_up(self) -> list[Verdict]:
        """What is to be said about the claims of a handler that does not answer."""
        return [verdict for claim in self.claims for verdict in self._stopped(claim)]

    def take_progress(self) -> bytes | None:
        """What the handler said last about how far it is; None: nothing new."""
        return None

    def enter(self) -> bool:
        """The handler is about to be called; False: it must not be, too much time has passed."""
        now = self._clock()
        self.entered = now < self.begin_by
        if self.timeout_us is not None:
            self.deadline = now + self.timeout_us / SECOND
        return self.entered

    # ---- for contexts and batches ----------------------------------------------------------------

    def why(self) -> str | None:
        """Why the handler should stop, if it should."""
        if self._why is None:
            if self.deadline is not None and self._clock() >= self.deadline:
                self._why = TIMED_OUT
            elif any(self._leases.lost(claim) for claim in self._unsettled()):
                self._why = LOST
        return self._why

    def begin(self) -> Transaction:
        unwrap(self._file, None)
        return Transaction(self._file, round(self._file.core.patience * SECOND))

    def settle(self, verdicts: Sequence[Verdict], tx: Tx) -> None:
        """Inside `tx`. `LeaseLost` if any was lost: `tx` must not be committed then."""
        if FP.LOST in here(settling(self._file, tx, verdicts, self.claims)):
            self._why = self._why or LOST
            raise LeaseLost(LOST)

    def encode(self, value: object, /) -> bytes:
        return self._registry.codec.encode(value)

    # ---- for jobs and batches --------------------------------------------------------------------

    def _unsettled(self) -> Sequence[Claim[Any]]:
        """The claims that the handler has not settled itself."""
        return self.claims

    def _backoff_us(self, claim: Claim[Any]) -> int:
        """Until the next attempt, if this one fails."""
        raise NotImplementedError

    def _refused(self) -> str | None:
        """Why a result comes too late. A worker that stops takes it as long as it is there."""
        why = self.why()
        return None if why == STOPPING else why

    def _told(self, error: BaseException) -> bool:
        """Whether it was raised because the handler was told to stop."""
        if not isinstance(error, (Cancelled, LeaseLost, asyncio.CancelledError)):
            return False
        return self.why() is not None

    def _stopped(self, claim: Claim[Any]) -> list[Verdict]:
        """What is to be said about a message whose handler stopped because it was told to."""
        if self._why == STOPPING:
            return [released(claim._key)]
        if self._why == TIMED_OUT:
            span = (self.timeout_us or 0) / SECOND
            text = f"ran for longer than {span:g} s"
            return [retry(claim._key, self._backoff_us(claim), "timeout", None, text)]
        return []

    def _note_interruption(self, error: BaseException) -> None:
        if not isinstance(error, Exception):  # those are not kept: their frames hold this run
            self.interruption = error

    def _note_hold(self, error: BaseException) -> None:
        if isinstance(error, RetryLater) and error.whole_queue:
            with suppress(InvalidArgument):  # such a delay is answered with a retry
                self.hold_us = span_us(error.delay, "delay")

    def _roll_back(self, tx: Transaction | None) -> None:
        if tx is None:
            return
        try:
            tx._end(commit=False)
        except Error as error:
            log.warning("%s: rolling back said: %s", self.name, error)


def log_raised(what: str, error: BaseException) -> None:
    """Where it was raised, and its type; not what it says, for that may be what a message says."""
    where = "".join(traceback.format_tb(error.__traceback__)).rstrip()
    log.warning("%s raised %s\n%s", what, type(error).__name__, where)
