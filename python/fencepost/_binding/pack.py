"""
Layouts: values to bytes and back. The only struct formats of the package.

Two layouts, both in the machine's own byte order, both described in csrc/fencepost.h:

packed rows     `records`, so many int64 a row; `blob`, the variable parts of all rows one after
                the other, in the order of their length columns (-1: NULL, no bytes)
packed values   one tag byte, then: n nothing · i int64 · f double · t int64 length and UTF-8 ·
                b int64 length and bytes
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias

from fencepost._binding.lib import ffi
from fencepost.errors import InvalidArgument

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
UNSET: Final = INT_MIN  # a policy field left as it is, a filter's `since` that is not asked for
NONE: Final = -1  # the length of what is not there

# ---- packed rows ---------------------------------------------------------------------------------


class Packed(NamedTuple):
    """Rows as they come out of the core, copied once: nothing in here belongs to C."""

    rows: int
    width: int
    records: bytes
    blob: bytes


def records(packed: Packed) -> Iterator[tuple[int, ...]]:
    """The fixed part of each row."""
    if not packed.width:
        return iter(())
    return struct.iter_unpack(f"={packed.width}q", packed.records)


def numbers(packed: Packed) -> Sequence[int]:
    """The fixed parts of all rows, flat; a number becomes an object when it is looked at."""
    return memoryview(packed.records).cast("q")


_CLAIM = struct.Struct("=2q8xq64x4q")


def claims(packed: Packed) -> Iterator[tuple[int, ...]]:
    """Of each of fp_step's records: id, token, queue, bytes of key, lane, headers and body."""
    return _CLAIM.iter_unpack(packed.records)


def parts(blob: bytes, at: int, lengths: Sequence[int]) -> tuple[list[bytes | None], int]:
    """The variable parts of one row, which begin at `at`; and where the next row's begin."""
    found: list[bytes | None] = []
    for length in lengths:
        if length < 0:
            found.append(None)
        else:
            found.append(blob[at : at + length])
            at += length
    return found, at


# ---- what an enqueue and a settlement bring ------------------------------------------------------


def joined(items: Sequence[bytes]) -> tuple[bytes, array[int]]:
    """All of them in one, and how long each is. `InvalidArgument` for one of 4 GiB or more."""
    try:
        return b"".join(items), array("I", map(len, items))
    except OverflowError:
        raise InvalidArgument("a payload is longer than 256 MiB") from None


def joined_optional(items: Sequence[bytes | None]) -> tuple[bytes, array[int]]:
    """The same where some are not there."""
    try:
        lengths = array("i", [NONE if item is None else len(item) for item in items])
    except OverflowError:
        raise InvalidArgument("a key, lane or set of headers is too long") from None
    return b"".join([item for item in items if item is not None]), lengths


def pairs(items: Iterable[tuple[int, ...]]) -> array[int]:
    """(id, token) or (id, generation) of each, flat."""
    return array("q", list(chain.from_iterable(items)))


class Verdict(NamedTuple):
    """What a holder says about its claim. `verb` is one of the core's; spans are microseconds."""

    id: int
    token: int
    verb: int
    delay_us: int = 0
    result: bytes | None = None
    kind: bytes | None = None
    code: bytes | None = None
    text: bytes | None = None


_VERDICT = struct.Struct("=10q")


def verdicts(items: Iterable[Verdict]) -> tuple[bytes, bytes]:
    """The fp_verdict records, and the blob that goes with them."""
    fixed = bytearray()
    blob = bytearray()
    for id_, token, verb, delay_us, *variable in items:
        lengths = [NONE if part is None else len(part) for part in variable]
        fixed += _VERDICT.pack(id_, token, verb, delay_us, *lengths, 0, 0)
        for part in variable:
            blob += part or b""
    return bytes(fixed), bytes(blob)


# ---- policies ------------------------------------------------------------------------------------

POLICY_FIELDS: Final = (
    "keep_us",
    "key_window_us",
    "addressed",
    "listed",
    "max_attempts",
    "max_age_us",
    "lease_us",
    "base_us",
    "factor_milli",
    "cap_us",
    "jitter_milli",
    "lane_width",
    "on_dead",
    "on_unknown",
    "max_size",
    "concurrency",
    "rate_milli",
    "held_until_us",
    "paused",
    "profile",
)


