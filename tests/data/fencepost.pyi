"""Fencepost: durable jobs, outbox, inbox and workflows in one SQLite file."""
# Rules that hold everywhere
#   a time span is seconds or a timedelta; `delay` counts from now, `due` is a moment (aware); `after` is only ever a cursor
#   `key` = once, until retention; `unique` = once while pending or leased; `lane` = one after the other; priority: higher first
#   `.options(...)` and `.at(store)` return the same thing again, so that option names never clash with a handler's arguments
#   `.aio` is the same thing with awaitable methods, and what it returns is awaitable, too; names and arguments are equal
#   which file: that of `tx`, else of `.at(store)`, else the App's own, else InvalidArgument
#   each `TypeForm[T]` parameter is, in the package, an overload pair (type[T], then TypeForm[T]), for checkers that do not know TypeForm
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from os import PathLike
from types import TracebackType
from typing import Any, Concatenate, Generic, Literal, NamedTuple, ParamSpec, Protocol, TypeAlias, TypedDict, TypeVar, overload
from typing_extensions import Self, TypeForm, Unpack  # in the package: under TYPE_CHECKING

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

Span: TypeAlias = float | timedelta
StrPath: TypeAlias = str | PathLike[str]
State: TypeAlias = Literal["pending", "leased", "done", "dead", "unknown", "cancelled"]
Accepted: TypeAlias = Literal["accepted", "duplicate", "conflict"]
Row: TypeAlias = tuple[Any, ...]

__version__: str
sqlite_version: str

# ---- policies and options -------------------------------------------------------------------------------------------
class Backoff(NamedTuple):
    base: float = 5
    factor: float = 2
    cap: float = 300
    jitter: float = 0.2

class Policy(TypedDict, total=False):  # of a queue, outbox or inbox; a column each
    lease: Span  # 30 s; renewed by the worker
    max_attempts: int  # 5, counted at claim, the first run included
    backoff: Backoff
    max_age: Span  # 7 days from enqueue or the last replay: then no further retry, RetryLater included
    keep: Span  # outcomes: 7 days; 0 = none (bulk queues)
    key_window: Span  # how long a lasting `key` answers: the longer of keep and 7 days
    addressed: bool  # messages can be got and cancelled by id wherever they are; bulk queues: False
    listed: bool  # outcomes can be listed by time; bulk queues: False
    max_size: int  # pending + leased; a further enqueue waits (`wait=`) or raises QueueFull
    concurrency: int  # leased at once, over all workers
    rate: float  # starts per second, over all workers
    lane_width: int  # 1 = strict order
    on_dead: Literal["go on", "halt"]  # a lane whose head died
    on_unknown: Literal["hold", "retry"]  # outbox; "retry" only where the receiver honours event_id

class JobPolicy(TypedDict, total=False):  # of a job or workflow; carried by each message
    name: str  # the function's name; unique in an App
    aliases: Sequence[str]  # earlier names that are still in the file
    queue: str  # "default"
    max_attempts: int
    backoff: Backoff
    priority: int
    timeout: Span  # async: cancelled; plain def: ctx.cancelled is set, its lease is no longer renewed, its result is refused
    permanent: tuple[type[Exception], ...]  # errors not worth a retry

class Options(TypedDict, total=False):
    delay: Span
    due: datetime
    key: str
    unique: str
    lane: str
    priority: int  # -128..127, 0
    headers: Mapping[str, str]
    tx: Tx
    wait: Span  # at most so long for room in a full queue

