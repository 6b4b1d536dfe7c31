"""What a handler may know and say about the message it runs for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from fencepost._binding.pack import Verdict
from fencepost._verdicts import acked
from fencepost.envelope import Envelope, without_envelope
from fencepost.errors import Cancelled, InvalidArgument
from fencepost.spans import moment
from fencepost.transactions import Transaction, Tx

if TYPE_CHECKING:
    from fencepost.claims import Claim
    from fencepost.store import Store

__all__ = ["Context", "Errand"]


class Errand(Protocol):
    """What the worker gives a context: the store, and why the handler should stop, if it should."""

    store: Store
    coroutine: bool

    def why(self) -> str | None: ...
    def begin(self) -> Transaction: ...
    def settle(self, verdicts: Sequence[Verdict], tx: Tx) -> None: ...
    def encode(self, value: object, /) -> bytes: ...


class Context:
    """One message, as its handler sees it; valid until the handler returns."""

    def __init__(self, claim: Claim[Any], queue: str, errand: Errand) -> None:
        self.queue = queue
        self.store: Store = errand.store
        self._claim = claim
        self._errand = errand
        self._over = False
        self._tx: Transaction | None = None
        self._settled_in: Tx | None = None
        self._progress: bytes | None = None

    # ---- what was said when it was enqueued, and what came of it so far --------------------------

    @property
    def id(self) -> int:
        return self._claim.id

    @property
    def key(self) -> str | None:
        return self._claim.key

    @property
    def lane(self) -> str | None:
        return self._claim.lane

    @property
    def headers(self) -> Mapping[str, str]:
        return without_envelope(self._claim.headers)

    @property
    def envelope(self) -> Envelope:
        """What its sender said around the payload; empty if that was nothing."""
        return Envelope.of(self._claim.headers)

    @property
    def enqueued_at(self) -> datetime:
        return self._claim.enqueued_at

    @property
    def due(self) -> datetime:
        """When it was meant to run."""
        return moment(self._claim._due_us)

    @property
    def attempt(self) -> int:
        """From 1 on, this one included."""
        return self._claim.attempt

    @property
    def last_attempt(self) -> bool:
        """If this one fails, the message is dead."""
        return 0 < self._claim._max_attempts <= self._claim.attempt

    @property
    def token(self) -> int:
        """The fence: it only rises in this file, so who is told it can refuse an older one."""
        return self._claim.token

    # ---- what the handler does -------------------------------------------------------------------

    @property
    def tx(self) -> Transaction:
        """
        A transaction, begun at first use and committed together with the end of this message.

        What the handler writes in it and the message's own end are one commit: if the lease is lost
        by then, or the handler raises, none of it has happened. It is the file's one writer until
        the handler returns, so begin it late. `Busy` if it is not free in time; `InvalidArgument`
        in a coroutine, which could await with everybody else locked out.
        """
        self._valid()
        if self._errand.coroutine:
            raise InvalidArgument("ctx.tx is for plain functions: an async handler would hold it")
        if self._tx is None:
            self._tx = self._errand.begin()
        return self._tx

    @property
    def cancelled(self) -> bool:
        """Stop: cancelled, timed out, the lease is lost, or the worker is stopping."""
        return self._errand.why() is not None

    def check(self) -> None:
        """`Cancelled` if this handler should stop; what it has done so far is not recorded."""
        why = self._errand.why()
        if why is not None:
            raise Cancelled(why)

    def progress(self, value: object, /) -> None:
        """
        Say how far it is, for `Handle.status()`. The newest wins; a few are written in a second.

        `PayloadError` if the value cannot be encoded.
        """
        self._valid()
        self._progress = self._errand.encode(value)

    def ack(self, result: object = None, *, tx: Tx) -> None:
        """
        Finish this message inside `tx`, a transaction of your own, instead of by returning.

        The commit of `tx` is then the end of the message; if it rolls back, the message is retried.
        `LeaseLost` if somebody else has it: let that roll `tx` back.
        """
        self._valid()
        body = None if result is None else self._errand.encode(result)
        self._errand.settle([acked(self._claim._key, body)], tx)
        self._settled_in = tx

    # ---- for the worker --------------------------------------------------------------------------

    def _valid(self) -> None:
        if self._over:
            raise InvalidArgument("a context is valid until its handler returns")

    def _commit(self, verdict: Verdict) -> bool:
        """Commit what the handler began, and the verdict with it. False: it began nothing."""
        tx = self._tx
        if tx is None:
            return False
        if self._settled_in is not tx:
            self._errand.settle([verdict], tx)
        self._tx = None
        tx._end(commit=True)
        return True

    def _close(self) -> Transaction | None:
        """Over. What was begun and not committed is returned, to be rolled back."""
        self._over = True
        tx, self._tx = self._tx, None
        return tx

    def _take_progress(self) -> bytes | None:
        value, self._progress = self._progress, None
        return value
