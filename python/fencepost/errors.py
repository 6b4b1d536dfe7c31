"""
What can go wrong, cut by what the caller can do about it: wait, stop, fix the call, call for help.

Every exception carries the core's own words unchanged. The table at the end says which code of
`csrc/fencepost.h` becomes which of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fencepost.values import Failure, Span

__all__ = [
    "Busy",
    "Cancelled",
    "Closed",
    "Conflict",
    "DeliveryUnknown",
    "Error",
    "ForkedHandle",
    "Gone",
    "InvalidArgument",
    "JobFailed",
    "LeaseLost",
    "NewerSchema",
    "PayloadError",
    "PermanentError",
    "QueueFull",
    "RetryLater",
    "StorageError",
]


class Error(Exception):
    """Everything that this package raises of its own."""


class Busy(Error):
    """The file's one writer did not become free in time: wait and try again."""


class QueueFull(Busy):
    """The queue holds `max_size` messages: wait until some are settled."""


class LeaseLost(Error):
    """Stop: the message was claimed again, settled or cancelled meanwhile. Nothing was changed."""


class Conflict(Error):
    """Another message, `id`, owns this key and says something else."""

    def __init__(self, text: str = "", *, id: int = 0) -> None:
        super().__init__(text)
        self.id = id


class InvalidArgument(Error, ValueError):
    """Fix the call."""


class PayloadError(InvalidArgument):
    """A value cannot be encoded, or these bytes are not what the type says."""


class StorageError(Error):
    """
    Call for help: the disk, the file or a statement failed.

    `statement` is the name of the statement that failed, `sqlite_code` SQLite's extended result
    code; either is None where there was none.
    """

    def __init__(
        self, text: str = "", *, statement: str | None = None, sqlite_code: int | None = None
    ) -> None:
        super().__init__(text)
        self.statement = statement
        self.sqlite_code = sqlite_code

    def __str__(self) -> str:
        words = super().__str__()
        if self.statement is None:  # the caller's own SQL, which is in the words already
            return words
        code = "" if self.sqlite_code is None else f", sqlite {self.sqlite_code}"
        return f"{words} [{self.statement}{code}]"


class NewerSchema(StorageError):
    """The file was written by a newer release. It was left as it is."""


class ForkedHandle(Error):
    """The handle was opened before a fork: open the file again in the child."""


class Closed(Error):
    """The store was closed."""


class Gone(Error):
    """Retention took the message, or it never was."""


class JobFailed(Error):
    """What was waited for is dead; `failure` says how."""

    def __init__(self, text: str = "", *, failure: Failure) -> None:
        super().__init__(text)
        self.failure = failure

    def __reduce__(self) -> tuple[object, ...]:
        return _job_failed, (str(self), self.failure)


def _job_failed(text: str, failure: Failure) -> JobFailed:
    return JobFailed(text, failure=failure)


class Cancelled(Error):
    """What was waited for was cancelled; or, in a handler, stop now."""


# ---- said by handlers ----------------------------------------------------------------------------


class PermanentError(Exception):
    """Said by a handler: a dead letter at once, no further attempt."""

    def __init__(self, text: str = "", *, code: str | None = None) -> None:
        super().__init__(text)
        self.code = code


class RetryLater(Exception):
    """
    Said by a handler: try again after `delay`, without using an attempt; bounded by `max_age`.

    `whole_queue`: until then nobody is handed anything from this queue.
    """

    def __init__(self, text: str = "", *, delay: Span, whole_queue: bool = False) -> None:
        super().__init__(text)
        self.delay = delay
        self.whole_queue = whole_queue

    def __reduce__(self) -> tuple[object, ...]:
        return _retry_later, (str(self), self.delay, self.whole_queue)


def _retry_later(text: str, delay: Span, whole_queue: bool) -> RetryLater:
    return RetryLater(text, delay=delay, whole_queue=whole_queue)


class DeliveryUnknown(Exception):
    """Said by an outbox handler: it may have arrived. Put aside for an operator, never re-sent."""


# ---- codes ---------------------------------------------------------------------------------------

BY_CODE: Final[dict[str, type[Error]]] = {
    "FP_AGAIN": Busy,
    "FP_BUSY": Busy,
    "FP_FULL": QueueFull,
    "FP_LOST": LeaseLost,
    "FP_CONFLICT": Conflict,
    "FP_INVALID": InvalidArgument,
    "FP_STORAGE": StorageError,
    "FP_NEWER": NewerSchema,
    "FP_FORKED": ForkedHandle,
    "FP_CLOSED": Closed,
    "FP_GONE": Gone,
    "FP_CONSTRAINT": StorageError,
}
