"""The handle of a run: how it is, what came of it, and what it is told."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from fencepost import _inspect
from fencepost._binding.calls import FP, OpenTx
from fencepost._binding.flow import RunRow
from fencepost._door.inserts import Door
from fencepost._file import File
from fencepost._handles import Status, Watched, progress_of
from fencepost._plans import Ask, Change, End, Plan, here
from fencepost._workflow.runfile import RunFile, Step, failure_of_run, waiting_names
from fencepost._workflow.timeline import steps
from fencepost.aio import AsyncWorkflowHandle
from fencepost.codec import Codec
from fencepost.errors import Cancelled, Gone, InvalidArgument, JobFailed
from fencepost.spans import span_us
from fencepost.transactions import Tx, entered, unwrap
from fencepost.values import Failure, Span, State

if TYPE_CHECKING:
    from fencepost.workflow import Workflow

__all__ = ["SHOWN_AS", "WorkflowHandle", "own_transaction"]

R = TypeVar("R")

WAITING: Final[int] = FP.RUN_WAITING  # the last of the states in which a run goes on
SHOWN_AS: Final[dict[int, State]] = {
    FP.RUN_FAILED: "dead",
    FP.RUN_PARKED: "dead",
    FP.RUN_DONE: "done",
    FP.RUN_CANCELLED: "cancelled",
}


class WorkflowHandle(Watched, Generic[R]):
    """One run of a workflow: how it is, what came of it, and what it is told."""

    def __init__(self, workflow: Workflow[Any, R], file: File, id: str, *, created: bool) -> None:
        self.id = id
        self.created = created  # False: it was there
        self.key: str | None = id
        self._workflow = workflow
        self._file = file
        self._run = RunFile(file, id)

    def __repr__(self) -> str:
        return f"<WorkflowHandle {self.id} of {self._workflow.name}>"

    @property
    def aio(self) -> AsyncWorkflowHandle[R]:
        """The same, awaitable."""
        return AsyncWorkflowHandle(self)

    # ---- looking ---------------------------------------------------------------------------------

    def result(self, timeout: Span | None = None) -> R:
        """
        What the function returned, decoded by its annotation; waits for it.

        Raises `JobFailed` when it has failed or is parked, `Cancelled`, the built-in `TimeoutError`
        after `timeout` seconds, and `Gone` once retention has taken it.
        """
        return here(self._result(timeout))

    def steps(self) -> list[Step]:
        """What is recorded of it, in order. Raises `Gone`."""
        return here(self._steps())

    # ---- telling it ------------------------------------------------------------------------------

    def signal(self, name: str, value: object, /, *, tx: Tx | None = None) -> bool:
        """
        Supply what `run.wait(name, …)` waits for, or will wait for. The first one wins: False if
        one was there, or the wait's time was over. Raises `Gone` for a run that has ended.
        """
        return here(self._signal(name, value, tx))

    def send(self, value: object, /, *, tx: Tx | None = None) -> None:
        """A message for `run.receive`, in order. Raises `Gone` for a run that has ended."""
        here(self._send(value, tx))

    def cancel(self, *, tx: Tx | None = None) -> bool:
        """
        End it: nothing further begins, its children and their jobs that have not begun are
        cancelled in the same commit. A step under way ends, and is recorded. False if it had ended
        before. Raises `Gone`.
        """
        return here(self._cancel(tx))

    def resume(self) -> None:
        """
        One that has failed or is parked, once more: from the step that failed. Its attempts begin
        anew. `InvalidArgument` for any other; `Gone`.
        """
        here(self._asked(self._run.resume))

    def fork(self, step: str, /, *, id: str) -> WorkflowHandle[R]:
        """
        A new run with the same arguments and all that was recorded before `step`, which is run
        anew. Raises `Gone` if there is no such run or step, and `Conflict` if the id is taken.
        """
        return here(self._fork(step, id))

    def delete(self) -> int:
        """
        Forget the run, its wake-up and its records, together or not at all; how many records.
        A pass that is under way is fenced: what it still does is not recorded.
        """
        return here(self._asked(self._run.delete))

    # ---- the same as plans -----------------------------------------------------------------------

    def _result(self, timeout: Span | None) -> Plan[R]:
        unwrap(self._file, None)
        timeout_us = None if timeout is None else span_us(timeout, "timeout")
        while True:
            version = self._file.core.version()
            row = yield Ask(self._file, self._run.row)
            if row.state > WAITING:
                return self._outcome(row)
            # Its wake-up is in line until the run has ended, and ends in the same commit.
            if (yield End(self._file, row.message, timeout_us)) is None:
                name = self._workflow.name
                raise TimeoutError(f"run {self.id} of {name} has not ended in time")
            yield Change(self._file, version)

    def _steps(self) -> Plan[list[Step]]:
        def read() -> list[Step]:
            self._run.row()
            return steps(self._codec, self._run.records())

        return self._asked(read)

    def _signal(self, name: str, value: object, tx: Tx | None) -> Plan[bool]:
        body = self._codec.encode(value)
        return self._run.signaling(own_transaction(self._file, tx), name, body)

    def _send(self, value: object, tx: Tx | None) -> Plan[None]:
        body = self._codec.encode(value)
        return self._run.sending(own_transaction(self._file, tx), body)

    def _cancel(self, tx: Tx | None) -> Plan[bool]:
        where = own_transaction(self._file, tx)
        cancelled = yield Ask(
            self._file, lambda: self._run.cancel(where), at_once=where is not None
        )
        return bool(cancelled)

    def _fork(self, step: str, id: str) -> Plan[WorkflowHandle[R]]:
        def fork() -> WorkflowHandle[R]:
            queue = self._file.queue(self._workflow._declaration, None)
            self._run.fork(queue, step, id, self._workflow._max_attempts)
            return WorkflowHandle(self._workflow, self._file, id, created=True)

        return self._asked(fork)

    # ---- the rest --------------------------------------------------------------------------------

    @property
    def _codec(self) -> Codec:
        return self._workflow._home.codec

    def _look(self) -> tuple[Status, bool]:
        row = self._run.row()
        found = self._file.core.get(None, row.message)
        message = next(_inspect.messages(self._file, found), None)
        state: State = SHOWN_AS.get(row.state, "pending")
        attempt, due, progress = 0, None, None
        if message is not None:
            if row.state <= WAITING:
                state, due = message.state, message.due
            attempt = message.attempt
            with suppress(Gone):
                progress = progress_of(self._file, row.message, self._codec)
        waits = waiting_names(row)
        told = Status(state, attempt, due, failure_of_run(row), progress, waits)
        return told, row.state > WAITING

    def _outcome(self, row: RunRow) -> R:
        name = self._workflow.name
        if row.state == FP.RUN_DONE:
            if row.result is None:  # None is not written
                return None  # type: ignore[return-value]
            decoded: R = self._codec.decode(row.result, self._workflow._arguments.returns)
            return decoded
        if row.state == FP.RUN_CANCELLED:
            raise Cancelled(f"run {self.id} of {name} was cancelled")
        failure = failure_of_run(row) or Failure("error", None, "")
        raise JobFailed(f"{name}: {failure.text or failure.kind}", failure=failure)


def own_transaction(file: File, tx: Tx | None) -> OpenTx | None:
    """`InvalidArgument` for the connection of another library: the door knows no runs."""
    where = entered(file, tx)
    if isinstance(where, Door):
        raise InvalidArgument(
            "runs are started and told of things in a transaction of fencepost: the door for other"
            " connections has no words for them"
        )
    return where
