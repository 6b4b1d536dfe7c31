"""Which queues of a file a worker works on, by their numbers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from fencepost._checks import is_coroutine
from fencepost._file import File
from fencepost._worker.registry import Registry
from fencepost.errors import InvalidArgument
from fencepost.inbox import Inbox
from fencepost.jobs import job_queue
from fencepost.outbox import Outbox
from fencepost.policies import Declaration
from fencepost.queues import Queue
from fencepost.workflow import workflow_queue

__all__ = ["Route", "chosen", "routes"]


class Route(NamedTuple):
    """One queue. `handler`: it holds plain messages for a handler; else it holds jobs."""

    number: int
    queue: Queue[Any]
    declaration: Declaration
    lease_us: int
    resends: bool  # what nobody can answer for is sent again, by name
    handler: bool
    coroutine: bool  # whatever it holds is run on the event loop
    box: Outbox[Any] | Inbox[Any] | None = None  # it holds what such a box does
    workflows: bool = False  # it holds wake-ups of runs

    @property
    def prompt(self) -> bool:
        """What is claimed begins at once, and nothing is read ahead."""
        if self.workflows:
            return True
        return isinstance(self.box, Outbox) or (self.box is not None and self.box._completes)


def chosen(registry: Registry, wanted: Collection[str] | None) -> set[str]:
    """The names of the queues to work on; None: all that are declared with something to run."""
    names = {*registry.job_queues(), *registry.handled_queues(), *registry.handled_boxes()}
    names |= registry.workflow_queues()
    if wanted is not None:
        for name in wanted:
            if name not in names:
                raise InvalidArgument(f"queue {name!r} has neither jobs nor a handler in this App")
        names &= set(wanted)
    if not names:
        raise InvalidArgument("nothing to work on: this App has neither jobs nor handlers")
    return names


def routes(file: File, registry: Registry, names: Collection[str]) -> list[Route]:
    """The same in this file, where they are made if they are missing."""
    found: list[Route] = []
    for name, jobs in registry.job_queues().items():
        if name in names:
            declaration = job_queue(name)
            coroutine = all(job._coroutine for job in jobs)
            found.append(_route(file, Queue(declaration, Any, bound=file), declaration, coroutine))
    for name in sorted(registry.workflow_queues() & set(names)):
        declaration = workflow_queue(name)
        route = _route(file, Queue(declaration, Any, bound=file), declaration, coroutine=True)
        found.append(route._replace(workflows=True))
    for name, queue in registry.handled_queues().items():
        if name in names:
            coroutine = is_coroutine(queue._handler)
            route = _route(file, queue, queue._declaration, coroutine)
            found.append(route._replace(handler=True))
    for name, box in registry.handled_boxes().items():
        if name in names:
            declaration = box._declaration
            coroutine = is_coroutine(box._handler)
            queue = Queue(declaration, box.type, bound=file)
            _ = file.uuid  # read before any delivery depends on it
            found.append(_route(file, queue, declaration, coroutine)._replace(box=box))
    return found


def _route(file: File, queue: Queue[Any], declaration: Declaration, coroutine: bool) -> Route:
    number = file.queue(declaration, None)
    policy = file.core.queue_find(None, declaration.name.encode())[1]
    resends = policy["on_unknown"] == 1
    return Route(number, queue, declaration, policy["lease_us"], resends, False, coroutine)