# ---- app: what is declared -------------------------------------------------------------------------------------------
class App:
    def __init__(self, path: StrPath | None = None, *, wal: bool = False, network: bool = False, foreign_keys: bool = False,
                 durability: Literal["full", "normal"] = "full", codec: Codec = ...) -> None: ...  # wal: may turn an existing database to WAL
    @property
    def store(self) -> Store: ...
    @property
    def aio(self) -> AsyncStore: ...  # app.store.aio
    @overload  # @app.job
    def job(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Job[P, R]: ...
    @overload
    def job(self, fn: Callable[P, R], /) -> Job[P, R]: ...
    @overload  # @app.job(context=True, …): the first parameter is the Context
    def job(self, /, *, context: Literal[True], **policy: Unpack[JobPolicy]) -> _WithContext: ...
    @overload  # @app.job(…)
    def job(self, /, **policy: Unpack[JobPolicy]) -> _Plain: ...
    @overload  # @app.workflow
    def workflow(self, fn: Callable[Concatenate[Run, P], Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...
    @overload
    def workflow(self, /, **policy: Unpack[JobPolicy]) -> Callable[[Callable[Concatenate[Run, P], Coroutine[Any, Any, R]]], Workflow[P, R]]: ...
    def queue(self, name: str, type: TypeForm[T], /, **policy: Unpack[Policy]) -> Queue[T]: ...
    def outbox(self, topic: str, type: TypeForm[T], /, **policy: Unpack[Policy]) -> Outbox[T]: ...
    @overload
    def inbox(self, address: str, type: Contracts[T], /, **policy: Unpack[Policy]) -> Inbox[T]: ...
    @overload
    def inbox(self, address: str, type: TypeForm[T], /, **policy: Unpack[Policy]) -> Inbox[T]: ...
    def cron(self, expression: str, /, *, tz: str, missed: Literal["latest", "all", "skip"] = "latest") -> Callable[[Job[[], R]], Job[[], R]]: ...
    def every(self, interval: Span, /) -> Callable[[Job[[], R]], Job[[], R]]: ...
    def around(self, enter: Callable[[Context], AbstractContextManager[object]], /) -> None: ...  # log context, ORM session, tracing
    def transaction(self, *, timeout: Span = 5) -> AbstractContextManager[Transaction]: ...
    def open(self, path: StrPath) -> Store: ...  # the same declarations over a further file (an App without a path)
    def worker(self, *, queues: Sequence[str] | None = None, threads: int = 8, grace: Span = 30, stores: Iterable[Store] = ()) -> Worker: ...
    def run(self) -> None: ...  # a worker in the foreground, with signals

class _Plain(Protocol):
    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Job[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Job[P, R]: ...

class _WithContext(Protocol):
    @overload
    def __call__(self, fn: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /) -> Job[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Context, P], R], /) -> Job[P, R]: ...

# ---- jobs -------------------------------------------------------------------------------------------------------------
class Job(Generic[P, R]):
    name: str
    fn: Callable[..., Any]  # the function itself; a Job is not callable, so that nobody runs what they meant to queue
    def options(self, **options: Unpack[Options]) -> Self: ...
    def at(self, store: Store, /) -> Self: ...
    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]: ...
    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]: ...
    def enqueue_many(self, calls: Iterable[Call[R]], /) -> list[Handle[R]]: ...  # one commit; equal keys answer created=False
    def handle(self, id: int, /) -> Handle[R]: ...
    @property
    def aio(self) -> AsyncJob[P, R]: ...

class Call(Generic[R]): ...  # bound arguments, with the options of the job that bound them

class Status(NamedTuple):
    state: State
    attempt: int
    due: datetime | None
    failure: Failure | None
    progress: Any  # the latest value given to progress()
    waiting_for: tuple[str, ...] = ()  # workflows: names of sleeps and signals

class _Handle(Generic[R]):
    created: bool  # False: an equal one was there
    key: str | None
    def status(self) -> Status: ...
    def watch(self) -> Iterator[Status]: ...  # each change, to the end
    def result(self, timeout: Span | None = None) -> R: ...  # JobFailed, Cancelled, TimeoutError, Gone
    def cancel(self, *, tx: Tx | None = None) -> bool: ...

class Handle(_Handle[R]):
    id: int
    @property
    def aio(self) -> AsyncHandle[R]: ...

class Context:  # what a handler may know and say; valid until the handler returns
    id: int
    queue: str
    key: str | None
    lane: str | None
    attempt: int
    last_attempt: bool
    token: int  # the fence: only ever rises in this file
    due: datetime  # when it was meant to run; for cron, the moment of the schedule
    enqueued_at: datetime
    headers: Mapping[str, str]
    envelope: Envelope  # what its sender said around the payload
    store: Store
    @property
    def tx(self) -> Transaction: ...  # begun at first use, committed with the settling; plain `def` handlers only
    @property
    def cancelled(self) -> bool: ...  # cancelled, timed out, lease lost, or the worker stops
    def check(self) -> None: ...  # raises if cancelled
    def progress(self, value: object, /) -> None: ...  # newest wins, a few writes a second at most
    def ack(self, result: object = None, *, tx: Tx) -> None: ...  # settle inside your own (ORM) transaction instead

