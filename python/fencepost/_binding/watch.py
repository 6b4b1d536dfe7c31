"""
One thread that waits for all that coroutines of this handle wait for.

    a claim in vain       is made again once something is due in its queue
    a full queue          is tried again once something has happened in it
    a message             is told once it has ended
    the file              is told once it has changed

Many may wait in the line of one queue for what only one of them can have. So one of them tries,
then two, then four, as long as none does in vain; while they do, nobody looks at that queue.

Moments are store time, so that a clock that is turned by hand turns these waits, too: a time begins
when the core has been asked for the first time what time it is.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from heapq import heappop, heappush
from itertools import count
from typing import Any, ClassVar, Final, TypeVar

from fencepost._binding.calls import Core, Watched
from fencepost._binding.results import Result, results
from fencepost._binding.waiters import LINGER, Waiter, deliver

__all__ = ["Lined", "Watch"]

T = TypeVar("T")

FOREVER: Final = 2**53 - 1  # of store time, in microseconds
AT_ONCE: Final = 0
WIDEST: Final = 128  # waiters of one queue that try at once


class Timed(Waiter[T]):
    """A waiter that waits at most `wait_us` (None: for ever), as long as it is `watched`."""

    __slots__ = ("until_us", "wait_us", "watched")

    def __init__(self, lock: threading.Condition, wait_us: int | None) -> None:
        super().__init__(lock)
        self.wait_us = wait_us
        self.until_us: int | None = None
        self.watched = False

    def begin(self, now_us: int) -> None:
        if self.wait_us is not None:
            self.until_us = min(now_us + self.wait_us, FOREVER)


class Lined(Timed[T]):
    """One that waits in a queue's line, for messages or for room."""

    __slots__ = ("trying",)
    for_messages: ClassVar[bool] = False

    def __init__(self, lock: threading.Condition, wait_us: int) -> None:
        super().__init__(lock, wait_us)
        self.trying = False

    @property
    def queue(self) -> int:
        raise NotImplementedError

    def be_patient(self) -> None:
        raise NotImplementedError


class Ending(Timed["Result | None"]):
    __slots__ = ("id", "watch")

    def __init__(self, watch: Watch, id_: int, wait_us: int | None) -> None:
        super().__init__(watch.changed, wait_us)
        self.watch = watch
        self.id = id_

    def withdrawn(self) -> None:
        self.watch.forget(self)


class Changing(Waiter[None]):
    __slots__ = ("version",)

    def __init__(self, lock: threading.Condition, version: int) -> None:
        super().__init__(lock)
        self.version = version


class Line:
    """Of one queue. `version`: the file's when it was last tried in vain."""

    def __init__(self) -> None:
        self.waiting: deque[Lined[Any]] = deque()
        self.version: int | None = None
        self.trying = 0
        self.width = 1

    def waits(self) -> bool:
        """Somebody waits here, and nobody tries."""
        while self.waiting and not (self.waiting[0].watched and self.waiting[0].wanted()):
            self.waiting.popleft()
        return bool(self.waiting) and not self.trying

    def next(self) -> list[Lined[Any]]:
        """Who may try now."""
        found: list[Lined[Any]] = []
        while len(found) < self.width and self.waits():
            waiter = self.waiting.popleft()
            waiter.watched, waiter.trying = False, True
            found.append(waiter)
        self.trying = len(found)
        return found


