"""What a claim is for: the one place where claims become runs."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fencepost._file import File
from fencepost._verdicts import UNKNOWN_NAME_US, later
from fencepost._worker.batchrun import BatchRun
from fencepost._worker.channel import Channel
from fencepost._worker.flowrun import WorkflowRun
from fencepost._worker.jobrun import JobRun
from fencepost._worker.receiptrun import ReceiptRun
from fencepost._worker.routes import Route
from fencepost._worker.runs import Host, Run
from fencepost._worker.sendrun import SendRun
from fencepost.claims import Claim
from fencepost.outbox import Outbox

__all__ = ["Dispatcher"]

log: Final = logging.getLogger("fencepost.worker")

Claims = Sequence[Claim[Any]]


class Dispatcher:
    """For one host, by the names of its queues."""

    def __init__(
        self, host: Host, file: File, channel: Channel, routes: Mapping[str, Route]
    ) -> None:
        self._host = host
        self._file = file
        self._channel = channel
        self._routes = routes
        self._names = {0: ""}  # of kinds, by their numbers

    def learn(self, claims: Claims) -> None:
        """Read the names of kinds that were not met before."""
        if any(claim._kind not in self._names for claim in claims):
            self._names = {0: "", **dict(self._file.kinds())}

    def together(self, route: Route, claims: Claims) -> Run:
        """One run for all of them."""
        return BatchRun(self._host, route.queue, claims)

    def alone(self, claim: Claim[Any]) -> Run | None:
        """None: nobody here knows what it is for, and the channel is told so."""
        route = self._routes[claim._queue.name]
        if route.handler:
            return self.together(route, [claim])
        if isinstance(route.box, Outbox):
            return SendRun(self._host, route.box, claim, resends=route.resends)
        if route.box is not None:
            return ReceiptRun(self._host, route.box, claim)
        name = self._names.get(claim._kind, "")
        if route.workflows:
            return self._pass(name, claim)
        job = self._host.registry.job(name)
        if job is not None:
            return JobRun(self._host, job, claim, route.queue.name)
        log.warning("message %d is for %r, which this App does not know", claim.id, name)
        text = "no worker knew this name"
        self._channel.add(name, [later(claim._key, UNKNOWN_NAME_US, "unknown_name", name, text)])
        return None

    def _pass(self, name: str, claim: Claim[Any]) -> Run | None:
        workflow = self._host.registry.workflow(name)
        if workflow is not None:
            return WorkflowRun(self._host, workflow, claim)
        log.warning("run %s is of %r, which this App does not know", claim.key, name)
        self._host.flows.put_off((claim.key or "").encode(), claim.token, UNKNOWN_NAME_US)
        return None