def policy_bytes(fields: dict[str, int]) -> bytes:
    """The fields that are said, the others unset."""
    return struct.pack(
        f"={len(POLICY_FIELDS)}q", *(fields.get(name, UNSET) for name in POLICY_FIELDS)
    )


# ---- packed values -------------------------------------------------------------------------------

NOTHING, INT, FLOAT, TEXT, BYTES = b"niftb"
_INT = struct.Struct("=Bq")
_FLOAT = struct.Struct("=Bd")


def values(items: Iterable[object]) -> bytes:
    """Parameters of a statement. `InvalidArgument` for what SQLite has no type for."""
    packed: list[bytes] = []
    for item in items:
        if item is None:
            packed.append(b"n")
        elif isinstance(item, int):
            if not INT_MIN <= item <= INT_MAX:
                raise InvalidArgument(f"{item} does not fit SQLite's 64-bit integer")
            packed.append(_INT.pack(INT, item))
        elif isinstance(item, float):
            packed.append(_FLOAT.pack(FLOAT, item))
        elif isinstance(item, str):
            try:
                text = item.encode()
            except UnicodeEncodeError as error:
                raise InvalidArgument(f"text cannot be stored as UTF-8: {error}") from None
            packed += (_INT.pack(TEXT, len(text)), text)
        elif isinstance(item, (bytes, bytearray, memoryview)):
            blob = bytes(item)
            packed += (_INT.pack(BYTES, len(blob)), blob)
        else:
            raise InvalidArgument(
                f"{type(item).__name__} is not a type of SQLite: None, int, float, str and bytes"
                " are; say how it is to be stored"
            )
    return b"".join(packed)


def row_values(packed: Packed) -> list[tuple[Any, ...]]:
    """The rows of a statement: `width` packed values each."""
    at = 0
    blob = packed.blob
    rows: list[tuple[Any, ...]] = []
    for _ in range(packed.rows):
        row: list[Any] = []
        for column in range(packed.width):
            tag = blob[at]
            if tag == NOTHING:
                row.append(None)
                at += 1
            elif tag == FLOAT:
                row.append(_FLOAT.unpack_from(blob, at)[1])
                at += _FLOAT.size
            else:
                number = _INT.unpack_from(blob, at)[1]
                at += _INT.size
                if tag == INT:
                    row.append(number)
                    continue
                part = blob[at : at + number]
                at += number
                row.append(_text(part, len(rows), column) if tag == TEXT else part)
        rows.append(tuple(row))
    return rows


def _text(part: bytes, row: int, column: int) -> str:
    try:
        return part.decode()
    except UnicodeDecodeError as error:
        raise InvalidArgument(
            f"column {column + 1} of row {row + 1} is text but not UTF-8 ({error.reason});"
            " read it with CAST(… AS BLOB)"
        ) from None


# ---- the structures of the wide calls ------------------------------------------------------------

Cursor: TypeAlias = tuple[int, int, int]
Settle: TypeAlias = "array[int] | Sequence[Verdict]"


@dataclass(slots=True)
class Put:
    """Messages to enqueue. A list has one entry for each body; None: the same for all."""

    queue: int
    bodies: Sequence[bytes]
    kind: int = 0
    equal: int = 0
    keys: Sequence[bytes | None] | None = None
    lives: bytes | None = None
    life: int = 0
    digests: bytes | None = None
    lanes: Sequence[bytes | None] | None = None
    headers: Sequence[bytes | None] | None = None
    delays_us: array[int] | None = None  # of 'q'
    priorities: array[int] | None = None  # of 'b'
    delay_us: int = 0
    absolute: bool = False
    priority: int = 0
    max_attempts: int = -1


@dataclass(slots=True)
class Take:
    """
    Which messages to claim. `until_us` 0: do not wait; `lease_us` 0: each queue's own;
    `slice_us` 0: the core's; `nudges`: come back after one more than that.
    """

    queues: Sequence[int]
    limit: int
    lease_us: int = 0
    bytes_max: int = 0
    until_us: int = 0
    alone: int = 0
    turn: int = 0
    slice_us: int = 0
    nudges: int = 0
    ahead: int = 0  # of `limit`, those that will not start at once


