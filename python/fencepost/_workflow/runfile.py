"""Runs of workflows, as the file has them: what may be looked at and done without their code."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from fencepost._binding.calls import FP, OpenTx
from fencepost._binding.flow import Flow, RunRow, Start, Stored, signal_key
from fencepost._binding.flowrequests import Coming
from fencepost._checks import flag, name_bytes, shown, whole
from fencepost._file import File
from fencepost._plans import Plan, Write, here
from fencepost._workflow.history import (
    CHILD,
    DEADLINE,
    ENDED,
    LATE,
    SIGNAL,
    TRIED,
    Record,
    check_name,
)
from fencepost.errors import Gone, InvalidArgument
from fencepost.spans import moment_us, shown_moment
from fencepost.transactions import unwrap
from fencepost.values import Failure

__all__ = [
    "RunFile",
    "RunInfo",
    "RunLists",
    "RunPage",
    "RunState",
    "Step",
    "failure_of_run",
    "run_id",
]
__all__ += ["waiting_names"]

RunState: TypeAlias = Literal[
    "running", "sleeping", "waiting", "failed", "parked", "done", "cancelled"
]
StepKind: TypeAlias = Literal["step", "transact", "child", "sleep", "wait", "receive", "inbox"]

STATES: Final[tuple[RunState, ...]] = (
    "running",
    "sleeping",
    "waiting",
    "failed",
    "parked",
    "done",
    "cancelled",
)
OVER: Final = ("failed", "parked", "done", "cancelled")
LIMIT_MAX: Final = 200  # runs of one page
PURGED_MAX: Final = 10_000  # runs of one purge
ID_BYTES_MAX: Final = 1024  # as in csrc/base.h


class RunInfo(NamedTuple):
    """A run as a listing shows it: without arguments, records and result."""

    id: str
    name: str
    state: RunState
    waiting_for: tuple[str, ...]
    created_at: datetime
    ended_at: datetime | None
    failure: Failure | None


class RunPage(list[RunInfo]):
    """One page of a listing; `next` is the `after=` of the page behind it, None at the end."""

    next: str | None = None


class Step(NamedTuple):
    """
    What is recorded of a run under a name. `started` is when its effect began, `at` when it was
    recorded. The value of a step that raised, and of a child that failed, is a `Failure`.
    """

    name: str
    kind: StepKind
    value: Any
    started: datetime | None
    at: datetime


def run_id(id: object) -> str:
    """`InvalidArgument` for what cannot be the id of a run."""
    encoded = name_bytes(id, "the id of a run")
    if not 1 <= len(encoded) <= ID_BYTES_MAX:
        raise InvalidArgument(f"the id of a run has 1 to {ID_BYTES_MAX} bytes, not {len(encoded)}")
    if b"\0" in encoded:
        raise InvalidArgument("the id of a run contains a NUL character")
    return str(id)


class RunFile:
    """One run by its id, in one file."""

    def __init__(self, file: File, id: str) -> None:
        self.id = run_id(id)
        self.file = file
        self._flow = Flow(file.core)
        self._key = self.id.encode()

    def row(self) -> RunRow:
        """Raises `Gone`."""
        row = self._flow.get(self._key)
        if row is None:
            raise self.gone()
        return row

    def gone(self) -> Gone:
        return Gone(f"run {self.id}: retention or an operator took it, or it never was")

    def info(self) -> RunInfo:
        """Raises `Gone`."""
        return _info(self.row(), dict(self.file.kinds()))

    def records(self) -> Iterator[Record]:
        """All of them in their order, read in pages."""
        return map(record_of, self._flow.records(self._key))

    def load(self) -> tuple[RunRow | None, list[Record]]:
        """The run, and all its records."""
        return self._flow.get(self._key), list(self.records())

    # ---- what is done to it ----------------------------------------------------------------------

    def signal(self, tx: OpenTx | None, name: str, value: bytes) -> bool:
        """Whether it is the first under this name. Raises `Gone` for a run that has ended."""
        return here(self.signaling(tx, name, value))

    def signaling(self, tx: OpenTx | None, name: str, value: bytes) -> Plan[bool]:
        check_name(name, "the name of a signal")
        return (yield from self._told(tx, signal_key(name), value, FP.RECORD_WAIT))

    def send(self, tx: OpenTx | None, value: bytes) -> None:
        """Raises `Gone` for a run that has ended."""
        here(self.sending(tx, value))

    def sending(self, tx: OpenTx | None, value: bytes) -> Plan[None]:
        yield from self._told(tx, None, value, FP.RECORD_INBOX)

    def _told(self, tx: OpenTx | None, key: bytes | None, value: bytes, kind: int) -> Plan[bool]:
        coming = Coming(self._key, key, value, kind, 0, live=True, wake=True)
        _, first = yield Write(self.file, tx, coming)
        return bool(first)

    def cancel(self, tx: OpenTx | None) -> bool:
        """False: it had ended before. Raises `Gone`."""
        answer = self._flow.cancel(tx, self._key)
        if answer == FP.GONE:
            raise self.gone()
        return answer == FP.DONE

    def resume(self) -> None:
        """Raises `Gone`, and `InvalidArgument` for one that neither failed nor is parked."""
        answer = self._flow.resume(None, self._key)
        if answer == FP.GONE:
            raise self.gone()
        if answer != FP.DONE:
            raise InvalidArgument(
                f"run {self.id} is {self.info().state}: what has failed or is parked is resumed"
            )

    def fork(self, queue: int, step: str, id: str, max_attempts: int) -> None:
        """
        A new run with what was recorded before `step`. Raises `Gone` if there is no such run or
        step, `Conflict` if the id is taken, and `InvalidArgument` over a child that has not ended:
        nobody would tell the new run of its end.
        """
        wanted = name_bytes(step, "the name of a step").decode()
        open_: set[str] = set()
        for record in self.records():
            if _begins(record, wanted):
                break
            if record.kind == CHILD:
                open_.add(record.key)
            elif record.kind == ENDED:
                open_.discard(record.key.partition(":")[2])
        else:
            self.row()
            raise Gone(f"run {self.id} has no step {shown(step)}")
        if open_:
            raise InvalidArgument(
                f"run {self.id}: the child {min(open_)!r} had not ended when {step!r} began"
            )
        start = Start(queue, 0, run_id(id).encode(), max_attempts=max_attempts)
        self._flow.fork(None, self._key, record.key.encode(), start)

    def delete(self) -> int:
        """How many records went with it."""
        return self._flow.delete(None, self._key)


def record_of(stored: Stored) -> Record:
    return Record(
        stored.seq,
        stored.key.decode("utf-8", "replace"),
        stored.kind,
        stored.value,
        None if stored.started_us < 0 else stored.started_us,
        stored.written_us,
    )


def _begins(record: Record, name: str) -> bool:
    """Whether it is the first that a step of this name leaves."""
    prefix, _, rest = record.key.partition(":")
    if record.kind == TRIED:
        return rest.partition(":")[2] == name
    if record.kind in (DEADLINE, SIGNAL, LATE):
        return prefix in ("until", "signal") and rest == name
    return record.key == name


# ---- listings ------------------------------------------------------------------------------------

CURSOR: Final = struct.Struct("<3q")


class RunLists:
    """What a Store says of runs."""

    _file: File

    def runs(
        self,
        state: RunState | None = None,
        *,
        name: str | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> RunPage:
        """
        One page of the runs of workflows, up to 200, of a state or of all, the newest first; `name`
        is a workflow's. `next` of the page is the `after=` of the one behind it.
        """
        unwrap(self._file, None)
        return _runs(self._file, state, name, after, limit)

    def purge_runs(
        self, state: RunState, before: datetime, *, limit: int = 1000, apply: bool = False
    ) -> int:
        """
        Forget up to `limit` runs that ended in this state before a moment, with their records; how
        many. Counts only, unless `apply`. `InvalidArgument` for a state in which a run goes on.

        A worker does so by itself with what was done or cancelled a week ago.
        """
        unwrap(self._file, None)
        if state not in OVER:
            raise InvalidArgument(f"what has ended is {', '.join(OVER)}, not {shown(state)}")
        whole(limit, "limit", 1, PURGED_MAX)
        before_us = moment_us(before, "before")
        flow = Flow(self._file.core)
        gone, more = flow.purge(STATES.index(state), before_us, limit, apply=flag(apply, "apply"))
        while apply and more and gone < limit:  # one of them had more records than a slice has
            again, more = flow.purge(STATES.index(state), before_us, limit - gone, apply=True)
            gone += again
        return gone


def _runs(
    file: File, state: str | None, name: str | None, after: str | None, limit: int
) -> RunPage:
    whole(limit, "limit", 1, LIMIT_MAX)
    if state is not None and state not in STATES:
        raise InvalidArgument(f"state is one of {', '.join(STATES)}, not {shown(state)}")
    names = dict(file.kinds())
    kind = 0
    if name is not None:
        name_bytes(name, "the name of a workflow")
        kind = next((number for number, word in names.items() if word == name), 0)
        if not kind:
            return RunPage()
    number: int = FP.RUN_ANY if state is None else STATES.index(state)
    place = None if after is None else _cursor(after)
    found, following = Flow(file.core).runs(number, kind=kind, after=place, limit=limit)
    page = RunPage(_info(row, names) for row in found)
    if following is not None:
        page.next = base64.urlsafe_b64encode(CURSOR.pack(*following)).decode()
    return page


def _cursor(text: str) -> tuple[int, int, int]:
    try:
        first, second, third = CURSOR.unpack(base64.urlsafe_b64decode(text))
    except (binascii.Error, struct.error, ValueError, TypeError):
        raise InvalidArgument("after= is no cursor; it is `next` of a page") from None
    return first, second, third


def _info(row: RunRow, names: dict[int, str]) -> RunInfo:
    return RunInfo(
        row.id.decode("utf-8", "replace"),
        names.get(row.kind, ""),
        STATES[row.state],
        waiting_names(row),
        shown_moment(row.created_us),
        None if row.ended_us < 0 else shown_moment(row.ended_us),
        failure_of_run(row),
    )


def waiting_names(row: RunRow) -> tuple[str, ...]:
    if not row.waiting or STATES[row.state] not in ("sleeping", "waiting"):
        return ()
    try:
        return tuple(msgspec.json.decode(row.waiting, type=list[str]))
    except msgspec.DecodeError:
        return ()


def failure_of_run(row: RunRow) -> Failure | None:
    if row.failure_kind is None:
        return None
    text = (row.failure_text or b"").decode("utf-8", "replace")
    return Failure(row.failure_kind.decode("utf-8", "replace"), None, text)
