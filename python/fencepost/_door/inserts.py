"""
The door, as a foreign connection uses it: messages in and claims settled by plain INSERTs, in the
transaction that the connection has open, and in no other. docs/door.md says what the views take.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from fencepost._binding.calls import FP
from fencepost._binding.pack import POLICY_FIELDS, Put, Settle, Verdict
from fencepost._door.drivers import KeyTaken, driver_of
from fencepost._file import File
from fencepost.errors import Conflict, Error, LeaseLost
from fencepost.policies import Declaration
from fencepost.spans import SECOND

__all__ = ["Door"]

_ENQUEUE: Final = (
    "INSERT INTO fencepost_enqueue (queue, kind, body, key, life, lane, priority, delay, due,"
    " max_attempts, headers) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_SETTLE: Final = (
    "INSERT INTO fencepost_settle (id, token, verb, delay, result, failure_kind, failure_code,"
    " failure_text, lease_end) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_MARKS: Final = ", ".join("?" * (1 + len(POLICY_FIELDS)))
_DEFINE: Final = f"INSERT INTO fencepost_door_queue VALUES ({_MARKS})"  # noqa: S608 - only marks
_CHANGES: Final = "SELECT total_changes()"  # a message that was there already changes nothing
_NEWEST: Final = "SELECT total_changes(), id FROM fencepost_enqueue"
_OWNER: Final = (
    "SELECT id FROM fencepost_key WHERE queue = (SELECT id FROM fencepost_queue WHERE name = ?)"
    " AND kind = coalesce((SELECT id FROM fencepost_kind WHERE name = ?), 0)"
    " AND life = ? AND key = ?"
)
_LIVES: Final = {FP.LIFE_NONE: None, FP.LIFE_LASTING: "lasting", FP.LIFE_LIVE: "live"}
_VERBS: Final = {
    FP.ACK: "ack",
    FP.RETRY: "retry",
    FP.RELEASE: "release",
    FP.FAIL: "fail",
    FP.CANCEL: "cancel",
}


class Door:
    """One connection, entered. With `file`: it must be open on that file."""

    def __init__(self, tx: object, file: File | None) -> None:
        self._driver = driver_of(tx)
        if file is not None:
            self._driver.check_file(file.identity, file.path)
        self._driver.enter()

    def define(self, file: File, declaration: Declaration) -> None:
        """Make the queue if it is not there. One that is there keeps its policy."""
        policy = file.missing(declaration)
        if policy is not None:
            values = [policy[field] for field in POLICY_FIELDS]
            self._driver.rows(_DEFINE, (declaration.name, *values))

    def enqueue(self, queue: str, kind: str, put: Put) -> list[tuple[int, bool]]:
        """All or none: for each its id, and whether it is new. `Conflict`, `QueueFull`."""
        found: list[tuple[int, bool]] = []
        with self._all_or_none(len(put.bodies)):
            changes = self._changes()
            for row, life in _messages(queue, kind or None, put):
                owner = (queue, kind, life, row[3])
                try:
                    self._driver.rows(_ENQUEUE, row)
                except KeyTaken:
                    id_ = self._owner(owner)
                    words = f"another message, {id_}, owns the key {row[3]!r}"
                    raise Conflict(words, id=id_) from None
                before = changes
                ((changes, newest),) = self._driver.rows(_NEWEST)
                created = changes != before
                found.append((newest if created else self._owner(owner), created))
        return found

    def settle(self, settle: Settle, ends: Sequence[int | None]) -> list[int]:
        """
        For each `FP.DONE`, or `FP.LOST`, which has changed nothing. `ends`: of the leases, as far
        as they are known.
        """
        answers: list[int] = []
        for verdict, end in zip(_verdicts(settle), ends, strict=True):
            try:
                self._driver.rows(_SETTLE, (*_said(verdict), end))
                answers.append(FP.DONE)
            except LeaseLost:
                answers.append(FP.LOST)
        return answers

    def cancel(self, id_: int) -> bool:
        """Whatever stands there; False: it has ended."""
        before = self._changes()
        self._driver.rows(_SETTLE, (id_, None, "cancel", *[None] * 6))
        return self._changes() != before

    def _changes(self) -> int:
        ((changes,),) = self._driver.rows(_CHANGES)
        return int(changes)

    def _owner(self, key: tuple[Any, ...]) -> int:
        ((owner,),) = self._driver.rows(_OWNER, key)
        return int(owner)

    @contextmanager
    def _all_or_none(self, count: int) -> Iterator[None]:
        if count < 2:  # one statement is that by itself
            yield
            return
        self._driver.rows("SAVEPOINT fencepost_door")
        try:
            yield
        except BaseException:
            with suppress(Error):  # the reason must not be covered
                self._driver.rows("ROLLBACK TO fencepost_door")
                self._driver.rows("RELEASE fencepost_door")
            raise
        self._driver.rows("RELEASE fencepost_door")


def _messages(queue: str, kind: str | None, put: Put) -> Iterator[tuple[list[Any], int]]:
    """For each message the columns of the view, and the life of its key."""
    for at, body in enumerate(put.bodies):
        key = None if put.keys is None else put.keys[at]
        life = FP.LIFE_NONE if key is None else put.life if put.lives is None else put.lives[at]
        lane = None if put.lanes is None else put.lanes[at]
        when = _seconds(put.delay_us if put.delays_us is None else put.delays_us[at])
        yield (
            [
                queue,
                kind,
                body,
                None if key is None else key.decode(),
                _LIVES[life],
                None if lane is None else lane.decode(),
                put.priority if put.priorities is None else put.priorities[at],
                None if put.absolute else when,
                when if put.absolute else None,
                None if put.max_attempts < 0 else put.max_attempts,
                None if put.headers is None else put.headers[at],
            ],
            life,
        )


def _verdicts(settle: Settle) -> Iterator[Verdict]:
    if not isinstance(settle, array):
        yield from settle
        return
    for at in range(0, len(settle), 2):
        yield Verdict(settle[at], settle[at + 1], FP.ACK)


def _said(verdict: Verdict) -> list[Any]:
    """A verdict as the view has it, without the end of its lease."""
    words = [
        None if part is None else part.decode("utf-8", "replace")
        for part in (verdict.kind, verdict.code, verdict.text)
    ]
    timed = verdict.verb in (FP.RETRY, FP.RELEASE) and verdict.delay_us >= 0
    delay = _seconds(verdict.delay_us) if timed else None
    return [verdict.id, verdict.token, _VERBS[verdict.verb], delay, verdict.result, *words]


def _seconds(span_us: int) -> float:
    """Whole where it can be: a float has its microseconds for some two hundred years to come."""
    return span_us / SECOND if span_us % SECOND else span_us // SECOND
