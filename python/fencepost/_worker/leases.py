"""The leases of what is running: the keeper's beat, as handlers and the loop may ask for it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any, Final

from fencepost._binding.calls import Core
from fencepost._binding.pack import pairs
from fencepost.claims import Claim

__all__ = ["Leases"]

BEAT_MIN_US: Final = 50_000
BEAT_MAX_US: Final = 10_000_000


class Leases:
    """
    Renewed by a thread in C, so that a handler that holds the interpreter loses nothing.

    A handler that was left behind may still ask when all is over; the lock is for that one.
    """

    def __init__(self, core: Core, shortest_us: int) -> None:
        """Beats three times in the shortest lease that it will be given."""
        self._keeper = core.keeper(min(max(shortest_us // 3, BEAT_MIN_US), BEAT_MAX_US))
        self._lock = threading.Lock()

    def hold(self, held: Sequence[int]) -> None:
        """
        Renew these until they are dropped, or until a moment of store time (0: for ever): id,
        token, lease and end of each, flat. All of them, or none.
        """
        with self._lock:
            self._keeper.hold(held)

    def drop(self, claims: Iterable[Claim[Any]]) -> None:
        with self._lock:
            self._keeper.drop(pairs(claim._key for claim in claims))

    def lost(self, claim: Claim[object]) -> bool:
        """Whether somebody else has it. When all is over nobody renews it: then it is, too."""
        with self._lock:
            return self._keeper.lost(*claim._key)

    def end(self) -> None:
        """Nothing is renewed any more."""
        with self._lock:
            self._keeper.stop()
