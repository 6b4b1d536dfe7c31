"""
What coroutines wait for, and the few threads that do it for them.

A waiter is one call of one coroutine. It stands in a line until a thread takes it; as long as it
stands it can be withdrawn, and then nothing of it has happened. What was taken happens, whether its
coroutine still waits or not. Its answer goes back to the event loop that it came from, together
with all others that are for the same loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Generic, TypeVar

__all__ = ["Threads", "Waiter", "deliver"]

T = TypeVar("T")

LINGER: Final = 5.0  # seconds that a thread without anything to do stays for the next thing


class Waiter(Generic[T]):
    """`lock` is that of the line it stands in, and is held when `unwanted` is changed."""

    __slots__ = ("error", "future", "lock", "loop", "unwanted", "value")

    def __init__(self, lock: threading.Condition, *, heard: bool = True) -> None:
        """`heard` false: no coroutine waits, and there need be no loop."""
        self.lock = lock
        self.loop = asyncio.get_running_loop() if heard else None
        self.future: asyncio.Future[T] | None = self.loop.create_future() if self.loop else None
        self.unwanted = False  # its coroutine was cancelled
        self.value: Any = None
        self.error: BaseException | None = None

    async def awaited(self) -> T:
        """The answer. Cancelled, it is withdrawn, or what comes of it goes unheard."""
        assert self.future is not None
        try:
            return await self.future
        except asyncio.CancelledError:
            with self.lock:
                self.unwanted = True
            if self.future.done() and not self.future.cancelled():
                self.unheard()
            else:
                self.withdrawn()
            raise

    def wanted(self) -> bool:
        """There is a coroutine that can hear of it."""
        return not self.unwanted and self.loop is not None and not self.loop.is_closed()

    def withdrawn(self) -> None:
        """It was unwanted before there was an answer."""

    def skipped(self) -> None:
        """It was unwanted when its turn came, and nothing of it happened. With the lock held."""

    def unheard(self) -> None:
        """It has happened, and nobody is there to hear of it."""


def deliver(waiters: Iterable[Waiter[Any]]) -> None:
    """Their values and errors go to their loops; from any thread."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Waiter[Any]]] = {}
    for waiter in waiters:
        if waiter.loop is not None:
            by_loop.setdefault(waiter.loop, []).append(waiter)
    for loop, several in by_loop.items():
        try:
            loop.call_soon_threadsafe(_tell, several)
        except RuntimeError:  # the loop is closed: nobody waits there any more
            for waiter in several:
                waiter.unheard()


def _tell(waiters: Sequence[Waiter[Any]]) -> None:
    for waiter in waiters:
        assert waiter.future is not None
        if waiter.future.done():
            waiter.unheard()
        elif waiter.error is not None:
            waiter.future.set_exception(waiter.error)
        else:
            waiter.future.set_result(waiter.value)


class Threads:
    """
    Up to `threads` daemon threads that take what stands in one line, up to `most` at once.

    They come with the first waiters, and go when for a while there were none: a store that nobody
    closed keeps none. `work` answers for each waiter that it was given; what it raises is told to
    all of them.
    """

    def __init__(
        self, name: str, work: Callable[[list[Any]], None], *, threads: int, most: int
    ) -> None:
        lock = threading.Lock()
        self.changed = threading.Condition(lock)
        self._rested = threading.Condition(lock)
        self._name = name
        self._work = work
        self._most = most
        self._room = threads
        self._line: deque[Waiter[Any]] = deque()
        self._threads = 0
        self._idle = 0
        self._linger = LINGER

    def put(self, waiters: Sequence[Waiter[Any]], *, first: bool = False) -> None:
        """Line them up, behind all others or in front. `RuntimeError`: there is no thread left."""
        with self.changed:
            if first:
                self._line.extendleft(reversed(waiters))
            else:
                self._line.extend(waiters)
            if self._idle:
                self.changed.notify()
            elif self._threads < self._room:
                self._begin(waiters)

    def _begin(self, waiters: Sequence[Waiter[Any]]) -> None:
        name = f"fencepost-{self._name}-{self._threads + 1}"
        try:
            threading.Thread(target=self._serve, name=name, daemon=True).start()
        except RuntimeError:
            if self._threads == 0:
                for waiter in waiters:
                    self._line.remove(waiter)
                raise
        else:
            self._threads += 1

    def dismiss(self) -> None:
        """Threads need not wait for more to come."""
        with self.changed:
            self._linger = 0.0
            self.changed.notify_all()

    def wait_until_idle(self, timeout: float) -> bool:
        """Until nothing stands there, and nothing that did is under way."""
        with self._rested:
            return self._rested.wait_for(
                lambda: not self._line and self._idle == self._threads, timeout
            )

    def _serve(self) -> None:
        while waiters := self._next():
            try:
                self._work(waiters)
            except BaseException as error:  # of ours; the coroutines must not wait for ever
                for waiter in waiters:
                    waiter.error = error
                deliver(waiters)
            del waiters  # an idle thread keeps nothing alive

    def _next(self) -> list[Waiter[Any]]:
        """What is to be done next; empty: the thread may go."""
        with self.changed:
            while True:
                taken = self._taken()
                if taken:
                    return taken
                self._idle += 1
                self._rested.notify_all()
                came = self.changed.wait(self._linger)
                self._idle -= 1
                if not (came and self._linger) and not self._line:
                    self._threads -= 1
                    return []

    def _taken(self) -> list[Waiter[Any]]:
        taken: list[Waiter[Any]] = []
        while self._line and len(taken) < self._most:
            waiter = self._line.popleft()
            if waiter.unwanted:
                waiter.skipped()
            else:
                taken.append(waiter)
        return taken
