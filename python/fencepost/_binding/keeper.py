"""The keeper, the one thread of the core: it renews the leases it was given (csrc/keeper.h)."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from fencepost._binding.crossing import checked
from fencepost._binding.lib import ffi, lib

__all__ = ["Keeper"]


class Keeper:
    """The thread in C that renews the leases it was given. Once stopped it holds none."""

    __slots__ = ("_core", "_keeper")

    def __init__(self, core: object, pointer: Any) -> None:
        self._core = core  # the handle outlives the thread
        self._keeper = pointer

    def hold(self, claims: Sequence[int]) -> None:
        """
        Renew claims until they are dropped, or until a moment of store time (0: for ever): id,
        token, lease and end of each, flat. All of them, or none. `Closed`: it is stopped.
        """
        flat = array("q", claims)
        checked(
            lib.fp_keeper_hold, self._keeper, len(flat) // 4, ffi.from_buffer("int64_t[]", flat)
        )

    def drop(self, claims: Sequence[int]) -> None:
        """Id and token of each, flat."""
        flat = array("q", claims)
        lib.fp_keeper_drop(self._keeper, len(flat) // 2, ffi.from_buffer("int64_t[]", flat))

    def lost(self, id: int, token: int) -> bool:
        """Whether somebody else has it, or nobody renews it any more."""
        return bool(lib.fp_keeper_lost(self._keeper, id, token))

    def stop(self) -> None:
        """Ends the thread; again: nothing. Not beside another call."""
        pointer, self._keeper = self._keeper, ffi.NULL
        if pointer:
            lib.fp_keeper_stop(pointer)

    def __del__(self) -> None:
        self.stop()  # before the handle goes that its thread works on
