"""The App: what is declared, and where it lives."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Literal,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    overload,
)

from fencepost._aiostore import AsyncStore
from fencepost._binding.calls import FP
from fencepost._checks import function, shown
from fencepost._file import File
from fencepost._worker.registry import Around, Registry
from fencepost._worker.schedule import Rule, Schedule, cron, every
from fencepost.codec import JSON, Codec, check_type
from fencepost.context import Context
from fencepost.envelope import Contracts
from fencepost.errors import InvalidArgument
from fencepost.inbox import Inbox
from fencepost.jobs import Job
from fencepost.outbox import Outbox
from fencepost.policies import declared
from fencepost.queues import Queue
from fencepost.run import Run
from fencepost.store import Store
from fencepost.store import open as open_store
from fencepost.transactions import Transaction
from fencepost.values import JobPolicy, Policy, Span, StrPath
from fencepost.worker import Worker
from fencepost.workflow import Workflow

if TYPE_CHECKING:
    from typing_extensions import TypeForm, Unpack

__all__ = ["App"]

P = ParamSpec("P")
R = TypeVar("R")
Missed: TypeAlias = Literal["latest", "all", "skip"]
T = TypeVar("T")


class _Plain(Protocol):
    """What `@app.job(…)` puts on a function."""

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Job[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Job[P, R]: ...


class _WithContext(Protocol):
    """The same with `context=True`: the first parameter is the Context."""

    @overload
    def __call__(
        self, fn: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> Job[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Context, P], R], /) -> Job[P, R]: ...


class App:
    """
    Jobs and queues of one file, opened at its first use; without a path, declarations that
    `open` and `.at(store)` bring to files.

    `wal` lets an existing database be turned to WAL; `network` allows a file system whose locks
    cannot be trusted, so that a dead worker is known by its leases only; `foreign_keys` enforces
    the application's own; `durability="normal"` may lose the last commits in a power cut. `codec`
    writes arguments, payloads and results.
    """

    def __init__(
        self,
        path: StrPath | None = None,
        *,
        wal: bool = False,
        network: bool = False,
        foreign_keys: bool = False,
        durability: Literal["full", "normal"] = "full",
        codec: Codec = JSON,
    ) -> None:
        self.codec = codec
        self._path = path
        self._wal = wal
        self._network = network
        self._foreign_keys = foreign_keys
        self._durability: Literal["full", "normal"] = durability
        self._registry = Registry(codec)
        self._begin_anew()
        _apps.add(self)

    def _begin_anew(self) -> None:
        """Also in a child of a fork, where the lock may be held by a thread that is not there."""
        self._opening = threading.Lock()
        self._store: Store | None = None

    def __repr__(self) -> str:
        return f"<App {self._path}>"

    # ---- the file --------------------------------------------------------------------------------

    @property
    def store(self) -> Store:
        """
        The App's own file, opened at its first use; in a child of a fork, opened anew. Raises as
        `fencepost.open`.
        """
        if self._path is None:
            raise InvalidArgument("this App has no path: use open(path), or .at(store)")
        with self._opening:
            if self._store is None:
                self._store = self.open(self._path)
            return self._store

    @property
    def aio(self) -> AsyncStore:
        """`store`, awaitable."""
        return self.store.aio

    def open(self, path: StrPath) -> Store:
        """A further file for the same declarations. Raises as `fencepost.open`."""
        return open_store(
            path,
            wal=self._wal,
            network=self._network,
            foreign_keys=self._foreign_keys,
            durability=self._durability,
            codec=self.codec,
        )

    def transaction(self, *, timeout: Span = 5) -> AbstractContextManager[Transaction]:
        """See `Store.transaction`."""
        return self.store.transaction(timeout=timeout)

    def _file(self) -> File:
        return self.store._file

    # ---- what is declared ------------------------------------------------------------------------

    @overload
    def job(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Job[P, R]: ...
    @overload
    def job(self, fn: Callable[P, R], /) -> Job[P, R]: ...
    @overload
    def job(self, /, *, context: Literal[True], **policy: Unpack[JobPolicy]) -> _WithContext: ...
    @overload
    def job(self, /, **policy: Unpack[JobPolicy]) -> _Plain: ...
    def job(
        self,
        fn: Callable[..., Any] | None = None,
        /,
        *,
        context: bool = False,
        **policy: Unpack[JobPolicy],
    ) -> Any:
        """
        Declare a function as a job: `@app.job`, or `@app.job(max_attempts=5, …)`.

        With `context=True` its first parameter is the Context. Arguments and result are typed by
        its annotations: `InvalidArgument` for one that cannot be decoded, and for a name that is
        taken.
        """

        def declare(fn: Callable[..., Any]) -> Job[..., Any]:
            job: Job[..., Any] = Job(fn, policy, self, context=context)
            self._registry.add_job(job)
            return job

        return declare if fn is None else declare(fn)

    @overload
    def workflow(
        self, fn: Callable[Concatenate[Run, P], Coroutine[Any, Any, R]], /
    ) -> Workflow[P, R]: ...
    @overload
    def workflow(
        self, /, **policy: Unpack[JobPolicy]
    ) -> Callable[[Callable[Concatenate[Run, P], Coroutine[Any, Any, R]]], Workflow[P, R]]: ...
    def workflow(self, fn: Callable[..., Any] | None = None, /, **policy: Unpack[JobPolicy]) -> Any:
        """
        Declare an `async def` whose first parameter is the Run as a workflow: `@app.workflow`, or
        `@app.workflow(max_attempts=5, …)`. `max_attempts` counts passes since it last got to a
        wait; `timeout` is of one pass; its wake-ups are in the queue "workflows", or another.

        Arguments and result are typed by its annotations. Raises as `job`.
        """

        def declare(fn: Callable[..., Any]) -> Workflow[..., Any]:
            workflow: Workflow[..., Any] = Workflow(fn, policy, self)
            self._registry.add_workflow(workflow)
            return workflow

        return declare if fn is None else declare(fn)

    @overload
    def queue(self, name: str, type: type[T], /, **policy: Unpack[Policy]) -> Queue[T]: ...
    @overload
    def queue(self, name: str, type: TypeForm[T], /, **policy: Unpack[Policy]) -> Queue[T]: ...
    def queue(self, name: str, type: Any, /, **policy: Unpack[Policy]) -> Queue[Any]:
        """Declare a queue of plain messages; see `Store.queue`. A worker runs its `handler`."""
        check_type(self.codec, type)
        queue: Queue[Any] = Queue(declared(name, policy), type, home=self._file)
        self._registry.add_queue(queue)
        return queue

    @overload
    def outbox(self, topic: str, type: type[T], /, **policy: Unpack[Policy]) -> Outbox[T]: ...
    @overload
    def outbox(self, topic: str, type: TypeForm[T], /, **policy: Unpack[Policy]) -> Outbox[T]: ...
    def outbox(self, topic: str, type: Any, /, **policy: Unpack[Policy]) -> Outbox[Any]:
        """
        Declare what leaves the file: messages of a topic, which is also their queue's name. A
        worker has its `handler` deliver them. `on_unknown="retry"` sends again what nobody can
        answer for: only where the receiver honours the event's id.
        """
        check_type(self.codec, type)
        declaration = declared(topic, policy, FP.PROFILE_OUTBOX)
        outbox: Outbox[Any] = Outbox(declaration, type, home=self._file)
        self._registry.add_box(outbox)
        return outbox

    @overload
    def inbox(self, address: str, type: Contracts[T], /, **policy: Unpack[Policy]) -> Inbox[T]: ...
    @overload
    def inbox(self, address: str, type: type[T], /, **policy: Unpack[Policy]) -> Inbox[T]: ...
    @overload
    def inbox(self, address: str, type: TypeForm[T], /, **policy: Unpack[Policy]) -> Inbox[T]: ...
    def inbox(self, address: str, type: Any, /, **policy: Unpack[Policy]) -> Inbox[Any]:
        """
        Declare what comes in at an address, which is also its queue's name: once for each message
        id, for as long as `key_window` says. A worker runs its `handler`. `Contracts` are several
        types, told apart by the contract that each message names.
        """
        for one in type.types.values() if isinstance(type, Contracts) else (type,):
            check_type(self.codec, one)
        declaration = declared(address, policy, FP.PROFILE_INBOX)
        inbox: Inbox[Any] = Inbox(declaration, type, home=self._file)
        self._registry.add_box(inbox)
        return inbox

    def cron(
        self, expression: str, /, *, tz: str, missed: Missed = "latest"
    ) -> Callable[[Job[[], R]], Job[[], R]]:
        """
        Run a job by the clock: `@app.cron("30 2 * * *", tz="Europe/Paris")` above `@app.job`.

        Five fields, read in that zone as Debian's cron does: a time of day fires once on each local
        day, whatever the clocks do, and "each hour" once in each real one. `ctx.due` is the moment
        it is for. It never fires while its last message has not ended. `missed` is what happens to
        moments at which no worker ran, or that one was still active: "latest" makes them up with
        one run, "all" with one after the other, "skip" not at all, if they are a minute old.
        """
        return self._recurring(cron(expression, tz, missed), missed)

    def every(self, interval: Span, /) -> Callable[[Job[[], R]], Job[[], R]]:
        """
        Run a job each so many seconds, at least a tenth of one, the first time after one interval.
        Otherwise as `cron` with `missed="latest"`.
        """
        return self._recurring(every(interval), "latest")

    def _recurring(self, rule: Rule, missed: str) -> Callable[[Job[[], R]], Job[[], R]]:
        def declare(job: Job[[], R]) -> Job[[], R]:
            if not isinstance(job, Job):
                raise InvalidArgument(f"{shown(job)} is no job: a schedule stands above @app.job")
            job.call()  # without arguments, or not at all
            self._registry.add_schedule(Schedule(job, rule, missed))
            return job

        return declare

    def around(self, enter: Callable[[Context], AbstractContextManager[object]], /) -> None:
        """
        Enter `enter(ctx)` around each job, in its own thread or task: a log context, a session, a
        trace. The first that was declared is the outermost.
        """
        function(enter, "around")
        around: Around = enter
        self._registry.arounds.append(around)

    # ---- the worker ------------------------------------------------------------------------------

    def worker(
        self,
        *,
        queues: Sequence[str] | None = None,
        threads: int = 8,
        grace: Span = 30,
        stores: Iterable[Store] = (),
    ) -> Worker:
        """
        A worker for what is declared, in this process: `with app.worker(): …`.

        `queues` are the names it works on, None all; `threads` how many plain handlers run at once;
        `grace` how long they may finish when it stops; `stores` further files.
        """
        own = None if self._path is None else lambda: self.store
        return Worker(
            self._registry, own, queues=queues, threads=threads, grace=grace, stores=stores
        )

    def run(self) -> None:
        """A worker in the foreground, until SIGTERM or SIGINT. Raises as `Worker.run`."""
        self.worker().run()


_apps: Final[weakref.WeakSet[App]] = weakref.WeakSet()


def _begin_all_anew() -> None:
    for app in list(_apps):
        app._begin_anew()


os.register_at_fork(after_in_child=_begin_all_anew)
