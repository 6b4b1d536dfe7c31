"""
What a handler's end means for its message: the one place where an exception becomes a verdict.

    returned                        ack, with the result
    PermanentError, `permanent`     fail: dead letter
    RetryLater                      later: uses no attempt, bounded by max_age
    anything else                   retry after the back-off, dead letter when attempts are used up

Of deliveries _worker/sendrun.py says more.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from fencepost._binding.calls import FP
from fencepost._binding.pack import Verdict
from fencepost.errors import InvalidArgument, PermanentError, RetryLater
from fencepost.spans import SECOND, span_us
from fencepost.values import Backoff

__all__ = [
    "QUEUES_OWN",
    "UNKNOWN_NAME_US",
    "acked",
    "backoff_us",
    "begun",
    "failed",
    "failure",
    "later",
    "raised",
    "released",
    "renewed",
    "retry",
    "text_of",
    "unknown",
]

TEXT_BYTES_MAX: Final = 1000  # of a failure, as in csrc/base.h
WORD_BYTES_MAX: Final = 64  # of its kind and its code, as in csrc/base.h
UNKNOWN_NAME_US: Final = 60 * SECOND  # until somebody may have deployed the name
QUEUES_OWN: Final = -1  # the back-off of the queue's policy

Key = tuple[int, int]  # the id and the token of a claim


def acked(key: Key, result: bytes | None = None) -> Verdict:
    return Verdict(*key, FP.ACK, result=result)


def begun(key: Key) -> Verdict:
    """From now on it may have reached the outside; held for a whole lease of the queue."""
    return Verdict(*key, FP.BEGIN, QUEUES_OWN)


def renewed(key: Key) -> Verdict:
    """Held for a whole lease of the queue from now on."""
    return Verdict(*key, FP.RENEW, QUEUES_OWN)


def unknown(key: Key, kind: str, code: str | None, text: str) -> Verdict:
    """Nobody can say whether it arrived: put aside for an operator."""
    return Verdict(*key, FP.UNKNOWN, 0, None, *failure(kind, code, text))


def released(key: Key, delay_us: int = 0) -> Verdict:
    """Back to its old place, or a later one; the attempt is given back."""
    return Verdict(*key, FP.RELEASE, delay_us)


def later(key: Key, delay_us: int, kind: str, code: str | None, text: str) -> Verdict:
    """Put off without using an attempt."""
    return Verdict(*key, FP.LATER, delay_us, None, *failure(kind, code, text))


def failed(key: Key, kind: str, code: str | None, text: str) -> Verdict:
    """A dead letter."""
    return Verdict(*key, FP.FAIL, 0, None, *failure(kind, code, text))


def retry(key: Key, delay_us: int, kind: str, code: str | None, text: str) -> Verdict:
    """Once more, unless attempts or age are used up."""
    return Verdict(*key, FP.RETRY, delay_us, None, *failure(kind, code, text))


def raised(
    key: Key,
    error: BaseException,
    *,
    attempt: int,
    backoff: Backoff | None,
    permanent: Sequence[type[BaseException]] = (),
) -> Verdict:
    """
    The verdict on a handler that raised `error`.

    Also for what is no Exception: a handler that calls sys.exit() has failed, and a worker that
    obeyed it would take all other messages with it.
    """
    name = type(error).__name__
    if isinstance(error, RetryLater):
        try:
            delay_us = span_us(error.delay, "delay")
        except InvalidArgument as bad:
            return raised(key, bad, attempt=attempt, backoff=backoff)
        return later(key, delay_us, "error", name, text_of(error))
    if isinstance(error, PermanentError):
        code = name if error.code is None else text_of(error.code)
        return failed(key, "error", code, text_of(error))
    if isinstance(error, tuple(permanent)):
        return failed(key, "error", name, text_of(error))
    delay_us = QUEUES_OWN if backoff is None else backoff_us(backoff, attempt)
    return retry(key, delay_us, "error", name, text_of(error))


def backoff_us(backoff: Backoff, attempt: int) -> int:
    """How long after the `attempt`-th attempt, the first is 1."""
    try:
        grown = backoff.base * backoff.factor ** (attempt - 1)
    except OverflowError:
        grown = backoff.cap
    share = 1 + backoff.jitter * random.uniform(-1, 1)
    return max(0, round(min(grown, backoff.cap) * share * SECOND))


def text_of(error: object) -> str:
    """What it says, even if saying it goes wrong, in whatever way."""
    try:
        return str(error)
    except BaseException as broken:
        return f"its text cannot be read: {type(broken).__name__}"


def failure(kind: str, code: str | None, text: str) -> tuple[bytes, bytes | None, bytes]:
    """What is said of a failure, each part as long as it may be."""
    return (
        cut(kind, WORD_BYTES_MAX),
        None if code is None else cut(code, WORD_BYTES_MAX),
        cut(text, TEXT_BYTES_MAX),
    )


def cut(text: str, limit: int) -> bytes:
    """At most so many bytes of UTF-8, cut between two characters."""
    encoded = text.encode("utf-8", "backslashreplace")
    if len(encoded) > limit:
        encoded = encoded[:limit].decode("utf-8", "ignore").encode()
    return encoded
