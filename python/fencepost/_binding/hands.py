"""
Where a coroutine has something done that blocks: plain steps, transactions, and the file.

Threads are daemons, started when they are needed, so that a step that hangs keeps no process alive.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Any, Final, Generic, NamedTuple, TypeVar

__all__ = ["Hands", "Scribe"]

T = TypeVar("T")
Item = TypeVar("Item")
Answer = TypeVar("Answer")

TOGETHER: Final = 500  # things said in one commit, at the most


class Asked(NamedTuple):
    """Who waits for an answer, on which event loop."""

    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    context: Context

    def answer(self, value: Any, error: BaseException | None = None) -> None:
        """From any thread. Whoever has gone meanwhile is told nothing."""
        with suppress(RuntimeError):  # that event loop is closed
            self.loop.call_soon_threadsafe(_resolve, self.future, value, error)


def asked() -> Asked:
    loop = asyncio.get_running_loop()
    return Asked(loop, loop.create_future(), copy_context())


def _resolve(future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    elif isinstance(error, StopIteration):  # which no future can hold
        future.set_exception(RuntimeError(f"StopIteration: {error}"))
    else:
        future.set_exception(error)


class Hands:
    """Up to so many threads that call functions for coroutines."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._started = 0
        self._busy = 0  # calls that were handed in and have not ended

    async def call(self, fn: Callable[[], T]) -> T:
        """What it returns, or raises. One that has begun goes on though its caller is cancelled."""
        who = asked()

        def work() -> None:
            if who.future.cancelled():
                return
            try:
                value = who.context.run(fn)
            except BaseException as error:
                who.answer(None, error)
            else:
                who.answer(value)

        with self._lock:
            self._busy += 1
            if self._busy > self._started and self._started < self._most:
                name = f"fencepost-step-{self._started + 1}"
                threading.Thread(target=self._serve, name=name, daemon=True).start()
                self._started += 1
        self._calls.put(work)
        found: T = await who.future
        return found

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            with self._lock:
                self._busy -= 1
            del call

    def close(self) -> None:
        """Idle threads end; busy ones when their call returns."""
        for _ in range(self._started):
            self._calls.put(None)


class Scribe(Generic[Item, Answer]):
    """
    A thread that commits what coroutines say: all that was said while a commit was under way is the
    next one.

    `commit` is given the items and answers each. If it raises, each is committed alone, so that
    what is wrong with one is nobody else's trouble.
    """

    def __init__(self, commit: Callable[[Sequence[Item]], Sequence[Answer]]) -> None:
        self._commit = commit
        self._said: deque[tuple[Item, Asked]] = deque()
        self._news = threading.Condition()
        self._thread: threading.Thread | None = None
        self._over = False

    async def say(self, item: Item) -> Answer:
        who = asked()
        with self._news:
            self._said.append((item, who))
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._serve, name="fencepost-scribe", daemon=True
                )
                self._thread.start()
            self._news.notify()
        found: Answer = await who.future
        return found

    def _serve(self) -> None:
        while True:
            with self._news:
                while not self._said:
                    if self._over:
                        self._thread = None
                        return
                    self._news.wait()
                taken = [self._said.popleft() for _ in range(min(len(self._said), TOGETHER))]
            self._write(taken)
            del taken

    def _write(self, taken: Sequence[tuple[Item, Asked]]) -> None:
        try:
            # As the first who says something: what is around a call is around its commit.
            answers = taken[0][1].context.run(self._commit, [item for item, _ in taken])
        except BaseException as error:
            if len(taken) == 1:
                taken[0][1].answer(None, error)
                return
            for one in taken:
                self._write([one])
            return
        for (_, who), answer in zip(taken, answers, strict=True):
            who.answer(answer)

    def close(self) -> None:
        """It ends when all that was said is committed."""
        with self._news:
            self._over = True
            self._news.notify()
