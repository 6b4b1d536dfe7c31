"""SIGTERM and SIGINT as something to wait for, instead of something that interrupts."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final

from fencepost.errors import InvalidArgument

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["STOPPING", "Signals", "leave"]

STOPPING: Final = (signal.SIGTERM, signal.SIGINT)


def leave(number: int, frame: FrameType | None) -> None:
    """A handler for whoever has nothing to put away."""
    raise SystemExit(0)


class Signals:
    """
    While entered, the signals that ask a process to stop are counted.

    The handler only writes one byte into a pipe: taking a lock in it could wait for the very
    thread that it interrupted. What was installed before is put back at the exit.
    `InvalidArgument` off the main thread, where Python cannot install a handler.
    """

    def __init__(self) -> None:
        self.count = 0
        self._before: list[Any] = []

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            raise InvalidArgument("signals belong to the main thread: use start() and stop() here")
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._before = [signal.signal(number, self._caught) for number in STOPPING]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, before in zip(STOPPING, self._before, strict=True):
            # None: it was installed outside Python, and only what is there now can be kept.
            signal.signal(number, signal.SIG_DFL if before is None else before)
        os.close(self._read)
        os.close(self._write)

    def _caught(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        with contextlib.suppress(BlockingIOError):  # a full pipe wakes the reader as well
            os.write(self._write, b".")

    def wait(self, timeout: float) -> int:
        """How many have come; waits up to `timeout` seconds for a further one."""
        ready, _, _ = select.select([self._read], [], [], timeout)
        if ready:
            os.read(self._read, 64)
        return self.count