# ---- queues -----------------------------------------------------------------------------------------------------------
class Enqueued(NamedTuple):
    id: int
    created: bool

class Queue(Generic[T]):
    name: str
    def at(self, store: Store, /) -> Self: ...
    def enqueue(self, payload: T, /, **options: Unpack[Options]) -> Enqueued: ...
    def enqueue_many(self, payloads: Iterable[T], /, *, key: Callable[[T], str] | None = None, lane: Callable[[T], str] | None = None,
                     delay: Span = 0, priority: int = 0, tx: Tx | None = None, wait: Span = 0) -> list[Enqueued]: ...  # one commit, all or none
    def handler(self, *, batch: int = 1, linger: Span = 0) -> Callable[[Callable[[Batch[T]], object]], Callable[[Batch[T]], object]]: ...
    def claim(self, limit: int = 1, *, lease: Span | None = None, wait: Span = 0) -> list[Claim[T]]: ...
    def ack(self, claims: Iterable[Claim[T]], /, *, tx: Tx | None = None) -> list[Claim[T]]: ...  # those that were lost
    def size(self) -> int: ...
    @property
    def aio(self) -> AsyncQueue[T]: ...

class Claim(Generic[T]):
    id: int
    key: str | None
    lane: str | None
    attempt: int
    token: int
    headers: Mapping[str, str]
    enqueued_at: datetime
    body: bytes
    @property
    def payload(self) -> T: ...  # decoded here
    def ack(self, result: object = None, *, tx: Tx | None = None) -> None: ...
    def retry(self, delay: Span | None = None, *, error: BaseException | str = "", tx: Tx | None = None) -> None: ...  # uses the attempt
    def release(self, delay: Span = 0, *, tx: Tx | None = None) -> None: ...  # gives the attempt back
    def fail(self, error: BaseException | str, *, tx: Tx | None = None) -> None: ...  # dead letter
    def renew(self, lease: Span | None = None) -> None: ...

class Batch(list[Claim[T]]):  # what is not settled by name is acked when the handler returns; a batch that raises comes back one by one
    payloads: list[T]
    @property
    def tx(self) -> Transaction: ...
    @property
    def cancelled(self) -> bool: ...

# ---- outbox, inbox ------------------------------------------------------------------------------------------------------
class Delivery(Context, Generic[T]):
    payload: T
    destination: str
    event_id: str  # stable over all attempts: the idempotency header
    body: bytes  # the payload as the codec wrote it, the same in every attempt

class Outbox(Generic[T]):
    topic: str
    def at(self, store: Store, /) -> Self: ...
    def send(self, destination: str, payload: T, /, *, envelope: Envelope = ..., **options: Unpack[Options]) -> Enqueued: ...
    def handler(self, fn: Callable[[Delivery[T]], object], /) -> Callable[[Delivery[T]], object]: ...
    @property
    def aio(self) -> AsyncOutbox[T]: ...

class Fault(NamedTuple):  # what a message says that is about a failure of its sender's
    code: str
    message: str = ""
    category: str = ""
    transient: bool = False
    details: Any = None

class Envelope(NamedTuple):  # what stands around a payload; all of it is compared when the same message comes again
    contract: str | None = None
    trace: str | None = None
    correlation: str | None = None
    causation: str | None = None
    sent_at: datetime | None = None  # the sender's, with its offset
    nanoseconds: int = 0  # of sent_at, below its microsecond
    fault: Fault | None = None  # then there is no payload
    version: int = 1
    @classmethod
    def of(cls, headers: Mapping[str, str]) -> Envelope: ...
    def following(self, message_id: str) -> Envelope: ...  # of what follows from the message with this one

