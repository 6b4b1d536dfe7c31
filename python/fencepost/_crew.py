"""
Where handlers run: so many threads for plain functions, one event loop for coroutines.

A slot is reserved before a message is claimed for it, and is free again only when the handler has
really returned: a hung one keeps its slot, whatever became of its message. All threads are daemons,
so that a hung handler cannot keep the process from ending.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from queue import SimpleQueue
from time import monotonic
from typing import Any, Final, TypeAlias

__all__ = ["COROUTINES", "Crew"]

COROUTINES: Final = 100  # handlers that may await side by side in one worker

Call: TypeAlias = Callable[[], None]

log: Final = logging.getLogger("fencepost.worker")


class Crew:
    """The threads and the event loop of one worker, shared by all its stores."""

    def __init__(self, threads: int) -> None:
        self.changed = threading.Condition()  # told of every slot that becomes free
        self._process = os.getpid()
        self._threads = threads
        self._free = {False: threads, True: COROUTINES}
        self._calls: SimpleQueue[tuple[Call, Call] | None] = SimpleQueue()
        self._suspects: dict[object, float] = {}
        self._started = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # ---- slots: `coroutine` says which sort ------------------------------------------------------

    def free(self, *, coroutine: bool) -> int:
        return self._free[coroutine]

    def reserve(self, wanted: int | None, *, coroutine: bool) -> int:
        """Take up to `wanted` slots, or all that are free; how many there were."""
        with self.changed:
            free = self._free[coroutine]
            granted = free if wanted is None else min(wanted, free)
            self._free[coroutine] -= granted
            return granted

    def give_back(self, count: int, *, coroutine: bool) -> None:
        """Slots that are not needed, or no more."""
        with self.changed:
            self._free[coroutine] += count
            self.changed.notify_all()

    # ---- messages whose last holder never answered -----------------------------------------------

    def beware(self, run: object, seconds: float) -> None:
        """For so long, or until `trust`, `run` is suspected of killing its process."""
        self._suspects[run] = monotonic() + seconds

    def trust(self, run: object) -> None:
        """It has ended, and we are still here."""
        self._suspects.pop(run, None)

    @property
    def wary(self) -> bool:
        """Nothing further is to be claimed: a deadly message must not take others with it."""
        now = monotonic()
        return any(now < until for until in tuple(self._suspects.values()))

    # ---- running, in a slot that was reserved ----------------------------------------------------

    def run(self, call: Call, ended: Call) -> None:
        """Run `call` on a thread, then `ended`; then its slot is free."""
        with self.changed:
            taken = self._threads - self._free[False]
            if self._started < taken:
                name = f"fencepost-handler-{self._started + 1}"
                threading.Thread(target=self._serve, name=name, daemon=True).start()
                self._started += 1
        self._calls.put((call, ended))

    def _serve(self) -> None:
        while (given := self._calls.get()) is not None:
            call, ended = given
            try:
                # A handler's context variables are its own: the next one starts without them.
                contextvars.copy_context().run(call)
            except BaseException:
                log.exception("a handler's thread was left by an exception")
            if os.getpid() != self._process:
                return  # the child of a handler that forked: it ends with its only thread
            ended()
            del given, call, ended
            self.give_back(1, coroutine=False)

    def spawn(
        self,
        coroutine: Callable[[], Coroutine[Any, Any, None]],
        ended: Call,
    ) -> Call:
        """
        Run a coroutine on the event loop, then `ended`, also when it was cancelled before its first
        step; then its slot is free. What cancels it is returned, for any thread.
        """
        loop = self._event_loop()
        started: list[asyncio.Task[None]] = []

        def over(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if not task.cancelled():
                task.exception()  # taken out, so that the loop does not report it a second time
            ended()
            self.give_back(1, coroutine=True)

        def start() -> None:
            task = loop.create_task(coroutine())
            self._tasks.add(task)
            task.add_done_callback(over)
            started.append(task)

        def cancel() -> None:
            loop.call_soon_threadsafe(lambda: [task.cancel() for task in started])

        loop.call_soon_threadsafe(start)
        return cancel

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        with self.changed:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                name = "fencepost-event-loop"
                threading.Thread(target=self._turn, args=[loop], name=name, daemon=True).start()
                self._loop = loop
            return self._loop

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            for task in self._tasks:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()

    def close(self) -> None:
        """No further calls: idle threads end, busy ones end when their handler returns."""
        for _ in range(self._started):
            self._calls.put(None)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
