"""
A run without a file: passes of a workflow's function over records in memory, under a clock that is
turned by hand. What the file promises is in `Book`, in a few obvious lines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Literal, TypeVar

from fencepost._worker.failpoints import Point
from fencepost._workflow.execution import execute
from fencepost._workflow.history import (
    INBOX,
    SIGNAL,
    TRANSACT,
    Entry,
    History,
    Record,
    inbox_key,
    signal_key,
)
from fencepost._workflow.outcomes import Completed, Failed, Fenced, Outcome, Parked, Suspended
from fencepost._workflow.passes import Pass, Told
from fencepost.codec import JSON
from fencepost.run import Run

T = TypeVar("T")

Body = Callable[[Run], Coroutine[Any, Any, Any]]


class Book:
    """The records of one run; each call of `write` and `transact` is a commit."""

    workflow = "w"

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.time = 1_000_000_000
        self.commits: list[list[str]] = []
        self.fenced = False
        self.withdrawn = False
        self.stop = False
        self.points: list[tuple[str, ...]] = []
        self._seq = 0

    # ---- what others do --------------------------------------------------------------------------

    def signal(self, name: str, value: object) -> bool:
        return self._put(Entry(signal_key(name), SIGNAL, JSON.encode(value)))

    def send(self, value: object) -> None:
        self._put(Entry(inbox_key(self._seq + 1), INBOX, JSON.encode(value)))

    def _put(self, entry: Entry) -> bool:
        if entry.key in self.records:
            return False
        self._seq += 1
        self.records[entry.key] = Record(self._seq, *entry[:4], self.time)
        return True

    # ---- what a pass asks ------------------------------------------------------------------------

    def now_us(self) -> int:
        return self.time

    def wall_us(self) -> int:
        return self.time

    def at(self, point: Point, *names: str) -> None:
        self.points.append((point, *names))

    def stopping(self) -> bool:
        return self.stop

    async def reason(self) -> Literal["told", "lost", "withdrawn"] | None:
        return "told" if self.stop else None

    async def aside(self, fn: Callable[[], T]) -> T:
        return await asyncio.to_thread(fn)

    async def write(self, entries: Sequence[Entry]) -> Told:
        await asyncio.sleep(0)
        return self.put(entries)

    def put(self, entries: Sequence[Entry]) -> Told:
        if self.fenced:
            raise Fenced
        self.commits.append([entry.key for entry in entries])
        others = {}
        for entry in entries:
            if not self._put(entry):
                others[entry.key] = self.records[entry.key].value
        return Told(others, self.withdrawn)

    async def transact(self, key: str, started_us: int, effect: Callable[[Any], bytes]) -> bytes:
        if self.fenced:
            raise Fenced
        if key not in self.records:
            self.put([Entry(key, TRANSACT, effect("tx"), started_us)])
        return self.records[key].value or b""


class Runs:
    """Passes of one run."""

    def __init__(
        self,
        body: Body,
        book: Book | None = None,
        *,
        permanent: tuple[type[Exception], ...] = (),
    ) -> None:
        self.body = body
        self.permanent = permanent
        self.book = book or Book()
        self.passes = 0

    def go(self, body: Body | None = None) -> Outcome:
        """One pass; what it leaves and its outcome are one commit."""
        return asyncio.run(self.agoes(body))

    async def agoes(self, body: Body | None = None) -> Outcome:
        self.passes += 1
        history = History(self.book.records.values())
        state = Pass(self.book, JSON, history, permanent=self.permanent)
        run = Run("r", self.passes, self.passes, state)
        outcome = await execute(state, (body or self.body)(run))
        left, state.pending = state.pending, []
        if not self.book.fenced:
            self.book.put(left)
        return outcome

    def until(self, kind: type[Any]) -> Any:
        """Passes, the clock turned to each deadline, until one ends so."""
        for _ in range(100):
            outcome = self.go()
            if isinstance(outcome, kind):
                return outcome
            assert isinstance(outcome, Suspended), outcome
            assert outcome.due_us is not None, outcome
            self.book.time = max(self.book.time, outcome.due_us)
        raise AssertionError("it does not end")


class Calls:
    """Functions that write down that they were called."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def __call__(self, name: str) -> Callable[[], str]:
        def one() -> str:
            self.made.append(name)
            return name

        return one


class DeclinedError(Exception):
    """What a step may raise."""


def declined() -> None:
    raise DeclinedError("no money", 7)


def completed(outcome: object) -> Any:
    """What the run returned."""
    assert isinstance(outcome, Completed), outcome
    return None if outcome.result is None else JSON.decode(outcome.result, Any)


def failed(outcome: object) -> BaseException:
    assert isinstance(outcome, Failed), outcome
    return outcome.error


def parked(outcome: object) -> str:
    """Why."""
    assert isinstance(outcome, Parked), outcome
    return outcome.text