class Contracts(Generic[T]):  # payload types by stable names: the type of an inbox that takes several
    def __init__(self, types: Mapping[str, type[T]], /) -> None: ...
    @property
    def types(self) -> Mapping[str, type[T]]: ...
    def name_of(self, payload: object) -> str: ...
    def type_of(self, name: str | None) -> type[T]: ...

class Inbox(Generic[T]):
    address: str
    def at(self, store: Store, /) -> Self: ...
    @property
    def dedupe_window(self) -> float: ...  # for how many seconds after its message's end an id answers
    def accept(self, message_id: str, payload: T | bytes | None, /, *, envelope: Envelope = ..., **options: Unpack[Options]) -> Accepted: ...
    def message(self, message_id: str, /) -> Message | None: ...  # None: it never came, or retention took it
    @overload
    def handler(self, fn: Callable[[Context, T], object], /) -> Callable[[Context, T], object]: ...
    @overload
    def handler(self, /, *, faults: Literal[True], settle: Literal["accepted", "completed"] = "accepted", timeout: Span = 300) -> Callable[[Callable[[Context, T | Fault], object]], Callable[[Context, T | Fault], object]]: ...
    @overload
    def handler(self, /, *, settle: Literal["accepted", "completed"] = "accepted", timeout: Span = 300) -> Callable[[Callable[[Context, T], object]], Callable[[Context, T], object]]: ...
    def complete(self, message_id: str, token: int, /, *, error: str | None = None) -> bool: ...  # the host's terminal signal, for settle="completed"
    @property
    def aio(self) -> AsyncInbox[T]: ...

# ---- workflows ----------------------------------------------------------------------------------------------------------
class Workflow(Generic[P, R]):
    name: str
    def options(self, *, id: str = ..., delay: Span = ..., due: datetime = ..., priority: int = ..., headers: Mapping[str, str] = ..., tx: Tx = ...) -> Self: ...
    def at(self, store: Store, /) -> Self: ...
    def start(self, *args: P.args, **kwargs: P.kwargs) -> WorkflowHandle[R]: ...
    def handle(self, id: str, /) -> WorkflowHandle[R]: ...
    @property
    def aio(self) -> AsyncWorkflow[P, R]: ...

RunState: TypeAlias = Literal["running", "sleeping", "waiting", "failed", "parked", "done", "cancelled"]

class RunInfo(NamedTuple):
    id: str
    name: str
    state: RunState
    waiting_for: tuple[str, ...]
    created_at: datetime
    ended_at: datetime | None
    failure: Failure | None

class RunPage(list[RunInfo]):
    next: str | None  # `after=` of the next page

class Step(NamedTuple):
    name: str
    kind: Literal["step", "transact", "child", "sleep", "wait", "receive", "inbox"]
    value: Any
    started: datetime | None
    at: datetime

class WorkflowHandle(_Handle[R]):
    id: str
    def signal(self, name: str, value: object, /, *, tx: Tx | None = None) -> bool: ...  # first wins; False: was there
    def send(self, value: object, /, *, tx: Tx | None = None) -> None: ...  # to run.receive, in order
    def resume(self) -> None: ...  # failed or parked: once more, from the step that failed
    def fork(self, step: str, /, *, id: str) -> WorkflowHandle[R]: ...  # a new one with the records before that step
    def steps(self) -> list[Step]: ...
    def delete(self) -> int: ...  # wake-ups and records, together or not at all; a pass in flight is fenced
    @property
    def aio(self) -> AsyncWorkflowHandle[R]: ...

