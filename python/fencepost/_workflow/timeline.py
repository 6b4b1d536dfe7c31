"""
What a run has done, in order, for people: its steps, and a timeline of them to be drawn.

`timeline` is what `fencepost workflow show` and the dashboard draw: a bar for each name, with when
it began, when it ended or is to end, and how often it was tried.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from fencepost._binding.flow import child_outcome
from fencepost._file import File
from fencepost._workflow.history import (
    CHILD,
    DEADLINE,
    ENDED,
    FAILED,
    INBOX,
    LATE,
    RECEIVE,
    SIGNAL,
    SLEEP,
    STEP,
    TRANSACT,
    TRIED,
    WORDS,
    Record,
)
from fencepost._workflow.roundtrip import failure_of, read_moment
from fencepost._workflow.runfile import RunFile, RunInfo, Step
from fencepost.codec import Codec
from fencepost.errors import Error
from fencepost.spans import moment, shown_moment
from fencepost.values import Failure

__all__ = ["Bar", "Timeline", "steps", "timeline"]

Fate: TypeAlias = Literal["done", "failed", "late", "cancelled", "retrying", "open"]

SHOWN: Final = (STEP, TRANSACT, FAILED, SLEEP, SIGNAL, LATE, RECEIVE, INBOX, ENDED)


FATES: Final[dict[str, Fate]] = {"done": "done", "cancelled": "cancelled"}  # of a child


class Bar(NamedTuple):
    """
    One name of a run. `ended` is None while it is open; `due` is when a sleep, the time for a wait
    or the pause before the next attempt ends. `attempts` counts those that were recorded.
    """

    name: str
    kind: str
    fate: Fate
    began: datetime
    ended: datetime | None
    due: datetime | None
    attempts: int
    failure: Failure | None

    @property
    def seconds(self) -> float | None:
        """How long it took."""
        return None if self.ended is None else (self.ended - self.began).total_seconds()


class Timeline(NamedTuple):
    """A run, the moment of the look, and its bars in the order in which they began."""

    run: RunInfo
    at: datetime
    bars: list[Bar]


def steps(codec: Codec, records: Iterable[Record]) -> list[Step]:
    """What is recorded, in its order."""
    began: dict[str, int] = {}
    found: list[Step] = []
    for record in records:
        if record.kind == CHILD:
            began[record.key] = record.written_us
        if record.kind not in SHOWN:
            continue
        name = _name(record)
        started_us = began.get(name, record.started_us)
        found.append(
            Step(
                name,
                WORDS[record.kind],  # type: ignore[arg-type]
                _value(codec, record),
                None if started_us is None else shown_moment(started_us),
                shown_moment(record.written_us),
            )
        )
    return found


def timeline(file: File, id: str) -> Timeline:
    """Raises `Gone`."""
    run = RunFile(file, id)
    info = run.info()
    now_us = file.core.now()
    drawing = _Drawing(now_us)
    for record in run.records():
        drawing.add(record)
    over = info.ended_at is not None
    for name in info.waiting_for:
        drawing.open(name)
    return Timeline(info, moment(now_us), drawing.bars(over=over))


class _Row:
    """A bar while it is put together."""

    def __init__(self, name: str, kind: str, began_us: int) -> None:
        self.name = name
        self.kind = kind
        self.fate: Fate = "open"
        self.began_us = began_us
        self.ended_us: int | None = None
        self.due_us: int | None = None
        self.attempts = 0
        self.failure: Failure | None = None


class _Drawing:
    def __init__(self, now_us: int) -> None:
        self._now_us = now_us
        self._rows: dict[str, _Row] = {}
        self._last_us = 0

    def add(self, record: Record) -> None:
        kind = record.kind
        if kind not in (*SHOWN, CHILD, DEADLINE, TRIED):
            return
        name = record.key if kind == INBOX else _name(record)
        began_us = record.written_us if record.started_us is None else record.started_us
        row = self._rows.setdefault(name, _Row(name, WORDS[kind], began_us))
        self._last_us = max(self._last_us, record.written_us)
        if kind == DEADLINE:
            row.due_us = _due_us(record)
        elif kind == CHILD:
            row.began_us = record.written_us
        elif kind == TRIED:
            row.attempts += 1
            row.fate, row.failure = "retrying", _failure(record)
        elif kind == SLEEP:
            row.due_us = _due_us(record)
            if row.due_us is not None and row.due_us <= self._now_us:
                row.fate, row.ended_us = "done", max(row.due_us, row.began_us)
        else:
            self._end(row, record)

    def _end(self, row: _Row, record: Record) -> None:
        row.kind = WORDS[record.kind]
        row.ended_us, row.due_us = record.written_us, None
        row.fate, row.failure = "done", None
        if record.kind in (STEP, TRANSACT, FAILED):
            row.attempts += 1
        if record.kind == FAILED:
            row.fate, row.failure = "failed", _failure(record)
        elif record.kind == LATE:
            row.fate = "late"
        elif record.kind == ENDED:
            outcome = child_outcome(record.value)
            row.fate = FATES.get(outcome.state, "failed")
            if outcome.state == "failed":
                row.failure = Failure(outcome.kind, None, outcome.text)

    def open(self, name: str) -> None:
        """Waited for, though nothing of it is recorded."""
        self._rows.setdefault(name, _Row(name, "wait", self._last_us or self._now_us))

    def bars(self, *, over: bool) -> list[Bar]:
        """`over`: the run has ended, and what was open with it."""
        rows = sorted(self._rows.values(), key=lambda row: row.began_us)
        return [
            Bar(
                row.name,
                row.kind,
                "cancelled" if over and row.ended_us is None else row.fate,
                shown_moment(row.began_us),
                None if row.ended_us is None else shown_moment(row.ended_us),
                None if row.due_us is None else shown_moment(row.due_us),
                row.attempts,
                row.failure,
            )
            for row in rows
        ]


def _due_us(record: Record) -> int | None:
    """None: the record is damaged."""
    try:
        return read_moment(record.value)
    except Error:
        return None


def _failure(record: Record) -> Failure | None:
    """None: the record is damaged."""
    try:
        return failure_of(record.value)
    except Error:
        return None


def _name(record: Record) -> str:
    """The name that the workflow gave it."""
    if record.kind == TRIED:
        return record.key.split(":", 2)[2]
    if record.kind in (SIGNAL, LATE, DEADLINE, ENDED):
        return record.key.partition(":")[2]
    return record.key


def _value(codec: Codec, record: Record) -> Any:
    """Of a damaged record the bytes, as they are."""
    try:
        return _meant(codec, record)
    except Error:
        return record.value


def _meant(codec: Codec, record: Record) -> Any:
    if record.kind in (SLEEP, DEADLINE):
        return moment(read_moment(record.value))
    if record.kind == FAILED:
        return failure_of(record.value)
    if record.kind == LATE:
        return Failure("late", None, "it did not come in time")
    if record.kind == ENDED:
        outcome = child_outcome(record.value)
        if outcome.state == "failed":
            return Failure(outcome.kind, None, outcome.text)
        return _read(codec, outcome.result) if outcome.result else None
    return None if record.value is None else _read(codec, record.value)


def _read(codec: Codec, value: bytes) -> Any:
    """As the codec has it, or, what it cannot read, as it is."""
    try:
        return codec.decode(value, Any)
    except Error:
        return value
