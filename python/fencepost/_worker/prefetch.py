"""
How far ahead a worker may read: as many messages as it can start within `BUDGET`, by what it has
measured.

What is measured is the flow, not single handlers: how many runs ended between a refill and the last
end. So threads, the interpreter's lock and a busy machine are all in the figure. It begins with
nothing read ahead, grows by doubling while all that was handed out ends in time, and falls at once
when a handler proves long.
"""

from __future__ import annotations

from typing import Final

__all__ = ["BUDGET", "PATIENCE", "Prefetch"]

BUDGET: Final = 0.005  # seconds: what is read ahead begins within so much
PATIENCE: Final = 0.010  # seconds without an end: whatever runs has proved long
SLACK: Final = 4  # times as many as fit may wait before they are given back


class Prefetch:
    """Of the messages that share one reserve. `most`: it is never larger than that."""

    def __init__(self, most: int) -> None:
        self.ahead = 0  # messages beyond those that start at once
        self._most = most
        self._since = 0.0
        self._last = 0.0
        self._ended = 0

    def refilled(self, now: float) -> None:
        """Messages were handed out; what ends from now on is measured."""
        self._since = self._last = now
        self._ended = 0

    def ended(self, count: int, last: float) -> None:
        """So many runs have ended, the last of them at `last`."""
        self._ended += count
        self._last = max(self._last, last)

    def judge(self, waiting: int, running: int, now: float) -> int:
        """
        How far ahead to read, while so many wait and so many run.

        Where none waits, more could have ended than there was: that is no reason to fall.
        """
        if running and now - self._last >= PATIENCE:
            self.ahead = 0
        elif self._ended:
            fit = int(self._ended * BUDGET / max(self._last - self._since, BUDGET / 1000))
            if fit > self.ahead:
                self.ahead = min(fit, 2 * self.ahead + 1, self._most)
            elif waiting:
                self.ahead = fit
        return self.ahead

    def surplus(self, waiting: int, running: int, now: float) -> int:
        """How many of those that wait would wait for too long."""
        ahead = self.judge(waiting, running, now)
        return waiting - ahead if waiting > SLACK * ahead else 0
