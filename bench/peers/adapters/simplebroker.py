"""
simplebroker: texts. What it advises for work that must not be lost: move a message to a queue of
those in flight, and delete it there by its id when it is done.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import simplebroker as queue
from bench._hand import dumps
from bench.peers.peer import Adapter, Handler, Payload, when

__all__ = ["ADAPTERS"]


class Broker:
    def __init__(self, folder: Path, sync: str) -> None:
        self.path = str(folder / "broker.db")
        self.config: Any = queue.resolve_config(override={"BROKER_SYNC_MODE": sync.upper()})
        self.waiting, self.flying = self.queue("waiting"), self.queue("flying")

    def queue(self, name: str) -> Any:
        return queue.Queue(name, db_path=self.path, persistent=True, config=self.config)

    def put(self, payload: Payload) -> object:
        return self.waiting.write(dumps(payload))

    def take(self) -> Payload | None:
        moved = self.waiting.move_one(self.flying, with_timestamps=True)
        if moved is None:
            return None
        self.flying.delete(message_id=moved[1])
        payload: Payload = json.loads(moved[0])
        return payload

    def count(self) -> int:
        return sum(one.stats().pending for one in (self.waiting, self.flying))

    def work(self, handler: Handler, stop: threading.Event) -> None:
        def handle(body: str, id: int) -> None:
            handler(json.loads(body))
            self.flying.delete(message_id=id)

        watcher: Any = queue.QueueMoveWatcher(
            self.waiting, "flying", handle, db=self.path, config=self.config
        )
        when(stop, watcher.stop)
        watcher.run_forever()

    def close(self) -> None:
        self.waiting.close()
        self.flying.close()


ADAPTERS = {
    "simplebroker": Adapter(
        "simplebroker, move and delete",
        "simplebroker",
        Broker,
        "full",
        "stays among those in flight",
        offers=("put", "take", "threads", "work", "listen"),
    )
}
