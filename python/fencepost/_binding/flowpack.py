"""
What goes to the core and comes from it of workflows: the layouts of csrc/fencepost_flow.h, and the
words for what is in them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from fencepost._binding import pack
from fencepost._binding.codes import FP
from fencepost._binding.pack import NONE, Borrowed, Packed

RESERVED: Final = ("inbox:", "signal:", "child:", "parent:")  # no step's name begins so
_SIGNAL: Final = b"signal:"
_EIGHT: Final = struct.Struct("=8q")
_TEN: Final = struct.Struct("=10q")


def signal_key(name: str) -> bytes:
    """Where a signal is recorded: apart from the steps, so that nobody can answer for one."""
    return _SIGNAL + name.encode()


def inbox_key(number: int) -> bytes:
    """The key of an entry of the inbox."""
    return b"inbox:%020d" % number


# ---- what comes and goes -------------------------------------------------------------------------


class RecordPut(NamedTuple):
    """A record that a pass writes. `started_us` -1: not said."""

    id: bytes
    token: int
    key: bytes
    kind: int
    value: bytes | None
    started_us: int = -1


class Recorded(NamedTuple):
    """
    What became of it: FP.DONE, this value is stored; FP.ALREADY, another one is, which is `value`;
    FP.LOST, the pass was lost and nothing is written. `cancelled`: nothing further is to begin.
    """

    answer: int
    value: bytes | None
    cancelled: bool


class End(NamedTuple):
    """How a pass ends: one of FP.END_…, with what goes with it."""

    id: bytes
    token: int
    verb: int
    at_us: int = -1
    waiting: bytes | None = None
    result: bytes | None = None
    kind: bytes | None = None
    code: bytes | None = None
    text: bytes | None = None


class Stored(NamedTuple):
    """A record as it is kept. `started_us` -1: not said."""

    seq: int
    key: bytes
    kind: int
    value: bytes | None
    started_us: int
    written_us: int


class RunRow(NamedTuple):
    """A run as it is kept; a listing leaves `args` and `result` out. `ended_us` -1: it has not."""

    id: bytes
    kind: int
    state: int
    message: int
    created_us: int
    ended_us: int
    waiting: bytes | None
    args: bytes | None
    result: bytes | None
    failure_kind: bytes | None
    failure_text: bytes | None


class Parent(NamedTuple):
    """Whose child is started, by the pass of which token, and where it finds what came of it."""

    id: bytes
    token: int
    key: bytes


class Start(NamedTuple):
    """A run to start. `absolute`: `delay_us` is a moment of the wall clock."""

    queue: int
    kind: int
    id: bytes
    args: bytes | None = None
    delay_us: int = 0
    absolute: bool = False
    priority: int = 0
    max_attempts: int = -1
    headers: bytes | None = None
    parent: Parent | None = None


class ChildOutcome(NamedTuple):
    """What came of a child: "done" with a result, "failed" with kind and text, or "cancelled"."""

    state: str
    result: bytes | None = None
    kind: str = ""
    text: str = ""


def child_outcome(value: bytes | None) -> ChildOutcome:
    """What a record of kind FP.RECORD_CHILD says, which the core has written."""
    word, rest = (value or b"c")[:1], (value or b"")[1:]
    if word == b"d":
        return ChildOutcome("done", rest)
    if word == b"c":
        return ChildOutcome("cancelled")
    kind, _, text = rest.partition(b"\0")
    return ChildOutcome(
        "failed", None, kind.decode("utf-8", "replace"), text.decode("utf-8", "replace")
    )


# ---- layouts -------------------------------------------------------------------------------------


def length(part: bytes | None) -> int:
    return NONE if part is None else len(part)


def records(items: Sequence[RecordPut]) -> Borrowed:
    fixed, blob = bytearray(), bytearray()
    for one in items:
        fixed += _EIGHT.pack(
            len(one.id), one.token, len(one.key), one.kind, length(one.value), one.started_us, 0, 0
        )
        blob += one.id + one.key + (one.value or b"")
    laid = Borrowed("fp_records *")
    laid.into.count = len(items)
    laid.into.records = laid.view(bytes(fixed), "fp_record[]")
    laid.into.blob = laid.view(bytes(blob))
    return laid


def ends(items: Sequence[End]) -> Borrowed:
    fixed, blob = bytearray(), bytearray()
    for one in items:
        parts = (one.waiting, one.result, one.kind, one.code, one.text)
        lengths = [length(part) for part in parts]
        fixed += _TEN.pack(len(one.id), one.token, one.verb, one.at_us, *lengths, 0)
        blob += one.id + b"".join(part or b"" for part in parts)
    laid = Borrowed("fp_ends *")
    laid.into.count = len(items)
    laid.into.ends = laid.view(bytes(fixed), "fp_end[]")
    laid.into.blob = laid.view(bytes(blob))
    return laid


def parent(parent: Parent) -> Borrowed:
    laid = Borrowed("fp_parent *")
    laid.into.id, laid.into.id_bytes = laid.view(parent.id), len(parent.id)
    laid.into.key, laid.into.key_bytes = laid.view(parent.key), len(parent.key)
    laid.into.token = parent.token
    return laid


def start(start: Start, parent: Borrowed | None) -> Borrowed:
    laid = Borrowed("fp_start *")
    into = laid.into
    into.queue, into.kind = start.queue, start.kind
    into.id, into.id_bytes = laid.view(start.id), len(start.id)
    into.args_bytes, into.header_bytes = length(start.args), length(start.headers)
    if start.args is not None:
        into.args = laid.view(start.args)
    if start.headers is not None:
        into.headers = laid.view(start.headers)
    into.delay_us, into.absolute = start.delay_us, start.absolute
    into.priority, into.max_attempts = start.priority, start.max_attempts
    if parent is not None:
        into.parent = parent.into
    return laid


def runs(found: Packed) -> Iterator[RunRow]:
    at = 0
    for kind, state, message, created, ended, *lengths in pack.records(found):
        (id_, *rest), at = pack.parts(found.blob, at, lengths)
        yield RunRow(id_ or b"", kind, state, message, created, ended, *rest)


def answered(items: Sequence[RecordPut], answers: Any, found: Packed) -> list[Recorded]:
    at, told = 0, []
    for item, answer, (cancelled, length) in zip(items, answers, pack.records(found), strict=True):
        (other,), at = pack.parts(found.blob, at, [length])
        value = item.value if answer == FP.DONE else other
        told.append(Recorded(answer, value, bool(cancelled)))
    return told
