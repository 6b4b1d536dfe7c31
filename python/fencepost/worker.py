"""The worker: it claims what is due, runs the handlers an App declares, and settles."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from fencepost._checks import several, shown, whole
from fencepost._worker.executor import Executor
from fencepost._worker.loop import Loop
from fencepost._worker.registry import Registry
from fencepost._worker.routes import chosen
from fencepost._worker.signals import Signals
from fencepost.errors import InvalidArgument
from fencepost.spans import seconds, span_us
from fencepost.store import Store
from fencepost.values import Span

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Worker"]

THREADS_MAX: Final = 1000


class Worker:
    """
    Runs handlers in threads of its own, in this process; made by `App.worker`.

    Plain functions run on up to `threads` threads, coroutines on one event loop. A message is
    claimed when it can start, or will within some 5 ms because handlers have proved short; results
    of short ones wait as long for the next commit. A lease is renewed as long as its handler runs;
    whoever lost it is told by `ctx.cancelled`, and the result is refused. What a handler raises
    fails its message, never the worker; that includes SystemExit and KeyboardInterrupt. Handlers
    that do not return within the grace are left behind as daemon threads, and their messages are
    given back without using an attempt.
    """

    def __init__(
        self,
        registry: Registry,
        own: Callable[[], Store] | None,
        *,
        queues: Sequence[str] | None,
        threads: int,
        grace: Span,
        stores: Iterable[Store],
    ) -> None:
        if isinstance(queues, str):
            raise InvalidArgument(f"queues is a list of names: [{shown(queues)}]")
        self._registry = registry
        self._own = own
        self._queues = None if queues is None else several(queues, "queues", str)
        self._threads = whole(threads, "threads", 1, THREADS_MAX)
        self._grace = seconds(span_us(grace, "grace"))
        self._stores = several(stores, "stores", Store)
        self._changing = threading.RLock()
        self._executor: Executor | None = None
        self._loops: dict[Store, Loop] = {}

    @property
    def running(self) -> bool:
        """Whether it works; False again when it has stopped, or has failed."""
        return any(loop.alive for loop in self._loops.values())

    def start(self) -> Self:
        """
        Begin, in threads of its own: no signal handlers, from any thread. It can be started again
        after `stop`. `InvalidArgument` if it runs, or if there is nothing to run.
        """
        with self._changing:
            if self._executor is not None:
                raise InvalidArgument("the worker runs already")
            stores = ([] if self._own is None else [self._own()]) + self._stores
            if not stores:
                raise InvalidArgument("this App has no path: give the worker its stores=")
            names = chosen(self._registry, self._queues)
            self._executor = Executor(self._threads)
            try:
                for store in dict.fromkeys(stores):
                    self._begin(store, names)
            except BaseException:
                self.stop(0)
                raise
        return self

    def stop(self, grace: Span | None = None) -> bool:
        """
        Claim nothing more, let what runs finish within `grace` seconds, then set `ctx.cancelled`
        and give the rest back. True: no handler had to be given up. Not running: True.

        What was claimed ahead and has not begun goes back at once, and does not count.
        """
        with self._changing:
            seconds_ = self._grace if grace is None else seconds(span_us(grace, "grace"))
            for loop in self._loops.values():
                loop.stop(seconds_)
            return self._joined()

    def run(self) -> None:
        """
        Start, wait for SIGTERM or SIGINT, stop. A second signal ends the grace at once.

        For the main thread. Raises what ended the worker, if it was not a signal.
        """
        with Signals() as signals:
            self.start()
            while self.running and not signals.wait(SIGNAL_SLICE):
                pass
            failures = [loop.failure for loop in self._loops.values() if loop.failure is not None]
            for loop in self._loops.values():
                loop.stop(self._grace)
            hurried = False
            while self.running:
                if signals.wait(STOP_SLICE) > 1 and not hurried:
                    hurried = True
                    for loop in self._loops.values():
                        loop.stop(0)
            self.stop(0)
        if failures:
            raise failures[0]

    def add(self, store: Store, /) -> None:
        """Work on a further store, at once if it runs."""
        several([store], "stores", Store)
        with self._changing:
            if store in self._stores:
                return
            if self._executor is not None:
                self._begin(store, chosen(self._registry, self._queues))
            self._stores.append(store)

    def remove(self, store: Store, /) -> None:
        """Work on this store no more; what runs for it finishes within the grace."""
        several([store], "stores", Store)
        with self._changing:
            if store in self._stores:
                self._stores.remove(store)
            loop = self._loops.pop(store, None)
        if loop is not None:
            loop.stop(self._grace)
            loop.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        starting = asyncio.ensure_future(asyncio.to_thread(self.start))
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            await asyncio.wait([starting])
            starting.exception()  # the cancellation is what is told
            await asyncio.to_thread(self.stop, 0)
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        stopping = asyncio.ensure_future(asyncio.to_thread(self.stop))
        try:
            await asyncio.shield(stopping)
        except asyncio.CancelledError:
            for loop in list(self._loops.values()):
                loop.stop(0)
            await asyncio.wait([stopping])
            raise

    def _begin(self, store: Store, names: set[str]) -> None:
        assert self._executor is not None
        loop = Loop(store, self._registry, self._executor, names)
        loop.start()
        self._loops[store] = loop

    def _joined(self) -> bool:
        """Wait for the loops, and forget them. Whether nothing was given back."""
        released = 0
        for loop in self._loops.values():
            loop.join()
            released += loop.released
        self._loops = {}
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.close()
        return released == 0


SIGNAL_SLICE: Final = 0.5  # seconds between two looks at whether the worker still lives
STOP_SLICE: Final = 0.02  # the same while it stops
