"""What is in line, as a test asks for it; and what there is instead, where it finds nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from fencepost._checks import shown
from fencepost._registry import Registry
from fencepost.errors import Gone, InvalidArgument
from fencepost.jobs import Job
from fencepost.store import Store
from fencepost.values import Message, State

__all__ = ["found", "in_line"]

PAGE: Final = 200  # of a listing
SHOWN: Final = 20  # calls that a message shows
TEXT: Final = 300  # characters of one
IN_LINE: Final[tuple[State, ...]] = ("pending", "leased")
ENDED: Final[tuple[State, ...]] = ("done", "dead", "unknown", "cancelled")


def in_line(store: Store, registry: Registry, target: Job[..., Any] | str) -> list[Message]:
    """See `Kit.enqueued`."""
    queue, kind = _asked(store, registry, target)
    return sorted(_listed(store, queue, kind, IN_LINE))


def found(
    store: Store,
    registry: Registry,
    target: Job[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Message:
    """See `Kit.assert_enqueued`."""
    if not isinstance(target, Job):
        raise InvalidArgument(
            f"assert_enqueued takes a job and its arguments, not {shown(target)}; for messages of"
            " queues, outboxes and inboxes there is enqueued(name)"
        )
    body = target._arguments.encode(args, kwargs)
    messages = in_line(store, registry, target)
    for message in messages:
        if store.content(message.id).body == body:
            return message
    raise AssertionError("\n".join(_instead(store, registry, target, body, messages)))


def _asked(store: Store, registry: Registry, target: object) -> tuple[str, str | None]:
    """The queue, and in it the job's name. `InvalidArgument` for what there cannot be."""
    if isinstance(target, Job):
        if registry.job(target.name) is None:
            raise InvalidArgument(f"{target.name} is a job of another App")
        return target._queue, target.name
    if not isinstance(target, str):
        raise InvalidArgument(f"enqueued takes a job, or the name of a queue, not {shown(target)}")
    names = registry.names()
    if target not in names and not store._file.find(target):
        hint = ": pass the job itself" if registry.job(target) else f": there are {sorted(names)}"
        raise InvalidArgument(f"no queue, outbox or inbox is called {target!r}{hint}")
    return target, None


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
    store: Store, registry: Registry, job: Job[..., Any], body: bytes, messages: list[Message]
) -> Iterator[str]:
    yield f"no call of {job.name} with {_text(body)} is in line"
    ended = list(_listed(store, job._queue, job.name, ENDED))
    for message in ended:
        if _body(store, message) == body:
            yield f"  there was one, message {message.id}, and it is {message.state}"
    if messages:
        yield f"  of {job.name} there are in line:"
        for message in messages[:SHOWN]:
            yield f"    {_text(_body(store, message))}, {_when(store, message)}"
        if len(messages) > SHOWN:
            yield f"    and {len(messages) - SHOWN} more"
        return
    counts = {
        other: len(in_line(store, registry, other))
        for queue, jobs in registry.job_queues().items()
        for other in jobs
        if store._file.find(queue)
    }
    others = [f"{count} of {other.name}" for other, count in counts.items() if count]
    for name, queue in store.stats()["queues"].items():
        count = sum(queue[state] for state in ("pending", "waiting", "leased"))
        if count and name not in registry.job_queues():
            others.append(f"{count} in {name}")
    yield f"  in line: {', '.join(others) or 'nothing'}; calls of it that have ended: {len(ended)}"


def _body(store: Store, message: Message) -> bytes:
    with suppress(Gone):
        return store.content(message.id).body
    return b""


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
