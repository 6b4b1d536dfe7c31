"""The plain values that come in and go out: spans, states, policies, options, messages, pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, TypedDict

if TYPE_CHECKING:
    from fencepost.transactions import Tx

__all__ = [
    "Backoff",
    "Content",
    "Enqueued",
    "Failure",
    "FailureKind",
    "Halted",
    "JobPolicy",
    "Message",
    "Options",
    "Page",
    "Policy",
    "Replayed",
    "Row",
    "Span",
    "State",
    "StrPath",
    "Surroundings",
]

Span: TypeAlias = float | timedelta  # seconds
StrPath: TypeAlias = str | PathLike[str]
State: TypeAlias = Literal["pending", "leased", "done", "dead", "unknown", "cancelled"]
Row: TypeAlias = tuple[Any, ...]

STATES: Final[tuple[State, ...]] = ("pending", "leased", "done", "dead", "unknown", "cancelled")


class Backoff(NamedTuple):
    """
    When a failed attempt is tried again, in seconds.

    After the n-th attempt that is `base * factor ** (n - 1)`, `cap` at the most, and then up to
    the share `jitter` of it earlier or later.
    """

    base: float = 5
    factor: float = 2
    cap: float = 300
    jitter: float = 0.2


class Policy(TypedDict, total=False):
    """What a queue does with its messages. Stored in the file; what is not said stays as it is."""

    lease: Span  # 30 s; renewed by the worker
    max_attempts: int  # 5, counted at claim, the first run included; 0 = no limit
    backoff: Backoff
    max_age: Span  # 7 days from when it was first due, or replayed: then no further retry
    keep: Span  # outcomes; 0 = none, as bulk queues have it
    key_window: Span  # how long a lasting `key` answers: the longer of keep and 7 days
    addressed: bool  # messages can be got and cancelled by id wherever they are
    listed: bool  # outcomes can be listed by time
    max_size: int  # pending + leased; a further enqueue waits (`wait=`) or raises QueueFull
    concurrency: int  # leased at once, over all workers; 0 = no limit
    rate: float  # starts per second, over all workers; 0 = no limit
    lane_width: int  # 1 = strict order
    on_dead: Literal["go on", "halt"]  # a lane whose head died
    on_unknown: Literal["hold", "retry"]  # of an outbox


class JobPolicy(TypedDict, total=False):
    """Of a job or a workflow. `max_attempts` and `priority` are written into each message."""

    name: str  # the function's name; unique in an App
    aliases: Sequence[str]  # earlier names that are still in the file
    queue: str  # "default"
    max_attempts: int  # counted at claim, the first run included; 0 = no limit
    backoff: Backoff
    priority: int
    timeout: Span  # async: cancelled; plain def: ctx.cancelled is set and its result is refused
    permanent: tuple[type[Exception], ...]  # errors not worth a retry


class Options(TypedDict, total=False):
    """How one message is enqueued."""

    delay: Span  # from now
    due: datetime  # a moment, with a zone
    key: str  # once, until retention
    unique: str  # once while pending or leased
    lane: str  # one after the other
    priority: int  # -128..127, 0; higher first
    headers: Mapping[str, str]
    tx: Tx
    wait: Span  # at most so long for room in a full queue


class Enqueued(NamedTuple):
    """The message's id; `created` is False where an equal one was there already."""

    id: int
    created: bool


FailureKind: TypeAlias = Literal[
    "error",
    "worker_lost",
    "too_old",
    "timeout",
    "damaged",
    "undecodable",
    "unencodable",
    "unknown_name",
    "changed_code",
    "unknown_contract",
    "unsupported_version",
    "fault",
    "completion_failed",
    "completion_timeout",
    "stopped",
    "confirmed",
    "replayed",
]


class Failure(NamedTuple):
    """How it failed: `kind` is a `FailureKind`, unless a newer release wrote it."""

    kind: str
    code: str | None
    text: str


class Message(NamedTuple):
    """A message as an operator sees it: without payload and headers."""

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
    """What a message says and what came of it, as bytes; shown only when asked for."""

    body: bytes
    headers: Mapping[str, str]
    result: bytes | None


class Page(list[Message]):
    """One page of a listing; `next` is the `after=` of the page behind it, None at the end."""

    next: str | None = None


class Surroundings(NamedTuple):
    """What a store lives beside, in this process and on this system."""

    locks: Literal["ofd", "classic"]  # ofd: another SQLite in this process is kept out
    sqlite: str  # the version of the SQLite within Fencepost
    python_sqlite: str | None  # and of the one that this Python brings, if it brings one
    others: int | None  # descriptors of the file in this process that are not Fencepost's
    copies: list[str]  # libraries in this process that bring an SQLite, as far as names tell
    advice: list[str]  # a sentence for each thing that is better done otherwise


class Halted(NamedTuple):
    """A lane that stands still, and the dead or unknown message that it stands still for."""

    lane: str
    message: int


class Replayed(NamedTuple):
    """What became of one message that was to be replayed."""

    id: int
    outcome: Literal["replayed", "superseded", "not dead", "live key", "gone"]
