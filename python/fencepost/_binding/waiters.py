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
from contextvars import copy_context
from functools import partial
from typing import Any, Final, Generic, TypeVar

__all__ = ["Batcher", "Callers", "Threads", "Waiter", "deliver"]

T = TypeVar("T")
Item = TypeVar("Item")
Answer = TypeVar("Answer")

LINGER: Final = 5.0  # seconds that a thread without anything to do stays for the next thing
TOGETHER: Final = 500  # items of one commit, at the most


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
        elif isinstance(waiter.error, StopIteration):  # which no future can hold
            waiter.future.set_exception(RuntimeError(f"StopIteration: {waiter.error}"))
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
        self._idle = 0  # of them, those that work on nothing; they may have been woken already
        self._linger = LINGER

    def put(self, waiters: Sequence[Waiter[Any]], *, first: bool = False) -> None:
        """Line them up, behind all others or in front. `RuntimeError`: there is no thread left."""
        with self.changed:
            if first:
                self._line.extendleft(reversed(waiters))
            else:
                self._line.extend(waiters)
            self.changed.notify(len(waiters))
            if self._idle < len(self._line) and self._threads < self._room:
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
            self._idle += 1

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
            with self.changed:
                self._idle += 1

    def _next(self) -> list[Waiter[Any]]:
        """What is to be done next; empty: the thread may go."""
        with self.changed:
            while True:
                taken = self._taken()
                if taken:
                    self._idle -= 1
                    return taken
                self._rested.notify_all()
                came = self.changed.wait(self._linger)
                if not (came and self._linger) and not self._line:
                    self._idle -= 1
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


class _Call(Waiter[T]):
    __slots__ = ("fn",)

    def __init__(
        self, lock: threading.Condition, fn: Callable[[], T], *, heard: bool = True
    ) -> None:
        super().__init__(lock, heard=heard)
        self.fn = fn


class Callers(Threads):
    """Up to so many threads that call functions, one each, for coroutines."""

    def __init__(self, name: str, threads: int) -> None:
        super().__init__(name, _call, threads=threads, most=1)

    async def call(self, fn: Callable[[], T]) -> T:
        """
        What it returns, or raises; with the context variables of the caller. Once it has begun it
        goes on though its caller is cancelled.
        """
        waiter = _Call(self.changed, partial(copy_context().run, fn))
        self.put([waiter])
        return await waiter.awaited()

    def cast(self, fn: Callable[[], object]) -> None:
        """Call it, and nobody waits for it. `RuntimeError`: there is no thread left."""
        self.put([_Call(self.changed, fn, heard=False)])


def _call(waiters: Sequence[_Call[Any]]) -> None:
    for waiter in waiters:
        try:
            waiter.value = waiter.fn()
        except BaseException as error:  # is the coroutine's
            waiter.error = error
    deliver(waiters)


class _Said(Waiter[Answer], Generic[Item, Answer]):
    __slots__ = ("context", "item")

    def __init__(self, lock: threading.Condition, item: Item) -> None:
        super().__init__(lock)
        self.item = item
        self.context = copy_context()


class Batcher(Generic[Item, Answer]):
    """
    What coroutines say while a commit is under way is the next commit.

    `commit` is given the items and answers each. If it raises, each is committed alone, so that
    what is wrong with one is nobody else's trouble. What was said is committed, though who said it
    is cancelled.
    """

    def __init__(self, name: str, commit: Callable[[Sequence[Item]], Sequence[Answer]]) -> None:
        self._commit = commit
        self._threads = Threads(name, self._write, threads=1, most=TOGETHER)

    async def say(self, item: Item) -> Answer:
        said: _Said[Item, Answer] = _Said(self._threads.changed, item)
        self._threads.put([said])
        assert said.future is not None
        return await said.future

    def _write(self, said: Sequence[_Said[Item, Answer]]) -> None:
        try:
            # As the first who says something: what is around a call is around its commit.
            answers = said[0].context.run(self._commit, [one.item for one in said])
        except BaseException as error:
            if len(said) == 1:
                said[0].error = error
                deliver(said)
                return
            for one in said:
                self._write([one])
            return
        for one, answer in zip(said, answers, strict=True):
            one.value = answer
        deliver(said)

    def dismiss(self) -> None:
        """What was said is committed, and no thread stays for more."""
        self._threads.dismiss()
