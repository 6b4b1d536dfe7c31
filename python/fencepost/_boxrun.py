"""One message of an outbox or an inbox, as what it is run as."""

from __future__ import annotations

from typing import Any

from fencepost._receiptrun import ReceiptRun
from fencepost._runs import Host, Run
from fencepost._sendrun import SendRun
from fencepost.claims import Claim
from fencepost.inbox import Inbox
from fencepost.outbox import Outbox

__all__ = ["box_run"]


def box_run(host: Host, box: Outbox[Any] | Inbox[Any], claim: Claim[Any]) -> Run:
    if isinstance(box, Outbox):
        return SendRun(host, box, claim)
    return ReceiptRun(host, box, claim)
