"""localqueue: leases with a receipt, and its worker. It has two levels of durability."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import localqueue as queue
from bench.peers.peer import LEASE, Adapter, Handler, Payload, when

__all__ = ["ADAPTERS"]


class Local:
    def __init__(self, folder: Path, sync: str) -> None:
        logging.getLogger("localqueue").setLevel(logging.CRITICAL)
        modes = {"full": queue.DurabilityMode.DURABLE, "normal": queue.DurabilityMode.RELAXED}
        self.queue: Any = queue.SimpleQueue(
            str(folder),
            delivery=queue.DeliveryPolicy(lease_seconds=LEASE),
            durability=modes[sync],
        )
        self.put, self.close = self.queue.put, self.queue.close

    def put_many(self, payloads: Sequence[Payload]) -> object:
        return self.queue.put_many([queue.EnqueueItem(payload) for payload in payloads])

    def take(self) -> Payload | None:
        try:
            job = self.queue.get(block=False)
        except queue.Empty:
            return None
        self.queue.ack(job)
        return dict(job.data)

    def count(self) -> int:
        stats = self.queue.stats()
        return int(stats["ready"]) + int(stats["processing"])

    def work(self, handler: Handler, stop: threading.Event) -> None:
        worker: Any = queue.Worker(self.queue, lambda job: handler(job.data))
        when(stop, worker.stop)
        worker.run()


ADAPTERS = {
    "localqueue": Adapter("localqueue", "localqueue", Local, "normal", "lease, receipt"),
}
