"""What is looked at: messages without their payload, pages of them, counts."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Iterator, Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, get_args

from fencepost._binding import pack
from fencepost._binding.calls import FP, SCHEMA_VERSION, SQLITE_VERSION
from fencepost._binding.pack import Cursor, Filter, Packed
from fencepost._checks import name_bytes, shown, whole
from fencepost._enqueue import read_headers
from fencepost._file import File, named
from fencepost.errors import InvalidArgument, PayloadError
from fencepost.spans import SECOND, moment, moment_us, seconds, shown_moment
from fencepost.values import STATES, Failure, FailureKind, Halted, Message, Page, State

__all__ = [
    "REPLAYED",
    "TOLD",
    "counted",
    "failure",
    "halted",
    "headers",
    "messages",
    "outcome_state",
    "page",
    "stats",
    "window",
    "with_windows",
]

LIMIT_MAX: Final = 200  # rows of one page
WEEK_US: Final = 7 * 86_400 * SECOND
CURSOR: Final = struct.Struct("<3q8s")

ASKED: Final = {
    "pending": FP.PENDING,
    "leased": FP.LEASED,
    "done": FP.DONE_LISTED,
    "dead": FP.STATE_DEAD,
    "unknown": FP.STATE_UNKNOWN,
    "cancelled": FP.CANCELLED,
}
TOLD: Final[dict[int, State]] = {
    FP.PENDING: "pending",
    FP.WAITING: "pending",
    FP.LEASED: "leased",
    FP.BEGUN: "leased",
    FP.DONE_UNLISTED: "done",
    FP.DONE_LISTED: "done",
    FP.STATE_DEAD: "dead",
    FP.STATE_UNKNOWN: "unknown",
    FP.CANCELLED: "cancelled",
}
REPLAYED: Final[dict[int, Any]] = {
    FP.DONE: "replayed",
    FP.SUPERSEDED: "superseded",
    FP.NOT_DEAD: "not dead",
    FP.LIVE_KEY: "live key",
    FP.GONE: "gone",
}
UNREADABLE: Final = "fencepost-unreadable"  # the header that all are shown as
PROFILES: Final = ("queue", "job", "outbox", "inbox", "wake-up")
COUNTS: Final = ("pending", "waiting", "leased", "done", "dead", "unknown", "cancelled")


def outcome_state(state: str) -> int:
    """The core's word for the state of an outcome. `InvalidArgument` for one that is in line."""
    code = _asked(state)
    if code in (FP.PENDING, FP.LEASED):
        raise InvalidArgument(f"what is {state} has no outcome yet")
    return FP.DONE_UNLISTED if code == FP.DONE_LISTED else code


def _asked(state: object) -> int:
    if not isinstance(state, str) or state not in ASKED:
        raise InvalidArgument(f"state is one of {', '.join(STATES)}, not {shown(state)}")
    return ASKED[state]


# ---- messages ------------------------------------------------------------------------------------


def messages(file: File, packed: Packed) -> Iterator[Message]:
    """The messages in an answer of fp_get or fp_list."""
    at = 0
    for record in pack.records(packed):
        id_, queue, _kind, state, attempt, generation, enqueued, settled, due, _life = record[:10]
        texts, at = pack.parts(packed.blob, at, record[10:15])
        key, lane = (None if part is None else _text(part) for part in texts[:2])
        yield Message(
            id=id_,
            queue=file.queue_name(queue),
            key=key,
            lane=lane,
            state=TOLD[state],
            attempt=attempt,
            generation=generation,
            enqueued_at=shown_moment(enqueued),
            settled_at=None if settled < 0 else shown_moment(settled),
            due=None if due < 0 else shown_moment(due),
            failure=failure(*texts[2:]),
        )


def failure(kind: bytes | None, code: bytes | None, text: bytes | None) -> Failure | None:
    """As the core tells it."""
    if kind is None:
        return None
    return Failure(_text(kind), None if code is None else _text(code), _text(text or b""))


def _text(part: bytes) -> str:
    return part.decode("utf-8", "replace")


def headers(data: bytes | None) -> dict[str, str]:
    """As an operator sees them, who wants the body also where they cannot be read."""
    try:
        return read_headers(data)
    except PayloadError:
        return {UNREADABLE: _text(data or b"")}


