"""honker: claims with a time-out for its visibility. It cannot be told to be durable."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import honker as queue
from bench.peers.peer import LEASE, Adapter, Handler, Payload, when

__all__ = ["ADAPTERS"]

WORKER = "bench"


class Honker:
    def __init__(self, folder: Path, sync: str) -> None:
        self.db: Any = queue.open(str(folder / "honker.db"))
        self.queue: Any = self.db.queue("q", visibility_timeout_s=LEASE)
        self.put, self.close = self.queue.enqueue, self.db.close

    def put_many(self, payloads: Sequence[Payload]) -> object:
        with self.db.transaction() as tx:
            for payload in payloads:
                self.queue.enqueue(payload, tx=tx)
        return None

    def take(self) -> Payload | None:
        job = self.queue.claim_one(WORKER)
        if job is None:
            return None
        job.ack()
        return dict(job.payload)

    def count(self) -> int:
        rows = self.db.query("SELECT count(*) AS n FROM _honker_live")
        return int(rows[0]["n"])

    def work(self, handler: Handler, stop: threading.Event) -> None:
        async def serve() -> None:
            async for job in self.queue.claim(WORKER):
                handler(job.payload)
                job.ack()
                if stop.is_set():  # with jobs in line, nothing else of the loop gets its turn
                    return

        async def until() -> None:
            serving = asyncio.ensure_future(serve())
            here = asyncio.get_running_loop()

            def cancel() -> None:
                with suppress(RuntimeError):  # the loop has ended by itself
                    here.call_soon_threadsafe(serving.cancel)

            when(stop, cancel)
            await asyncio.wait([serving])

        asyncio.run(until())


ADAPTERS = {
    "honker": Adapter(
        "honker", "honker", Honker, "normal", "visibility time-out", syncs=("normal",)
    )
}
