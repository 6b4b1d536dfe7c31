"""
fencepost.testing: the same C core, a clock that you turn by hand, and a worker that dies where you
say.

    with fencepost.testing.override(app) as kit:
        send_mail.enqueue("ann@example.com", "hello")
        kit.assert_enqueued(send_mail, "ann@example.com", "hello")
        assert kit.drain().done == 1

Nothing here starts a thread or sleeps: handlers run where `drain` is called, and time moves when
`advance` is. Under pytest the fixture `fencepost` gives a kit: `kit = fencepost(app)`.
"""

from __future__ import annotations

import asyncio
import tempfile
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, ParamSpec, get_args

from fencepost._binding.pack import Packed, Verdict
from fencepost._checks import shown, whole
from fencepost._testing import lookup
from fencepost._testing.clock import Clock
from fencepost._testing.crash import Crash, Life, MortalBridge, MortalCore, crash_at
from fencepost._testing.drain import Drain, Drained, fire, next_due
from fencepost._worker.failpoints import Point
from fencepost._worker.runs import STOPPING, Run
from fencepost.app import App
from fencepost.claims import claims_of
from fencepost.context import Context
from fencepost.errors import InvalidArgument
from fencepost.jobs import Job
from fencepost.policies import declared
from fencepost.queues import Queue
from fencepost.spans import moment, span_us
from fencepost.store import Store
from fencepost.transactions import Transaction
from fencepost.values import Message, Span, StrPath
from fencepost.workflow import Workflow

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

__all__ = ["Clock", "Crash", "Drained", "Kit", "Point", "override"]

P = ParamSpec("P")

LIMIT_MAX: Final = 10_000_000
TIMES_MAX: Final = 1_000_000
ATTEMPT_MAX: Final = 1_000_000


