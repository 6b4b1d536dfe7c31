"""One message of an outbox or an inbox, as what it is run as."""

from __future__ import annotations

from typing import Any

from fencepost._worker.receiptrun import ReceiptRun
from fencepost._worker.routes import Route
from fencepost._worker.runs import Host, Run
from fencepost._worker.sendrun import SendRun
from fencepost.claims import Claim
from fencepost.outbox import Outbox

__all__ = ["box_run"]


def box_run(host: Host, route: Route, claim: Claim[Any]) -> Run:
    box = route.box
    assert box is not None  # else it is a job, or for a handler of plain messages
    if isinstance(box, Outbox):
        return SendRun(host, box, claim, resends=route.resends)
    return ReceiptRun(host, box, claim)
