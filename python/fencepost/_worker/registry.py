"""What an App declares, as a worker reads it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

from fencepost._worker.schedule import Schedule
from fencepost.codec import Codec
from fencepost.context import Context
from fencepost.errors import InvalidArgument
from fencepost.inbox import Inbox
from fencepost.jobs import Job
from fencepost.outbox import Outbox
from fencepost.queues import Queue
from fencepost.workflow import Workflow

__all__ = ["Around", "Registry"]

Around: TypeAlias = Callable[[Context], AbstractContextManager[object]]


class Registry:
    """Jobs and workflows by all their names, queues by theirs, and what is entered around jobs."""

    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        self.arounds: list[Around] = []
        self.schedules: list[Schedule] = []
        self._jobs: dict[str, Job[..., Any]] = {}
        self._workflows: dict[str, Workflow[..., Any]] = {}
        self._queues: dict[str, Queue[Any]] = {}
        self._boxes: dict[str, Outbox[Any] | Inbox[Any]] = {}

    def add_job(self, job: Job[..., Any]) -> None:
        """`InvalidArgument` if one of its names is taken, or its queue holds plain messages."""
        for name in (job.name, *job._aliases):
            self._check_name(name)
        if job._queue in self.workflow_queues():
            raise InvalidArgument(f"queue {job._queue} is of workflows: jobs need another one")
        if job._queue in self._queues:
            raise InvalidArgument(f"queue {job._queue} holds plain messages: jobs need another one")
        if job._queue in self._boxes:
            raise InvalidArgument(f"{self._boxes[job._queue]!r} has this name: jobs need a queue")
        self._jobs.update((name, job) for name in (job.name, *job._aliases))

    def add_workflow(self, workflow: Workflow[..., Any]) -> None:
        """`InvalidArgument` if one of its names is taken, or its queue is of something else."""
        for name in (workflow.name, *workflow._aliases):
            self._check_name(name)
        name = workflow._queue
        if name in self._queues or name in self._boxes or name in self.job_queues():
            raise InvalidArgument(f"queue {name} is of something else: workflows need another one")
        self._workflows.update((name, workflow) for name in (workflow.name, *workflow._aliases))

    def _check_name(self, name: str) -> None:
        for what, known in (("job", self._jobs), ("workflow", self._workflows)):
            if name in known:
                raise InvalidArgument(
                    f"there is a {what} {name} already: a name is unique in an App"
                )

    def add_queue(self, queue: Queue[Any]) -> None:
        """`InvalidArgument` if its name is taken."""
        self._check_free(queue.name)
        self._queues[queue.name] = queue

    def add_box(self, box: Outbox[Any] | Inbox[Any]) -> None:
        """`InvalidArgument` if its topic or address is taken; it is the name of its queue."""
        self._check_free(box._declaration.name)
        self._boxes[box._declaration.name] = box

    def add_schedule(self, schedule: Schedule) -> None:
        """`InvalidArgument` if the job has the same one already, or is of another App."""
        if self._jobs.get(schedule.job.name) is not schedule.job:
            raise InvalidArgument(f"{schedule.job.name} is a job of another App")
        if any(one.name == schedule.name for one in self.schedules):
            raise InvalidArgument(f"{schedule.job.name} has this schedule already")
        self.schedules.append(schedule)

    def _check_free(self, name: str) -> None:
        if name in self._queues or name in self._boxes:
            raise InvalidArgument(f"{name} is declared already")
        if name in self.job_queues():
            raise InvalidArgument(f"queue {name} holds jobs: other messages need another one")
        if name in self.workflow_queues():
            raise InvalidArgument(f"queue {name} is of workflows: messages need another one")

    def job(self, name: str) -> Job[..., Any] | None:
        """The job of this name, present or former."""
        return self._jobs.get(name)

    def job_queues(self) -> dict[str, list[Job[..., Any]]]:
        """The queues that jobs are declared for, with their jobs."""
        found: dict[str, list[Job[..., Any]]] = {}
        for name, job in self._jobs.items():
            if name == job.name:
                found.setdefault(job._queue, []).append(job)
        return found

    def workflow(self, name: str) -> Workflow[..., Any] | None:
        """The workflow of this name, present or former."""
        return self._workflows.get(name)

    def targets(self) -> list[Job[..., Any] | Workflow[..., Any]]:
        """All jobs and workflows, each once for each of its names."""
        return [*self._jobs.values(), *self._workflows.values()]

    def workflow_queues(self) -> set[str]:
        """The queues that workflows are declared for."""
        return {workflow._queue for workflow in self._workflows.values()}

    def handled_queues(self) -> dict[str, Queue[Any]]:
        """The queues of plain messages that have a handler."""
        return {name: queue for name, queue in self._queues.items() if queue._handler is not None}

    def handled_boxes(self) -> dict[str, Outbox[Any] | Inbox[Any]]:
        """The outboxes and inboxes that have a handler."""
        return {name: box for name, box in self._boxes.items() if box._handler is not None}

    def names(self) -> set[str]:
        """All that a worker could be asked to work on."""
        queues = self._queues.keys() | self._boxes.keys()
        return self.job_queues().keys() | self.workflow_queues() | queues
