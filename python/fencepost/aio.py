"""
The same things, awaitable: what `.aio` of a job, a handle, a queue, an outbox, an inbox and a store
gives. Names and arguments are equal, and so is what is done: a twin has no logic of its own.

A call is written with all that is called meanwhile, from any number of coroutines, in one commit.
Awaiting one needs no thread, however many are awaited. A coroutine that is cancelled takes its call
back if it has not been taken yet; else it happens, and a `key` answers for it: the same enqueue,
made again, says `created=False`. A claim that nobody hears of is given back with its attempt.

With a `tx=` among its options a call is made at once, in that transaction, which belongs to the
task that began it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from fencepost._checks import several
from fencepost._plans import awaited
from fencepost.envelope import NOTHING, Envelope

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from fencepost._handles import Seen, Status
    from fencepost._workflow.runfile import Step
    from fencepost.claims import Claim
    from fencepost.inbox import Accepted, Inbox
    from fencepost.jobs import Call, Handle, Job
    from fencepost.outbox import Outbox
    from fencepost.queues import Queue
    from fencepost.values import Enqueued, Options, Span
    from fencepost.workflow import Workflow, WorkflowHandle

__all__ = ["AsyncClaim", "AsyncHandle", "AsyncInbox", "AsyncJob", "AsyncOutbox", "AsyncQueue"]
__all__ += ["AsyncWorkflow", "AsyncWorkflowHandle"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class AsyncJob(Generic[P, R]):
    """A Job's twin."""

    def __init__(self, job: Job[P, R]) -> None:
        self._job = job

    def __repr__(self) -> str:
        return f"{self._job!r}.aio"

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> AsyncHandle[R]:
        """See `Job.enqueue`. The arguments are encoded before it awaits anything."""
        (handle,) = await awaited(self._job._enqueue_many([self._job.call(*args, **kwargs)]))
        return AsyncHandle(handle)

    async def enqueue_many(self, calls: Iterable[Call[R]], /) -> list[AsyncHandle[R]]:
        """See `Job.enqueue_many`."""
        handles = await awaited(self._job._enqueue_many(calls))
        return [AsyncHandle(handle) for handle in handles]

    def handle(self, id: int, /) -> AsyncHandle[R]:
        """See `Job.handle`."""
        return AsyncHandle(self._job.handle(id))


class _AsyncHandle(Generic[R]):
    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.created: bool = handle.created
        self.key: str | None = handle.key

    def __repr__(self) -> str:
        return f"{self._handle!r}.aio"

    async def status(self) -> Status:
        """See `Handle.status`."""
        return await awaited(self._handle._status())

    async def watch(self) -> AsyncIterator[Status]:
        """See `Handle.watch`."""
        seen: Seen = await awaited(self._handle._next(None))
        yield seen.status
        while not seen.ended:
            seen = await awaited(self._handle._next(seen))
            yield seen.status

    async def result(self, timeout: Span | None = None) -> R:
        """See `Handle.result`."""
        return await awaited(self._handle._result(timeout))

    async def cancel(self) -> bool:
        """See `Handle.cancel`."""
        return await awaited(self._handle._cancel(None))


class AsyncHandle(_AsyncHandle[R]):
    """A Handle's twin."""

    def __init__(self, handle: Handle[R]) -> None:
        super().__init__(handle)
        self.id = handle.id


class AsyncWorkflow(Generic[P, R]):
    """A Workflow's twin."""

    def __init__(self, workflow: Workflow[P, R]) -> None:
        self._workflow = workflow

    def __repr__(self) -> str:
        return f"{self._workflow!r}.aio"

    async def start(self, *args: P.args, **kwargs: P.kwargs) -> AsyncWorkflowHandle[R]:
        """See `Workflow.start`. The arguments are encoded before it awaits anything."""
        return AsyncWorkflowHandle(await awaited(self._workflow._start(args, kwargs)))

    def handle(self, id: str, /) -> AsyncWorkflowHandle[R]:
        """See `Workflow.handle`."""
        return AsyncWorkflowHandle(self._workflow.handle(id))


class AsyncWorkflowHandle(_AsyncHandle[R]):
    """A WorkflowHandle's twin."""

    def __init__(self, handle: WorkflowHandle[R]) -> None:
        super().__init__(handle)
        self.id = handle.id

    async def signal(self, name: str, value: object, /) -> bool:
        """See `WorkflowHandle.signal`."""
        return await awaited(self._handle._signal(name, value, None))

    async def send(self, value: object, /) -> None:
        """See `WorkflowHandle.send`."""
        await awaited(self._handle._send(value, None))

    async def resume(self) -> None:
        """See `WorkflowHandle.resume`."""
        await awaited(self._handle._asked(self._handle._run.resume))

    async def fork(self, step: str, /, *, id: str) -> AsyncWorkflowHandle[R]:
        """See `WorkflowHandle.fork`."""
        return AsyncWorkflowHandle(await awaited(self._handle._fork(step, id)))

    async def steps(self) -> list[Step]:
        """See `WorkflowHandle.steps`."""
        return await awaited(self._handle._steps())

    async def delete(self) -> int:
        """See `WorkflowHandle.delete`."""
        return await awaited(self._handle._asked(self._handle._run.delete))


