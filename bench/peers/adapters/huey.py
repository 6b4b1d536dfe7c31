"""huey: a function that is a task, and its consumer. It has no ack: a task leaves at its claim."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import huey as queue
from bench.peers.peer import Adapter, Handler, Payload

__all__ = ["ADAPTERS"]


class Huey:
    def __init__(self, folder: Path, sync: str) -> None:
        logging.getLogger("huey").setLevel(logging.CRITICAL)
        self.huey = queue.SqliteHuey(filename=str(folder / "huey.db"))
        # Its own switch knows FULL and OFF only.
        self.huey.storage.conn.execute(f"PRAGMA synchronous = {sync}")
        self.handler: Handler = lambda _: None
        self.put = self.huey.task()(self.run)
        self.count = self.huey.pending_count
        self.close = self.huey.storage.close

    def run(self, order: Payload) -> None:
        self.handler(order)

    def take(self) -> Payload | None:
        """There is no claim without a run."""
        taken: list[Payload] = []
        self.handler = taken.append
        task = self.huey.dequeue()
        if task is None:
            return None
        self.huey.execute(task)
        return taken[0]

    def work(self, handler: Handler, stop: threading.Event) -> None:
        self.handler = handler
        consumer = self.huey.create_consumer(workers=1, periodic=False)
        consumer.start()
        stop.wait()
        consumer.stop(graceful=True)


ADAPTERS = {
    "huey": Adapter(
        "huey",
        "huey",
        Huey,
        "full",
        "no ack: lost with its worker",
        offers=("put", "take", "threads", "work", "listen"),
    )
}
