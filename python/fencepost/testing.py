"""
fencepost.testing: the same C core, a clock that you turn by hand, and a worker that dies where you
say.

    with fencepost.testing.override(app) as kit:
        send_mail.enqueue("ann@example.com", "hello")
        kit.assert_enqueued(send_mail, "ann@example.com", "hello")
        assert kit.drain().done == 1

Nothing here starts a thread or sleeps: handlers run where `drain` is called, and time moves when
`advance` is.
"""

from __future__ import annotations

import asyncio
import tempfile
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, ParamSpec

from fencepost import _points
from fencepost._batchrun import BatchRun
from fencepost._boxrun import box_run
from fencepost._calls import FP
from fencepost._clockwork import Clockwork
from fencepost._desk import Desk
from fencepost._file import named
from fencepost._hand import Clock
from fencepost._jobrun import JobRun
from fencepost._leases import Leases
from fencepost._pack import Packed, Take, Verdict
from fencepost._points import Point
from fencepost._routes import Route, chosen, routes
from fencepost._runs import Run
from fencepost._verdicts import UNKNOWN_NAME_US, later
from fencepost.app import App
from fencepost.claims import Claim, claims_of
from fencepost.context import Context
from fencepost.errors import InvalidArgument
from fencepost.jobs import Job
from fencepost.policies import declared
from fencepost.queues import Queue
from fencepost.spans import moment, span_us
from fencepost.store import Store
from fencepost.transactions import Transaction
from fencepost.values import Message, Span, StrPath

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

__all__ = ["Clock", "Crash", "Drained", "Kit", "Point", "override"]

P = ParamSpec("P")

PAGE: Final = 200


class Drained(NamedTuple):
    """What became of the messages that were handed out, and how often the worker died."""

    done: int
    retried: int  # back in line: tried again later, put off, or given back
    dead: int
    crashed: int  # what was not committed by then comes back when its lease ends


class Crash(BaseException):
    """The worker dies here: what it had not said by now, it never says."""


