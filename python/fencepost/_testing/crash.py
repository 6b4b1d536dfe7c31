"""
A worker that dies in its own process: what it has not said by then, it never says.

A process that is killed runs no `finally`, and nothing it began is committed. Here an exception has
to leave the handler's frames, through whatever they do on the way. So the core answers nobody any
more who speaks for that life; what is left of it can change nothing in the file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Final

from fencepost._binding.bridge import Bridge
from fencepost._binding.calls import Core, OpenTx, Watched
from fencepost._binding.pack import Packed, Settle, Take
from fencepost._worker import failpoints
from fencepost._worker.failpoints import Point
from fencepost.errors import InvalidArgument
from fencepost.spans import MOMENT_MAX

__all__ = ["Crash", "Life", "MortalBridge", "MortalCore", "crash_at", "living"]

AT_ONCE: Final = 1  # wait until then: the core looks, and does not wait


class Crash(BaseException):
    """The worker dies here."""


class Life:
    """A worker's, from the claim of one run to its last word. Threads and tasks of it share it."""

    __slots__ = ("at_end", "of", "over")

    def __init__(self, of: object) -> None:
        self.of = of
        self.over = False
        self.at_end: Callable[[], object] | None = None

    def end(self, words: str) -> None:
        """Raises: here and in all that goes on."""
        self.over = True
        if self.at_end is not None:
            self.at_end()
        raise Crash(words)


_life: Final[ContextVar[Life | None]] = ContextVar("fencepost_life", default=None)


@contextmanager
def living(of: object) -> Iterator[Life]:
    """What runs within the block, and what it starts, is one life of a worker of `of`."""
    life = Life(of)
    token = _life.set(life)
    try:
        yield life
    finally:
        _life.reset(token)


@contextmanager
def crash_at(of: object, point: Point, name: str, times: int) -> Iterator[None]:
    """Lives of `of` end at a point, so many times. `AssertionError` if they never came there."""
    left = times

    def watcher(at: Point, *names: str) -> None:
        nonlocal left
        life = _life.get()
        if life is None or life.of is not of or at != point or name not in ("", *names):
            return
        if left:
            left -= 1
            life.end(f"{' '.join(names)} at {at!r}")

    unwatch = failpoints.watch(watcher)
    try:
        yield
    finally:
        unwatch()
    if left:
        came = f"{point!r} for {name}" if name else repr(point)
        raise AssertionError(f"the worker came to {came} {times - left} times, not {times}")


class MortalCore(Core):
    """
    The same handle. It does not answer the dead, and does not keep the living waiting.

    Where everything happens in one thread, nothing changes while that thread waits, and no time
    passes. So whoever waits there turns the clock.
    """

    __slots__ = ("_of", "_pass", "_thread")

    def __init__(self, core: Core, of: object, pass_: Callable[[Sequence[int], int], None]) -> None:
        """`pass_` turns the clock to what is due next in these queues, or to the moment."""
        self._handle, self._store = core._handle, core._store
        self.patience = core.patience
        self._of = of
        self._pass = pass_
        self._thread = threading.get_ident()

    def _call(self, function: Any, *arguments: Any) -> None:
        _check_alive()
        super()._call(function, *arguments)

    def begin(self, patience: float) -> OpenTx:
        _check_alive()
        return super().begin(patience)

    def end(self, tx: Any, *, commit: bool) -> None:
        life = _life.get()
        super().end(tx, commit=commit and not (life is not None and life.over))
        if commit:
            _check_alive()

    def step(self, settle: Settle | None, take: Take) -> tuple[list[int], Packed]:
        until_us = take.until_us
        if until_us <= self.now() or not self._is_alone():
            return super().step(settle, take)
        answers, claims = super().step(settle, replace(take, until_us=AT_ONCE))
        if not claims.rows:
            self._pass(take.queues, until_us)
        return answers, claims

    def wait(self, queue: int, version: int, until_us: int) -> int:
        if not self._is_alone():
            return super().wait(queue, version, until_us)
        if self.version() == version:
            self._wait([], until_us)
        return self.version()

    def watch(self, *, until_us: int, queues: Sequence[int] = (), **asked: Any) -> Watched:
        if not self._is_alone():
            return super().watch(until_us=until_us, queues=queues, **asked)
        seen = super().watch(until_us=AT_ONCE, queues=queues, **asked)
        if seen.ended.rows or any(seen.due) or until_us <= seen.now_us:
            return seen
        self._wait(queues, until_us)
        return super().watch(until_us=AT_ONCE, queues=queues, **asked)

    def _wait(self, queues: Sequence[int], until_us: int) -> None:
        if until_us == MOMENT_MAX:
            raise InvalidArgument(
                "this would wait for ever: handlers run where drain() is called, and this thread"
                " waits"
            )
        self._pass(queues, until_us)

    def _is_alone(self) -> bool:
        """Whether the one who waits is the one for whom all others wait."""
        life = _life.get()
        mine = life is not None and life.of is self._of
        return mine or threading.get_ident() == self._thread


class MortalBridge(Bridge):
    """What coroutines of the dead ask for is not asked."""

    def _check(self) -> None:
        _check_alive()
        super()._check()


def _check_alive() -> None:
    life = _life.get()
    if life is not None and life.over:
        raise Crash("a dead worker says nothing")
