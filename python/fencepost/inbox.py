"""
Inboxes: what comes in, once for each message id, however often it is brought.

Who accepts a message answers its sender from the file: accepted, a duplicate, or another message
under an id that is taken. Its handler runs later; its rows, what follows from it and the end of the
message are one commit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, overload

from fencepost import _inspect
from fencepost._binding.calls import FP
from fencepost._checks import flag, function, name_bytes, shown, whole
from fencepost._declared import Declared
from fencepost._enqueue import entry, put_entries, sending
from fencepost._file import File
from fencepost._fingerprint import fingerprint
from fencepost._plans import Plan, here
from fencepost._verdicts import QUEUES_OWN, acked, retry
from fencepost.aio import AsyncInbox
from fencepost.context import Context
from fencepost.envelope import NOTHING, Contracts, Envelope, Fault, beside, checked
from fencepost.errors import Conflict, InvalidArgument
from fencepost.policies import Declaration
from fencepost.spans import span_us
from fencepost.transactions import entered, unwrap
from fencepost.values import Message, Options, Span

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Accepted", "Inbox"]

T = TypeVar("T")

Accepted: TypeAlias = Literal["accepted", "duplicate", "conflict"]
Settle: TypeAlias = Literal["accepted", "completed"]
Handler = Callable[[Context, T], object]
FaultHandler = Callable[[Context, T | Fault], object]

TOKEN_MAX: Final = 2**63 - 1
COMPLETION: Final = 300  # seconds


class Inbox(Declared[T]):
    """Messages of one type that come in at one address. Made by `App.inbox`."""

    def __init__(self, declaration: Declaration, type: Any, *, home: Callable[[], File]) -> None:
        super().__init__(declaration, Any if isinstance(type, Contracts) else type, home=home)
        self.address = declaration.name
        self._contracts: Contracts[T] | None = type if isinstance(type, Contracts) else None
        self._handler: Handler[T] | FaultHandler[T] | None = None  # what follows is for the worker
        self._faults = False
        self._completes = False
        self._completion_us = 0

    @property
    def aio(self) -> AsyncInbox[T]:
        """The same, awaitable."""
        return AsyncInbox(self)

    def accept(
        self,
        message_id: str,
        payload: T | bytes | None,
        /,
        *,
        envelope: Envelope = NOTHING,
        **options: Unpack[Options],
    ) -> Accepted:
        """
        Take a message in, durably; in `tx`, with its commit. Then its sender may forget it.

        "duplicate": it is there already, or has been dealt with; "conflict": another message is
        there under this id, and nothing was changed. The same is what says the same in payload,
        `envelope` and `headers`; JSON objects are compared without the order of their names. An id
        answers until its message has ended and `dedupe_window` has passed. `bytes` are the payload
        as it came, encoded; with an envelope's fault there is none. Raises as `Queue.enqueue`, but
        no `Conflict`.
        """
        return here(self._accept(message_id, payload, envelope, options))

    def _accept(
        self, message_id: str, payload: T | bytes | None, envelope: Envelope, options: Options
    ) -> Plan[Accepted]:
        if "key" in options or "unique" in options:
            raise InvalidArgument("the message's id is its key")
        tx = options.get("tx")
        file = self._file(tx)
        name_bytes(message_id, "a message's id")
        headers = beside(self._enveloped(payload, checked(envelope)), options.get("headers", {}))
        body = payload if isinstance(payload, bytes) else file.codec.encode(payload)
        one = entry(body, {**options, "key": message_id, "headers": headers})
        put = put_entries(file, [one])
        put.digests = fingerprint(body, headers)
        where, wait_us = entered(file, tx), span_us(options.get("wait", 0), "wait")
        try:
            answers = yield from sending(file, self._declaration, put, tx=where, wait_us=wait_us)
        except Conflict:
            return "conflict"
        return "accepted" if answers[0].created else "duplicate"

    def _enveloped(self, payload: object, envelope: Envelope) -> Envelope:
        if envelope.fault is not None and payload is not None:
            raise InvalidArgument("a message with a fault has no payload: it is None")
        if self._contracts is None:
            return envelope
        return self._contracts._envelope(payload, envelope)

    @property
    def dedupe_window(self) -> float:
        """
        For how many seconds after its message's end an id answers: `key_window`, or the longer of
        `keep` and 7 days.
        """
        file = self._file(None)
        unwrap(file, None)
        policy = file.missing(self._declaration)
        if policy is None:
            policy = file.core.queue_find(None, self.address.encode())[1]
        return _inspect.window({**policy, **dict(self._declaration.fields)})

    def message(self, message_id: str, /) -> Message | None:
        """What became of the message of this id; None: it never came, or retention took it."""
        file = self._file(None)
        unwrap(file, None)
        found = file.core.get_by_key(
            file.find(self.address), 0, FP.LIFE_LASTING, name_bytes(message_id, "a message's id")
        )
        return next(_inspect.messages(file, found), None)

    # ---- handling --------------------------------------------------------------------------------

    @overload
    def handler(self, fn: Handler[T], /) -> Handler[T]: ...
    @overload
    def handler(
        self, /, *, faults: Literal[True], settle: Settle = ..., timeout: Span = ...
    ) -> Callable[[FaultHandler[T]], FaultHandler[T]]: ...
    @overload
    def handler(
        self, /, *, settle: Settle = ..., timeout: Span = ...
    ) -> Callable[[Handler[T]], Handler[T]]: ...
    def handler(
        self,
        fn: Any = None,
        /,
        *,
        faults: bool = False,
        settle: Settle = "accepted",
        timeout: Span = COMPLETION,
    ) -> Any:
        """
        A worker calls the function with the context and the payload of each message.

        When it returns the message is done, in one commit with what it wrote through `ctx.tx`. A
        worker whose lease has run out can end nothing any more, even if nobody else has taken it.
        With `settle="completed"` its return only means that the work has begun elsewhere:
        the message is held until `complete` says how that ended, `timeout` seconds at the most;
        then, or when the worker ends, it comes again. Each that is held takes a thread.

        With `faults` it is called with the `Fault` of a message that has one in its envelope; else
        such a message is a dead letter of kind "fault".
        """
        if settle not in ("accepted", "completed"):
            raise InvalidArgument(f'settle is "accepted" or "completed", not {shown(settle)}')
        timeout_us = span_us(timeout, "timeout")
        flag(faults, "faults")

        def register(fn: Any) -> Any:
            function(fn, "a handler")
            if self._handler is not None:
                raise InvalidArgument(f"inbox {self.address} has a handler already")
            self._handler, self._faults, self._completes = fn, faults, settle == "completed"
            self._completion_us = timeout_us
            return fn

        return register if fn is None else register(fn)

    def complete(self, message_id: str, token: int, /, *, error: str | None = None) -> bool:
        """
        What a `settle="completed"` handler began has ended, well or with an `error`, which has it
        tried again; `token` is the context's. From any process. False: it is too late, the message
        is not that handler's any more.
        """
        file = self._file(None)
        message = self.message(message_id)
        whole(token, "token", 1, TOKEN_MAX)
        if error is not None and not isinstance(error, str):
            raise InvalidArgument(f"error is text, not {shown(error)}")
        if message is None:
            return False
        key = (message.id, token)
        if error is None:
            verdict = acked(key)
        else:
            verdict = retry(key, QUEUES_OWN, "completion_failed", None, error)
        answer = file.core.settle(None, [verdict])[0]
        return answer != FP.LOST
