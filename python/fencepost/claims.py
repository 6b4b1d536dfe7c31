"""Claims: the right to finish one message, and the batch a handler is given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from fencepost import _pack
from fencepost._calls import FP
from fencepost._enqueue import read_headers
from fencepost._file import File
from fencepost._pack import Packed, Verdict
from fencepost._verdicts import acked, failed, retry, text_of
from fencepost.errors import InvalidArgument, LeaseLost, PermanentError
from fencepost.spans import lease_us, moment, span_us
from fencepost.transactions import Transaction, Tx, unwrap
from fencepost.values import Span

if TYPE_CHECKING:
    from fencepost.queues import Queue

__all__ = ["Batch", "Claim", "Holder", "claims_of"]

T = TypeVar("T")

UNDECODED: Final[Any] = object()
OWN_BACKOFF: Final = -1  # of the queue
OWN_LEASE: Final = -1

# Where the fields of fp_step's records are.
ID, TOKEN, ATTEMPT, QUEUE, KIND, ENQUEUED_AT, DUE, LEASE_END = range(8)
GENERATION, MAX_ATTEMPTS, LAPSED, LIFE, KEY, LANE, HEADERS, BODY = range(8, 16)


class Claim(Generic[T]):
    """
    The right to finish one message, and the proof of it.

    `token` is a fence: it only ever rises in this file, and the store takes a settlement only from
    the newest. Who slept past the lease still holds a `Claim`, and believes it; the store knows
    better. Settling says `LeaseLost` then; a repeated ack by the same token is no error.
    """

    __slots__ = ("_at", "_blob", "_file", "_payload", "_queue", "_record", "_settled")

    def __init__(
        self, file: File, queue: Queue[T], record: tuple[int, ...], blob: bytes, at: int
    ) -> None:
        self._file = file
        self._queue = queue
        self._record = record
        self._blob = blob  # of all claims that came together, cut when it is asked for
        self._at = at
        self._payload: T = UNDECODED
        self._settled = False

    def __repr__(self) -> str:
        return (
            f"<Claim {self.id} of {self._queue.name}, token {self.token}, attempt {self.attempt}>"
        )

    @property
    def id(self) -> int:
        return self._record[ID]

    @property
    def token(self) -> int:
        return self._record[TOKEN]

    @property
    def attempt(self) -> int:
        """From 1 on, this one included."""
        return self._record[ATTEMPT]

    @property
    def enqueued_at(self) -> datetime:
        return moment(self._record[ENQUEUED_AT])

    @property
    def key(self) -> str | None:
        return self._text(KEY)

    @property
    def lane(self) -> str | None:
        return self._text(LANE)

    @property
    def headers(self) -> Mapping[str, str]:
        return read_headers(self._part(HEADERS))

    @property
    def body(self) -> bytes:
        return self._part(BODY) or b""

    @property
    def payload(self) -> T:
        """The body as the queue's type, decoded here. `PayloadError` if it is none."""
        if self._payload is UNDECODED:
            self._payload = self._file.codec.decode(self.body, self._queue.type)
        return self._payload

    def ack(self, result: object = None, *, tx: Tx | None = None) -> None:
        """Finish the message; `result` is kept with the outcome. Raises `LeaseLost`."""
        data = None if result is None else self._file.codec.encode(result)
        self._settle(acked(self._key, data), tx)

    def retry(
        self, delay: Span | None = None, *, error: BaseException | str = "", tx: Tx | None = None
    ) -> None:
        """
        Once more after `delay` seconds, or the queue's back-off. Uses the attempt: the last one
        makes it a dead letter. Raises `LeaseLost`.
        """
        delay_us = OWN_BACKOFF if delay is None else span_us(delay, "delay")
        if isinstance(error, str) and not error:
            self._settle(Verdict(*self._key, FP.RETRY, delay_us), tx)
        else:
            self._settle(retry(self._key, delay_us, "error", *_said(error)), tx)

    def release(self, delay: Span = 0, *, tx: Tx | None = None) -> None:
        """Give it back, and the attempt with it, to its old place or later. `LeaseLost`."""
        self._settle(Verdict(*self._key, FP.RELEASE, span_us(delay, "delay")), tx)

    def fail(self, error: BaseException | str, *, tx: Tx | None = None) -> None:
        """A dead letter at once. Raises `LeaseLost`."""
        self._settle(failed(self._key, "error", *_said(error)), tx)

    def renew(self, lease: Span | None = None) -> None:
        """Hold it for `lease` seconds from now, or the queue's own lease. Raises `LeaseLost`."""
        span = OWN_LEASE if lease is None else lease_us(lease)
        self._say(Verdict(*self._key, FP.RENEW, span), None)

    def _settle(self, verdict: Verdict, tx: Tx | None) -> None:
        self._say(verdict, tx)
        self._settled = True

    def _say(self, verdict: Verdict, tx: Tx | None) -> None:
        if self._file.core.settle(unwrap(self._file, tx), [verdict])[0] == FP.LOST:
            raise LeaseLost(f"message {self.id}: the lease was lost")

    # ---- what the worker needs to know -----------------------------------------------------------

    @property
    def _key(self) -> tuple[int, int]:
        return self._record[ID], self._record[TOKEN]

    @property
    def _kind(self) -> int:
        """The number of the job's name, 0 for none."""
        return self._record[KIND]

    @property
    def _due_us(self) -> int:
        """When it was meant to run."""
        return self._record[DUE]

    @property
    def _lease_end_us(self) -> int:
        return self._record[LEASE_END]

    @property
    def _generation(self) -> int:
        return self._record[GENERATION]

    @property
    def _max_attempts(self) -> int:
        """0: no limit."""
        return self._record[MAX_ATTEMPTS]

    @property
    def _lapsed(self) -> bool:
        """Its last holder never answered."""
        return bool(self._record[LAPSED])

    def _part(self, which: int) -> bytes | None:
        length = self._record[which]
        if length < 0:
            return None
        at = self._at + sum(before for before in self._record[KEY:which] if before > 0)
        return self._blob[at : at + length]

    def _text(self, which: int) -> str | None:
        data = self._part(which)
        return None if data is None else data.decode("utf-8", "replace")


