"""One message of a job, run."""

from __future__ import annotations

from typing import Any

from fencepost._worker.contextrun import Arguments, ContextRun
from fencepost._worker.runs import Host
from fencepost.claims import Claim
from fencepost.context import Context
from fencepost.jobs import Job

__all__ = ["JobRun"]


class JobRun(ContextRun):
    def __init__(self, host: Host, job: Job[..., Any], claim: Claim[Any], queue: str) -> None:
        super().__init__(
            host,
            job.name,
            claim,
            queue,
            job.fn,
            coroutine=job._coroutine,
            timeout_us=job._timeout_us,
        )
        self._job = job
        self._backoff = job._backoff
        self._permanent = job._permanent

    def _arguments(self, context: Context) -> Arguments:
        args, kwargs = self._job._arguments.decode(self._claim.body)
        return ([context, *args] if self._job._context else args), kwargs
