"""
What may share a commit with others: an enqueue, settlements, a claim, a cancellation.

Each is laid out once, and then crosses alone (`crossing`) or among many (`lay`). What it points to
lives as long as it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from fencepost._binding import pack
from fencepost._binding.crossing import copied
from fencepost._binding.lib import ffi, lib
from fencepost._binding.pack import Packed, Put, Settle, Take

__all__ = ["Cancelling", "Enqueuing", "Request", "Settling", "Stepping"]

T_co = TypeVar("T_co", covariant=True)


class Request(Generic[T_co]):
    """One of the four below. `queue`: the one it may have to wait for; 0: none."""

    __slots__ = ()

    @property
    def queue(self) -> int:
        return 0

    def crossing(self, tx: Any) -> tuple[Any, ...]:
        """The core's function, and its arguments between the store and the error."""
        raise NotImplementedError

    def lay(self, call: Any) -> None:
        """The same as an fp_call."""
        raise NotImplementedError

    def read(self) -> T_co:
        """The answer."""
        raise NotImplementedError

    def free(self) -> None:
        """After the crossing, whatever came of it: what the core handed over is given back."""


class Enqueuing(Request["tuple[list[int], bytes]"]):
    __slots__ = ("_count", "_created", "_ids", "_laid", "_queue")

    def __init__(self, put: Put) -> None:
        self._queue = put.queue
        self._laid = pack.fp_put(put)
        self._count = len(put.bodies)
        self._ids = ffi.new("int64_t[]", self._count)
        self._created = ffi.new("unsigned char[]", self._count)

    @property
    def queue(self) -> int:
        return self._queue

    def crossing(self, tx: Any) -> tuple[Any, ...]:
        return lib.fp_enqueue, tx, self._laid.into, self._ids, self._created

    def lay(self, call: Any) -> None:
        call.verb, call.put = lib.FP_CALL_ENQUEUE, self._laid.into
        call.ids, call.created = self._ids, self._created

    def read(self) -> tuple[list[int], bytes]:
        ids = ffi.unpack(self._ids, self._count) if self._count else []
        return ids, ffi.buffer(self._created)[:]


class Settling(Request["list[int]"]):
    __slots__ = ("_answers", "_count", "_laid")

    def __init__(self, settle: Settle) -> None:
        self._laid = pack.fp_settle(settle)
        self._count: int = self._laid.into.count
        self._answers = ffi.new("int32_t[]", self._count)

    def crossing(self, tx: Any) -> tuple[Any, ...]:
        return lib.fp_settle_many, tx, self._laid.into, self._answers

    def lay(self, call: Any) -> None:
        call.verb, call.settle, call.answers = lib.FP_CALL_SETTLE, self._laid.into, self._answers

    def read(self) -> list[int]:
        return ffi.unpack(self._answers, self._count) if self._count else []


class Stepping(Request["tuple[list[int], Packed]"]):
    """Settles, and claims; among many it does not wait."""

    __slots__ = ("_answers", "_count", "_laid", "_queue", "_rows", "_taken")

    def __init__(self, settle: Settle | None, take: Take) -> None:
        self._queue = take.queues[0] if take.queues else 0
        self._laid = None if settle is None else pack.fp_settle(settle)
        self._taken = pack.fp_take(take)
        self._count: int = 0 if self._laid is None else self._laid.into.count
        self._answers = ffi.new("int32_t[]", self._count)
        self._rows = ffi.new("fp_rows *")

    @property
    def queue(self) -> int:
        return self._queue

    def crossing(self, tx: Any) -> tuple[Any, ...]:
        settle = ffi.NULL if self._laid is None else self._laid.into
        return lib.fp_step, settle, self._answers, self._taken.into, self._rows

    def lay(self, call: Any) -> None:
        call.verb, call.take, call.answers = lib.FP_CALL_STEP, self._taken.into, self._answers
        call.rows = self._rows
        if self._laid is not None:
            call.settle = self._laid.into

    def read(self) -> tuple[list[int], Packed]:
        answers = ffi.unpack(self._answers, self._count) if self._count else []
        return answers, copied(self._rows)

    def free(self) -> None:
        lib.fp_rows_free(self._rows)


class Cancelling(Request["list[int]"]):
    __slots__ = ("_answers", "_count", "_ids")

    def __init__(self, ids: Sequence[int]) -> None:
        self._count = len(ids)
        self._ids = ffi.new("int64_t[]", ids)
        self._answers = ffi.new("int32_t[]", self._count)

    def crossing(self, tx: Any) -> tuple[Any, ...]:
        return lib.fp_cancel, tx, self._count, self._ids, self._answers

    def lay(self, call: Any) -> None:
        call.verb, call.count, call.messages = lib.FP_CALL_CANCEL, self._count, self._ids
        call.answers = self._answers

    def read(self) -> list[int]:
        return list(self._answers)
