"""
Children of a run: jobs and workflows that it starts and whose end it waits for.

A child begins in the commit that records it, and the commit in which it ends records that for its
parent and wakes it. So it runs once, is never forgotten, and what came of it outlives its own row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from fencepost._binding.flow import Flow, Parent, child_outcome
from fencepost._checks import shown
from fencepost._enqueue import Entry, put_entries
from fencepost._file import File
from fencepost._workflow.history import Record
from fencepost.codec import Codec
from fencepost.errors import Cancelled, InvalidArgument, JobFailed
from fencepost.jobs import Job
from fencepost.values import Failure
from fencepost.workflow import Workflow, start_run

if TYPE_CHECKING:
    from fencepost._binding.calls import OpenTx

__all__ = ["Start", "begin", "bind", "result"]


class Start(NamedTuple):
    """A child that is to begin. `id`: of the run, if it is a workflow's."""

    target: Job[..., Any] | Workflow[..., Any]
    id: str
    entry: Entry


def bind(target: Any, id: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Start, Any]:
    """The child of these arguments, and what it returns. Raises as `Job.enqueue`."""
    if isinstance(target, Workflow):
        return Start(target, id, target._entry(args, kwargs)), target._arguments.returns
    if not isinstance(target, Job):
        raise InvalidArgument(f"a child is a job or a workflow, not {shown(target)}")
    entry = target.call(*args, **kwargs)._entry
    if entry.key is not None:
        raise InvalidArgument("a child has no key of its own: its run and its name are the key")
    return Start(target, "", entry), target._arguments.returns


def begin(file: File, flow: Flow, tx: OpenTx, start: Start, parent: Parent) -> bytes:
    """In `tx`. What the record says of it: where it is. `LeaseLost`, `Conflict`, `QueueFull`."""
    target = start.target
    if isinstance(target, Workflow):
        start_run(file, tx, target, start.id, start.entry, parent=parent)
        return msgspec.json.encode({"run": start.id})
    put = put_entries(file, [start.entry], kind=target.name, max_attempts=target._max_attempts)
    put.queue = file.queue(target._declaration, tx)
    put.kind = file.kind(target.name, tx)
    return msgspec.json.encode({"job": flow.start_job(tx, put, parent)[0]})


def result(record: Record, *, name: str, codec: Codec, returns: Any) -> Any:
    """What a child returned, by the record of its end. `JobFailed`, `Cancelled`."""
    outcome = child_outcome(record.value)
    if outcome.state == "done":
        return codec.decode(outcome.result, returns) if outcome.result else None
    if outcome.state == "cancelled":
        raise Cancelled(f"the child {name!r} was cancelled")
    failure = Failure(outcome.kind, None, outcome.text)
    raise JobFailed(f"the child {name!r}: {outcome.text or outcome.kind}", failure=failure)
