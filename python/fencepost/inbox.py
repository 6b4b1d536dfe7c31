"""
Inboxes: what comes in, once for each message id, however often it is brought.

Who accepts a message answers its sender from the file: accepted, a duplicate, or another message
under an id that is taken. Its handler runs later; its rows, what follows from it and the end of the
message are one commit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, overload

from fencepost import _looking
from fencepost._calls import FP
from fencepost._checks import function, name_bytes, shown, whole
from fencepost._declared import Declared
from fencepost._enqueue import entry, put_entries, send
from fencepost._file import File
from fencepost._sameness import sameness
from fencepost._verdicts import QUEUES_OWN, acked, retry
from fencepost.context import Context
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

TOKEN_MAX: Final = 2**63 - 1
COMPLETION: Final = 300  # seconds


class Inbox(Declared[T]):
    """Messages of one type that come in at one address. Made by `App.inbox`."""

    def __init__(self, declaration: Declaration, type: Any, *, home: Callable[[], File]) -> None:
        super().__init__(declaration, type, home=home)
        self.address = declaration.name
        self._handler: Handler[T] | None = None  # what follows is for the worker
        self._completes = False
        self._completion_us = 0

    def accept(
        self, message_id: str, payload: T | bytes, /, **options: Unpack[Options]
    ) -> Accepted:
        """
        Take a message in, durably; in `tx`, with its commit. Then its sender may forget it.

        "duplicate": it is there already, or has been dealt with; "conflict": another message is
        there under this id, and nothing was changed. The same is what says the same in payload and
        `headers`; JSON objects are compared without the order of their names. An id answers until
        its message has ended and `key_window` (the longer of `keep` and 7 days) has passed. `bytes`
        are the payload as it came, encoded. Raises as `Queue.enqueue`, but no `Conflict`.
        """
        if "key" in options or "unique" in options:
            raise InvalidArgument("the message's id is its key")
        tx = options.get("tx")
        file = self._file(tx)
        body = payload if isinstance(payload, bytes) else file.codec.encode(payload)
        name_bytes(message_id, "a message's id")
        one = entry(body, {**options, "key": message_id})
        put = put_entries(file, [one])
        put.digests = sameness(body, options.get("headers", {}))
        wait_us = span_us(options.get("wait", 0), "wait")
        try:
            answers = send(file, self._declaration, put, tx=entered(file, tx), wait_us=wait_us)
        except Conflict:
            return "conflict"
        return "accepted" if answers[0].created else "duplicate"

    def message(self, message_id: str, /) -> Message | None:
        """What became of the message of this id; None: it never came, or retention took it."""
        file = self._file(None)
        unwrap(file, None)
        found = file.core.get_by_key(
            file.find(self.address), 0, FP.LIFE_LASTING, name_bytes(message_id, "a message's id")
        )
        return next(_looking.messages(file, found), None)

    # ---- handling --------------------------------------------------------------------------------

    @overload
    def handler(self, fn: Handler[T], /) -> Handler[T]: ...
    @overload
    def handler(
        self, /, *, settle: Settle = "accepted", timeout: Span = COMPLETION
    ) -> Callable[[Handler[T]], Handler[T]]: ...
    def handler(
        self,
        fn: Handler[T] | None = None,
        /,
        *,
        settle: Settle = "accepted",
        timeout: Span = COMPLETION,
    ) -> Handler[T] | Callable[[Handler[T]], Handler[T]]:
        """
        A worker calls the function with the context and the payload of each message.

        When it returns the message is done, in one commit with what it wrote through `ctx.tx`. A
        worker whose lease has run out can end nothing any more, even if nobody else has taken it.
        With `settle="completed"` its return only means that the work has begun elsewhere:
        the message is held until `complete` says how that ended, `timeout` seconds at the most;
        then, or when the worker ends, it comes again. Each that is held takes a thread.
        """
        if settle not in ("accepted", "completed"):
            raise InvalidArgument(f'settle is "accepted" or "completed", not {shown(settle)}')
        timeout_us = span_us(timeout, "timeout")

        def register(fn: Handler[T]) -> Handler[T]:
            function(fn, "a handler")
            if self._handler is not None:
                raise InvalidArgument(f"inbox {self.address} has a handler already")
            self._handler, self._completes = fn, settle == "completed"
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
        if message is None:
            return False
        key = (message.id, token)
        if error is None:
            verdict = acked(key)
        else:
            verdict = retry(key, QUEUES_OWN, "completion_failed", None, error)
        answer = file.core.settle(None, [verdict])[0]
        return answer != FP.LOST
