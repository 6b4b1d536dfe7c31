"""What may share a commit with others, of workflows: a run's start, and what comes from outside."""

from __future__ import annotations

from typing import Any

from fencepost._binding import flowpack as lay
from fencepost._binding import pack
from fencepost._binding.crossing import copied
from fencepost._binding.flowpack import Start
from fencepost._binding.lib import ffi, lib
from fencepost._binding.pack import Borrowed
from fencepost._binding.requests import Request

__all__ = ["Coming", "Starting"]


class Starting(Request["tuple[int, bool]"]):
    """Its wake-up's id; False: an equal run was there."""

    __slots__ = ("_byte", "_created", "_laid", "_message", "_parent")

    def __init__(self, start: Start) -> None:
        self._parent = None if start.parent is None else lay.parent(start.parent)
        self._laid = lay.start(start, self._parent)
        self._message, self._created = ffi.new("int64_t *"), ffi.new("int32_t *")
        self._byte = ffi.new("unsigned char *")  # the same among many

    def crossing(self, tx: Any) -> tuple[Any, ...]:
        return lib.fp_start_run, tx, self._laid.into, self._message, self._created

    def lay(self, call: Any) -> None:
        call.verb, call.start = lib.FP_CALL_START, self._laid.into
        call.ids, call.created = self._message, self._byte

    def read(self) -> tuple[int, bool]:
        return self._message[0], bool(self._created[0] or self._byte[0])


class Coming(Request["tuple[bytes | None, bool]"]):
    """What is stored where it is not this, or an entry's key; and whether it is this."""

    __slots__ = ("_laid", "_rows")

    def __init__(
        self,
        id: bytes,
        key: bytes | None,
        value: bytes | None,
        kind: int,
        queue: int,
        *,
        live: bool,
        wake: bool,
    ) -> None:
        self._laid = Borrowed("fp_outside *")
        into = self._laid.into
        into.id, into.id_bytes = self._laid.view(id), len(id)
        if key is not None:
            into.key, into.key_bytes = self._laid.view(key), len(key)
        into.value_bytes = lay.length(value)
        if value is not None:
            into.value = self._laid.view(value)
        into.kind, into.queue, into.live, into.wake = kind, queue, live, wake
        self._rows = ffi.new("fp_rows *")

    def crossing(self, tx: Any) -> tuple[Any, ...]:
        return lib.fp_outside_put, tx, self._laid.into, self._rows

    def lay(self, call: Any) -> None:
        call.verb, call.outside, call.rows = lib.FP_CALL_OUTSIDE, self._laid.into, self._rows

    def read(self) -> tuple[bytes | None, bool]:
        found = copied(self._rows)
        ((first, length),) = pack.records(found)
        return pack.parts(found.blob, 0, [length])[0][0], bool(first)

    def free(self) -> None:
        lib.fp_rows_free(self._rows)