@dataclass(slots=True)
class Filter:
    """Which messages to list."""

    state: int
    limit: int
    queue: int = 0
    kind: int = 0
    since_us: int = INT_MIN
    before_us: int = INT_MAX
    lane: bytes | None = None
    after: Cursor | None = None


class Fired(NamedTuple):
    """A schedule as the file keeps it: how it is declared, and how far it has come."""

    name: bytes
    expression: bytes
    zone: bytes
    kind: int
    missed: int
    last_fired_us: int
    running: int


class Borrowed:
    """
    One C structure, and everything it points to, for as long as this object lives.

    The core borrows until its function returns; the caller keeps this in a name until then.
    """

    __slots__ = ("_kept", "into")

    def __init__(self, kind: str) -> None:
        self.into: Any = ffi.new(kind)
        self._kept: list[Any] = []

    def view(self, data: Any, kind: str = "char[]") -> Any:
        view = ffi.from_buffer(kind, data)
        self._kept.append(view)
        return view

    def optional(self, items: Sequence[bytes | None]) -> tuple[Any, Any]:
        data, lengths = joined_optional(items)
        return self.view(data), self.view(lengths, "int32_t[]")


def fp_put(put: Put) -> Borrowed:
    laid = Borrowed("fp_put *")
    into = laid.into
    into.queue, into.kind, into.count = put.queue, put.kind, len(put.bodies)
    into.equal, into.life = put.equal, put.life
    into.delay_us, into.absolute = put.delay_us, put.absolute
    into.priority, into.max_attempts = put.priority, put.max_attempts
    data, lengths = joined(put.bodies)
    into.bodies, into.body_bytes = laid.view(data), laid.view(lengths, "uint32_t[]")
    if put.keys is not None:
        into.keys, into.key_bytes = laid.optional(put.keys)
    if put.lives is not None:
        into.lives = laid.view(put.lives, "unsigned char[]")
    if put.digests is not None:
        into.digests = laid.view(put.digests)
    if put.lanes is not None:
        into.lanes, into.lane_bytes = laid.optional(put.lanes)
    if put.headers is not None:
        into.headers, into.header_bytes = laid.optional(put.headers)
    if put.delays_us is not None:
        into.delays_us = laid.view(put.delays_us, "int64_t[]")
    if put.priorities is not None:
        into.priorities = laid.view(put.priorities, "signed char[]")
    return laid


def fp_settle(settle: Settle) -> Borrowed:
    """Flat (id, token) pairs, all acked without a result; or verdicts."""
    laid = Borrowed("fp_settle *")
    if isinstance(settle, array):
        laid.into.count = len(settle) // 2
        laid.into.claims = laid.view(settle, "int64_t[]")
    else:
        fixed, blob = verdicts(settle)
        laid.into.count = len(settle)
        laid.into.verdicts = laid.view(fixed, "fp_verdict[]")
        laid.into.blob = laid.view(blob)
    return laid


def fp_take(take: Take) -> Borrowed:
    laid = Borrowed("fp_take *")
    into = laid.into
    into.queue_count, into.limit = len(take.queues), take.limit
    into.queues = laid.view(array("q", take.queues), "int64_t[]")
    into.lease_us, into.bytes_max, into.until_us = take.lease_us, take.bytes_max, take.until_us
    into.alone, into.turn = take.alone, take.turn
    into.slice_us, into.nudges, into.ahead = take.slice_us, take.nudges, take.ahead
    return laid


def fp_watched(queues: Sequence[int], ids: Sequence[int], heard: Sequence[int]) -> Borrowed:
    laid = Borrowed("fp_watched *")
    into = laid.into
    into.queue_count, into.id_count, into.heard_count = len(queues), len(ids), len(heard)
    of = (laid.view(array("q", numbers), "int64_t[]") for numbers in (queues, ids, heard))
    into.queues, into.ids, into.heard = of
    return laid


def fp_filter(query: Filter) -> Borrowed:
    laid = Borrowed("fp_filter *")
    into = laid.into
    into.state, into.limit = query.state, query.limit
    into.queue, into.kind = query.queue, query.kind
    into.since_us, into.before_us = query.since_us, query.before_us
    into.lane_bytes = NONE
    if query.lane is not None:
        into.lane, into.lane_bytes = laid.view(query.lane), len(query.lane)
    if query.after is not None:
        into.has_after, into.after = 1, query.after
    return laid
