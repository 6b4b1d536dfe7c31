"""
The calls of workflows: one method for each C function. Lay out, call, check, copy out.

csrc/fencepost_flow.h says what each does and promises. Ids, keys and values are bytes here; moments
and spans are microseconds of store time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from fencepost._binding import flowpack as lay
from fencepost._binding import pack
from fencepost._binding.calls import Core, OpenTx, copied, pointer
from fencepost._binding.codes import FP
from fencepost._binding.flowpack import (
    RESERVED,
    ChildOutcome,
    End,
    Parent,
    Recorded,
    RecordPut,
    RunRow,
    Start,
    Stored,
    child_outcome,
    inbox_key,
    signal_key,
)
from fencepost._binding.flowrequests import Coming, Starting
from fencepost._binding.lib import ffi, lib
from fencepost._binding.pack import Borrowed, Cursor, Put

__all__ = ["RESERVED", "ChildOutcome", "End", "Flow", "Parent", "RecordPut", "Recorded", "RunRow"]
__all__ += ["Start", "Stored", "child_outcome", "inbox_key", "signal_key"]

PAGE: Final = 1000  # records in one crossing

# ---- the calls -----------------------------------------------------------------------------------


class Flow:
    """The workflows of one file, on a handle that others use, too."""

    __slots__ = ("core",)

    def __init__(self, core: Core) -> None:
        self.core = core

    # ---- passes

    def record(self, tx: OpenTx | None, items: Sequence[RecordPut]) -> list[Recorded]:
        """Records of one workflow or of many: one commit."""
        return self.end(tx, items, ())[0]

    def end(
        self, tx: OpenTx | None, records: Sequence[RecordPut], ends: Sequence[End]
    ) -> tuple[list[Recorded], list[int]]:
        """Records, and then the ends of passes that took their wake-up: one commit."""
        recorded = ffi.new("int32_t[]", len(records))
        ended = ffi.new("int32_t[]", len(ends))
        laid, last, rows = lay.records(records), lay.ends(ends), ffi.new("fp_rows *")
        try:
            self.core._call(
                lib.fp_pass_end, pointer(tx), laid.into, recorded, rows, last.into, ended
            )
            found = copied(rows)
        finally:
            lib.fp_rows_free(rows)
        return lay.answered(records, recorded, found), list(ended)

    def find(
        self, tx: OpenTx | None, id: bytes, token: int, key: bytes
    ) -> tuple[bool, bytes | None]:
        """Whether it is recorded, and its value. `LeaseLost`: the pass was lost."""
        found = self.core._rows(lib.fp_record_find, pointer(tx), id, len(id), token, key, len(key))
        for lengths in pack.records(found):
            return True, pack.parts(found.blob, 0, lengths)[0][0]
        return False, None

    def claim(self, id: bytes, budget_us: int, alive_us: int) -> int:
        """The token of a pass without a wake-up; 0: somebody holds it."""
        return self.core._number(lib.fp_pass_claim, id, len(id), budget_us, alive_us)

    def _held(self, function: Any, tx: OpenTx | None, id: bytes, *said: int) -> bool:
        return bool(self.core._number(function, pointer(tx), id, len(id), *said, kind="int32_t *"))

    def extend(
        self, tx: OpenTx | None, id: bytes, token: int, budget_us: int, alive_us: int
    ) -> bool:
        """A budget from now on. False: the pass was lost."""
        return self._held(lib.fp_pass_extend, tx, id, token, budget_us, alive_us)

    def renew(self, tx: OpenTx | None, id: bytes, token: int, alive_us: int) -> bool:
        """A sign of life. False: the pass was lost, or its budget is over."""
        return self._held(lib.fp_pass_renew, tx, id, token, alive_us)

    def release(self, tx: OpenTx | None, id: bytes, token: int) -> bool:
        """Free at once. False: the pass was lost."""
        return self._held(lib.fp_pass_release, tx, id, token)

    # ---- from outside

    def arrive(
        self,
        tx: OpenTx | None,
        id: bytes,
        key: bytes,
        value: bytes | None,
        *,
        kind: int = FP.RECORD_WAIT,
        queue: int = 0,
        live: bool = True,
        wake: bool = True,
    ) -> tuple[bytes | None, bool]:
        """
        A record from outside, and the wake-up it is for; what is stored, and whether it is this.
        `live`: `Gone` unless there is a run that is not done or cancelled. `queue`: where an id
        without a run is woken.
        """
        coming = Coming(id, key, value, kind, queue, live=live, wake=wake)
        stored, first = self.core.run(tx, coming)
        return value if first else stored, first

    def supply(
        self,
        tx: OpenTx | None,
        id: bytes,
        key: bytes,
        value: bytes | None,
        kind: int = FP.RECORD_WAIT,
    ) -> tuple[bytes | None, bool]:
        """A record from outside that wakes nobody and needs no run."""
        return self.arrive(tx, id, key, value, kind=kind, live=False, wake=False)

    def deliver(
        self,
        tx: OpenTx | None,
        id: bytes,
        value: bytes | None,
        *,
        queue: int = 0,
        live: bool = True,
        wake: bool = True,
    ) -> bytes:
        """An entry of the inbox, and the wake-up it is for: its key. As `arrive`."""
        coming = Coming(id, None, value, FP.RECORD_INBOX, queue, live=live, wake=wake)
        key, _ = self.core.run(tx, coming)
        return key or b""

    def append(self, tx: OpenTx | None, id: bytes, value: bytes | None) -> bytes:
        """An entry of the inbox that wakes nobody and needs no run: its key."""
        return self.deliver(tx, id, value, live=False, wake=False)

    def discard(self, tx: OpenTx | None, id: bytes) -> int:
        """All records go, and no token of before opens anything; how many went."""
        return self.core._number(lib.fp_discard, pointer(tx), id, len(id))

    # ---- runs

    def start(self, tx: OpenTx | None, start: Start) -> tuple[int, bool]:
        """Its wake-up's id; False: an equal run was there. `Conflict`; of a child, `LeaseLost`."""
        return self.core.run(tx, Starting(start))

    def start_job(self, tx: OpenTx | None, put: Put, parent: Parent) -> tuple[int, bool]:
        """One message without a key as the child of a run. `LeaseLost`."""
        laid, of = pack.fp_put(put), lay.parent(parent)
        message, created = ffi.new("int64_t *"), ffi.new("int32_t *")
        self.core._call(lib.fp_start_job, pointer(tx), laid.into, of.into, message, created)
        return message[0], bool(created[0])

    def cancel(self, tx: OpenTx | None, id: bytes) -> int:
        """FP.DONE, with all that lives below it; FP.ALREADY: it has ended; FP.GONE."""
        return self._answer(lib.fp_run_cancel, tx, id)

    def resume(self, tx: OpenTx | None, id: bytes) -> int:
        """FP.DONE; FP.ALREADY: it has not failed and is not parked; FP.GONE."""
        return self._answer(lib.fp_run_resume, tx, id)

    def _answer(self, function: Any, tx: OpenTx | None, id: bytes) -> int:
        return self.core._number(function, pointer(tx), id, len(id), kind="int32_t *")

    def fork(self, tx: OpenTx | None, id: bytes, key: bytes | None, start: Start) -> int:
        """
        A new run of the same kind and arguments, with the records from before `key` (None: all);
        its wake-up's id. `Gone`: no such run or record; `Conflict`: the new id is taken.
        """
        laid = lay.start(start, None)
        before = ffi.NULL if key is None else key
        return self.core._number(
            lib.fp_run_fork, pointer(tx), id, len(id), before, len(key or b""), laid.into
        )

    def delete(self, tx: OpenTx | None, id: bytes, queue: int = 0) -> int:
        """Wake-up, run, pass and records go together; how many records. `queue`: as `arrive`."""
        return self.core._number(lib.fp_run_delete, pointer(tx), queue, id, len(id))

    def purge(self, state: int, before_us: int, limit: int, *, apply: bool) -> tuple[int, bool]:
        """Runs that ended before a moment: how many went, and whether to call again."""
        purged, more = ffi.new("int64_t *"), ffi.new("int32_t *")
        self.core._call(lib.fp_run_purge, state, before_us, limit, apply, purged, more)
        return purged[0], bool(more[0])

    # ---- looking

    def get(self, id: bytes, tx: OpenTx | None = None) -> RunRow | None:
        return next(lay.runs(self.core._rows(lib.fp_run_get, pointer(tx), id, len(id))), None)

    def runs(
        self,
        state: int = FP.RUN_ANY,
        *,
        kind: int = 0,
        text: bytes = b"",
        after: Cursor | None = None,
        limit: int = 50,
    ) -> tuple[list[RunRow], Cursor | None]:
        """One page, newest first in each state, and where the next one begins. May be short."""
        laid = Borrowed("fp_run_filter *")
        into = laid.into
        into.state, into.limit, into.kind = state, limit, kind
        into.text, into.text_bytes = laid.view(text), len(text)
        if after is not None:
            into.has_after, into.after = 1, after
        rows, following = ffi.new("fp_rows *"), ffi.new("int64_t[3]")
        more = ffi.new("int32_t *")
        try:
            self.core._call(lib.fp_run_list, into, rows, following, more)
            found = copied(rows)
        finally:
            lib.fp_rows_free(rows)
        cursor = (following[0], following[1], following[2])
        return [*lay.runs(found)], cursor if more[0] else None

    def page(
        self, id: bytes, after_seq: int = 0, limit: int = PAGE, tx: OpenTx | None = None
    ) -> tuple[list[Stored], bool]:
        """Records in order, those behind `after_seq`; and whether there are more."""
        rows, more = ffi.new("fp_rows *"), ffi.new("int32_t *")
        try:
            self.core._call(
                lib.fp_record_page, pointer(tx), id, len(id), after_seq, limit, rows, more
            )
            found = copied(rows)
        finally:
            lib.fp_rows_free(rows)
        at, page = 0, []
        for seq, kind, started, written, *lengths in pack.records(found):
            (key, value), at = pack.parts(found.blob, at, lengths)
            page.append(Stored(seq, key or b"", kind, value, started, written))
        return page, bool(more[0])

    def records(self, id: bytes, tx: OpenTx | None = None) -> Iterator[Stored]:
        """All records in order, a page at a time."""
        after, more = 0, True
        while more:
            page, more = self.page(id, after, tx=tx)
            yield from page
            if page:
                after = page[-1].seq
