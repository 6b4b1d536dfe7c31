"""
Workflows: functions whose runs outlive their processes.

    handle = refund.options(id="refund-42").start(42)
    handle.signal("approved by", "ann")
    handle.result()

`start` writes one row and a wake-up message; a worker does the rest, pass after pass.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar
from uuid import uuid4

from fencepost import _looking, _pack
from fencepost._arguments import Arguments
from fencepost._calls import FP, OpenTx
from fencepost._checks import function, is_coroutine, whole
from fencepost._door import Door
from fencepost._enqueue import PRIORITIES, Entry, entry
from fencepost._file import File, file_of
from fencepost._flow import Flow, Parent, RunRow, Start
from fencepost._runfile import RunFile, Step, failure_of_run, run_id, waiting_names
from fencepost._timeline import steps
from fencepost.codec import Codec
from fencepost.errors import Cancelled, Gone, InvalidArgument, JobFailed
from fencepost.jobs import (
    ATTEMPTS_MAX,
    PROGRESS,
    Home,
    JobPolicy,
    Status,
    backoff_of,
    exceptions_of,
    name_of,
    names_of,
)
from fencepost.policies import Declaration, declared
from fencepost.spans import MOMENT_MAX, span_us
from fencepost.transactions import Tx, entered, unwrap
from fencepost.values import Failure, Span, State

if TYPE_CHECKING:
    from typing_extensions import Self

    from fencepost.store import Store

__all__ = ["Workflow", "WorkflowHandle", "start_run", "workflow_queue"]

P = ParamSpec("P")
R = TypeVar("R")

QUEUE: Final = "workflows"  # whose wake-ups are in the queue of this name, if nothing else is said
ATTEMPTS: Final = 5
UNSAID: Final[Any] = object()
WAITING: Final[int] = FP.RUN_WAITING  # the last of the states in which a run goes on
SHOWN_AS: Final[dict[int, State]] = {
    FP.RUN_FAILED: "dead",
    FP.RUN_PARKED: "dead",
    FP.RUN_DONE: "done",
    FP.RUN_CANCELLED: "cancelled",
}


class Workflow(Generic[P, R]):
    """A function whose runs are recorded step by step. Made by `App.workflow`."""

    def __init__(self, fn: Callable[..., Any], policy: JobPolicy, home: Home) -> None:
        unknown = policy.keys() - JobPolicy.__optional_keys__
        if unknown:
            raise InvalidArgument(f"{', '.join(sorted(unknown))}: no such policy of a workflow")
        function(fn, "a workflow")
        if not is_coroutine(fn):
            raise InvalidArgument("a workflow is an `async def`: it awaits its steps")
        self.fn = fn
        self.name = name_of(policy.get("name") or getattr(fn, "__name__", None))
        self._home = home
        self._bound: Store | None = None
        self._options: dict[str, Any] = {}
        # What follows is for the worker.
        self._aliases = names_of(policy.get("aliases", ()))
        self._backoff = backoff_of(policy["backoff"]) if "backoff" in policy else None
        self._permanent = exceptions_of(policy.get("permanent", ()))
        self._timeout_us = span_us(policy["timeout"], "timeout") if "timeout" in policy else None
        if self._timeout_us == 0:
            raise InvalidArgument("timeout is 0: it would be over at once")
        self._max_attempts = whole(
            policy.get("max_attempts", ATTEMPTS), "max_attempts", 0, ATTEMPTS_MAX
        )
        self._priority = whole(policy.get("priority", 0), "priority", *PRIORITIES)
        self._queue = policy.get("queue", QUEUE)
        self._declaration = workflow_queue(self._queue)
        self._arguments = Arguments(fn, self.name, home.codec, context=True)

    def __repr__(self) -> str:
        return f"<Workflow {self.name}>"

    def options(
        self,
        *,
        id: str = UNSAID,
        delay: Span = UNSAID,
        due: datetime = UNSAID,
        priority: int = UNSAID,
        headers: Mapping[str, str] = UNSAID,
        tx: Tx = UNSAID,
    ) -> Self:
        """
        The same workflow, started with these options. `id` is the run's own: started a second time
        under it, it is answered with the first. Without one, each start is a run.
        """
        said = {
            "id": id,
            "delay": delay,
            "due": due,
            "priority": priority,
            "headers": headers,
            "tx": tx,
        }
        other = copy.copy(self)
        other._options = {
            **self._options,
            **{name: value for name, value in said.items() if value is not UNSAID},
        }
        if "id" in other._options:
            run_id(other._options["id"])
        other._entry_of(b"")
        return other

    def at(self, store: Store, /) -> Self:
        """The same workflow in this store."""
        file_of(store)
        other = copy.copy(self)
        other._bound = store
        return other

    def start(self, *args: P.args, **kwargs: P.kwargs) -> WorkflowHandle[R]:
        """
        Begin a run, durably; in `tx`, with its commit.

        Raises `InvalidArgument` for arguments that do not fit the function, `PayloadError`, and
        `Conflict` if the id is that of a run with another workflow or other arguments.
        """
        begun = self._entry(args, kwargs)
        id_ = self._options.get("id") or uuid4().hex
        tx = self._options.get("tx")
        file = self._file(tx)
        created = start_run(file, own_transaction(file, tx), self, id_, begun)
        return WorkflowHandle(self, file, id_, created=created)

    def handle(self, id: str, /) -> WorkflowHandle[R]:
        """The handle of a run that was started before. Looks at nothing."""
        run_id(id)
        return WorkflowHandle(self, self._file(None), id, created=False)

    def _entry(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry:
        return self._entry_of(self._arguments.encode(args, kwargs))

    def _entry_of(self, body: bytes) -> Entry:
        options = {name: value for name, value in self._options.items() if name != "id"}
        return entry(body, {"priority": self._priority, **options})

    def _file(self, tx: Tx | None) -> File:
        if self._bound is not None:
            return self._bound._file
        named = getattr(tx, "_file", None)  # what is no Transaction is refused by `unwrap`
        return named if isinstance(named, File) else self._home.store._file


def start_run(
    file: File,
    tx: OpenTx | None,
    workflow: Workflow[..., Any],
    id: str,
    begun: Entry,
    *,
    parent: Parent | None = None,
) -> bool:
    """Whether it is a new one. `Conflict`; `LeaseLost` if the parent was fenced."""
    start = Start(
        file.queue(workflow._declaration, tx),
        file.kind(workflow.name, tx),
        id.encode(),
        begun.body,
        delay_us=begun.delay_us if begun.due_us is None else begun.due_us,
        absolute=begun.due_us is not None,
        priority=begun.priority,
        max_attempts=workflow._max_attempts,
        headers=begun.headers,
        parent=parent,
    )
    return Flow(file.core).start(tx, start)[1]


class WorkflowHandle(Generic[R]):
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

    # ---- looking ---------------------------------------------------------------------------------

    def status(self) -> Status:
        """How it is now. Raises `Gone`."""
        unwrap(self._file, None)
        return self._status(self._run.row())

    def watch(self) -> Iterator[Status]:
        """How it is now, and again after each change, until it has ended. Raises `Gone`."""
        last: Status | None = None
        for row in self._looks(None, closely=True):
            status = self._status(row)
            if status != last:
                yield status
            if row.state > WAITING:
                return
            last = status

    def result(self, timeout: Span | None = None) -> R:
        """
        What the function returned, decoded by its annotation; waits for it.

        Raises `JobFailed` when it has failed or is parked, `Cancelled`, the built-in `TimeoutError`
        after `timeout` seconds, and `Gone` once retention has taken it.
        """
        timeout_us = None if timeout is None else span_us(timeout, "timeout")
        for row in self._looks(timeout_us):
            if row.state > WAITING:
                return self._outcome(row)
        raise TimeoutError(f"run {self.id} of {self._workflow.name} has not ended in time")

    def steps(self) -> list[Step]:
        """What is recorded of it, in order. Raises `Gone`."""
        unwrap(self._file, None)
        self._run.row()
        return steps(self._codec, self._run.records())

    # ---- telling it ------------------------------------------------------------------------------

    def signal(self, name: str, value: object, /, *, tx: Tx | None = None) -> bool:
        """
        Supply what `run.wait(name, …)` waits for, or will wait for. The first one wins: False if
        one was there, or the wait's time was over. Raises `Gone` for a run that has ended.
        """
        body = self._codec.encode(value)
        return self._run.signal(own_transaction(self._file, tx), name, body)

    def send(self, value: object, /, *, tx: Tx | None = None) -> None:
        """A message for `run.receive`, in order. Raises `Gone` for a run that has ended."""
        body = self._codec.encode(value)
        self._run.send(own_transaction(self._file, tx), body)

    def cancel(self, *, tx: Tx | None = None) -> bool:
        """
        End it: nothing further begins, its children and their jobs that have not begun are
        cancelled in the same commit. A step under way ends, and is recorded. False if it had ended
        before. Raises `Gone`.
        """
        return self._run.cancel(own_transaction(self._file, tx))

    def resume(self) -> None:
        """
        One that has failed or is parked, once more: from the step that failed. Its attempts begin
        anew. `InvalidArgument` for any other; `Gone`.
        """
        unwrap(self._file, None)
        self._run.resume()

    def fork(self, step: str, /, *, id: str) -> WorkflowHandle[R]:
        """
        A new run with the same arguments and all that was recorded before `step`, which is run
        anew. Raises `Gone` if there is no such run or step, and `Conflict` if the id is taken.
        """
        unwrap(self._file, None)
        queue = self._file.queue(self._workflow._declaration, None)
        self._run.fork(queue, step, id, self._workflow._max_attempts)
        return WorkflowHandle(self._workflow, self._file, id, created=True)

    def delete(self) -> int:
        """
        Forget the run, its wake-up and its records, together or not at all; how many records.
        A pass that is under way is fenced: what it still does is not recorded.
        """
        unwrap(self._file, None)
        return self._run.delete()

    # ---- the rest --------------------------------------------------------------------------------

    @property
    def _codec(self) -> Codec:
        return self._workflow._home.codec

    def _looks(self, timeout_us: int | None, *, closely: bool = False) -> Iterator[RunRow]:
        """
        The run now, and after each change that may have ended it, until the time is over;
        `closely`: after each change of the file.
        """
        core = self._file.core
        unwrap(self._file, None)
        until = MOMENT_MAX if timeout_us is None else core.now() + timeout_us
        queue = 0
        while True:
            # Read before the look: what changes after the look is then not slept through.
            version = core.version()
            yield self._run.row()
            if not (queue or closely):
                queue = self._file.find(self._workflow._queue)
            while (now := core.now()) < until:
                if core.wait(queue, version, until) != version:
                    break
            if now >= until:
                return

    def _status(self, row: RunRow) -> Status:
        found = self._file.core.get(None, row.message)
        message = next(_looking.messages(self._file, found), None)
        state: State = SHOWN_AS.get(row.state, "pending")
        attempt, due, progress = 0, None, None
        if message is not None:
            if row.state <= WAITING:
                state, due = message.state, message.due
            attempt = message.attempt
            with suppress(Gone):
                content = self._file.core.content(row.message)
                (lengths,) = _pack.records(content)
                progress = _pack.parts(content.blob, 0, lengths)[0][PROGRESS]
        told = None if progress is None else self._codec.decode(progress, Any)
        return Status(state, attempt, due, failure_of_run(row), told, waiting_names(row))

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


def workflow_queue(name: str) -> Declaration:
    """The queue of this name as workflows use it: for their wake-ups."""
    return declared(name, {}, FP.PROFILE_WAKEUP)


def own_transaction(file: File, tx: Tx | None) -> OpenTx | None:
    """`InvalidArgument` for the connection of another library: the door knows no runs."""
    where = entered(file, tx)
    if isinstance(where, Door):
        raise InvalidArgument(
            "runs are started and told of things in a transaction of fencepost: the door for other"
            " connections has no words for them"
        )
    return where