class Kit:
    """A store under a clock that stands still, and the worker of an App. Made by `override`."""

    def __init__(self, app: App, store: Store, clock: Clock, closing: ExitStack) -> None:
        self.store = store
        self._app = app
        self._clock = clock
        self._closing = closing
        self._crashed = False

    @property
    def now(self) -> datetime:
        return self._clock.now

    def advance(self, span: Span | datetime, /) -> None:
        """Turn the clock by a span, or to a moment. `InvalidArgument` for one that has passed."""
        self._fire()
        self._clock.advance(span)

    def _fire(self) -> None:
        """What schedules are due for; those that are new begin now."""
        Clockwork(self.store._file, self._app._registry.schedules).turn()

    # ---- the worker ------------------------------------------------------------------------------

    def drain(self, *, until_idle: bool = False, limit: int = 10_000) -> Drained:
        """
        Run the handlers of what is due, here, one after the other, up to `limit` messages.

        `until_idle` turns the clock to each next due moment, be it a delay, a retry or the end of
        the lease of a worker that died, until nothing is in line. Schedules fire for moments that
        the clock was turned past; it is not turned to theirs.
        """
        drain = _Drain(self, until_idle, limit)
        for run in drain.runs():
            with suppress(Crash):
                if run.coroutine:
                    asyncio.run(run.await_())
                else:
                    run.call()
        return drain.drained()

    async def adrain(self, *, until_idle: bool = False, limit: int = 10_000) -> Drained:
        """The same where an event loop runs: coroutines in it, plain handlers beside it."""
        drain = _Drain(self, until_idle, limit)
        for run in drain.runs():
            with suppress(Crash):
                if run.coroutine:
                    await run.await_()
                else:
                    await asyncio.to_thread(run.call)
        return drain.drained()

    def crash_at(
        self, point: Point, name: str = "", /, *, times: int = 1
    ) -> AbstractContextManager[None]:
        """
        Within the block the worker dies at `point`, in a message for `name` (a job or a queue; ""
        is any), so many times. `AssertionError` if it never came there.
        """
        return self._crash_at(point, name, times)

    @contextmanager
    def _crash_at(self, point: Point, name: str, times: int) -> Iterator[None]:
        left = times

        def watcher(at: Point, who: str) -> None:
            nonlocal left
            if left and at == point and name in ("", who):
                left -= 1
                self._crashed = True
                raise Crash(f"{who} at {point!r}")

        unwatch = _points.watch(watcher)
        try:
            yield
        finally:
            unwatch()
        if left:
            raise AssertionError(f"the worker came to {point!r} {times - left} times, not {times}")

    # ---- what was asked for ----------------------------------------------------------------------

    def assert_enqueued(self, target: Job[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Message:
        """The message of exactly this call that is in line; `AssertionError` if there is none."""
        body = target._arguments.encode(args, kwargs)
        messages = self.enqueued(target)
        bodies = [self.store.content(message.id).body for message in messages]
        if body in bodies:
            return messages[bodies.index(body)]
        others = "".join(f"\n    {other.decode(errors='replace')}" for other in bodies)
        raise AssertionError(
            f"no call of {target.name} with {body.decode(errors='replace')} is in line;"
            f" there are {len(bodies)} others:{others}"
        )

    def enqueued(self, target: Job[..., Any] | str, /) -> list[Message]:
        """What is in line for a job, or in the queue of this name, delayed and running included."""
        queue, kind = (target, None) if isinstance(target, str) else (target._queue, target.name)
        found: list[Message] = []
        for state in ("pending", "leased"):
            after: str | None = None
            while True:
                page = self.store.messages(state, queue=queue, kind=kind, after=after, limit=PAGE)
                found += page
                after = page.next
                if after is None:
                    break
        return sorted(found)

    def context(self, *, attempt: int = 1) -> Context:
        """
        A context to call a handler with by hand: `job.fn(kit.context(), …)`.

        It is of no message. What is written through its `tx` is seen through it, and rolled back
        at the end of the kit.
        """
        record = (0, 1, attempt, 0, 0, *[self._clock._now_us] * 3, 0, 0, 0, 0, -1, -1, -1, 0)
        nowhere: Queue[Any] = Queue(declared("", {}), Any)
        packed = Packed(1, len(record), array("q", record).tobytes(), b"")
        (claim,) = claims_of(self.store._file, {0: nowhere}, packed)
        return Context(claim, "", _ByHand(self))


@contextmanager
def override(
    app: App, path: StrPath | None = None, *, now: datetime | None = None
) -> Iterator[Kit]:
    """
    Within the block the App lives in another file, under a clock that begins at `now` and stands
    still. `path` is where your ORM's engine points, if you have one; else a temporary file.
    """
    clock = Clock(datetime.now(timezone.utc) if now is None else now)
    before = app._path, app._store
    with ExitStack() as closing:
        if path is None:
            folder = tempfile.TemporaryDirectory(prefix="fencepost-", ignore_cleanup_errors=True)
            path = Path(closing.enter_context(folder)) / "test.db"
        store = closing.enter_context(
            clock.open(
                path,
                wal=app._wal,
                network=app._network,
                foreign_keys=app._foreign_keys,
                durability=app._durability,
                codec=app.codec,
            )
        )
        app._path, app._store = path, store
        try:
            yield Kit(app, store, clock, closing)
        finally:
            app._path, app._store = before


class _StandingStill(Leases):
    """No time passes while a handler runs, so no lease needs a beat."""

    def __init__(self) -> None:
        pass

    def lost(self, claim: Claim[object]) -> bool:
        return False


class _Drain:
    """One `drain`: what is due becomes runs, and what they said is settled. The runs' `Host`."""

    def __init__(self, kit: Kit, until_idle: bool, limit: int) -> None:
        self.store = kit.store
        self.registry = kit._app._registry
        self.leases: Leases = _StandingStill()
        self._kit = kit
        self._until_idle = until_idle
        self._left = limit
        self._file = kit.store._file
        found = routes(self._file, self.registry, chosen(self.registry, None))
        self._routes = {route.number: route for route in found}
        self._desk = Desk(self._file, {route.number: route.queue for route in found})
        self._counts = {"done": 0, "retried": 0, "dead": 0, "crashed": 0}

    def drained(self) -> Drained:
        return Drained(**self._counts)

    def runs(self) -> Iterator[Run]:
        """Each is to be run, or to crash, before the next is asked for."""
        while self._left > 0:
            self._kit._fire()
            taken = self._take()
            if taken is None:
                if not (self._until_idle and self._turn_the_clock()):
                    return
                continue
            route, claims = taken
            self._left -= len(claims)
            self._kit._crashed = False
            run = self._run(route, claims)
            if run is not None:
                yield run
                self._conclude(run)

    def _take(self) -> tuple[Route, Sequence[Claim[Any]]] | None:
        for number, route in self._routes.items():
            size = min(route.queue._batch, self._left)
            claims = self._desk.exchange(Take([number], size, alone=FP.ALONE_TRIED))
            if claims:
                return route, claims
        return None

    def _run(self, route: Route, claims: Sequence[Claim[Any]]) -> Run | None:
        if route.handler:
            return BatchRun(self, route.queue, claims)
        (claim,) = claims
        if route.box is not None:
            return box_run(self, route.box, claim)
        name = dict(self._file.kinds()).get(claim._kind, "")
        job = self.registry.job(name)
        if job is not None:
            return JobRun(self, job, claim, route.queue.name)
        text = "no worker knew this name"
        verdict = later(claim._key, UNKNOWN_NAME_US, "unknown_name", name, text)
        self._file.core.settle(None, [verdict])
        self._count(claim)
        return None

    def _conclude(self, run: Run) -> None:
        """Settle what a run said, unless the worker died in it; count how its messages are now."""
        if not self._kit._crashed:
            progress = run.take_progress()
            if progress is not None:
                self._file.core.progress(None, run.claims[0].id, progress)
            self._file.core.settle(None, run.verdicts)
            if run.hold_us is not None:
                self._desk.hold(run.claims[0]._queue._declaration, run.hold_us)
            with suppress(Crash):
                for _ in run.claims:
                    _points.at("committed", run.name)
        self._counts["crashed"] += self._kit._crashed
        for claim in run.claims:
            self._count(claim)

    def _count(self, claim: Claim[Any]) -> None:
        try:
            message = self.store.message(claim.id)
        except InvalidArgument:  # back in a line that is not `addressed`
            self._counts["retried"] += 1
            return
        if message is None or message.state == "done":
            self._counts["done"] += 1
        elif message.state == "pending":
            self._counts["retried"] += 1
        elif message.state == "dead":
            self._counts["dead"] += 1

    def _turn_the_clock(self) -> bool:
        """To the next due moment of our queues. False: there is none."""
        now = self._kit._clock._now_us
        moments = [
            record[11] for record, _ in named(self._file.core.stats()) if record[0] in self._routes
        ]
        for route in self._routes.values():
            if route.queue.size():
                policy = self._file.core.queue_find(None, route.queue.name.encode())[1]
                moments.append(policy["held_until_us"])
                if policy["rate_milli"]:  # by then the next one may start
                    moments.append(now + -(-1_000_000_000 // policy["rate_milli"]))
        ahead = [at for at in moments if at > now]
        if ahead:
            self._kit.advance(moment(min(ahead)))
        return bool(ahead)


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
