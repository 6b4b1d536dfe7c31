"""litequeue: texts, claimed and done one at a time. It has no worker of its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import litequeue as queue
from bench._hand import dumps
from bench.peers.peer import ALL, Adapter, Handler, Payload, loop

__all__ = ["ADAPTERS"]


class Lite:
    def __init__(self, folder: Path, sync: str) -> None:
        self.queue: Any = queue.LiteQueue(str(folder / "litequeue.db"))
        self.queue.conn.execute(f"PRAGMA synchronous = {sync}")
        self.close = self.queue.close

    def put(self, payload: Payload) -> object:
        return self.queue.put(dumps(payload))

    def put_many(self, payloads: Sequence[Payload]) -> object:
        with self.queue.transaction(mode="IMMEDIATE"):
            for payload in payloads:
                self.queue.put(dumps(payload))
        return None

    def claim(self) -> tuple[Any, Payload] | None:
        message = self.queue.pop()
        return None if message is None else (message, json.loads(message.data))

    def ack(self, message: Any) -> object:
        return self.queue.done(message.message_id, claim_id=message.claim_id)

    def take(self) -> Payload | None:
        claimed = self.claim()
        if claimed is None:
            return None
        self.ack(claimed[0])
        return claimed[1]

    def count(self) -> int:
        return int(self.queue.active_count())

    def work(self, handler: Handler, stop: threading.Event) -> None:
        loop(self.claim, self.ack, handler, stop, 0.05)


ADAPTERS = {
    "litequeue": Adapter(
        "litequeue",
        "litequeue",
        Lite,
        "normal",
        "stays locked until it is retried",
        offers=ALL[:-1],
    )
}
