"""Claims: the right to finish one message, and the batch a handler is given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from fencepost._binding import pack
from fencepost._binding.calls import FP
from fencepost._binding.pack import Packed, Settle, Verdict
from fencepost._binding.requests import Settling
from fencepost._door.inserts import Door
from fencepost._enqueue import read_headers
from fencepost._file import File
from fencepost._plans import Plan, Write, here
from fencepost._verdicts import QUEUES_OWN, acked, failed, retry, text_of
from fencepost.errors import InvalidArgument, LeaseLost, PermanentError
from fencepost.spans import lease_us, moment, span_us
from fencepost.transactions import Transaction, Tx, entered
from fencepost.values import Span

if TYPE_CHECKING:
    from fencepost.queues import Queue

__all__ = ["Batch", "Claim", "Holder", "claims_of", "settling"]

T = TypeVar("T")

UNDECODED: Final[Any] = object()
OWN_LEASE: Final = -1

# Where the fields of fp_step's records are.
ID, TOKEN, ATTEMPT, QUEUE, KIND, ENQUEUED_AT, DUE, LEASE_END = range(8)
GENERATION, MAX_ATTEMPTS, LAPSED, LIFE, KEY, LANE, HEADERS, BODY = range(8, 16)


class Delivery(Generic[T]):
    """What the claims of one queue share that came together."""

    __slots__ = ("decode", "file", "numbers", "queue", "type")

    def __init__(self, file: File, queue: Queue[T], numbers: Sequence[int]) -> None:
        self.file = file
        self.queue = queue
        self.numbers = numbers  # of all their records, flat
        self.decode = file.codec.decode
        self.type = queue.type


class Claim(Generic[T]):
    """
    The right to finish one message, and the proof of it.

    `token` is a fence: it only ever rises in this file, and the store takes a settlement only from
    the newest. Who slept past the lease still holds a `Claim`, and believes it; the store knows
    better. Settling says `LeaseLost` then; a repeated ack by the same token is no error.
    """

    # Thousands are made at a time: what is rarely asked for stays packed.
    __slots__ = ("_at", "_delivery", "_head", "_payload", "_settled", "body", "id", "token")

    def __init__(
        self, delivery: Delivery[T], at: int, id: int, token: int, head: bytes, body: bytes
    ) -> None:
        self.id = id
        self.token = token
        self.body = body
        self._delivery = delivery
        self._at = at  # of its record
        self._head = head  # key, lane and headers
        self._payload: T = UNDECODED
        self._settled = False

    def __repr__(self) -> str:
        return (
            f"<Claim {self.id} of {self._queue.name}, token {self.token}, attempt {self.attempt}>"
        )

    @property
    def attempt(self) -> int:
        """From 1 on, this one included."""
        return self._number(ATTEMPT)

    @property
    def enqueued_at(self) -> datetime:
        return moment(self._number(ENQUEUED_AT))

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
    def payload(self) -> T:
        """The body as the queue's type, decoded here. `PayloadError` if it is none."""
        if self._payload is UNDECODED:
            delivery = self._delivery
            self._payload = delivery.decode(self.body, delivery.type)
        return self._payload

    def ack(self, result: object = None, *, tx: Tx | None = None) -> None:
        """Finish the message; `result` is kept with the outcome. Raises `LeaseLost`."""
        here(self._ack(result, tx))

    def retry(
        self, delay: Span | None = None, *, error: BaseException | str = "", tx: Tx | None = None
    ) -> None:
        """
        Once more after `delay` seconds, or the queue's back-off. Uses the attempt: the last one
        makes it a dead letter. Raises `LeaseLost`.
        """
        here(self._retry(delay, error, tx))

    def release(self, delay: Span = 0, *, tx: Tx | None = None) -> None:
        """Give it back, and the attempt with it, to its old place or later. `LeaseLost`."""
        here(self._release(delay, tx))

    def fail(self, error: BaseException | str, *, tx: Tx | None = None) -> None:
        """A dead letter at once. Raises `LeaseLost`."""
        here(self._fail(error, tx))

    def renew(self, lease: Span | None = None) -> None:
        """Hold it for `lease` seconds from now, or the queue's own lease. Raises `LeaseLost`."""
        here(self._renew(lease))

    # ---- the same as plans -----------------------------------------------------------------------

    def _ack(self, result: object, tx: Tx | None) -> Plan[None]:
        data = None if result is None else self._file.codec.encode(result)
        return self._settle(acked(self._key, data), tx)

    def _retry(self, delay: Span | None, error: BaseException | str, tx: Tx | None) -> Plan[None]:
        delay_us = QUEUES_OWN if delay is None else span_us(delay, "delay")
        if isinstance(error, str) and not error:
            return self._settle(Verdict(*self._key, FP.RETRY, delay_us), tx)
        return self._settle(retry(self._key, delay_us, "error", *_said(error)), tx)

    def _release(self, delay: Span, tx: Tx | None) -> Plan[None]:
        return self._settle(Verdict(*self._key, FP.RELEASE, span_us(delay, "delay")), tx)

    def _fail(self, error: BaseException | str, tx: Tx | None) -> Plan[None]:
        return self._settle(failed(self._key, "error", *_said(error)), tx)

    def _renew(self, lease: Span | None) -> Plan[None]:
        span = OWN_LEASE if lease is None else lease_us(lease)
        return self._say(Verdict(*self._key, FP.RENEW, span), None)

    def _settle(self, verdict: Verdict, tx: Tx | None) -> Plan[None]:
        yield from self._say(verdict, tx)
        self._settled = True

    def _say(self, verdict: Verdict, tx: Tx | None) -> Plan[None]:
        answers = yield from settling(self._file, tx, [verdict], [self])
        if answers[0] == FP.LOST:
            raise LeaseLost(f"message {self.id}: the lease was lost")

    # ---- what the worker needs to know -----------------------------------------------------------

    @property
    def _key(self) -> tuple[int, int]:
        return self.id, self.token

    @property
    def _file(self) -> File:
        return self._delivery.file

    @property
    def _queue(self) -> Queue[T]:
        return self._delivery.queue

    @property
    def _kind(self) -> int:
        """The number of the job's name, 0 for none."""
        return self._number(KIND)

    @property
    def _due_us(self) -> int:
        """When it was meant to run."""
        return self._number(DUE)

    @property
    def _lease_end_us(self) -> int:
        return self._number(LEASE_END)

    @property
    def _generation(self) -> int:
        return self._number(GENERATION)

    @property
    def _max_attempts(self) -> int:
        """0: no limit."""
        return self._number(MAX_ATTEMPTS)

    @property
    def _lapsed(self) -> bool:
        """Its last holder never answered."""
        return bool(self._number(LAPSED))

    def _number(self, which: int) -> int:
        return self._delivery.numbers[self._at + which]

    def _part(self, which: int) -> bytes | None:
        """Key, lane or headers."""
        parts, _ = pack.parts(self._head, 0, [self._number(part) for part in (KEY, LANE, HEADERS)])
        return parts[which - KEY]

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
    numbers = pack.numbers(packed)
    deliveries = {number: Delivery(file, queue, numbers) for number, queue in queues.items()}
    blob, begin = packed.blob, 0
    places = range(0, len(numbers), packed.width or 1)
    rows = zip(places, pack.claims(packed), strict=True)
    for at, (id_, token, queue, key, lane, headers, body) in rows:
        middle = begin
        if key > 0:
            middle += key
        if lane > 0:
            middle += lane
        if headers > 0:
            middle += headers
        end = middle + body
        head = blob[begin:middle] if middle > begin else b""
        claims.append(Claim(deliveries[queue], at, id_, token, head, blob[middle:end]))
        begin = end
    return claims


def settling(
    file: File, tx: Tx | None, said: Settle, claims: Iterable[Claim[Any]]
) -> Plan[Sequence[int]]:
    """What is said of each of these claims, in `tx` or as a commit of its own; the answers."""
    where = entered(file, tx)
    if isinstance(where, Door):
        return where.settle(said, [claim._lease_end_us for claim in claims])
    answers: Sequence[int] = yield Write(file, where, Settling(said))
    return answers


def _said(error: BaseException | str) -> tuple[str | None, str]:
    """The code and the text of a failure."""
    if isinstance(error, str):
        return None, error
    if isinstance(error, BaseException):
        named = isinstance(error, PermanentError) and error.code
        return named or type(error).__name__, text_of(error)
    raise InvalidArgument(f"error is an exception or text, not {type(error).__name__}")