class Holder(Protocol):
    """What a batch asks its worker for."""

    @property
    def tx(self) -> Transaction: ...
    @property
    def cancelled(self) -> bool: ...


class Batch(list[Claim[T]]):
    """
    The claims that a batch handler is given together.

    What it does not settle by name is acked when it returns; a batch whose handler raises comes
    back one by one.
    """

    def __init__(self, claims: Iterable[Claim[T]], holder: Holder) -> None:
        super().__init__(claims)
        self._holder = holder

    @property
    def payloads(self) -> list[T]:
        return [claim.payload for claim in self]

    @property
    def tx(self) -> Transaction:
        """Begun at its first use, committed with the settling of the batch."""
        return self._holder.tx

    @property
    def cancelled(self) -> bool:
        """The worker stops, or the lease was lost."""
        return self._holder.cancelled


def claims_of(file: File, queues: Mapping[int, Queue[Any]], packed: Packed) -> list[Claim[Any]]:
    """The claims in an answer of the core; `queues` by their numbers."""
    claims: list[Claim[Any]] = []
    at = 0
    for record in _pack.records(packed):
        claims.append(Claim(file, queues[record[QUEUE]], record, packed.blob, at))
        key, lane, headers, body = record[KEY:]
        at += body
        if key > 0:
            at += key
        if lane > 0:
            at += lane
        if headers > 0:
            at += headers
    return claims


def _said(error: BaseException | str) -> tuple[str | None, str]:
    """The code and the text of a failure."""
    if isinstance(error, str):
        return None, error
    if isinstance(error, BaseException):
        named = isinstance(error, PermanentError) and error.code
        return named or type(error).__name__, text_of(error)
    raise InvalidArgument(f"error is an exception or text, not {type(error).__name__}")
