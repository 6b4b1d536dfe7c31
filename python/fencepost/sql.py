"""
The door for connections of other libraries, without a store: messages in, claims settled.

Each function takes a connection that is open on a file of Fencepost's, with its transaction open
or about to begin: sqlite3, SQLAlchemy (Connection, Session) or Django. What it does is part of that
transaction. Where the process has a store, `tx=` of the ordinary calls does the same, with types.

All raise `InvalidArgument` for what cannot be (a connection without a transaction, that is closed,
or to another kind of database), `Busy` for a lock that was not to be had, and `StorageError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from fencepost._binding.calls import FP
from fencepost._binding.pack import Put, Verdict
from fencepost._checks import identity, name_bytes, shown, whole
from fencepost._door.drivers import ForeignTx
from fencepost._door.inserts import Door
from fencepost._enqueue import ATTEMPTS_MAX, entry
from fencepost._verdicts import QUEUES_OWN, failure
from fencepost.errors import InvalidArgument, LeaseLost
from fencepost.spans import span_us
from fencepost.values import Enqueued, Span

__all__ = ["ack", "cancel", "enqueue", "fail", "release", "retry"]


def enqueue(
    connection: ForeignTx,
    queue: str,
    body: bytes | str,
    /,
    *,
    kind: str | None = None,
    key: str | None = None,
    unique: str | None = None,
    lane: str | None = None,
    priority: int = 0,
    delay: Span | None = None,
    due: datetime | None = None,
    max_attempts: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> Enqueued:
    """
    Put one message in, as bytes or text that the receiver's codec can read: docs/door.md.

    The queue must exist. `kind` is a job's name; the rest is as in `Options`. The id is provisional
    until the commit. Raises `Conflict` and `QueueFull`, too.
    """
    options = {
        "key": key,
        "unique": unique,
        "lane": lane,
        "priority": priority,
        "delay": delay,
        "due": due,
        "headers": headers,
    }
    one = entry(_bytes(body, "the body"), options)
    put = Put(
        0,
        [one.body],
        keys=None if one.key is None else [one.key],
        life=one.life,
        lanes=None if one.lane is None else [one.lane],
        headers=None if one.headers is None else [one.headers],
        priority=one.priority,
        absolute=one.due_us is not None,
        delay_us=one.delay_us if one.due_us is None else one.due_us,
        max_attempts=(
            -1 if max_attempts is None else whole(max_attempts, "max_attempts", 0, ATTEMPTS_MAX)
        ),
    )
    name_bytes(queue, "a queue's name")
    (answer,) = Door(connection, None).enqueue(queue, kind or "", put)
    return Enqueued(*answer)


def ack(connection: ForeignTx, id: int, token: int, result: bytes | str | None = None, /) -> None:
    """Finish a message. Raises `LeaseLost`: let that roll the transaction back."""
    body = None if result is None else _bytes(result, "the result")
    _say(connection, Verdict(identity(id), identity(token), FP.ACK, result=body))


def retry(
    connection: ForeignTx, id: int, token: int, /, *, delay: Span | None = None, error: str = ""
) -> None:
    """
    Once more after `delay` seconds, or the queue's back-off; dead when its attempts are used up.
    Raises `LeaseLost`.
    """
    delay_us = QUEUES_OWN if delay is None else span_us(delay, "delay")
    words = failure("error", None, error) if error else ()
    _say(connection, Verdict(identity(id), identity(token), FP.RETRY, delay_us, None, *words))


def release(connection: ForeignTx, id: int, token: int, /, *, delay: Span = 0) -> None:
    """Give it back, and the attempt with it, to its old place or later. Raises `LeaseLost`."""
    _say(connection, Verdict(identity(id), identity(token), FP.RELEASE, span_us(delay, "delay")))


def fail(connection: ForeignTx, id: int, token: int, error: str, /) -> None:
    """A dead letter at once. Raises `LeaseLost`."""
    words = failure("error", None, error)
    _say(connection, Verdict(identity(id), identity(token), FP.FAIL, 0, None, *words))


def cancel(connection: ForeignTx, id: int, /) -> bool:
    """
    Take a message out, whether it waits or runs; False if it has ended, or never was.

    `InvalidArgument` for one of a queue that is not addressed and that has been claimed or moved.
    """
    return Door(connection, None).cancel(identity(id))


def _say(connection: ForeignTx, verdict: Verdict) -> None:
    if Door(connection, None).settle([verdict], [None])[0] == FP.LOST:
        raise LeaseLost(f"message {verdict.id}: the lease was lost")


def _bytes(value: object, what: str) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return name_bytes(value, what)
    raise InvalidArgument(f"{what} is bytes or text, not {shown(value)}")
