"""
Where the runs of one file have things written: all that they say at the same time is one commit.

A pass says records as it goes, and at its end records with its outcome. Passes of many runs say
that to one batcher. Only what begins children, and `transact`, has a transaction of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from fencepost._binding.calls import FP
from fencepost._binding.flow import End, Flow, Parent, Recorded, RecordPut
from fencepost._binding.waiters import Batcher, Callers
from fencepost._file import File
from fencepost._workflow.children import Start, begin
from fencepost._workflow.history import TRANSACT, Entry, ended_key
from fencepost._workflow.outcomes import Fenced, Withdrawn
from fencepost._workflow.passes import Told
from fencepost.errors import LeaseLost
from fencepost.spans import SECOND
from fencepost.transactions import Transaction

__all__ = ["FlowWriter", "PassWriter"]

T = TypeVar("T")

Answer = tuple[Sequence[Recorded], int | None]
NOT_SAID: Final = -1
ASKERS: Final = 4  # the file has one writer; they read, and stand in line


class Said(NamedTuple):
    """What one pass says at a time."""

    records: Sequence[RecordPut]
    end: End | None


class FlowWriter:
    """Of one worker and one file. `threads`: plain steps that run at once."""

    def __init__(self, file: File, threads: int) -> None:
        self.file = file
        self.flow = Flow(file.core)
        self._steps = Callers("steps", threads)
        self._askers = Callers("asks", ASKERS)
        self._records: Batcher[Said, Answer] = Batcher("records", self._commit)

    async def call(self, fn: Callable[[], T]) -> T:
        """A plain step, in a thread."""
        return await self._steps.call(fn)

    async def ask(self, fn: Callable[[], T]) -> T:
        """What is asked of the file, in another: steps that take their time are not in its way."""
        return await self._askers.call(fn)

    async def say(self, records: Sequence[RecordPut], end: End | None) -> Answer:
        """Written when it returns."""
        if not records and end is None:
            return (), None
        return await self._records.say(Said(records, end))

    def _commit(self, said: Sequence[Said]) -> list[Answer]:
        records = [record for one in said for record in one.records]
        ends = [one.end for one in said if one.end is not None]
        if ends:
            recorded, answers = self.flow.end(None, records, ends)
        else:
            recorded, answers = self.flow.record(None, records), []
        told: list[Answer] = []
        at, left = 0, iter(answers)
        for one in said:
            following = at + len(one.records)
            told.append((recorded[at:following], None if one.end is None else next(left)))
            at = following
        return told

    def put_off(self, id: bytes, token: int, delay_us: int) -> None:
        """Nobody here can run it: once more later, without using an attempt."""
        self.flow.end(None, [], [End(id, token, FP.END_RELEASE, delay_us)])

    def close(self) -> None:
        """What was said is written; what runs goes on."""
        for threads in (self._records, self._askers, self._steps):
            threads.dismiss()


class PassWriter:
    """What one pass writes with: the run's id, and the token that lets it."""

    def __init__(self, writer: FlowWriter, id: bytes, token: int) -> None:
        self.writer = writer
        self.id = id
        self.token = token

    async def write(self, entries: Sequence[Entry], end: End | None = None) -> tuple[Told, int]:
        """Raises `Fenced`. The second is the core's answer to the end."""
        if any(entry.start is not None for entry in entries):
            return await self._with_children(entries, end)
        recorded, answer = await self.writer.say([self._put(entry) for entry in entries], end)
        return self._told(entries, recorded), FP.DONE if answer is None else answer

    async def transact(
        self, key: str, started_us: int, effect: Callable[[Transaction], bytes]
    ) -> bytes | None:
        """See `Ledger`. Raises `Withdrawn` if the run was cancelled before."""

        def work() -> bytes | None:
            core, flow = self.writer.file.core, self.writer.flow
            tx = Transaction(self.writer.file, round(core.patience * SECOND))
            try:
                there, value = flow.find(tx._use(), self.id, self.token, key.encode())
                if not there:
                    value = effect(tx)
                    put = self._put(Entry(key, TRANSACT, value, started_us))
                    (recorded,) = flow.record(tx._use(), [put])
                    self._told([], [recorded])
                    if recorded.cancelled:
                        raise Withdrawn("the run was cancelled")
                tx._end(commit=True)
            except LeaseLost as error:
                raise Fenced(str(error)) from error
            finally:
                tx._end(commit=False)
            return value

        return await self.writer.ask(work)

    async def _with_children(self, entries: Sequence[Entry], end: End | None) -> tuple[Told, int]:
        found = await self.writer.ask(lambda: self._begin_children(entries, end))
        if found is not None:
            return found
        # It was cancelled: what had ended is recorded all the same, and nothing begins.
        ended = [entry for entry in entries if entry.start is None]
        told, _ = await self.write(ended)
        return told._replace(withdrawn=True), FP.CANCELLED

    def _begin_children(self, entries: Sequence[Entry], end: End | None) -> tuple[Told, int] | None:
        """Children, records and the end in one transaction; None: nothing, it was cancelled."""
        core, flow = self.writer.file.core, self.writer.flow
        tx = core.begin(core.patience)
        try:
            written: list[Entry] = []
            for entry in entries:
                if isinstance(entry.start, Start):
                    parent = Parent(self.id, self.token, ended_key(entry.key).encode())
                    value = begin(self.writer.file, flow, tx, entry.start, parent)
                    entry = entry._replace(value=value)  # noqa: PLW2901 - where it is
                written.append(entry)
            recorded = flow.record(tx, [self._put(entry) for entry in written])
            told = self._told(written, recorded)
            if told.withdrawn:
                return None
            answer = FP.DONE if end is None else flow.end(tx, [], [end])[1][0]
            tx.end(commit=True)
        except LeaseLost as error:
            raise Fenced(str(error)) from error
        finally:
            tx.end(commit=False)
        return told, answer

    def _put(self, entry: Entry) -> RecordPut:
        started_us = NOT_SAID if entry.started_us is None else entry.started_us
        return RecordPut(
            self.id, self.token, entry.key.encode(), entry.kind, entry.value, started_us
        )

    def _told(self, entries: Sequence[Entry], recorded: Sequence[Recorded]) -> Told:
        if any(one.answer == FP.LOST for one in recorded):
            raise Fenced("another pass has the run")
        others = {
            entry.key: one.value
            for entry, one in zip(entries, recorded, strict=False)
            if one.answer == FP.ALREADY
        }
        return Told(others, any(one.cancelled for one in recorded))
