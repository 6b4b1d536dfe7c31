"""
From payloads and options to one crossing: what queues and jobs share when they enqueue.

Many messages are one commit, all or none. Keys are compared by a SHA-256 over the job's name and
the body, so the digest is made here, and only for messages that have a key.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, Final, NamedTuple

import msgspec

from fencepost._binding.calls import FP, OpenTx
from fencepost._binding.pack import Put
from fencepost._binding.requests import Enqueuing
from fencepost._checks import name_bytes, shown, whole
from fencepost._door.inserts import Door
from fencepost._file import File
from fencepost._plans import Enter, Plan, Write
from fencepost.errors import InvalidArgument, PayloadError
from fencepost.policies import Declaration
from fencepost.spans import moment_us, span_us
from fencepost.values import Enqueued

__all__ = [
    "ATTEMPTS_MAX",
    "PRIORITIES",
    "Entry",
    "digests",
    "entry",
    "put_entries",
    "read_headers",
    "sending",
    "write_headers",
]

ATTEMPTS_MAX: Final = 1_000_000  # as in csrc/base.h
PRIORITIES: Final = (-128, 127)
NO_DIGEST: Final = bytes(32)
_enqueued: Final = partial(tuple.__new__, Enqueued)  # half the time of Enqueued(), for pairs

KNOWN: Final = frozenset(("delay", "due", "key", "unique", "lane", "priority", "headers"))
HANDLED_BY_CALLER: Final = frozenset(("tx", "wait"))

_encode_headers = msgspec.json.Encoder(order="deterministic").encode
_decode_headers = msgspec.json.Decoder(dict[str, str]).decode


class Entry(NamedTuple):
    """One message to enqueue, encoded. With `due_us`, `delay_us` says nothing."""

    body: bytes
    key: bytes | None = None
    life: int = FP.LIFE_NONE
    lane: bytes | None = None
    headers: bytes | None = None
    delay_us: int = 0
    due_us: int | None = None
    priority: int = 0


PLAIN: Final = Entry(b"")[1:]  # an entry that is its body and nothing else


def entry(body: bytes, options: Mapping[str, Any]) -> Entry:
    """The body under these `Options`. `InvalidArgument` for what contradicts itself."""
    if not options:
        return Entry(body)
    unknown = options.keys() - KNOWN - HANDLED_BY_CALLER
    if unknown:
        raise InvalidArgument(f"{', '.join(sorted(unknown))}: no such option")
    key, unique = options.get("key"), options.get("unique")
    if key is not None and unique is not None:
        raise InvalidArgument(
            "key and unique at once: a message is once until retention, or once at a time"
        )
    word, life, name = "key", FP.LIFE_LASTING, key
    if unique is not None:
        word, life, name = "unique", FP.LIFE_LIVE, unique
    due, lane, headers = options.get("due"), options.get("lane"), options.get("headers")
    delay = options.get("delay")
    if due is not None and delay is not None:
        raise InvalidArgument("delay and due at once: one of them says when")
    return Entry(
        body,
        key=None if name is None else name_bytes(name, word),
        life=FP.LIFE_NONE if name is None else life,
        lane=None if lane is None else name_bytes(lane, "lane"),
        headers=None if headers is None or headers == {} else write_headers(headers),
        delay_us=0 if delay is None else span_us(delay, "delay"),
        due_us=None if due is None else moment_us(due, "due"),
        priority=whole(options.get("priority", 0), "priority", *PRIORITIES),
    )


def write_headers(headers: Mapping[str, str]) -> bytes:
    """`InvalidArgument` unless names and values are text."""
    if not isinstance(headers, Mapping):
        raise InvalidArgument(f"headers are text by name, not {shown(headers)}")
    try:
        return _encode_headers(msgspec.convert(dict(headers), dict[str, str]))
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"headers are text by name: {error}") from None


def read_headers(data: bytes | None) -> dict[str, str]:
    """`PayloadError` for headers that are no JSON object of text, which the door lets in."""
    if not data:
        return {}
    try:
        return _decode_headers(data)
    except msgspec.DecodeError as error:
        raise PayloadError(f"headers: {error}") from error


def digests(bodies: Iterable[bytes], kind: str = "") -> bytes:
    """What "equal under a key" compares, for each body."""
    prefix = kind.encode() + b"\0"
    return b"".join([sha256(prefix + body).digest() for body in bodies])


def put_entries(
    file: File, entries: Sequence[Entry], *, kind: str = "", max_attempts: int = -1
) -> Put:
    """The entries as columns. Its `queue` and `kind` are filled in by `sending`."""
    put = Put(0, [one.body for one in entries], max_attempts=max_attempts)
    if all(one[1:] == PLAIN for one in entries):  # most are: one look instead of seven
        return put
    if any(one.key is not None for one in entries):
        put.keys = [one.key for one in entries]
        put.lives = bytes(one.life for one in entries)
        put.digests = b"".join(
            NO_DIGEST if one.key is None else digests([one.body], kind) for one in entries
        )
    if any(one.lane is not None for one in entries):
        put.lanes = [one.lane for one in entries]
    if any(one.headers is not None for one in entries):
        put.headers = [one.headers for one in entries]
    if any(one.priority for one in entries):
        put.priorities = array("b", [one.priority for one in entries])
    if any(one.due_us is not None for one in entries):
        now = file.wall_us()
        put.absolute = True
        put.delays_us = array(
            "q", [now + one.delay_us if one.due_us is None else one.due_us for one in entries]
        )
    elif any(one.delay_us for one in entries):
        put.delays_us = array("q", [one.delay_us for one in entries])
    return put


def sending(
    file: File,
    declaration: Declaration,
    put: Put,
    *,
    kind: str = "",
    tx: OpenTx | Door | None = None,
    wait_us: int = 0,
) -> Plan[list[Enqueued]]:
    """
    Enqueue in one commit. Waits up to `wait_us` for room in a full queue, except in a caller's
    transaction, where nobody could make room: `QueueFull`, `Conflict`.
    """
    if not put.bodies:
        return []
    if isinstance(tx, Door):
        tx.define(file, declaration)
        return list(map(_enqueued, tx.enqueue(declaration.name, kind, put)))

    def request() -> Enqueuing:
        put.queue, put.kind = file.queue(declaration, tx), file.kind(kind, tx)
        return Enqueuing(put)

    if wait_us and tx is None:
        ids, created = yield Enter(file, request, wait_us)
    else:
        known = file.knows(declaration, kind)
        ids, created = yield Write(file, tx, request() if known else request)
    return list(map(_enqueued, zip(ids, map(bool, created), strict=True)))
