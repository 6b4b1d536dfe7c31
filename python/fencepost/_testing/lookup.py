"""What is in line, as a test asks for it; and what there is instead, where it finds nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, TypeAlias

from fencepost._binding.flow import Flow
from fencepost._checks import shown
from fencepost._worker.registry import Registry
from fencepost._workflow.runfile import RunState
from fencepost.errors import Gone, InvalidArgument
from fencepost.jobs import Job
from fencepost.store import Store
from fencepost.values import Message, State
from fencepost.workflow import Workflow

__all__ = ["found", "in_line"]

PAGE: Final = 200  # of a listing
SHOWN: Final = 20  # calls that a message shows
TEXT: Final = 300  # characters of one
IN_LINE: Final[tuple[State, ...]] = ("pending", "leased")
ENDED: Final[tuple[State, ...]] = ("done", "dead", "unknown", "cancelled")
ENDED_RUNS: Final[tuple[RunState, ...]] = ("done", "failed", "parked", "cancelled")

Target: TypeAlias = Job[..., Any] | Workflow[..., Any]


def in_line(store: Store, registry: Registry, target: Target | str) -> list[Message]:
    """See `Kit.enqueued`."""
    queue, kind = _asked(store, registry, target)
    return sorted(_listed(store, queue, kind, IN_LINE))


def found(
    store: Store,
    registry: Registry,
    target: Target,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Message:
    """See `Kit.assert_enqueued`."""
    if not isinstance(target, (Job, Workflow)):
        raise InvalidArgument(
            f"assert_enqueued takes a job or a workflow, and its arguments, not {shown(target)};"
            " for messages of queues, outboxes and inboxes there is enqueued(name)"
        )
    body = target._arguments.encode(args, kwargs)
    messages = in_line(store, registry, target)
    for message in messages:
        if _body(store, target, message) == body:
            return message
    raise AssertionError("\n".join(_instead(store, registry, target, body, messages)))


def _asked(store: Store, registry: Registry, target: object) -> tuple[str, str | None]:
    """The queue, and in it the name. `InvalidArgument` for what there cannot be."""
    if isinstance(target, (Job, Workflow)):
        if _known(registry, target.name) is None:
            raise InvalidArgument(f"{target!r} is of another App")
        return target._queue, target.name
    if not isinstance(target, str):
        raise InvalidArgument(
            f"enqueued takes a job, a workflow, or the name of a queue, not {shown(target)}"
        )
    names = registry.names()
    if target not in names and not store._file.find(target):
        known = _known(registry, target)
        hint = f": there are {sorted(names)}" if known is None else f": pass {known!r} itself"
        raise InvalidArgument(f"no queue, outbox or inbox is called {target!r}{hint}")
    return target, None


def _known(registry: Registry, name: str) -> Target | None:
    return registry.job(name) or registry.workflow(name)


def _listed(
    store: Store, queue: str, kind: str | None, states: tuple[State, ...]
) -> Iterator[Message]:
    for state in states:
        after: str | None = None
        while True:
            page = store.messages(state, queue=queue, kind=kind, after=after, limit=PAGE)
            yield from page
            after = page.next
            if after is None:
                break


# ---- what there is instead -----------------------------------------------------------------------


def _instead(
    store: Store, registry: Registry, target: Target, body: bytes, messages: list[Message]
) -> Iterator[str]:
    yield f"no call of {target.name} with {_text(body)} is in line"
    ended = list(_ended(store, target))
    for what, said, state in ended:
        if said == body:
            yield f"  there was one, {what}, and it is {state}"
    if messages:
        yield f"  of {target.name} there are in line:"
        for message in messages[:SHOWN]:
            yield f"    {_text(_body(store, target, message))}, {_when(store, message)}"
        if len(messages) > SHOWN:
            yield f"    and {len(messages) - SHOWN} more"
        return
    counts = {one.name: len(in_line(store, registry, one)) for one in registry.targets()}
    others = [f"{count} of {name}" for name, count in counts.items() if count]
    shared = registry.job_queues().keys() | registry.workflow_queues()
    for name, queue in store.stats()["queues"].items():
        count = sum(queue[state] for state in ("pending", "waiting", "leased"))
        if count and name not in shared:
            others.append(f"{count} in {name}")
    yield f"  in line: {', '.join(others) or 'nothing'}; calls of it that have ended: {len(ended)}"


def _ended(store: Store, target: Target) -> Iterator[tuple[str, bytes, str]]:
    """Of what has ended: what it was, what it was called with, and its state."""
    if isinstance(target, Job):
        for message in _listed(store, target._queue, target.name, ENDED):
            yield f"message {message.id}", _body(store, target, message), message.state
        return
    for state in ENDED_RUNS:
        after: str | None = None
        while True:
            page = store.runs(state, name=target.name, after=after, limit=PAGE)
            for run in page:
                yield f"run {run.id}", _arguments(store, run.id), run.state
            after = page.next
            if after is None:
                break


def _body(store: Store, target: Target, message: Message) -> bytes:
    if isinstance(target, Workflow):
        return _arguments(store, message.key or "")
    with suppress(Gone):
        return store.content(message.id).body
    return b""


def _arguments(store: Store, run: str) -> bytes:
    row = Flow(store._file.core).get(run.encode())
    return b"" if row is None or row.args is None else row.args


def _text(body: bytes) -> str:
    text = body.decode(errors="replace")
    return text if len(text) <= TEXT else f"{text[:TEXT]}…"


def _when(store: Store, message: Message) -> str:
    if message.state == "leased":
        return f"leased, attempt {message.attempt}"
    now = store.stats()["time"]
    if message.due is None or message.due <= now:
        return "due"
    return f"due in {message.due - now}"