class Kit:
    """A store under a clock that stands still, and the worker of an App. Made by `override`."""

    def __init__(self, app: App, store: Store, clock: Clock, closing: ExitStack) -> None:
        self.store = store
        self._app = app
        self._clock = clock
        self._closing = closing
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: Run | None = None
        file = store._file
        file.bridge = MortalBridge(file.core)
        file.core = MortalCore(file.core, self, self._pass)

    def __repr__(self) -> str:
        return f"<Kit of {self._app!r} at {self.now.isoformat()}>"

    @property
    def now(self) -> datetime:
        return self._clock.now

    def advance(self, span: Span | datetime, /) -> None:
        """
        Turn the clock by a span, or to a moment. `InvalidArgument` for one that has passed.

        Schedules fire for what the clock was turned past when `drain` is called next: once, as
        after a night in which no worker ran. A handler that turns it has been stalled: nobody has
        renewed its lease meanwhile, and its time may be up.
        """
        self._fire()
        self._clock.advance(span)
        if self._running is not None:
            self._running.tell()

    def _fire(self) -> None:
        fire(self.store._file, self._app._registry)

    def _pass(self, queues: Sequence[int], until_us: int) -> None:
        """Somebody waits for these queues until then."""
        due = next_due(self.store._file, queues)
        self._clock.advance(moment(until_us if due is None else min(due, until_us)))

    # ---- the worker ------------------------------------------------------------------------------

    def drain(self, *, until_idle: bool = False, limit: int = 10_000) -> Drained:
        """
        Run the handlers of what is due, here, one after the other, up to `limit` messages.

        `until_idle` turns the clock to each next due moment, be it a delay, a retry or the end of
        the lease of a worker that died, until nothing is in line. Schedules fire for moments that
        the clock was turned past; it is not turned to theirs. What handlers raise becomes of their
        messages what a worker would make of it, and is logged; an interrupt, or what pytest raises
        to end a test, is also raised here. Coroutines run in an event loop of the kit's.
        `InvalidArgument` where an event loop runs: there it is `adrain`.
        """
        if asyncio._get_running_loop() is not None:
            raise InvalidArgument("an event loop runs here: await kit.adrain()")
        drain = self._new_drain(until_idle, limit, beside=False)
        for run in drain.runs():
            with self._run(drain, run) as life:
                if run.coroutine:
                    self._await(run, life)
                else:
                    run.call()
        return drain.drained()

    async def adrain(self, *, until_idle: bool = False, limit: int = 10_000) -> Drained:
        """
        The same where an event loop runs: coroutines in it, plain handlers in a thread beside it,
        still one after the other. If it is cancelled, so is the handler, and its message is given
        back, as by a worker that stops.
        """
        drain = self._new_drain(until_idle, limit, beside=True)
        for run in drain.runs():
            with self._run(drain, run):
                await _beside(run)
        return drain.drained()

    def _new_drain(self, until_idle: bool, limit: int, *, beside: bool) -> Drain:
        return Drain(
            self,
            self.store,
            self._app._registry,
            self._clock,
            until_idle=until_idle,
            limit=whole(limit, "limit", 0, LIMIT_MAX),
            beside=beside,
        )

    @contextmanager
    def _run(self, drain: Drain, run: Run) -> Iterator[Life]:
        outer, self._running = self._running, run
        try:
            with drain.life(run) as life:
                yield life
        finally:
            self._running = outer

    def _await(self, run: Run, life: Life) -> None:
        """In our loop. Of the dead no task goes on."""
        loop = self._event_loop()
        others = asyncio.all_tasks(loop)

        def stop() -> None:
            for task in asyncio.all_tasks(loop) - others:
                task.cancel()

        life.at_end = partial(loop.call_soon_threadsafe, stop)
        task = loop.create_task(run.await_())
        run.cancel = task.cancel
        try:
            loop.run_until_complete(task)
        finally:
            if life.over:  # its loop ends as a process does, with the connections that stand on it
                self._loop = None
                _close(loop)

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        """One for all coroutines of the kit, so that what they keep open stays usable."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._closing.callback(_close, self._loop)
        return self._loop

    def crash_at(
        self, point: Point, name: str = "", /, *, times: int = 1
    ) -> AbstractContextManager[None]:
        """
        Within the block the worker dies at `point`, in a message for `name` (a job, a queue, a
        workflow or one of its steps; "" is any), so many times: its drain goes on as another
        worker, and what it held stays held until its lease ends. `AssertionError` if it never came
        there.
        """
        if point not in get_args(Point):
            words = ", ".join(map(repr, get_args(Point)))
            raise InvalidArgument(f"the points are {words}, not {shown(point)}")
        if not isinstance(name, str):
            raise InvalidArgument(f"name is that of a job or a queue, not {shown(name)}")
        return crash_at(self, point, name, whole(times, "times", 1, TIMES_MAX))

    # ---- what was asked for ----------------------------------------------------------------------

    def assert_enqueued(
        self, target: Job[P, Any] | Workflow[P, Any], /, *args: P.args, **kwargs: P.kwargs
    ) -> Message:
        """
        The message of exactly this call that is in line; of a workflow, the wake-up of a run with
        these arguments that goes on. `AssertionError` if there is none, which says what is there
        instead.
        """
        return lookup.found(self.store, self._app._registry, target, args, kwargs)

    def enqueued(self, target: Job[..., Any] | Workflow[..., Any] | str, /) -> list[Message]:
        """
        What is in line for a job, or in the queue, outbox or inbox of this name: oldest first,
        delayed and running included. Of a workflow, the wake-ups of its runs that go on; their
        `key` is the run's id. `InvalidArgument` for a name that nothing has.
        """
        return lookup.in_line(self.store, self._app._registry, target)

    def context(self, *, attempt: int = 1) -> Context:
        """
        A context to call a handler with by hand: `job.fn(kit.context(), …)`.

        It is of no message. What is written through its `tx` is seen through it, and rolled back
        at the end of the kit.
        """
        whole(attempt, "attempt", 1, ATTEMPT_MAX)
        record = (0, 1, attempt, 0, 0, *[self._clock._now_us] * 3, 0, 0, 0, 0, -1, -1, -1, 0)
        nowhere: Queue[Any] = Queue(declared("", {}), Any)
        packed = Packed(1, len(record), array("q", record).tobytes(), b"")
        (claim,) = claims_of(self.store._file, {0: nowhere}, packed)
        return Context(claim, "", _ByHand(self))


def override(
    app: App, path: StrPath | None = None, *, now: datetime | None = None
) -> AbstractContextManager[Kit]:
    """
    Within the block the App lives in another file, under a clock that begins at `now` and stands
    still. `path` is where your ORM's engine points, if you have one; else a temporary file, in a
    folder that is removed afterwards.

    A file that is there goes on where its time stands; `InvalidArgument` for a `now` before it, and
    for what is no App. Blocks may be nested: each ends with what was there before.
    """
    if not isinstance(app, App):
        raise InvalidArgument(f"override takes an App, not {shown(app)}")
    return _overridden(app, path, now)


@contextmanager
def _overridden(app: App, path: StrPath | None, now: datetime | None) -> Iterator[Kit]:
    clock = Clock(datetime.now(timezone.utc) if now is None else now)
    with ExitStack() as closing:
        durability: str = app._durability
        if path is None:
            folder = tempfile.TemporaryDirectory(prefix="fencepost-", ignore_cleanup_errors=True)
            path = Path(closing.enter_context(folder)) / "test.db"
            durability = "none"  # what is thrown away need not survive a power cut
        store = closing.enter_context(
            clock.open(
                path,
                wal=app._wal,
                network=app._network,
                foreign_keys=app._foreign_keys,
                durability=durability,
                codec=app.codec,
            )
        )
        _begin_where_it_stands(clock, store, now)
        before = app._path, app._store
        app._path, app._store = path, store
        try:
            yield Kit(app, store, clock, closing)
        finally:
            app._path, app._store = before


def _begin_where_it_stands(clock: Clock, store: Store, now: datetime | None) -> None:
    """Store time never falls, so the clock cannot begin behind the file's."""
    stands = moment(store._file.core.now())
    if stands <= clock.now:
        return
    if now is not None:
        raise InvalidArgument(
            f"store time never falls: in {store.path} it is {stands.isoformat()},"
            f" and now= is {now.isoformat()}"
        )
    clock.advance(stands)


