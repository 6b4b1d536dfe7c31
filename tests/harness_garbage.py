"""
Every call of the public page (tests/data/fencepost.pyi), with one good value for each parameter and
a shelf of values that nobody should give.

What the page has is called: a class without a subject here, or a parameter without a good value, is
a failure of the test that asks `calls()`.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, NamedTuple

import fencepost
from fencepost import App, Envelope, Run
from fencepost.codec import JSON
from harness_stub import Page

UTC: Final = timezone.utc
NOW: Final = datetime.now(UTC)
ANY: Final[Any] = Any


class Mute:
    """A value that cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError


class MuteError(Exception):
    """An error that cannot even be shown."""

    def __str__(self) -> str:
        raise RuntimeError


class Text(str):
    """As good as text, and yet not."""

    __slots__ = ()


def deep(levels: int) -> Any:
    nested: Any = []
    for _ in range(levels):
        nested = [nested]
    return nested


def work(n: int = 0) -> int:
    return n


async def flow_of(run: Run, n: int = 0) -> int:
    return n


# Built for each call: some can be used up.
GARBAGE: Final[dict[str, Callable[[], Any]]] = {
    "None": lambda: None,
    "True": lambda: True,
    "-1": lambda: -1,
    "0": lambda: 0,
    "2**31": lambda: 2**31,
    "2**63": lambda: 2**63,
    "-2**63": lambda: -(2**63),
    "-2**63-1": lambda: -(2**63) - 1,
    "10**5000": lambda: 10**5000,
    "-0.5": lambda: -0.5,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "-inf": lambda: float("-inf"),
    "1e308": lambda: 1e308,
    "5e-324": lambda: 5e-324,
    "complex": lambda: 1j,
    "Decimal": lambda: Decimal("sNaN"),
    "Fraction": lambda: Fraction(1, 3),
    "empty text": lambda: "",
    "a surrogate": lambda: "\ud800",
    "NUL": lambda: "a\0b",
    "long text": lambda: "x" * 100_000,
    "odd text": lambda: Text("q"),
    "empty bytes": lambda: b"",
    "bytes": lambda: b"\xff\x00",
    "a bytearray": lambda: bytearray(b"x"),
    "a view": lambda: memoryview(b"abcd")[::2],
    "an empty list": list,
    "an empty dict": dict,
    "a list of None": lambda: [None],
    "a list in a list": lambda: [[]],
    "a dict of numbers": lambda: {1: 2},
    "a dict of surrogates": lambda: {"\ud800": "\ud800"},
    "a dict of text": lambda: {"a": "b"},
    "deep": lambda: deep(5_000),
    "a set": lambda: {1},
    "a generator": lambda: (value for value in [None]),
    "an object": object,
    "a mute object": Mute,
    "a mute error": MuteError,
    "an error": lambda: ValueError("\ud800\0"),
    "a function": lambda: work,
    "a type": lambda: Mute,
    "a type of types": lambda: list[int],
    "a module": lambda: inspect,
    "the longest span": lambda: timedelta.max,
    "the shortest span": lambda: timedelta.min,
    "a span before": lambda: timedelta(microseconds=-1),
    "the last moment": lambda: datetime.max.replace(tzinfo=UTC),
    "the first moment": lambda: datetime.min.replace(tzinfo=UTC),
    "a moment before the first": lambda: datetime.min.replace(tzinfo=timezone(timedelta(hours=9))),
    "a moment of nowhere": lambda: datetime(2026, 3, 1),
    "a day": lambda: date(2026, 3, 1),
    "a path": lambda: Path("nowhere/at\0all"),
}

DECORATORS: Final = {"App.job", "App.workflow", "Queue.handler", "Inbox.handler"}
LONGEST: Final = 1000  # characters of an error's words

# What would be waited for, if it were given.
WAITS: Final = {"wait", "timeout", "grace", "linger", "busy_timeout"}
MANY: Final = {"payloads", "queues", "calls", "params"}  # where long text is very many
MUST_WAIT: Final = {"_Handle.result", "_AsyncHandle.result"}  # None: for ever


def takes_long(call: str, name: str, value: object) -> bool:
    """Whether that is right, and not done in a moment."""
    if name in MANY:
        return isinstance(value, str) and len(value) > 1000
    if name not in WAITS:
        return False
    if isinstance(value, timedelta):
        return value > timedelta(0)
    if isinstance(value, (int, float, Fraction)) and not isinstance(value, bool):
        return value > 0
    return value is True or (value is None and call in MUST_WAIT)