class Run:
    id: str
    attempt: int
    token: int
    @property
    def cancelled(self) -> bool: ...
    def key(self, name: str, /) -> str: ...  # of a step, for the outside world: the same on each attempt
    def options(self, *, max_attempts: int = ..., backoff: Backoff = ..., timeout: Span = ..., returns: Any = ...) -> Run: ...  # of the steps called on it
    @overload
    async def step(self, name: str, fn: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    async def step(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    async def transact(self, name: str, fn: Callable[Concatenate[Transaction, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    async def child(self, name: str, target: Job[P, T] | Workflow[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    async def sleep(self, name: str, span: Span | datetime, /) -> None: ...
    async def wait(self, name: str, type: TypeForm[T], /, *, timeout: Span | None = None) -> T: ...  # TimeoutError
    async def receive(self, name: str, type: TypeForm[T], /, *, limit: int = ..., timeout: Span | None = None) -> list[T]: ...  # [] on timeout
    async def gather(self, *steps: Awaitable[T]) -> list[T]: ...
    def progress(self, value: object, /) -> None: ...
    def patched(self, name: str, /) -> bool: ...

# ---- transactions -----------------------------------------------------------------------------------------------------
class Rows(list[Row]):
    rowcount: int
    lastrowid: int | None

class Transaction:
    def execute(self, sql: str, params: Sequence[object] | Mapping[str, object] = (), /) -> Rows: ...
    def executemany(self, sql: str, params: Iterable[Sequence[object]], /) -> int: ...

class _Cursors(Protocol):  # sqlite3.Connection, Django's connection
    def cursor(self) -> Any: ...

class _DriverSql(Protocol):  # SQLAlchemy's Connection
    def exec_driver_sql(self, statement: str, /) -> Any: ...

class _Session(Protocol):  # SQLAlchemy's Session
    def connection(self) -> _DriverSql: ...

Tx: TypeAlias = Transaction | _Cursors | _DriverSql | _Session

# ---- store ------------------------------------------------------------------------------------------------------------
FailureKind: TypeAlias = Literal["error", "worker_lost", "too_old", "timeout", "damaged", "undecodable", "unencodable", "unknown_name", "changed_code",
                                 "unknown_contract", "unsupported_version", "fault", "completion_failed", "completion_timeout", "stopped", "confirmed", "replayed"]

class Failure(NamedTuple):
    kind: str  # a FailureKind, unless a newer release wrote it
    code: str | None
    text: str

class Message(NamedTuple):  # no payload, no headers
    id: int
    queue: str
    key: str | None
    lane: str | None
    state: State
    attempt: int
    generation: int
    enqueued_at: datetime
    settled_at: datetime | None
    due: datetime | None
    failure: Failure | None

class Content(NamedTuple):
    body: bytes
    headers: Mapping[str, str]
    result: bytes | None

class Page(list[Message]):
    next: str | None  # `after=` of the next page

class Surroundings(NamedTuple):  # what a store lives beside, in this process and on this system
    locks: Literal["ofd", "classic"]
    sqlite: str
    python_sqlite: str | None
    others: int | None
    copies: list[str]
    advice: list[str]

class Halted(NamedTuple):  # a lane that stands still, and the dead or unknown message that it stands still for
    lane: str
    message: int

class Replayed(NamedTuple):
    id: int
    outcome: Literal["replayed", "superseded", "not dead", "live key", "gone"]

class Store(AbstractContextManager["Store"]):
    path: str
    @overload
    def queue(self, name: str, /, **policy: Unpack[Policy]) -> Queue[Any]: ...
    @overload
    def queue(self, name: str, type: TypeForm[T], /, **policy: Unpack[Policy]) -> Queue[T]: ...
    def transaction(self, *, timeout: Span = 5) -> AbstractContextManager[Transaction]: ...
    def messages(self, state: State, *, queue: str | None = None, lane: str | None = None, kind: str | None = None, failure: FailureKind | None = None,
                 since: datetime | None = None, before: datetime | None = None, after: str | None = None, limit: int = 50) -> Page: ...
    def message(self, id: int, /) -> Message | None: ...
    def content(self, id: int, /) -> Content: ...  # shown only when asked for
    def replay(self, messages: Iterable[Message], /, *, delay: Span = 0, rate: float | None = None, note: str = "", apply: bool = True) -> list[Replayed]: ...  # dead or unknown -> pending; apply=False: what would happen
    def confirm(self, messages: Iterable[Message], /, *, note: str = "") -> int: ...  # unknown -> done
    def cancel(self, messages: Iterable[Message], /) -> int: ...
    def purge(self, state: State, before: datetime, *, queue: str | None = None, limit: int = 1000, apply: bool = False) -> int: ...
    def runs(self, state: RunState | None = None, *, name: str | None = None, after: str | None = None, limit: int = 50) -> RunPage: ...  # workflows
    def purge_runs(self, state: RunState, before: datetime, *, limit: int = 1000, apply: bool = False) -> int: ...
    def halted_lanes(self, queue: str, /, *, after: str = "", limit: int = 50) -> list[Halted]: ...  # by name
    def release_lane(self, queue: str, lane: str, /) -> bool: ...  # a halted one goes on
    def set_policy(self, queue: str, /, **policy: Unpack[Policy]) -> None: ...  # of a queue that is there; what is not said stays
    def pause(self, queue: str, /) -> None: ...
    def resume(self, queue: str, /) -> None: ...
    def surroundings(self) -> Surroundings: ...
    def stats(self) -> dict[str, Any]: ...
    def check(self, *, full: bool = False) -> list[str]: ...  # empty: healthy; full: integrity, too
    def backup(self, dest: StrPath, /, *, overwrite: bool = False) -> None: ...
    def close(self) -> None: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /) -> None: ...
    @property
    def aio(self) -> AsyncStore: ...

def open(path: StrPath, *, create: bool = True, wal: bool = False, network: bool = False, foreign_keys: bool = False,
         durability: Literal["full", "normal"] = "full", codec: Codec = ..., busy_timeout: Span = 30) -> Store: ...
def status(path: StrPath, *, at: datetime | None = None) -> dict[str, Any]: ...  # read-only: counts and ages at a moment; creates nothing
def restore(backup: StrPath, dest: StrPath, /) -> None: ...  # refuses stale side files; claims from before open nothing

class Worker:
    running: bool
    def start(self) -> Self: ...  # own threads, no signal handlers, any thread
    def stop(self, grace: Span | None = None) -> bool: ...  # True: nothing had to be released
    def run(self) -> None: ...  # start, wait for SIGTERM/SIGINT, stop
    def add(self, store: Store, /) -> None: ...
    def remove(self, store: Store, /) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exc: object) -> None: ...

class Codec(Protocol):
    def encode(self, value: object, /) -> bytes: ...
    def decode(self, body: bytes, type: TypeForm[T], /) -> T: ...

# ---- awaitable twins ----------------------------------------------------------------------------------------------------
class AsyncJob(Generic[P, R]):
    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> AsyncHandle[R]: ...
    async def enqueue_many(self, calls: Iterable[Call[R]], /) -> list[AsyncHandle[R]]: ...
    def handle(self, id: int, /) -> AsyncHandle[R]: ...

class _AsyncHandle(Generic[R]):
    created: bool
    key: str | None
    async def status(self) -> Status: ...
    def watch(self) -> AsyncIterator[Status]: ...
    async def result(self, timeout: Span | None = None) -> R: ...
    async def cancel(self) -> bool: ...

class AsyncHandle(_AsyncHandle[R]):
    id: int

class AsyncWorkflowHandle(_AsyncHandle[R]):
    id: str
    async def signal(self, name: str, value: object, /) -> bool: ...
    async def send(self, value: object, /) -> None: ...
    async def resume(self) -> None: ...
    async def fork(self, step: str, /, *, id: str) -> AsyncWorkflowHandle[R]: ...
    async def steps(self) -> list[Step]: ...
    async def delete(self) -> int: ...

class AsyncWorkflow(Generic[P, R]):
    async def start(self, *args: P.args, **kwargs: P.kwargs) -> AsyncWorkflowHandle[R]: ...
    def handle(self, id: str, /) -> AsyncWorkflowHandle[R]: ...

class AsyncQueue(Generic[T]):
    async def enqueue(self, payload: T, /, **options: Unpack[Options]) -> Enqueued: ...
    async def enqueue_many(self, payloads: Iterable[T], /, *, key: Callable[[T], str] | None = None, lane: Callable[[T], str] | None = None,
                           delay: Span = 0, priority: int = 0, wait: Span = 0) -> list[Enqueued]: ...
    async def claim(self, limit: int = 1, *, lease: Span | None = None, wait: Span = 0) -> list[AsyncClaim[T]]: ...
    async def ack(self, claims: Iterable[AsyncClaim[T]], /) -> list[AsyncClaim[T]]: ...
    async def size(self) -> int: ...

class AsyncClaim(Generic[T]):
    id: int
    key: str | None
    lane: str | None
    attempt: int
    token: int
    headers: Mapping[str, str]
    enqueued_at: datetime
    body: bytes
    @property
    def payload(self) -> T: ...
    async def ack(self, result: object = None) -> None: ...
    async def retry(self, delay: Span | None = None, *, error: BaseException | str = "") -> None: ...
    async def release(self, delay: Span = 0) -> None: ...
    async def fail(self, error: BaseException | str) -> None: ...
    async def renew(self, lease: Span | None = None) -> None: ...

class AsyncOutbox(Generic[T]):
    async def send(self, destination: str, payload: T, /, *, envelope: Envelope = ..., **options: Unpack[Options]) -> Enqueued: ...

class AsyncInbox(Generic[T]):
    async def accept(self, message_id: str, payload: T | bytes | None, /, *, envelope: Envelope = ..., **options: Unpack[Options]) -> Accepted: ...

class AsyncStore:
    def queue(self, name: str, type: TypeForm[T], /, **policy: Unpack[Policy]) -> AsyncQueue[T]: ...
    async def runs(self, state: RunState | None = None, *, name: str | None = None, after: str | None = None, limit: int = 50) -> RunPage: ...
    async def halted_lanes(self, queue: str, /, *, after: str = "", limit: int = 50) -> list[Halted]: ...
    async def release_lane(self, queue: str, lane: str, /) -> bool: ...
    # no awaits while the file's one writer is held: the body is a plain function, run in the commit line
    async def transact(self, fn: Callable[Concatenate[Transaction, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    async def messages(self, state: State, *, queue: str | None = None, lane: str | None = None, kind: str | None = None, failure: FailureKind | None = None,
                       since: datetime | None = None, before: datetime | None = None, after: str | None = None, limit: int = 50) -> Page: ...
    async def message(self, id: int, /) -> Message | None: ...
    async def replay(self, messages: Iterable[Message], /, *, delay: Span = 0, rate: float | None = None, note: str = "") -> list[Replayed]: ...
    async def content(self, id: int, /) -> Content: ...
    async def confirm(self, messages: Iterable[Message], /, *, note: str = "") -> int: ...
    async def cancel(self, messages: Iterable[Message], /) -> int: ...
    async def stats(self) -> dict[str, Any]: ...
    async def check(self, *, full: bool = False) -> list[str]: ...
    async def purge(self, state: State, before: datetime, *, queue: str | None = None, limit: int = 1000, apply: bool = False) -> int: ...
    async def pause(self, queue: str, /) -> None: ...
    async def resume(self, queue: str, /) -> None: ...
    async def backup(self, dest: StrPath, /, *, overwrite: bool = False) -> None: ...
    async def close(self) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exc: object) -> None: ...

# ---- errors: cut by what the caller can do ------------------------------------------------------------------------------
class Error(Exception): ...
class Busy(Error): ...  # wait and try again
class QueueFull(Busy): ...
class LeaseLost(Error): ...  # stop: somebody else has it
class Conflict(Error):  # another message owns this key
    id: int
class InvalidArgument(Error, ValueError): ...  # fix the call
class PayloadError(InvalidArgument): ...  # cannot be encoded, or decoded as this type
class StorageError(Error):  # call for help
    statement: str | None
    sqlite_code: int | None
class NewerSchema(StorageError): ...
class ForkedHandle(Error): ...
class Closed(Error): ...
class Gone(Error): ...  # retention took the result, or it never was
class JobFailed(Error):  # result() of what is dead
    failure: Failure
class Cancelled(Error): ...  # result() of what was cancelled; check() in a handler
# said by handlers
class PermanentError(Exception):  # dead letter, no further attempt
    def __init__(self, text: str = "", *, code: str | None = None) -> None: ...
class RetryLater(Exception):  # uses no attempt; bounded by max_age
    def __init__(self, text: str = "", *, delay: Span, whole_queue: bool = False) -> None: ...  # whole_queue: nobody is handed out until then
class DeliveryUnknown(Exception): ...  # outbox: put aside for an operator