class Watch:
    """`try_again` makes the calls of these waiters once more, and then says how they `went`."""

    def __init__(self, core: Core, try_again: Callable[[Sequence[Lined[Any]]], None]) -> None:
        self.changed = threading.Condition()  # guards all of it
        self._core = core
        self._try_again = try_again
        self._lines: dict[tuple[bool, int], Line] = {}  # for messages or for room; the queue
        self._ending: dict[int, list[Ending]] = {}
        self._changing: list[Changing] = []
        self._untimed: list[Timed[Any]] = []
        self._times: list[tuple[int, int, Timed[Any]]] = []
        self._number = count()
        self._running = False
        self._crossing = False  # the thread is in the core, or on its way there
        self._linger = LINGER

    # ---- for the bridge --------------------------------------------------------------------------

    async def change(self, version: int) -> None:
        waiter = Changing(self.changed, version)
        with self.changed:
            self._look_again()
            self._changing.append(waiter)
        await waiter.awaited()

    async def end(self, id_: int, wait_us: int | None) -> Result | None:
        waiter = Ending(self, id_, wait_us)
        with self.changed:
            self._look_again()
            self._ending.setdefault(id_, []).append(waiter)
            self._time(waiter)
        return await waiter.awaited()

    def forget(self, waiter: Ending) -> None:
        """Nobody waits for this message's end any more."""
        with self.changed:
            self._unlist(waiter)

    def dismiss(self) -> None:
        """The thread need not wait for more to come."""
        with self.changed:
            self._linger = 0.0
            self.changed.notify_all()

    def clock(self, waiters: Sequence[Timed[Any]]) -> None:
        """Their time begins now."""
        if waiters:
            now_us = self._core.now()
            for waiter in waiters:
                waiter.begin(now_us)

    def went(self, waiter: Lined[Any], version: int, *, in_vain: bool) -> bool:
        """It has been tried, and `version` was read before. Whether it goes on waiting."""
        if not waiter.wait_us:
            return False
        with self.changed:
            line = self._lines.setdefault((waiter.for_messages, waiter.queue), Line())
            if in_vain:
                line.version, line.width = version, 1
            elif waiter.trying:
                line.width = min(line.width * 2, WIDEST)
            waits_on = in_vain and not waiter.unwanted
            if waits_on and waiter.trying:
                line.waiting.appendleft(waiter)
            elif waits_on:
                line.waiting.append(waiter)
            if waits_on:
                self._time(waiter)
            try:
                self._tried(waiter, line)
            except RuntimeError:  # nobody would wake it: what it has been answered is its answer
                waiter.watched = waits_on = False
        return waits_on

    def skipped(self, waiter: Lined[Any]) -> None:
        """It was not tried: its coroutine is gone."""
        with self.changed:
            if waiter.trying:
                with suppress(RuntimeError):  # others of its line wait for who looks next
                    self._tried(waiter, self._lines[waiter.for_messages, waiter.queue])

    def _tried(self, waiter: Lined[Any], line: Line) -> None:
        if waiter.trying:
            waiter.trying = False
            line.trying -= 1
        if line.trying == 0:
            self._look_again()

    def _time(self, waiter: Timed[Any]) -> None:
        waiter.watched = True
        if waiter.wait_us is None:
            return
        if waiter.until_us is None:
            self._untimed.append(waiter)
        else:
            heappush(self._times, (waiter.until_us, next(self._number), waiter))

    def _unlist(self, waiter: Timed[Any]) -> None:
        """No message's end wakes it any more; lines are cleared by who goes along them."""
        waiter.watched = False
        if isinstance(waiter, Ending) and waiter.id in self._ending:
            others = [one for one in self._ending[waiter.id] if one is not waiter]
            if others:
                self._ending[waiter.id] = others
            else:
                del self._ending[waiter.id]

    # ---- the thread ------------------------------------------------------------------------------

    def _look_again(self) -> None:
        """There is something new to wait for. `RuntimeError`: there is no thread left for it."""
        if not self._running:
            self._running = True
            try:
                threading.Thread(target=self._run, name="fencepost-waits", daemon=True).start()
            except RuntimeError:
                self._running = False
                raise
        elif self._crossing:
            self._core.nudge()
        else:
            self.changed.notify()

    def _anything(self) -> bool:
        lined = any(line.waits() for line in self._lines.values())
        return lined or bool(self._ending or self._changing)

    def _run(self) -> None:
        while True:
            with self.changed:
                while not self._anything():
                    if not any(line.waiting for line in self._lines.values()):
                        self._times.clear()  # else some wait behind those who try just now
                        self._untimed.clear()
                    came = self.changed.wait(self._linger)
                    if not (came and self._linger) and not self._anything():
                        self._running = False
                        return
            try:
                self._look()
            except BaseException as error:  # is everybody's who waits
                self._fail(error)

    def _look(self) -> None:
        core = self._core
        nudges = core.nudges()  # before what is waited for is put together: what comes later nudges
        version = core.version()
        with self.changed:
            told = self._moved(version)
            trying = self._room(version)
            queues = sorted(
                queue
                for (messages, queue), line in self._lines.items()
                if messages and line.waits()
            )
            rooms = [
                queue
                for (messages, queue), line in self._lines.items()
                if not messages and line.waits()
            ]
            heard = [0] if self._changing else rooms
            ids = list(self._ending)
            until_us = AT_ONCE if told or trying or self._untimed else self._first()
            self._crossing = True
        try:
            self._act(told, trying)
            seen = core.watch(
                queues=queues,
                ids=ids,
                heard=heard,
                version=version,
                until_us=until_us,
                nudges=nudges,
            )
        finally:
            with self.changed:
                self._crossing = False
        with self.changed:
            told = self._ended(seen) + self._late(seen.now_us)
            trying = self._due(queues, seen.due)
        self._act(told, trying)
        if not (told or trying):
            self._bury()

    def _bury(self) -> None:
        """Whoever left an event loop without cancelling its tasks wants to know nothing more."""
        with self.changed:
            for waiter in [one for several in self._ending.values() for one in several]:
                if not waiter.wanted():
                    self._unlist(waiter)
            self._changing = [one for one in self._changing if one.wanted()]

    def _act(self, told: Sequence[Waiter[Any]], trying: Sequence[Lined[Any]]) -> None:
        if trying:
            self._try_again(trying)
        deliver(told)

    def _moved(self, version: int) -> list[Waiter[Any]]:
        """Those who wait for a change, and it has come."""
        told: list[Waiter[Any]] = [one for one in self._changing if one.version != version]
        self._changing = [
            one for one in self._changing if one.version == version and not one.unwanted
        ]
        return told

    def _room(self, version: int) -> list[Lined[Any]]:
        """Those who may try whether there is room now."""
        trying: list[Lined[Any]] = []
        for (messages, _), line in self._lines.items():
            if not messages and line.version != version:
                trying += line.next()
        return trying

    def _due(self, queues: Sequence[int], due: bytes) -> list[Lined[Any]]:
        trying: list[Lined[Any]] = []
        for queue, flag in zip(queues, due, strict=True):
            if flag:
                trying += self._lines[True, queue].next()
        return trying

    def _ended(self, seen: Watched) -> list[Waiter[Any]]:
        told: list[Waiter[Any]] = []
        for ended in results(seen.ended):
            for waiter in self._ending.pop(ended.id, ()):
                waiter.watched, waiter.value = False, ended
                told.append(waiter)
        return told

    def _first(self) -> int:
        """The first moment at which somebody's time is over."""
        while self._times and not self._times[0][2].watched:
            heappop(self._times)
        return self._times[0][0] if self._times else FOREVER

    def _late(self, now_us: int) -> list[Waiter[Any]]:
        """Those whose time is over. They know now until when they wait, all of them."""
        untimed, self._untimed = self._untimed, []
        for waiter in untimed:
            if waiter.watched:
                waiter.begin(now_us)
                self._time(waiter)
        told: list[Waiter[Any]] = []
        while self._first() <= now_us:
            waiter = heappop(self._times)[2]
            self._unlist(waiter)
            told.append(waiter)
        return told

    def _fail(self, error: BaseException) -> None:
        with self.changed:
            lined = [one for line in self._lines.values() for one in line.waiting if one.watched]
            ending = [one for several in self._ending.values() for one in several]
            told: list[Waiter[Any]] = [*lined, *ending, *self._changing]
            for line in self._lines.values():
                line.waiting.clear()
            self._ending.clear()
            self._changing.clear()
            for one in told:
                one.error = error
                if isinstance(one, Timed):
                    one.watched = False
        deliver(told)
