"""
What a call does, in steps, so that threads and coroutines can take the same.

A plan is a generator. It yields each step that may have to wait for the file, and is sent its
answer. `here` takes the steps in the caller's thread, one after the other; `awaited` has the file's
bridge take them, and the event loop goes on meanwhile. A step in a transaction of the caller's is
taken at once by both: it belongs to this thread, and waits for nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final, Generic, TypeAlias, TypeVar

from fencepost._binding.bridge import Wanted
from fencepost._binding.calls import OpenTx
from fencepost._binding.pack import Packed, Take
from fencepost._binding.requests import Enqueuing, Request, Stepping
from fencepost._binding.results import Result, results
from fencepost._file import File
from fencepost.errors import QueueFull
from fencepost.spans import MOMENT_MAX

__all__ = ["Ask", "Change", "End", "Enter", "Plan", "Taking", "Write", "awaited", "here"]

T = TypeVar("T")


class Step(Generic[T]):
    """One of those below."""

    def here(self) -> T:
        """Take it in this thread."""
        raise NotImplementedError

    async def away(self) -> T:
        """Have it taken elsewhere."""
        raise NotImplementedError


Plan: TypeAlias = Generator[Step[Any], Any, T]


def here(plan: Plan[T]) -> T:
    try:
        step = next(plan)
        while True:
            try:
                answer = step.here()
            except BaseException as error:
                step = plan.throw(error)
            else:
                step = plan.send(answer)
    except StopIteration as end:
        found: T = end.value
        return found


async def awaited(plan: Plan[T]) -> T:
    try:
        step = next(plan)
        while True:
            try:
                answer = await step.away()
            except BaseException as error:
                step = plan.throw(error)
            else:
                step = plan.send(answer)
    except StopIteration as end:
        found: T = end.value
        return found


class Write(Step[T]):
    """A request of its own, or in `tx`; or what lays it out, if that has to ask the file first."""

    def __init__(self, file: File, tx: OpenTx | None, request: Wanted[T]) -> None:
        self._file = file
        self._tx = tx
        self._request = request

    def here(self) -> T:
        request = self._request
        return self._file.core.run(self._tx, request if isinstance(request, Request) else request())

    async def away(self) -> T:
        if self._tx is not None:
            return self.here()
        return await self._file.bridge.write(self._request)


class Enter(Step["tuple[list[int], bytes]"]):
    """An enqueue that waits for room; `QueueFull` when its time is over."""

    def __init__(self, file: File, request: Callable[[], Enqueuing], wait_us: int) -> None:
        self._file = file
        self._request = request
        self._wait_us = wait_us

    def here(self) -> tuple[list[int], bytes]:
        core, request = self._file.core, self._request()
        until = core.now() + self._wait_us
        version = core.version()
        while True:
            try:
                return core.run(None, request)
            except QueueFull:
                if core.now() >= until:
                    raise
            version = core.wait(request.queue, version, until)

    async def away(self) -> tuple[list[int], bytes]:
        return await self._file.bridge.write(self._request, self._wait_us)


class Taking(Step[Packed]):
    """A claim that waits for its first message. `take`: of one queue, whose number it may ask."""

    def __init__(self, file: File, take: Callable[[], Take], wait_us: int) -> None:
        self._file = file
        self._take = take
        self._wait_us = wait_us

    def here(self) -> Packed:
        core, take = self._file.core, self._take()
        if self._wait_us:
            take.until_us = core.now() + self._wait_us
        while True:
            found = core.step(None, take)[1]
            if found.rows or not self._wait_us or core.now() >= take.until_us:
                return found

    async def away(self) -> Packed:
        def request() -> Stepping:
            return Stepping(None, self._take())

        return (await self._file.bridge.take(request, self._wait_us))[1]


class End(Step["Result | None"]):
    """The end of a message; None if it has not come in time. `wait_us` None: waits for ever."""

    def __init__(self, file: File, id_: int, wait_us: int | None) -> None:
        self._file = file
        self._id = id_
        self._wait_us = wait_us

    def here(self) -> Result | None:
        core = self._file.core
        until = MOMENT_MAX if self._wait_us is None else core.now() + self._wait_us
        while True:
            seen = core.watch(ids=[self._id], until_us=until)
            if seen.ended.rows or seen.now_us >= until:
                return next(results(seen.ended), None)

    async def away(self) -> Result | None:
        return await self._file.bridge.end(self._id, self._wait_us)


class Change(Step[None]):
    """Until the file's version is not this one any more."""

    def __init__(self, file: File, version: int) -> None:
        self._file = file
        self._version = version

    def here(self) -> None:
        core = self._file.core
        while core.wait(ANY_QUEUE, self._version, MOMENT_MAX) == self._version:
            pass

    async def away(self) -> None:
        await self._file.bridge.change(self._version)


class Ask(Step[T]):
    """Whatever `fn` does; with `at_once` in this thread in any case."""

    def __init__(self, file: File, fn: Callable[[], T], *, at_once: bool = False) -> None:
        self._file = file
        self._fn = fn
        self._at_once = at_once

    def here(self) -> T:
        return self._fn()

    async def away(self) -> T:
        return self._fn() if self._at_once else await self._file.bridge.ask(self._fn)


ANY_QUEUE: Final = 0
