"""
The tasks of one pass, and whether any of them may still come any further.

A workflow runs things side by side in tasks: `run.gather` makes them, and so do asyncio.gather and
a TaskGroup. Some of them come to a point where only others can bring them on, and are then held.
When all are, the pass has come as far as it can. Two facts are needed to know it, and no time:

    1. Each task belongs to the pass in whose context it was made.
    2. What a task awaits is a future. Either another task of the pass brings it, by a callback that
       it has; or it is no affair of the pass (a timer, a socket, a lock), and may come at any time.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar
from weakref import WeakSet

from fencepost.errors import InvalidArgument

__all__ = ["Ended", "Tasks", "kept", "spoken", "within"]

T = TypeVar("T")
Task = asyncio.Task[Any]
Future = asyncio.Future[Any]

GOES: Final = 8  # of the event loop, until what has ended has come to who awaits it
NAP: Final = 0.01  # seconds until the next look at what may take its time, and more for each
LONGEST_NAP: Final = 0.1
TELL: Final = 100  # such looks, which are some 10 s, until it is said what is waited for

_pass: ContextVar[Tasks | None] = ContextVar("fencepost_pass", default=None)
_effect: ContextVar[bool] = ContextVar("fencepost_effect", default=False)


class Ended(NamedTuple):
    """What came of an effect. An error is carried as a value: a task that raises is never asked."""

    value: Any = None
    error: BaseException | None = None


class Tasks:
    """Of one pass. `main` runs its function, `effects` what is to be recorded."""

    def __init__(self) -> None:
        self.main: Task | None = None
        self.effects: set[asyncio.Task[Ended]] = set()
        self.writing: asyncio.Task[None] | None = None
        self._turning: dict[Task, Callable[[], bool]] = {}  # held, until this says so
        self._waiting: dict[Task, Callable[[], bool]] = {}  # the same, by what the run waits for
        self._gathered: WeakSet[Task] = WeakSet()  # are cancelled by nobody
        self._all: WeakSet[Task] = WeakSet()
        self._found: dict[bool, Task | None] = {}  # in this go of the event loop, by `ours`
        self._told = False
        self._thread = 0

    # ---- which there are -------------------------------------------------------------------------

    @contextmanager
    def begun(self) -> Iterator[None]:
        """The caller's task runs the function."""
        loop = asyncio.get_running_loop()
        made = loop.get_task_factory()
        if not isinstance(made, _Factory):
            loop.set_task_factory(_Factory(made))
        self.main = asyncio.current_task()
        if self.main is not None:
            self._all.add(self.main)
        self._thread = threading.get_ident()
        token = _pass.set(self)
        try:
            yield
        finally:
            _pass.reset(token)

    def add(self, task: Task) -> None:
        self._all.add(task)

    def gathered(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task that nobody cancels because another one waits."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._gathered.add(task)
        return task

    # ---- whether they come any further -----------------------------------------------------------

    async def turn(self, come: Callable[[], bool], tell: Callable[[str], None]) -> bool:
        """Until its turn has come. False: it never will, nobody comes any further."""
        return come() or await self._held(self._turning, come, tell)

    async def wait(self, tell: Callable[[str], None]) -> None:
        """
        Something is waited for, which ends the pass. What stands beside it, and would be cancelled
        then, goes as far as it can before.

        The function itself waits for nobody who awaits what is no affair of the pass.
        """
        task = asyncio.current_task()
        alone = all(other.done() or other is task for other in self._all)
        if not alone and task not in self._gathered:
            await self._held(self._waiting, lambda: False, tell, ours=task is self.main)

    async def _held(
        self,
        among: dict[Task, Callable[[], bool]],
        come: Callable[[], bool],
        tell: Callable[[str], None],
        *,
        ours: bool = False,
    ) -> bool:
        task = asyncio.current_task()
        assert task is not None
        among[task] = come
        quiet = naps = 0  # looks that found nobody; and that found one, in a row
        try:
            while not come():
                busy = self._busy(ours=ours)
                quiet, naps = (quiet + 1, 0) if busy is None else (0, naps + 1)
                if quiet > GOES and (among is self._turning or not self._turning):
                    return False
                if busy is not None and naps == TELL and not self._told:
                    self._told = True
                    tell(spoken(busy))
                looks = max(quiet, naps)
                await asyncio.sleep(0 if looks <= GOES else min(NAP * (looks - GOES), LONGEST_NAP))
        finally:
            del among[task]
        return True

    def _busy(self, *, ours: bool) -> Task | None:
        """
        One that comes further by itself: it is about to run, or awaits what no held one brings.
        `ours`: but for those that await what is no affair of the pass.
        """
        if ours not in self._found:
            if not self._found:
                asyncio.get_running_loop().call_soon(self._found.clear)
            live = [task for task in self._all if not task.done()]
            brought = {one for task in live for one in _brings(task)}
            found = (task for task in live if self._goes_on(task, brought, ours=ours))
            self._found[ours] = next(found, None)
        return self._found[ours]

    def _goes_on(self, task: Task, brought: set[Future], *, ours: bool) -> bool:
        come = self._turning.get(task) or self._waiting.get(task)
        if come is not None:
            return come()
        awaited = _awaited(task)
        if awaited is None or awaited.done() or task in self.effects or task is self.writing:
            return True
        return not ours and awaited not in brought

    # ---- effects ---------------------------------------------------------------------------------

    async def out_of_reach(self, effect: Coroutine[Any, Any, Any]) -> Ended:
        """Whoever cancels us does not cancel it: it ends, and is recorded."""
        task = asyncio.get_running_loop().create_task(kept(_alone(effect)))
        self.effects.add(task)
        task.add_done_callback(self.effects.discard)
        return await asyncio.shield(task)

    async def effects_end(self) -> None:
        """Until none is under way."""
        while self.effects:
            await asyncio.wait(tuple(self.effects))

    def cancel_effects(self) -> None:
        for task in tuple(self.effects):
            task.cancel()

    def check_asks(self, what: str) -> None:
        """`InvalidArgument` for who asks within an effect: a later pass would not come by there."""
        if _effect.get() or self._thread not in (0, threading.get_ident()):
            raise InvalidArgument(
                f"{what} is asked for by the function of a step: steps are the workflow's own, and"
                " what a step calls has none"
            )


class _Factory:
    """Makes the tasks of an event loop, and tells the pass in whose context one is made."""

    def __init__(self, made: Callable[..., Any] | None) -> None:
        self._made = made

    def __call__(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **said: Any) -> Any:
        if self._made is None:
            task = asyncio.Task(coroutine, loop=loop, **said)
        else:
            task = self._made(loop, coroutine, **said)
        tasks = _pass.get()
        if tasks is not None:
            tasks.add(task)
        return task


# ---- who brings what -----------------------------------------------------------------------------


def _awaited(task: Task) -> Future | None:
    """None: it is about to run."""
    found: Future | None = getattr(task, "_fut_waiter", None)
    return found


def _brings(task: Task) -> set[Future]:
    """The futures that its end may end: itself, and what its callbacks have hold of."""
    found: set[Future] = {task}
    todo: list[Future] = [task]
    while todo:
        for callback, *_ in getattr(todo.pop(), "_callbacks", None) or ():
            for one in _held_by(callback):
                if isinstance(one, asyncio.Future) and one not in found and not one.done():
                    found.add(one)
                    todo.append(one)
    return found


def _held_by(callback: Any) -> Iterator[Any]:
    """What a function closes over, is bound to, or is called with."""
    if isinstance(callback, partial):
        yield from callback.args
        callback = callback.func
    for cell in getattr(callback, "__closure__", None) or ():
        with suppress(ValueError):  # nothing is in it yet
            yield cell.cell_contents
    owner = getattr(callback, "__self__", None)
    if not isinstance(owner, asyncio.Future):  # whose own turn comes
        yield from vars(owner).values() if hasattr(owner, "__dict__") else ()


def spoken(task: Task) -> str:
    """Where a task is, for people: its coroutines, from the outermost in."""
    names: list[str] = []
    at: Any = task.get_coro()
    while inspect.iscoroutine(at):
        names.append(at.__qualname__)
        at = at.cr_await
    return " > ".join(names)


# ---- one of them ---------------------------------------------------------------------------------


async def kept(awaitable: Awaitable[Any]) -> Ended:
    """Its value, or what it raised; only its own cancellation goes up."""
    try:
        return Ended(await awaitable)
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return Ended(error=error)


async def _alone(effect: Coroutine[Any, Any, T]) -> T:
    """In a task of its own: what is set is seen by what it calls, threads among them."""
    _effect.set(True)
    _pass.set(None)  # its tasks are its own
    return await effect


async def within(awaitable: Awaitable[T], seconds: float | None) -> T:
    """`TimeoutError` if it takes longer; it is cancelled then."""
    task = asyncio.get_running_loop().create_task(kept(awaitable))
    try:
        await asyncio.wait([task], timeout=seconds)
    finally:
        if not task.done():
            task.cancel()
    if task.cancelled() or not task.done():
        if seconds is None:
            raise asyncio.CancelledError
        await asyncio.wait([task])
        raise TimeoutError(f"ran for longer than {seconds:g} s")
    ended = task.result()
    if ended.error is not None:
        raise ended.error
    value: T = ended.value
    return value