async def _beside(run: Run) -> None:
    """Until it has ended. A wait that is cancelled tells it so, and goes on."""
    if run.coroutine:
        task = asyncio.ensure_future(run.await_())
        run.cancel = task.cancel
    else:
        task = asyncio.ensure_future(asyncio.to_thread(run.call))
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        run.stop(STOPPING)
        await asyncio.wait([task])
        raise
    task.result()


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """What coroutines left behind ends, its threads, too. Again: nothing."""
    if loop.is_closed():
        return
    _cancel_all(loop)
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())
    _cancel_all(loop)
    loop.close()


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_until_complete(asyncio.sleep(0))  # what is about to begin has begun
    while tasks := asyncio.all_tasks(loop):  # what ends may begin something to end well
        _cancel(loop, tasks)


def _cancel(loop: asyncio.AbstractEventLoop, tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))


class _ByHand:
    """The `Errand` of a context that no worker made."""

    coroutine = False

    def __init__(self, kit: Kit) -> None:
        self.store = kit.store
        self._kit = kit

    def why(self) -> str | None:
        return None

    def begin(self) -> Transaction:
        """Rolled back before the store is closed."""
        tx = Transaction(self.store._file, span_us(5, "timeout"))
        self._kit._closing.callback(tx._end, commit=False)
        return tx

    def settle(self, verdicts: Sequence[Verdict], tx: object) -> None:
        """There is no message to settle."""

    def encode(self, value: object, /) -> bytes:
        return self._kit._app.codec.encode(value)
