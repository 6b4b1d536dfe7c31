"""
Where handlers run: so many threads for plain functions, one event loop for coroutines.

A slot is reserved before a message is claimed for it, and is free again only when the handler has
really returned: a hung one keeps its slot, whatever became of its message. Runs wait in the
`Backlog` of their group; a thread that has a slot there takes one after the other until none is
left. All threads are daemons, so that a hung handler cannot keep the process from ending.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from time import monotonic
from typing import Any, Final, Protocol

__all__ = ["COROUTINES", "Backlog", "Executor", "Task"]

COROUTINES: Final = 100  # handlers that may await side by side in one worker
TURN: Final = 0.005  # seconds that a thread serves one backlog while others wait for a slot
ASKED: Final = 0.020  # seconds after which who waits for a slot has to ask again
SHORT: Final = 1.0  # seconds until what could not start is tried again: a thread, the event loop

log: Final = logging.getLogger("fencepost.worker")


class Task(Protocol):
    """What is run. `ended_at` is set when it is over."""

    ended_at: float
    hold_us: int | None  # nothing more of its queue is to be begun for so long
    task: asyncio.Task[None] | None  # of a coroutine
    unwanted: bool  # it was cancelled, perhaps before it had a task

    def call(self) -> None: ...
    async def await_(self) -> None: ...


class Backlog:
    """
    Runs of one sort and one group: those that wait for a slot, and those that have ended. `told` is
    called, with the executor's lock, when a slot has left it, and when only `mark` are left.
    """

    def __init__(self, *, coroutine: bool, told: Callable[[], None]) -> None:
        self.coroutine = coroutine
        self.told = told
        self.waiting: deque[Any] = deque()
        self.ended: deque[Any] = deque()
        self.out = 0  # begun or waiting, and not yet taken out of `ended`; the worker's loop counts
        self.mark = -1
        self.serving = 0  # slots, changed with the executor's lock
        self.coming = 0  # those of them that have not arrived yet

    @property
    def left(self) -> int:
        """How many wait that no slot is coming for."""
        return max(0, len(self.waiting) - self.coming)


class Executor:
    """The threads and the event loop of one worker, shared by all its stores."""

    def __init__(self, threads: int) -> None:
        self.changed = threading.Condition()  # told of every slot that becomes free
        self._process = os.getpid()
        self.threads = threads
        self._free = {False: threads, True: COROUTINES}
        self._short_until = {False: 0.0, True: 0.0}
        self._asking: dict[bool, dict[object, float]] = {False: {}, True: {}}  # in their order
        self._calls: SimpleQueue[Backlog | None] = SimpleQueue()
        self._suspects: dict[object, float] = {}
        self._started = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._vacant: dict[Backlog, int] = {}  # slots of the event loop, until they are given back

    # ---- slots: `coroutine` says which sort ------------------------------------------------------

    def free(self, *, coroutine: bool) -> int:
        """How many can be reserved: after `falter`, for a while, where somebody serves already."""
        free = self._free[coroutine]
        if self.short(coroutine=coroutine):
            if coroutine:
                return free if self._loop is not None else 0
            return max(0, free - (self.threads - self._started))
        return free

    def falter(self, *, coroutine: bool) -> None:
        """
        Something could not be started. What was claimed for it goes back to the line, and must not
        be claimed for the same end as fast as the disk can write.
        """
        self._short_until[coroutine] = monotonic() + SHORT

    def short(self, *, coroutine: bool) -> float:
        """For how many seconds it is of no use to claim further messages of this sort."""
        return max(0.0, self._short_until[coroutine] - monotonic())

    def reserve(self, wanted: int | None, *, coroutine: bool, asker: object = None) -> int:
        """
        Take up to `wanted` slots, or all that are free; how many there were. An `asker` that gets
        none is remembered for a moment: one slot is left for each that asked before.
        """
        with self.changed:
            asking = self._asking[coroutine]
            free = self.free(coroutine=coroutine) - (_before(asking, asker) if asking else 0)
            granted = max(0, free if wanted is None else min(wanted, free))
            self._free[coroutine] -= granted
            if granted:
                asking.pop(asker, None)
            elif asker is not None:
                asking[asker] = monotonic() + ASKED
            return granted

    def give_back(self, count: int, *, coroutine: bool) -> None:
        """Slots that are not needed, or no more."""
        if count:
            with self.changed:
                self._free[coroutine] += count
                self.changed.notify_all()

    def withdraw(self, asker: object) -> None:
        """It asks for no slot any more."""
        with self.changed:
            for asking in self._asking.values():
                asking.pop(asker, None)
            self.changed.notify_all()

    def _tell(self, backlog: Backlog) -> None:
        with self.changed:
            backlog.told()
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
        if not self._suspects:
            return False
        now = monotonic()
        return any(now < until for until in tuple(self._suspects.values()))

    # ---- running ---------------------------------------------------------------------------------

    def staff(self, slots: int, *, coroutine: bool) -> int:
        """
        See to it that somebody is there to serve in these slots, which are reserved; in how many.
        Raises what kept it from starting any thread, if there is none for them.
        """
        with self.changed:
            if coroutine:
                self._event_loop()
                return slots
            taken = self.threads - self._free[False]
            try:
                while self._started < taken:
                    name = f"fencepost-handler-{self._started + 1}"
                    threading.Thread(target=self._serve, name=name, daemon=True).start()
                    self._started += 1
            except Exception:
                if taken - self._started >= slots:
                    raise
                return slots - (taken - self._started)
            return slots

    def serve(self, backlog: Backlog, slots: int) -> None:
        """Work off what waits there in so many further slots, which are staffed."""
        if not slots:
            return
        with self.changed:
            backlog.serving += slots
            backlog.coming += slots
        if backlog.coroutine:
            self._event_loop().call_soon_threadsafe(self._attend, backlog, slots)
        else:
            for _ in range(slots):
                self._calls.put(backlog)

    # ---- threads ---------------------------------------------------------------------------------

    def _serve(self) -> None:
        while (backlog := self._calls.get()) is not None:
            self._work_off(backlog)
            del backlog

    def _work_off(self, backlog: Backlog) -> None:
        """Until nothing waits there, or it is somebody else's turn."""
        waiting, asking = backlog.waiting, self._asking[False]
        with self.changed:
            backlog.coming -= 1
        since = now = monotonic()
        halted = False
        while True:
            if not waiting or halted or (asking and now - since > TURN):
                if self._leave(backlog, yields=halted or now - since > TURN):
                    return
                continue
            try:
                task = waiting.popleft()
            except IndexError:
                continue  # another thread was faster
            if len(waiting) == backlog.mark:
                self._tell(backlog)
            try:
                # A handler's context variables are its own: the next one starts without them.
                copy_context().run(task.call)
            except BaseException:
                log.exception("a handler's thread was left by an exception")
            if os.getpid() != self._process:
                # The child of a handler that forked ends at once: what libraries clean up at the
                # end of a process, they would do for threads that are not there.
                os._exit(0)
            task.ended_at = now = monotonic()
            halted = task.hold_us is not None
            backlog.ended.append(task)
            del task

    def _leave(self, backlog: Backlog, *, yields: bool) -> bool:
        """Give its slot back; False: more has come meanwhile, and nobody else waits."""
        with self.changed:
            if backlog.waiting and not yields:
                return False
            backlog.serving -= 1
            self._free[False] += 1
            backlog.told()
            self.changed.notify_all()
            return True

    # ---- the event loop --------------------------------------------------------------------------

    def cancel(self, run: Task) -> None:
        """A coroutine, from any thread; one that has not begun has ended, too."""
        self._event_loop().call_soon_threadsafe(_cancel, run)

    def _attend(self, backlog: Backlog, slots: int) -> None:
        with self.changed:
            backlog.coming -= slots
        for _ in range(slots):
            self._next(backlog)

    def _next(self, backlog: Backlog) -> None:
        """Begin what waits there in a slot that has become free, or give the slot back."""
        try:
            run = None if self._asking[True] else backlog.waiting.popleft()
        except IndexError:
            run = None
        if run is None:
            self._vacate(backlog)
            return
        if len(backlog.waiting) == backlog.mark:
            self._tell(backlog)
        run.task = self._event_loop().create_task(run.await_())
        self._tasks.add(run.task)
        run.task.add_done_callback(partial(self._over, backlog, run))
        if run.unwanted:
            run.task.cancel()

    def _over(self, backlog: Backlog, run: Task, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # taken out, so that the loop does not report it a second time
        run.task = None
        run.ended_at = monotonic()
        backlog.ended.append(run)
        if run.hold_us is None:
            self._next(backlog)
        else:
            self._vacate(backlog)

    def _vacate(self, backlog: Backlog) -> None:
        """Give a slot back; those of one go of the loop together."""
        if not self._vacant:
            self._event_loop().call_soon(self._give_back_vacant)
        self._vacant[backlog] = self._vacant.get(backlog, 0) + 1

    def _give_back_vacant(self) -> None:
        vacant, self._vacant = self._vacant, {}
        with self.changed:
            for backlog, slots in vacant.items():
                backlog.serving -= slots
                self._free[True] += slots
                backlog.told()
            self.changed.notify_all()

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            with self.changed:
                if self._loop is None:
                    loop = asyncio.new_event_loop()
                    name = "fencepost-event-loop"
                    turning = threading.Thread(
                        target=self._turn, args=[loop], name=name, daemon=True
                    )
                    try:
                        turning.start()
                    except BaseException:
                        loop.close()
                        raise
                    self._loop = loop
        return self._loop

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            while not self._closed:  # a handler that stops its loop stops nobody else's
                loop.run_forever()
            for task in self._tasks:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()

    def close(self) -> None:
        """No further calls: idle threads end, busy ones end when their handler returns."""
        self._closed = True
        for _ in range(self._started):
            self._calls.put(None)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)


def _before(asking: dict[object, float], asker: object) -> int:
    """How many have asked before. Those who did not ask again in time are forgotten."""
    now = monotonic()
    for other, until in tuple(asking.items()):
        if now >= until:
            del asking[other]
    order = list(asking)
    return order.index(asker) if asker in asking else len(order)


def _cancel(run: Task) -> None:
    run.unwanted = True
    if run.task is not None:
        run.task.cancel()
