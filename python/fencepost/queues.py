"""Queues: put a payload in, claim it, settle it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fencepost._binding import pack
from fencepost._binding.calls import FP
from fencepost._binding.pack import Put, Take
from fencepost._checks import function, name_bytes, several, whole
from fencepost._declared import Declared
from fencepost._enqueue import PRIORITIES, digests, entry, put_entries, sending
from fencepost._file import File
from fencepost._plans import Ask, Plan, Taking, here
from fencepost.aio import AsyncQueue
from fencepost.claims import Batch, Claim, claims_of, settling
from fencepost.codec import encode_many
from fencepost.errors import InvalidArgument
from fencepost.policies import Declaration
from fencepost.spans import lease_us, span_us
from fencepost.transactions import Tx, entered, unwrap
from fencepost.values import Enqueued, Options, Span

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Queue"]

T = TypeVar("T")
Handler = Callable[[Batch[T]], object]

LIMIT_MAX: Final = 10_000  # messages of one claim, as in csrc/base.h


class Queue(Declared[T]):
    """
    Messages of one type, in the order of due time, then of enqueueing, per priority.

    Of `Store.queue()` it lives in that store. Of `App.queue()` it lives in the file of `tx=`, else
    of `.at(store)`, else in the App's own. It is made in the file at its first use.
    """

    def __init__(
        self,
        declaration: Declaration,
        type: Any,
        *,
        bound: File | None = None,
        home: Callable[[], File] | None = None,
    ) -> None:
        super().__init__(declaration, type, bound=bound, home=home)
        self.name = declaration.name
        self._handler: Handler[T] | None = None  # what follows is for the worker
        self._batch = 1
        self._linger_us = 0

    @property
    def aio(self) -> AsyncQueue[T]:
        """The same, awaitable."""
        return AsyncQueue(self)

    # ---- putting in ------------------------------------------------------------------------------

    def enqueue(self, payload: T, /, **options: Unpack[Options]) -> Enqueued:
        """
        Put one message in, durably; in `tx`, with its commit.

        `key` says once, until retention; `unique` once while pending or leased: an equal message is
        answered with the first one, a different one is a `Conflict`. Raises `PayloadError`,
        `QueueFull` (after `wait` seconds), `Busy`.
        """
        return here(self._enqueue(payload, options))

    def _enqueue(self, payload: T, options: Options) -> Plan[Enqueued]:
        tx = options.get("tx")
        file = self._file(tx)
        body = file.codec.encode(payload)
        put = put_entries(file, [entry(body, options)]) if options else Put(0, [body])
        where, wait_us = entered(file, tx), span_us(options.get("wait", 0), "wait")
        found = yield from sending(file, self._declaration, put, tx=where, wait_us=wait_us)
        return found[0]

    def enqueue_many(
        self,
        payloads: Iterable[T],
        /,
        *,
        key: Callable[[T], str] | None = None,
        lane: Callable[[T], str] | None = None,
        delay: Span = 0,
        priority: int = 0,
        tx: Tx | None = None,
        wait: Span = 0,
    ) -> list[Enqueued]:
        """
        Put many in, in their order: one commit, all or none; an answer for each.

        Raises as `enqueue`; a `Conflict` names the message that owns the key. At most 100,000
        messages and 1 GiB at once.
        """
        return here(self._enqueue_many(payloads, key, lane, delay, priority, tx, wait))

    def _enqueue_many(
        self,
        payloads: Iterable[T],
        key: Callable[[T], str] | None,
        lane: Callable[[T], str] | None,
        delay: Span,
        priority: int,
        tx: Tx | None,
        wait: Span,
    ) -> Plan[list[Enqueued]]:
        file = self._file(tx)
        payloads = several(payloads, "payloads")
        bodies = encode_many(file.codec, payloads)
        put = Put(
            0,
            bodies,
            delay_us=span_us(delay, "delay"),
            priority=whole(priority, "priority", *PRIORITIES),
        )
        if key is not None:
            function(key, "key")
            put.keys = [name_bytes(key(payload), "key") for payload in payloads]
            put.life = FP.LIFE_LASTING
            put.digests = digests(bodies)
        if lane is not None:
            function(lane, "lane")
            put.lanes = [name_bytes(lane(payload), "lane") for payload in payloads]
        where, wait_us = entered(file, tx), span_us(wait, "wait")
        return (yield from sending(file, self._declaration, put, tx=where, wait_us=wait_us))

    # ---- taking out ------------------------------------------------------------------------------

    def claim(self, limit: int = 1, *, lease: Span | None = None, wait: Span = 0) -> list[Claim[T]]:
        """
        Take up to `limit` messages that are due, for `lease` seconds (None: the queue's own); wait
        up to `wait` seconds for the first.

        Delivery is at least once: a message whose claim is not settled before its lease ends, or
        before its process does, is handed out again, with a higher token.
        """
        return here(self._claim(limit, lease, wait))

    def _claim(self, limit: int, lease: Span | None, wait: Span) -> Plan[list[Claim[T]]]:
        file = self._file(None)
        unwrap(file, None)
        take = Take([], whole(limit, "limit", 1, LIMIT_MAX), alone=FP.ALONE_LAPSED)
        if lease is not None:
            take.lease_us = lease_us(lease)
        wait_us = span_us(wait, "wait")

        def ready() -> Take:
            take.queues = [file.queue(self._declaration, None)]
            return take

        found = yield Taking(file, ready, wait_us)
        return claims_of(file, {take.queues[0]: self}, found)

    def ack(self, claims: Iterable[Claim[T]], /, *, tx: Tx | None = None) -> list[Claim[T]]:
        """
        Finish all of them in one commit; those that were lost, which changed nothing.

        Acking the same claim again is no loss.
        """
        return here(self._ack(claims, tx))

    def _ack(self, claims: Iterable[Claim[T]], tx: Tx | None) -> Plan[list[Claim[T]]]:
        held: Sequence[Claim[T]] = several(claims, "claims", Claim)
        file = self._file(tx)
        if any(delivery.file is not file for delivery in {claim._delivery for claim in held}):
            raise InvalidArgument(f"some of {held!r} were claimed from another store")
        keys = pack.pairs([(claim.id, claim.token) for claim in held])
        answers = yield from settling(file, tx, keys, held)
        lost = [claim for claim, answer in zip(held, answers, strict=True) if answer == FP.LOST]
        for claim in held:
            claim._settled = True
        for claim in lost:
            claim._settled = False
        return lost

    def size(self) -> int:
        """Messages that are pending or leased."""
        return here(self._size())

    def _size(self) -> Plan[int]:
        file = self._file(None)
        unwrap(file, None)
        size: int = yield Ask(file, partial(self._count, file))
        return size

    def _count(self, file: File) -> int:
        number = file.find(self.name)
        return file.core.size(None, number) if number else 0

    # ---- handling --------------------------------------------------------------------------------

    def handler(self, *, batch: int = 1, linger: Span = 0) -> Callable[[Handler[T]], Handler[T]]:
        """
        A worker calls the function with up to `batch` claims at a time.

        It waits up to `linger` seconds for a batch to fill. The function stays what it was.
        """
        whole(batch, "batch", 1, LIMIT_MAX)
        linger_us = span_us(linger, "linger")

        def register(fn: Handler[T]) -> Handler[T]:
            function(fn, "a handler")
            if self._handler is not None:
                raise InvalidArgument(f"queue {self.name} has a handler already")
            self._handler, self._batch, self._linger_us = fn, batch, linger_us
            return fn

        return register
