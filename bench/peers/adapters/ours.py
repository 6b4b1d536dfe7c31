"""Fencepost: a queue of data with a handler, and a function that is a job."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.peers.peer import Adapter, Handler, Payload

import fencepost

__all__ = ["ADAPTERS"]


class Ours:
    """A file with one queue, and one worker thread."""

    def __init__(self, folder: Path, sync: str) -> None:
        durability: Any = sync
        self.app = fencepost.App(folder / "fencepost.db", durability=durability)
        self.close = self.app.store.close

    def until(self, stop: threading.Event) -> None:
        with self.app.worker(threads=1):
            stop.wait()


class OurQueue(Ours):
    def __init__(self, folder: Path, sync: str) -> None:
        super().__init__(folder, sync)
        self.queue = self.app.queue("q", dict[str, Any])
        self.put, self.put_many = self.queue.enqueue, self.queue.enqueue_many
        self.count = self.queue.size

    def take(self) -> Payload | None:
        claims = self.queue.claim()
        self.queue.ack(claims)
        return claims[0].payload if claims else None

    def work(self, handler: Handler, stop: threading.Event) -> None:
        @self.queue.handler()
        def handle(claims: list[fencepost.Claim[Payload]]) -> None:
            for claim in claims:
                handler(claim.payload)

        self.until(stop)


class OurJob(Ours):
    def __init__(self, folder: Path, sync: str) -> None:
        super().__init__(folder, sync)
        self.handler: Handler = print
        self.job = self.app.job(self.run)
        self.put = self.job.enqueue

    def run(self, order: Payload) -> None:
        self.handler(order)

    def put_many(self, payloads: Sequence[Payload]) -> object:
        return self.job.enqueue_many(self.job.call(payload) for payload in payloads)

    def count(self) -> int:
        queue = self.app.store.stats()["queues"]["default"]
        return int(queue["pending"]) + int(queue["leased"])

    def work(self, handler: Handler, stop: threading.Event) -> None:
        self.handler = handler
        self.until(stop)


ADAPTERS = {
    "fencepost": Adapter("Fencepost, a queue", None, OurQueue, "full", "lease, fenced ack"),
    "fencepost-job": Adapter(
        "Fencepost, a job",
        None,
        OurJob,
        "full",
        "lease, fenced ack, outcome kept",
        offers=("put", "many", "threads", "work", "listen"),
    ),
}