class AsyncQueue(Generic[T]):
    """A Queue's twin."""

    def __init__(self, queue: Queue[T]) -> None:
        self._queue = queue
        self.name = queue.name

    def __repr__(self) -> str:
        return f"{self._queue!r}.aio"

    async def enqueue(self, payload: T, /, **options: Unpack[Options]) -> Enqueued:
        """See `Queue.enqueue`. The payload is encoded before it awaits anything."""
        return await awaited(self._queue._enqueue(payload, options))

    async def enqueue_many(
        self,
        payloads: Iterable[T],
        /,
        *,
        key: Callable[[T], str] | None = None,
        lane: Callable[[T], str] | None = None,
        delay: Span = 0,
        priority: int = 0,
        wait: Span = 0,
    ) -> list[Enqueued]:
        """See `Queue.enqueue_many`."""
        plan = self._queue._enqueue_many(payloads, key, lane, delay, priority, None, wait)
        return await awaited(plan)

    async def claim(
        self, limit: int = 1, *, lease: Span | None = None, wait: Span = 0
    ) -> list[AsyncClaim[T]]:
        """See `Queue.claim`."""
        claims = await awaited(self._queue._claim(limit, lease, wait))
        return [AsyncClaim(claim) for claim in claims]

    async def ack(self, claims: Iterable[AsyncClaim[T]], /) -> list[AsyncClaim[T]]:
        """See `Queue.ack`."""
        twins = several(claims, "claims", AsyncClaim)
        lost = await awaited(self._queue._ack([twin._claim for twin in twins], None))
        return [twin for twin in twins if any(twin._claim is claim for claim in lost)]

    async def size(self) -> int:
        """See `Queue.size`."""
        return await awaited(self._queue._size())


class AsyncClaim(Generic[T]):
    """A Claim's twin."""

    __slots__ = ("_claim",)

    def __init__(self, claim: Claim[T]) -> None:
        self._claim = claim

    def __repr__(self) -> str:
        return f"{self._claim!r}.aio"

    @property
    def id(self) -> int:
        return self._claim.id

    @property
    def token(self) -> int:
        return self._claim.token

    @property
    def body(self) -> bytes:
        return self._claim.body

    @property
    def key(self) -> str | None:
        return self._claim.key

    @property
    def lane(self) -> str | None:
        return self._claim.lane

    @property
    def attempt(self) -> int:
        """From 1 on, this one included."""
        return self._claim.attempt

    @property
    def headers(self) -> Mapping[str, str]:
        return self._claim.headers

    @property
    def enqueued_at(self) -> datetime:
        return self._claim.enqueued_at

    @property
    def payload(self) -> T:
        """See `Claim.payload`."""
        return self._claim.payload

    async def ack(self, result: object = None) -> None:
        """See `Claim.ack`."""
        await awaited(self._claim._ack(result, None))

    async def retry(self, delay: Span | None = None, *, error: BaseException | str = "") -> None:
        """See `Claim.retry`."""
        await awaited(self._claim._retry(delay, error, None))

    async def release(self, delay: Span = 0) -> None:
        """See `Claim.release`."""
        await awaited(self._claim._release(delay, None))

    async def fail(self, error: BaseException | str) -> None:
        """See `Claim.fail`."""
        await awaited(self._claim._fail(error, None))

    async def renew(self, lease: Span | None = None) -> None:
        """See `Claim.renew`."""
        await awaited(self._claim._renew(lease))


class AsyncOutbox(Generic[T]):
    """An Outbox's twin."""

    def __init__(self, outbox: Outbox[T]) -> None:
        self._outbox = outbox
        self.topic = outbox.topic

    def __repr__(self) -> str:
        return f"{self._outbox!r}.aio"

    async def send(
        self,
        destination: str,
        payload: T,
        /,
        *,
        envelope: Envelope = NOTHING,
        **options: Unpack[Options],
    ) -> Enqueued:
        """See `Outbox.send`."""
        return await awaited(self._outbox._send(destination, payload, envelope, options))


class AsyncInbox(Generic[T]):
    """An Inbox's twin."""

    def __init__(self, inbox: Inbox[T]) -> None:
        self._inbox = inbox
        self.address = inbox.address

    def __repr__(self) -> str:
        return f"{self._inbox!r}.aio"

    async def accept(
        self,
        message_id: str,
        payload: T | bytes | None,
        /,
        *,
        envelope: Envelope = NOTHING,
        **options: Unpack[Options],
    ) -> Accepted:
        """See `Inbox.accept`."""
        return await awaited(self._inbox._accept(message_id, payload, envelope, options))
