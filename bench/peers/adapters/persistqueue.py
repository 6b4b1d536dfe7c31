"""persist-queue: its ack queue, one process at a time. It has no worker of its own."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import persistqueue as queue
from bench.peers.peer import Adapter, Handler, Payload, loop

__all__ = ["ADAPTERS"]


class Persist:
    def __init__(self, folder: Path, sync: str) -> None:
        self.queue: Any = queue.SQLiteAckQueue(str(folder), multithreading=True)
        for connection in (self.queue._putter, self.queue._getter):
            connection.execute(f"PRAGMA synchronous = {sync}")
        self.put, self.count = self.queue.put, self.queue.active_size

    def claim(self) -> tuple[int, Payload] | None:
        try:
            item = self.queue.get(block=False, raw=True)
        except queue.Empty:
            return None
        return item["pqid"], item["data"]

    def ack(self, id: int) -> None:
        self.queue.ack(id=id)

    def take(self) -> Payload | None:
        claimed = self.claim()
        if claimed is None:
            return None
        self.ack(claimed[0])
        return claimed[1]

    def work(self, handler: Handler, stop: threading.Event) -> None:
        loop(self.claim, self.ack, handler, stop, 0.05)

    def close(self) -> None:
        self.queue.close()


ADAPTERS = {
    "persist-queue": Adapter(
        "persist-queue, SQLiteAckQueue",
        "persist-queue",
        Persist,
        "full",
        "back at the next start",
        offers=("put", "take", "threads", "work"),
    )
}