class Kinds:
    """Unpack[Policy] and its like: their names, from the page."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def fields(self, annotation: ast.expr | None) -> list[str]:
        assert annotation is not None
        word = ast.unparse(annotation)
        if word == "object":
            return []
        return self._page.members(word.removeprefix("Unpack[").removesuffix("]"))


class CallOf(NamedTuple):
    """One call of the page. `places`: how many parameters are given by place, not by name."""

    owner: str  # a class of the page; empty: the module
    name: str
    places: tuple[str, ...]
    names: tuple[str, ...]  # by name
    options: tuple[str, ...]  # by name, and given only where one is asked for
    awaited: bool

    @property
    def title(self) -> str:
        return f"{self.owner}.{self.name}" if self.owner else self.name


# Whoever calls these ends or begins something: they have tests of their own.
ELSEWHERE: Final = {
    "App.run", "Worker.start", "Worker.run", "Store.close", "AsyncStore.close", "_Handle.watch",
    "_AsyncHandle.watch", "Worker.stop",
}  # fmt: skip
PROTOCOLS: Final = {"_Plain", "_WithContext", "_Cursors", "_DriverSql", "_Session", "Codec"}
INSIDE: Final = {"Context", "Delivery", "Batch", "Run"}  # while a handler runs


def calls() -> Iterator[CallOf]:
    """Each function and each method on the page, once for each of its overloads."""
    page = Page("")
    kinds = Kinds(page)
    for node in page.body:
        if isinstance(node, ast.FunctionDef):
            yield from _call_of("", node, kinds)
        elif isinstance(node, ast.ClassDef) and node.name not in PROTOCOLS:
            for line in node.body:
                if isinstance(line, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    yield from _call_of(node.name, line, kinds)


def _call_of(
    owner: str, node: ast.FunctionDef | ast.AsyncFunctionDef, kinds: Kinds
) -> Iterator[CallOf]:
    words = [ast.unparse(decorator) for decorator in node.decorator_list]
    if "property" in words or (node.name.startswith("_") and node.name != "__init__"):
        return
    arguments = node.args
    own = 1 if owner else 0
    places = [one.arg for one in [*arguments.posonlyargs, *arguments.args]][own:]
    by_name = places[len(arguments.posonlyargs[own:]) :]
    places = places[: len(places) - len(by_name)]
    names = [*by_name, *(one.arg for one in arguments.kwonlyargs)]
    star = arguments.kwarg
    free = star is not None and ast.unparse(star.annotation or ast.Pass()) == "P.kwargs"
    options = kinds.fields(star.annotation) if star is not None and not free else []
    if arguments.vararg is not None:
        places.append("argument")
    call = CallOf(
        owner, node.name, tuple(places), tuple(names), tuple(options),
        isinstance(node, ast.AsyncFunctionDef),
    )  # fmt: skip
    if call.title not in ELSEWHERE:
        yield call


@dataclass
class World:
    """A store with some of everything, and the good value of each parameter."""

    app: App
    store: fencepost.Store
    folder: Path

    def __post_init__(self) -> None:
        app = self.app
        self.job = app.job(name="garbage-job")(work)
        self.queue = app.queue("garbage", ANY)
        self.outbox = app.outbox("garbage-topic", ANY)
        self.inbox = app.inbox("garbage-address", ANY)

        self.flow = flow = app.workflow(name="garbage-flow")(flow_of)
        self.handle = self.job.enqueue(1)
        self.run = flow.options(id="run").start(1)
        self.store.queue("garbage", lease=3600)
        self.outbox.send("d", 1)  # the first use of each writes its queue
        self.inbox.accept("first", 1)

    def claim(self) -> fencepost.Claim[Any]:
        self.queue.enqueue(1)
        return self.queue.claim()[0]

    @contextlib.contextmanager
    def subject(self, owner: str) -> Iterator[Any]:
        """What the methods of a class are called on; a new one where one can be used up."""
        if owner == "Transaction":
            with self.store.transaction() as tx:
                yield tx
            return
        made: Mapping[str, Callable[[], Any]] = {
            "": lambda: fencepost,
            "App": lambda: App(self.store.path),  # a new one: what it declares stays declared
            "Store": lambda: self.store,
            "Worker": self.app.worker,
            "Job": lambda: self.job,
            "_Handle": lambda: self.handle,
            "Queue": lambda: self.queue,
            "Claim": self.claim,
            "Outbox": lambda: self.outbox,
            "Inbox": lambda: self.inbox,
            "Workflow": lambda: self.flow,
            "WorkflowHandle": lambda: self.run,
            "Envelope": Envelope,
            "Contracts": lambda: fencepost.Contracts({"a": int}),
            "PermanentError": lambda: None,
            "RetryLater": lambda: None,
            "AsyncStore": lambda: self.store.aio,
            "AsyncJob": lambda: self.job.aio,
            "_AsyncHandle": lambda: self.handle.aio,
            "AsyncQueue": lambda: self.queue.aio,
            "AsyncOutbox": lambda: self.outbox.aio,
            "AsyncInbox": lambda: self.inbox.aio,
            "AsyncWorkflow": lambda: self.flow.aio,
            "AsyncWorkflowHandle": lambda: self.run.aio,
        }
        yield made[owner]()

    def good(self, call: CallOf, name: str) -> Any:
        own = {
            "transaction.timeout": 1,
            "App.job.context": True,
            "App.inbox.type": Any,
            "Store.purge.state": "dead",
            "Store.halted_lanes.after": "",
            "AsyncStore.halted_lanes.after": "",
            "Store.purge_runs.state": "done",
            "Store.runs.state": None,
            "AsyncStore.runs.state": None,
            "Run.options.timeout": 5,
            "WorkflowHandle.fork.id": "forked",
            "Workflow.handle.id": "run",
            "Workflow.options.id": "new",
            "AsyncWorkflow.handle.id": "run",
            "AsyncWorkflowHandle.fork.id": "forked",
            "AsyncStore.transact.fn": lambda tx, *values: None,
            "Contracts.type_of.name": "a",
            "Contracts.__init__.types": {"a": int},
            "open.path": self.store.path,
            "restore.backup": self.store.path,
            "Inbox.handler.fn": lambda ctx, payload: None,
            "Job.enqueue_many.calls": [self.job.call(1)],
            "Inbox.handler.timeout": 300,
        }
        general = {
            "path": self.store.path, "dest": self.folder / "copy.db", "wal": False,
            "network": True, "foreign_keys": False, "durability": "full", "codec": JSON,
            "create": True, "busy_timeout": 1, "at": None, "fn": work, "context": False,
            "name": "garbage", "type": Any, "topic": "garbage-topic", "address": "garbage-address",
            "expression": "* * * * *", "tz": "UTC", "missed": "latest", "interval": 60,
            "enter": contextlib.nullcontext, "timeout": 0, "queues": None, "threads": 1,
            "grace": 1, "stores": (), "argument": 1, "store": self.store, "calls": [], "id": 1,
            "tx": None, "payload": 1, "payloads": [1, 2], "key": None, "lane": None, "delay": 0,
            "priority": 0, "wait": 0, "batch": 1, "linger": 0, "limit": 1, "lease": None,
            "claims": [], "result": None, "error": "e", "destination": "d", "text": "t",
            "envelope": Envelope(), "headers": {}, "message_id": "m", "value": 1, "step": "s",
            "faults": True, "settle": "accepted", "token": 1, "span": 1, "due": NOW,
            "params": (), "sql": "SELECT 1", "state": "dead", "queue": None, "kind": None,
            "failure": None, "since": None, "before": NOW, "after": None, "messages": [],
            "rate": None, "note": "", "apply": False, "full": False, "overwrite": True,
            "code": None, "target": self.job,
            "whole_queue": False, "types": {"a": int}, "max_attempts": 1,
            "backoff": fencepost.Backoff(), "returns": Any,
        }  # fmt: skip
        if name == "queue" and call.name in ("pause", "resume", "halted_lanes", "release_lane"):
            return "garbage"
        if name == "lane" and call.name == "release_lane":
            return "lane"
        if call.name == "set_policy" and name == "queue":
            return "garbage"
        if call.name == "executemany" and name == "params":
            return [(1,)]
        if call.name == "executemany" and name == "sql":
            return "SELECT ?"
        return own[f"{call.title}.{name}"] if f"{call.title}.{name}" in own else general[name]

    def ask(self, subject: Any, call: CallOf, wrong: Mapping[str, Any]) -> Any:
        """Calls it with good values, but for the wrong ones; an answer that is open is closed."""
        value = {**{name: self.good(call, name) for name in (*call.places, *call.names)}, **wrong}
        args = [value.pop(name) for name in call.places]
        if call.name == "__init__":
            function = getattr(fencepost, call.owner)
        else:
            function = getattr(subject, call.name)
        answer = function(*args, **value)
        if call.title == "App.__init__":
            answer = answer.store
        if isinstance(answer, fencepost.Store) and answer is not self.store:
            answer.close()
        if call.name == "options" and not isinstance(answer, Run):
            getattr(answer, "start" if call.owner == "Workflow" else "enqueue")(1)
        if call.name == "transaction":
            with answer:
                pass
        if call.name in ("cron", "every"):
            answer(subject.job(name="scheduled")(work))
        elif call.title in DECORATORS and "fn" not in call.places:
            answer(flow_of if call.name == "workflow" else work)
        return answer


def fits(error: BaseException) -> bool:
    """One of ours, or what Python itself says of a call; in one line that can be shown."""
    ours = isinstance(error, (fencepost.Error, TypeError, TimeoutError))
    return ours and len(str(error)) < LONGEST and str(error).encode() is not None
