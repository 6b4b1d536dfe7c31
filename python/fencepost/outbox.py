"""
Outboxes: what leaves the file, sent by a worker once the transaction that asked for it is there.

A delivery is not part of any transaction, so three things are kept apart: that it is to be sent,
that the send began, and that it has arrived. What became of a send that began and was not answered
for, nobody here can know: it is `unknown`, and an operator's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from fencepost._checks import function, name_bytes
from fencepost._declared import Declared
from fencepost._enqueue import digests, entry, put_entries, sending, write_headers
from fencepost._file import File
from fencepost._plans import Plan, here
from fencepost.aio import AsyncOutbox
from fencepost.context import Context, Errand
from fencepost.envelope import NOTHING, Envelope, beside, checked, without_envelope
from fencepost.errors import InvalidArgument, PayloadError
from fencepost.policies import Declaration
from fencepost.spans import span_us
from fencepost.transactions import entered
from fencepost.values import Enqueued, Options

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from fencepost.claims import Claim

__all__ = ["Delivery", "Outbox"]

T = TypeVar("T")

DESTINATION: Final = "fencepost-destination"  # the header that a message carries it in


class Delivery(Context, Generic[T]):
    """
    One message on its way out, as its handler sees it; valid until the handler returns.

    `event_id` is the same for all attempts, and no other event's in any file: send it along, as the
    idempotency key or the message's id, so that the receiver can tell a repetition. `headers` are
    those of `send()`, and the attributes of a CloudEvent: ce-id, ce-source, ce-type, ce-time and
    ce-specversion; of what its envelope says, ce-traceparent, ce-correlationid and ce-causationid.
    """

    def __init__(self, claim: Claim[T], topic: str, errand: Errand, file: File) -> None:
        """`PayloadError` if it cannot be read."""
        super().__init__(claim, topic, errand)
        written = claim.headers
        said = dict(without_envelope(written))
        envelope = Envelope.of(written)
        if DESTINATION not in said:
            raise PayloadError("it has no destination")
        self.payload: T = claim.payload
        self.destination = said.pop(DESTINATION)
        self.event_id = f"{file.uuid}-{claim.id}"
        belongs = {
            "ce-traceparent": envelope.trace,
            "ce-correlationid": envelope.correlation,
            "ce-causationid": envelope.causation,
        }
        self._headers = {
            **{name: value for name, value in belongs.items() if value},
            "ce-source": f"urn:uuid:{file.uuid}",
            "ce-type": topic,
            "ce-time": claim.enqueued_at.isoformat(),
            **said,
            "ce-specversion": "1.0",
            "ce-id": self.event_id,
        }

    @property
    def headers(self) -> Mapping[str, str]:
        return self._headers

    @property
    def body(self) -> bytes:
        """The payload as the codec wrote it, to sign or to send: the same in every attempt."""
        return self._claim.body


Handler = Callable[[Delivery[T]], object]


class Outbox(Declared[T]):
    """Messages of one type for the outside world. Made by `App.outbox`."""

    def __init__(self, declaration: Declaration, type: Any, *, home: Callable[[], File]) -> None:
        super().__init__(declaration, type, home=home)
        self.topic = declaration.name
        self._handler: Handler[T] | None = None

    @property
    def aio(self) -> AsyncOutbox[T]:
        """The same, awaitable."""
        return AsyncOutbox(self)

    def send(
        self,
        destination: str,
        payload: T,
        /,
        *,
        envelope: Envelope = NOTHING,
        **options: Unpack[Options],
    ) -> Enqueued:
        """
        Have it delivered; in `tx`, if and when that commits.

        It arrives once, or more than once, or is put aside as `unknown`; never not at all without a
        dead letter. Within a `lane` they are sent one after the other, also while the first one is
        being retried. An equal message under a `key` goes to the same destination. `envelope` is
        what its handler finds as `Delivery.envelope`. Raises as `Queue.enqueue`.
        """
        return here(self._send(destination, payload, envelope, options))

    def _send(
        self, destination: str, payload: T, envelope: Envelope, options: Options
    ) -> Plan[Enqueued]:
        name_bytes(destination, "a destination")
        said = options.get("headers", {})
        tx = options.get("tx")
        file = self._file(tx)
        one = entry(file.codec.encode(payload), options)
        if DESTINATION in said:
            raise InvalidArgument(f"{DESTINATION} is said by the destination itself")
        headers = {**beside(checked(envelope), said), DESTINATION: destination}
        one = one._replace(headers=write_headers(headers))
        put = put_entries(file, [one])
        if one.key is not None:
            put.digests = digests([one.body], destination)
        where, wait_us = entered(file, tx), span_us(options.get("wait", 0), "wait")
        found = yield from sending(file, self._declaration, put, tx=where, wait_us=wait_us)
        return found[0]

    def handler(self, fn: Handler[T], /) -> Handler[T]:
        """
        A worker calls the function with each `Delivery`, once its send has been written down as
        begun; when it returns, the message has arrived. It is the only place that need touch the
        outside world.

        What it raises is its word that nothing has arrived: the message is tried again, put off by
        `RetryLater` (`whole_queue` for all of the outbox), or dead by `PermanentError`. Where it
        cannot say so, a time-out after the request went out, it raises `DeliveryUnknown`. A
        coroutine that is cancelled, a handler that does not return within the worker's grace, and a
        worker that dies are answered for by nobody: `unknown`, or with `on_unknown="retry"` sent
        again as another attempt. The function stays what it was; `fencepost.relay` has some made.
        """
        function(fn, "a handler")
        if self._handler is not None:
            raise InvalidArgument(f"outbox {self.topic} has a handler already")
        self._handler = fn
        return fn