def page(
    file: File,
    state: State,
    *,
    queue: str | None,
    lane: str | None,
    kind: str | None,
    failure: FailureKind | None,
    since: datetime | None,
    before: datetime | None,
    after: str | None,
    limit: int,
) -> Page:
    """See `Store.messages`."""
    asked = Filter(_asked(state), whole(limit, "limit", 1, LIMIT_MAX))
    if lane is not None:
        asked.lane = name_bytes(lane, "lane")
    if since is not None:
        asked.since_us = moment_us(since, "since")
    if before is not None:
        asked.before_us = moment_us(before, "before")
    if kind is not None:
        name_bytes(kind, "kind")
    if failure is not None and failure not in get_args(FailureKind):
        raise InvalidArgument(f"{shown(failure)} is no kind of failure")
    if queue is not None:
        asked.queue = file.find(queue)
    listing = repr((state, queue, lane, kind, failure, asked.since_us, asked.before_us)).encode()
    if after is not None:
        asked.after = _cursor(after, listing)
    if kind is not None:
        asked.kind = file.find_kind(kind)
    if (queue is not None and not asked.queue) or (kind is not None and not asked.kind):
        return Page()
    found, following = file.core.list(asked)
    answer = Page(
        one
        for one in messages(file, found)
        if failure is None or (one.failure is not None and one.failure.kind == failure)
    )
    if following is not None:
        answer.next = _cursor_text(following, listing)
    return answer


def halted(file: File, queue: int, after: str, limit: int) -> list[Halted]:
    """See `Store.halted_lanes`."""
    whole(limit, "limit", 1, LIMIT_MAX)
    place = name_bytes(after, "after")
    found: list[Halted] = []
    while len(found) < limit:
        packed, at = file.core.lanes(queue, place, limit - len(found)), 0
        if not packed.rows:
            break
        for message, length in pack.records(packed):
            (name,), at = pack.parts(packed.blob, at, [length])
            place = name or b""
            if message:
                found.append(Halted(place.decode("utf-8", "replace"), message))
    return found


def _cursor_text(place: Cursor, listing: bytes) -> str:
    """The place, and what proves that it is one of this listing."""
    data = struct.pack("<3q", *place)
    return base64.urlsafe_b64encode(data + _proof(data, listing)).decode()


def _cursor(text: str, listing: bytes) -> Cursor:
    try:
        first, second, third, proof = CURSOR.unpack(base64.urlsafe_b64decode(text))
    except (binascii.Error, struct.error, ValueError, TypeError):
        raise InvalidArgument("after= is no cursor; it is `next` of a page") from None
    if proof != _proof(struct.pack("<3q", first, second, third), listing):
        raise InvalidArgument("after= is a cursor of another listing, or was damaged")
    return first, second, third


def _proof(place: bytes, listing: bytes) -> bytes:
    return sha256(place + listing).digest()[:8]


# ---- counts --------------------------------------------------------------------------------------


def stats(file: File) -> dict[str, Any]:
    """See `Store.stats`."""
    now = file.core.now()
    return counted(file.path, now, file.core.stats())


def counted(path: str, now: int, found: Packed) -> dict[str, Any]:
    """What fp_stats found, in words, as of a moment."""
    queues: dict[str, Any] = {}
    totals = dict.fromkeys(COUNTS, 0)
    for record, name in named(found):
        _number, profile, paused, *counts, oldest, following, lapsed, _length = record
        counted = dict(zip(COUNTS, counts, strict=True))
        for word, count in counted.items():
            totals[word] += count
        queues[name] = {
            "profile": PROFILES[profile],
            "paused": bool(paused),
            **counted,
            "oldest_age": None if oldest < 0 else seconds(max(0, now - oldest)),
            "next_due_in": None if following < 0 else seconds(max(0, following - now)),
            "lapsed": lapsed,
        }
    return {
        "path": path,
        "time": moment(now),
        "schema_version": SCHEMA_VERSION,
        "sqlite_version": SQLITE_VERSION,
        "queues": queues,
        "totals": totals,
    }


def with_windows(file: File, told: dict[str, Any]) -> dict[str, Any]:
    """The same; of inboxes also for how many seconds after its end a message's id answers."""
    for name, queue in told["queues"].items():
        if queue["profile"] == "inbox":
            queue["dedupe_window"] = window(file.core.queue_find(None, name.encode())[1])
    return told


def window(policy: Mapping[str, int]) -> float:
    """For how many seconds after the end of its message a lasting key answers."""
    return seconds(policy["key_window_us"] or max(policy["keep_us"], WEEK_US))  # as policy.c
