"""One pass of a run, as the worker runs it: from its claim to the commit that ends it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from math import inf
from typing import Any, Final, Literal, TypeVar

import msgspec

from fencepost._binding.calls import FP
from fencepost._binding.flow import End
from fencepost._verdicts import QUEUES_OWN, backoff_us, failure, text_of
from fencepost._worker import failpoints, runs
from fencepost._worker.failpoints import Point
from fencepost._worker.flowwriter import FlowWriter, PassWriter
from fencepost._worker.runs import LOST, STOPPING, TIMED_OUT, Host, log_raised
from fencepost._workflow.execution import execute
from fencepost._workflow.history import SLEEP, Entry, History
from fencepost._workflow.outcomes import (
    Completed,
    Failed,
    Fenced,
    Lost,
    Outcome,
    Parked,
    Stopped,
    Suspended,
    Swallowed,
)
from fencepost._workflow.passes import Pass, Told
from fencepost._workflow.runfile import RunFile
from fencepost.claims import Claim
from fencepost.errors import (
    Busy,
    Error,
    InvalidArgument,
    PayloadError,
    PermanentError,
    RetryLater,
    StorageError,
)
from fencepost.run import Run
from fencepost.spans import SECOND, span_us
from fencepost.transactions import Transaction
from fencepost.workflow import Workflow

__all__ = ["WorkflowRun"]

T = TypeVar("T")

SQLITE_NOMEM: Final = 7
SQLITE_IOERR: Final = 10
SQLITE_CANTOPEN: Final = 14
PAUSE: Final = 0.1  # seconds until what could not be written is tried again
PAUSE_MAX: Final = 5.0
AGAIN_US: Final = SECOND // 2  # until a pass is tried again whose records could not be written
DISK: Final = (Busy, StorageError)  # nothing that the workflow did

log: Final = logging.getLogger("fencepost.worker")


class WorkflowRun(runs.Run):
    """
    The `Ledger` of its pass, too.

    It settles its wake-up itself, in the commit that has its last records, so there is nothing left
    for the worker's loop to say.
    """

    def __init__(self, host: Host, workflow: Workflow[..., Any], claim: Claim[Any]) -> None:
        super().__init__(host, workflow.name, [claim], coroutine=True)
        self.workflow = workflow.name
        self._workflow = workflow
        self._claim = claim
        self._writer: FlowWriter = host.flows
        self._run = RunFile(self._file, claim.key or "")
        self._pass_writer = PassWriter(self._writer, self._run.id.encode(), claim.token)
        self._pass: Pass | None = None
        self._until = inf  # when its time is up; whoever watches it then cancels it

    async def await_(self) -> None:
        if not self.enter():
            return
        if self._workflow._timeout_us is not None:
            self._until = self._clock() + self._workflow._timeout_us / SECOND
        try:
            failpoints.at("claimed", self.name)
            outcome = await self._executed()
            failpoints.at("handled", self.name)
            await self._end(outcome)
        except asyncio.CancelledError:
            log.info("%s: its pass was cut off: %s", self._spoken(), self._why)
        except Exception:  # it comes again when its lease is over
            log.exception("%s: its pass was left by an exception", self._spoken())

    def why(self) -> str | None:
        if self._why is None and self._clock() >= self._until:
            self._why = TIMED_OUT
        return super().why()

    def take_progress(self) -> bytes | None:
        if self._pass is None:
            return None
        value, self._pass.progress = self._pass.progress, None
        return value

    def _spoken(self) -> str:
        return f"{self.name} {self._run.id}, attempt {self._claim.attempt},"

    # ---- its beginning ---------------------------------------------------------------------------

    async def _executed(self) -> Outcome:
        try:
            row, records = await self._writer.ask(self._run.load)
            if row is None:
                return Lost()
            args, kwargs = self._workflow._arguments.decode(row.args or b"{}")
        except PayloadError as error:
            return Failed(PermanentError(str(error), code="undecodable"))
        except Error as error:
            return Failed(error)
        except asyncio.CancelledError:
            return Stopped(withdrawn=False)
        registry = self._registry
        state = Pass(self, registry.codec, History(records), permanent=self._workflow._permanent)
        self._pass = state
        run = Run(self._run.id, self._claim.attempt, self._claim.token, state)
        return await execute(state, self._workflow.fn(run, *args, **kwargs))

    # ---- what its pass asks ----------------------------------------------------------------------

    def now_us(self) -> int:
        return self._read(self._file.core.now)

    def wall_us(self) -> int:
        return self._read(self._file.wall_us)

    def _read(self, ask: Callable[[], int]) -> int:
        """That the file cannot be asked ends the pass, whatever the workflow makes of it."""
        try:
            return ask()
        except DISK as error:
            if self._pass is not None:
                self._pass.broken = self._pass.broken or error
            raise

    def at(self, point: Point, *names: str) -> None:
        failpoints.at(point, *names)

    def stopping(self) -> bool:
        return self.why() is not None

    async def reason(self) -> Literal["told", "lost", "withdrawn"] | None:
        why = self.why()
        if why != LOST:
            return None if why is None else "told"
        try:
            row = await self._writer.ask(lambda: self._writer.flow.get(self._pass_writer.id))
        except Error:  # the file does not say; that it is lost is known
            return "lost"
        cancelled = row is not None and row.state == FP.RUN_CANCELLED
        return "withdrawn" if cancelled else "lost"

    async def aside(self, fn: Callable[[], T]) -> T:
        return await self._writer.call(fn)

    async def write(self, entries: Sequence[Entry]) -> Told:
        return (await self._pass_writer.write(entries))[0]

    async def transact(
        self, key: str, started_us: int, effect: Callable[[Transaction], bytes]
    ) -> bytes | None:
        return await self._pass_writer.transact(key, started_us, effect)

    # ---- its end ---------------------------------------------------------------------------------

    async def _end(self, outcome: Outcome) -> None:
        """What is left to be recorded, and what became of the pass: one commit."""
        entries: list[Entry] = []
        if self._pass is not None:
            entries, self._pass.pending = self._pass.pending, []
        pause = PAUSE
        while True:
            try:
                answer = await self._written(entries, outcome)
                break
            except Fenced:
                outcome = Lost()
                answer = FP.LOST
                break
            except DISK as error:
                if self._why == STOPPING or self.why() == LOST:
                    log.warning("%s: its end could not be written: %s", self._spoken(), error)
                    return
                log.warning("%s: %s; again in %g s", self._spoken(), error, pause)
                await asyncio.sleep(pause)
                pause = min(2 * pause, PAUSE_MAX)
            except Error as error:  # a child that cannot begin, a result that is too long
                failed = isinstance(outcome, Failed)
                outcome = Failed(PermanentError(str(error)) if failed else error)
                entries = [entry for entry in entries if entry.start is None and not failed]
        self._tell(outcome, answer)
        for entry in entries:
            sleeps = entry.kind == SLEEP
            failpoints.at("sleep recorded" if sleeps else "step recorded", self.name, entry.key)
        failpoints.at("committed", self.name)

    async def _written(self, entries: Sequence[Entry], outcome: Outcome) -> int:
        if isinstance(outcome, Lost):
            return FP.LOST
        if isinstance(outcome, Stopped) and outcome.withdrawn:
            await self._pass_writer.write(entries)
            return FP.CANCELLED
        return (await self._pass_writer.write(entries, self._said(outcome)))[1]

    def _said(self, outcome: Outcome) -> End:
        """The outcome, in the core's words."""
        id_, token = self._pass_writer.id, self._pass_writer.token
        if isinstance(outcome, Completed):
            return End(id_, token, FP.END_DONE, result=outcome.result)
        if isinstance(outcome, Suspended):
            verb = FP.END_SLEEP if outcome.asleep else FP.END_WAIT
            at_us = -1 if outcome.due_us is None else outcome.due_us
            waiting = msgspec.json.encode(outcome.waiting_for)
            return End(id_, token, verb, at_us, waiting=waiting)
        if isinstance(outcome, Parked):
            kind, code, text = failure("changed_code", None, outcome.text)
            return End(id_, token, FP.END_PARK, kind=kind, code=code, text=text)
        if isinstance(outcome, Failed):
            return self._failed(outcome.error)
        if self._why == TIMED_OUT:
            seconds = (self._workflow._timeout_us or 0) / SECOND
            return self._retried("timeout", None, f"a pass ran for longer than {seconds:g} s")
        return End(id_, token, FP.END_RELEASE)

    def _failed(self, error: BaseException) -> End:
        id_, token = self._pass_writer.id, self._pass_writer.token
        name = type(error).__name__
        broken = _may_pass(error) if self._pass is None else error is self._pass.broken
        if isinstance(error, DISK) and broken:
            log.warning("%s: %s; again in %g s", self._spoken(), error, AGAIN_US / SECOND)
            return End(id_, token, FP.END_RELEASE, AGAIN_US)
        if isinstance(error, RetryLater):
            self._note_hold(error)
            try:
                return End(id_, token, FP.END_RELEASE, span_us(error.delay, "delay"))
            except InvalidArgument as bad:
                return self._failed(bad)
        said = error.code if isinstance(error, PermanentError) else None
        code = name if said is None else text_of(said)
        if isinstance(error, (PermanentError, Swallowed, *self._workflow._permanent)):
            kind, code_, text = failure("error", code, text_of(error))
            return End(id_, token, FP.END_FAIL, kind=kind, code=code_, text=text)
        return self._retried("error", code, text_of(error))

    def _retried(self, kind: str, code: str | None, text: str) -> End:
        backoff = self._workflow._backoff
        delay_us = QUEUES_OWN if backoff is None else backoff_us(backoff, self._claim.attempt)
        kind_, code_, text_ = failure(kind, code, text)
        return End(
            self._pass_writer.id,
            self._pass_writer.token,
            FP.END_RETRY,
            delay_us,
            kind=kind_,
            code=code_,
            text=text_,
        )

    def _tell(self, outcome: Outcome, answer: int) -> None:
        """In the log. Of an error its type and place, not what it says."""
        if isinstance(outcome, Failed):
            self._note_interruption(outcome.error)
            log_raised(self._spoken(), outcome.error)
        if isinstance(outcome, Parked):
            log.error("%s is parked: %s", self._spoken(), outcome.text)
        elif answer == FP.DEAD:
            log.error("%s has failed: its attempts are used up", self._spoken())
        elif isinstance(outcome, Lost) or answer == FP.LOST:
            log.warning("%s: another pass has the run, this one's end is dropped", self._spoken())


def _may_pass(error: BaseException) -> bool:
    """Is it the disk or the machine, and not what stands in the file?"""
    code = (error.sqlite_code or 0) & 0xFF if isinstance(error, StorageError) else 0
    return isinstance(error, Busy) or code in (SQLITE_NOMEM, SQLITE_IOERR, SQLITE_CANTOPEN)
