"""
The calls: one method for each C function. Lay out, call, check, copy out.

csrc/fencepost.h says what each does and promises. What goes in is borrowed until the function
returns; what comes out in rows is copied at once and given back. Cffi lets Python's other threads
run while a call is in C.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeVar

from fencepost._binding import pack
from fencepost._binding.codes import FP
from fencepost._binding.crossing import checked, copied, raised, text
from fencepost._binding.keeper import Keeper
from fencepost._binding.lib import ffi, lib
from fencepost._binding.pack import Cursor, Filter, Fired, Packed, Put, Settle, Take
from fencepost._binding.requests import Cancelling, Enqueuing, Request, Settling, Stepping
from fencepost.errors import Error, InvalidArgument

__all__ = ["FP", "SCHEMA_VERSION", "SQLITE_VERSION", "Core", "Keeper", "OpenTx", "checked"]
__all__ += ["Gathered", "Watched", "copied", "pointer", "restore", "status", "text"]

T = TypeVar("T")

SQLITE_VERSION: Final = text(lib.fp_sqlite_version())
SCHEMA_VERSION: Final[int] = lib.fp_schema_version()

COPY_PATIENCE: Final = 5.0  # seconds in which a file may be locked by another program


class Gathered(NamedTuple):
    """How one of many calls went. `again`: it was not run, its turn did not come."""

    error: Error | None
    again: bool = False


WENT_WELL: Final = Gathered(None)


class Watched(NamedTuple):
    """`due`: a byte for each queue; `ended`: those messages in line no more (`results`)."""

    due: bytes
    version: int
    now_us: int
    ended: Packed


def restore(backup: bytes, path: bytes) -> None:
    checked(lib.fp_restore, backup, path, patience=COPY_PATIENCE)


def status(path: bytes, at_us: int) -> tuple[int, Packed]:
    """The moment, and `stats` as of it, of a file that is not opened as a store."""
    now, rows = ffi.new("int64_t *"), ffi.new("fp_rows *")
    try:
        checked(lib.fp_status, path, at_us, now, rows, patience=COPY_PATIENCE)
        return now[0], copied(rows)
    finally:
        lib.fp_rows_free(rows)


class _Handle:
    """What an open file has in C, freed when nobody is left who could call it."""

    __slots__ = ("_pointer",)

    def __init__(self, pointer: Any) -> None:
        self._pointer = pointer

    def __del__(self, *, gc: Any = ffi.gc, free: Any = lib.fp_free) -> None:
        # Garbage of one cycle is finalized in any order, and what comes behind us may still call, a
        # `finally` in a generator, say. Only then are our slots emptied, and this one frees.
        self._pointer = gc(self._pointer, free)


class Core:
    """
    One handle on one file; any thread. `patience` is how long a call waits for its turn; a copy
    shares the handle, and may have another patience.
    """

    __slots__ = ("_handle", "_store", "patience")

    def __init__(
        self,
        path: bytes,
        *,
        create: bool,
        wal: bool,
        network: bool,
        foreign_keys: bool,
        normal: int,
        hand_us: int,
        patience: float,
    ) -> None:
        laid = pack.Borrowed("fp_options *")
        options = laid.into
        options.path = laid.view(path + b"\0")
        options.create, options.wal, options.network = create, wal, network
        options.foreign_keys, options.normal, options.hand_us = foreign_keys, normal, hand_us
        store = ffi.new("fp_store **")
        checked(lib.fp_open, options, store, patience=patience)
        self._store = store[0]
        self._handle = _Handle(store[0])
        self.patience = patience

    def _call(self, function: Any, *arguments: Any) -> None:
        checked(function, self._store, *arguments, patience=self.patience)

    def _number(self, function: Any, *arguments: Any, kind: str = "int64_t *") -> int:
        number = ffi.new(kind)
        self._call(function, *arguments, number)
        found: int = number[0]
        return found

    def _rows(self, function: Any, *arguments: Any) -> Packed:
        rows = ffi.new("fp_rows *")
        try:
            self._call(function, *arguments, rows)
            return copied(rows)
        finally:
            lib.fp_rows_free(rows)

    def close(self) -> None:
        self._call(lib.fp_close)

    def now(self) -> int:
        return self._number(lib.fp_now)

    def hand(self, now_us: int) -> None:
        self._call(lib.fp_hand, now_us)

    # ---- queues and kinds

    def queue_find(self, tx: OpenTx | None, name: bytes) -> tuple[int, dict[str, int]]:
        policy = ffi.new("int64_t[]", lib.FP_POLICY_FIELDS)
        number = ffi.new("int64_t *")
        self._call(lib.fp_queue_find, pointer(tx), name, len(name), number, policy)
        return number[0], dict(zip(pack.POLICY_FIELDS, policy, strict=True))

    def queue_define(
        self, tx: OpenTx | None, name: bytes, profile: int, fields: dict[str, int]
    ) -> int:
        policy = ffi.from_buffer("int64_t[]", pack.policy_bytes(fields))
        return self._number(lib.fp_queue_define, pointer(tx), name, len(name), profile, policy)

    @staticmethod
    def queue_policy(profile: int, said: dict[str, int]) -> dict[str, int]:
        policy = ffi.new("int64_t[]", lib.FP_POLICY_FIELDS)
        wanted = ffi.from_buffer("int64_t[]", pack.policy_bytes(said))
        checked(lib.fp_queue_policy, profile, wanted, policy)
        return dict(zip(pack.POLICY_FIELDS, policy, strict=True))

    def queue_pause(self, tx: OpenTx | None, queue: int, paused: bool) -> None:
        self._call(lib.fp_queue_pause, pointer(tx), queue, paused)

    def kind(self, tx: OpenTx | None, name: bytes) -> int:
        return self._number(lib.fp_kind, pointer(tx), name, len(name))

    # ---- messages

    def enqueue(self, tx: OpenTx | None, put: Put) -> tuple[list[int], bytes]:
        return self.run(tx, Enqueuing(put))

    def settle(self, tx: OpenTx | None, settle: Settle) -> list[int]:
        return self.run(tx, Settling(settle))

    def step(self, settle: Settle | None, take: Take) -> tuple[list[int], Packed]:
        """Settle and claim in one commit. No claims before `take.until_us`: call again."""
        return self.run(None, Stepping(settle, take))

    def cancel(self, tx: OpenTx | None, ids: Sequence[int]) -> list[int]:
        return self.run(tx, Cancelling(ids))

    def run(self, tx: OpenTx | None, request: Request[T]) -> T:
        try:
            self._call(*request.crossing(pointer(tx)))
            return request.read()
        finally:
            request.free()

    def gather(self, requests: Sequence[Request[Any]]) -> list[Gathered]:
        """All of them side by side, for one turn; how each went. It raises nothing of theirs."""
        calls = ffi.new("fp_call[]", len(requests))
        for at, request in enumerate(requests):
            request.lay(calls[at])
        pointers = ffi.new("fp_call *[]", [calls + at for at in range(len(requests))])
        err = ffi.new("fp_error *")
        code = lib.fp_gather(self._store, len(requests), pointers, err)
        if code:
            return [Gathered(raised(code, err), again=code == lib.FP_AGAIN) for _ in requests]
        return [
            Gathered(raised(call.code, call.err), again=call.code == lib.FP_AGAIN)
            if call.code
            else WENT_WELL
            for call in calls
        ]

    def replay(
        self, pairs: array[int], delay_us: int, gap_us: int, *, apply: bool, note: bytes = b""
    ) -> list[int]:
        count = len(pairs) // 2
        answers = ffi.new("int32_t[]", count)
        flat = ffi.from_buffer("int64_t[]", pairs)
        said = (delay_us, gap_us, note, len(note), apply)
        self._call(lib.fp_replay, count, flat, *said, answers)
        return list(answers)

    def confirm(self, pairs: array[int], note: bytes) -> list[int]:
        count = len(pairs) // 2
        answers = ffi.new("int32_t[]", count)
        flat = ffi.from_buffer("int64_t[]", pairs)
        self._call(lib.fp_confirm, count, flat, note, len(note), answers)
        return list(answers)

    def release_lane(self, queue: int, lane: bytes) -> bool:
        return bool(self._number(lib.fp_release_lane, queue, lane, len(lane), kind="int32_t *"))

    def lanes(self, queue: int, after: bytes, limit: int) -> Packed:
        return self._rows(lib.fp_lanes, queue, after, len(after), limit)

    def purge(self, queue: int, state: int, before_us: int, limit: int, *, apply: bool) -> int:
        return self._number(lib.fp_purge, queue, state, before_us, limit, apply)

    def retain(self, limit: int) -> tuple[int, bool]:
        purged, more = ffi.new("int64_t *"), ffi.new("int32_t *")
        self._call(lib.fp_retain, limit, purged, more)
        return purged[0], bool(more[0])

    def schedule_find(self, tx: OpenTx | None, name: bytes) -> tuple[int, int] | None:
        """The moment up to which it has fired, and what it enqueued last; None: it is new."""
        found, last, running = ffi.new("int32_t *"), ffi.new("int64_t *"), ffi.new("int64_t *")
        self._call(lib.fp_schedule_find, pointer(tx), name, len(name), found, last, running)
        return (last[0], running[0]) if found[0] else None

    def schedule_keep(self, tx: OpenTx | None, said: Fired) -> None:
        laid = pack.Borrowed("fp_schedule *")
        for field in ("name", "expression", "zone"):
            setattr(laid.into, field, laid.view(getattr(said, field)))
            setattr(laid.into, f"{field}_bytes", len(getattr(said, field)))
        for field in ("kind", "missed", "last_fired_us", "running"):
            setattr(laid.into, field, getattr(said, field))
        self._call(lib.fp_schedule_keep, pointer(tx), laid.into)

    def progress(self, tx: OpenTx | None, id: int, value: bytes) -> None:
        self._call(lib.fp_progress, pointer(tx), id, value, len(value))

    # ---- looking

    def get(self, tx: OpenTx | None, id: int) -> Packed:
        return self._rows(lib.fp_get, pointer(tx), id)

    def get_by_key(self, queue: int, kind: int, life: int, key: bytes) -> Packed:
        return self._rows(lib.fp_get_by_key, queue, kind, life, key, len(key))

    def list(self, query: Filter) -> tuple[Packed, Cursor | None]:
        laid = pack.fp_filter(query)
        rows = ffi.new("fp_rows *")
        after, more = ffi.new("int64_t[3]"), ffi.new("int32_t *")
        try:
            self._call(lib.fp_list, laid.into, rows, after, more)
            return copied(rows), (after[0], after[1], after[2]) if more[0] else None
        finally:
            lib.fp_rows_free(rows)

    def content(self, id: int) -> Packed:
        return self._rows(lib.fp_content, id)

    def stats(self) -> Packed:
        return self._rows(lib.fp_stats)

    def size(self, tx: OpenTx | None, queue: int) -> int:
        """Messages that are pending or leased."""
        return self._number(lib.fp_size, pointer(tx), queue)

    def kinds(self) -> Packed:
        return self._rows(lib.fp_kinds)

    def workers(self) -> Packed:
        return self._rows(lib.fp_workers)

    def schedules(self) -> Packed:
        return self._rows(lib.fp_schedules)

    def uuid(self) -> bytes:
        return self._rows(lib.fp_uuid).blob

    def check(self, *, full: bool) -> Packed:
        return self._rows(lib.fp_check, full)

    def beside(self) -> tuple[bool, int]:
        """Are the locks classic; how many strangers has the file in this process."""
        classic, strangers = ffi.new("int64_t *"), ffi.new("int64_t *")
        self._call(lib.fp_beside, classic, strangers)
        return bool(classic[0]), strangers[0]

    def wal(self) -> tuple[int, int]:
        """Bytes of the write-ahead log; microseconds for which a reader has kept it long, or -1."""
        size, kept = ffi.new("int64_t *"), ffi.new("int64_t *")
        self._call(lib.fp_wal, size, kept)
        return size[0], kept[0]

    def backup(self, path: bytes, *, over: bool) -> None:
        self._call(lib.fp_backup, path, over)

    # ---- waiting

    def version(self) -> int:
        return self._number(lib.fp_version)

    def wait(self, queue: int, version: int, until_us: int) -> int:
        """For a change in `queue`, one slice at the most; the version there is then."""
        moved = ffi.new("int64_t *", version)
        self._call(lib.fp_wait, queue, moved, until_us)
        now: int = moved[0]
        return now

    def watch(
        self,
        *,
        queues: Sequence[int] = (),
        ids: Sequence[int] = (),
        heard: Sequence[int] = (),
        version: int = 0,
        until_us: int,
        nudges: int = 0,
    ) -> Watched:
        """Waits for many at once, one slice at the most; what there is then."""
        laid = pack.fp_watched(queues, ids, heard)
        into = laid.into
        into.version, into.until_us, into.nudges = version, until_us, nudges
        due = ffi.new("unsigned char[]", len(queues))
        moved, now = ffi.new("int64_t *"), ffi.new("int64_t *")
        ended = self._rows(lib.fp_watch, into, due, moved, now)
        return Watched(ffi.buffer(due)[:], moved[0], now[0], ended)

    def nudges(self) -> int:
        """How many there were. A `step` that waits and names fewer comes back at once."""
        found: int = lib.fp_nudges(self._store)
        return found

    def nudge(self) -> None:
        lib.fp_nudge(self._store)

    # ---- what lives longer than a call

    def begin(self, patience: float) -> OpenTx:
        tx = OpenTx(self)
        checked(lib.fp_tx_begin, self._store, tx.place, patience=patience)
        return tx

    def end(self, tx: Any, *, commit: bool) -> None:
        checked(lib.fp_tx_end, tx, commit)

    def keeper(self, beat_us: int) -> Keeper:
        keeper = ffi.new("fp_keeper **")
        self._call(lib.fp_keeper_start, beat_us, keeper)
        return Keeper(self, keeper[0])


class OpenTx:
    """
    The place of one open transaction; its own thread only.

    It is there before the transaction is, so that an interrupt just after `begin` loses nothing:
    one that nobody ended is rolled back with its place.
    """

    __slots__ = ("_core", "place")

    def __init__(self, core: Core) -> None:
        self._core = core  # the handle outlives what was begun on it
        self.place: Any = ffi.new("fp_tx **")

    def end(self, *, commit: bool) -> None:
        """Commit or roll back. The transaction is over whatever the answer; again: nothing."""
        pointer, self.place[0] = self.place[0], ffi.NULL
        if pointer:
            self._core.end(pointer, commit=commit)

    def __del__(self) -> None:
        with suppress(Exception):
            self.end(commit=False)


def pointer(tx: OpenTx | None) -> Any:
    """The core's own of a transaction. `InvalidArgument`: it is over."""
    if tx is None:
        return ffi.NULL
    begun = tx.place[0]
    if not begun:  # else it would be a call without one, which commits by itself
        raise InvalidArgument("the transaction is over")
    return begun
