"""
Workflows: functions whose runs outlive their processes.

    handle = refund.options(id="refund-42").start(42)
    handle.signal("approved by", "ann")
    handle.result()

`start` writes one row and a wake-up message; a worker does the rest, pass after pass.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar
from uuid import uuid4

from fencepost._binding.calls import FP, OpenTx
from fencepost._binding.flow import Parent, Start
from fencepost._binding.flowrequests import Starting
from fencepost._enqueue import Entry, entry
from fencepost._file import File
from fencepost._function import Function, Home
from fencepost._plans import Plan, Write, here
from fencepost._workflow.handle import WorkflowHandle, own_transaction
from fencepost._workflow.runfile import run_id
from fencepost.aio import AsyncWorkflow
from fencepost.errors import InvalidArgument
from fencepost.policies import Declaration, declared
from fencepost.transactions import Tx
from fencepost.values import JobPolicy, Span

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Workflow", "WorkflowHandle", "start_run", "workflow_queue"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

QUEUE: Final = "workflows"  # whose wake-ups are in the queue of this name, if nothing else is said
ATTEMPTS: Final = 5
UNSAID: Final[Any] = object()


class Workflow(Function, Generic[P, R]):
    """A function whose runs are recorded step by step. Made by `App.workflow`."""

    def __init__(self, fn: Callable[..., Any], policy: JobPolicy, home: Home) -> None:
        super().__init__(
            fn, policy, home, what="a workflow", context=True, queue=QUEUE, attempts=ATTEMPTS
        )
        if not self._coroutine:
            raise InvalidArgument("a workflow is an `async def`: it awaits its steps")
        self._declaration = workflow_queue(self._queue)
        self._options: dict[str, Any] = {}

    @property
    def aio(self) -> AsyncWorkflow[P, R]:
        """The same, awaitable."""
        return AsyncWorkflow(self)

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

    def start(self, *args: P.args, **kwargs: P.kwargs) -> WorkflowHandle[R]:
        """
        Begin a run, durably; in `tx`, with its commit.

        Raises `InvalidArgument` for arguments that do not fit the function, `PayloadError`, and
        `Conflict` if the id is that of a run with another workflow or other arguments.
        """
        return here(self._start(args, kwargs))

    def _start(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Plan[WorkflowHandle[R]]:
        begun = self._entry(args, kwargs)
        id_ = self._options.get("id") or uuid4().hex
        tx = self._options.get("tx")
        file = self._file(tx)
        created = yield from _starting(file, own_transaction(file, tx), self, id_, begun)
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
    return here(_starting(file, tx, workflow, id, begun, parent))


def _starting(
    file: File,
    tx: OpenTx | None,
    workflow: Workflow[..., Any],
    id: str,
    begun: Entry,
    parent: Parent | None = None,
) -> Plan[bool]:
    def request() -> Starting:
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
        return Starting(start)

    known = file.knows(workflow._declaration, workflow.name)
    _, created = yield Write(file, tx, request() if known else request)
    return bool(created)


def workflow_queue(name: str) -> Declaration:
    """The queue of this name as workflows use it: for their wake-ups."""
    return declared(name, {}, FP.PROFILE_WAKEUP)
