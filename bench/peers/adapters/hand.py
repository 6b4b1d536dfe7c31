"""The queue that one writes by hand on the standard library: bench/_hand.py."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench._hand import HandClaim, HandQueue
from bench.peers.peer import ALL, Adapter, Handler, Payload, loop

__all__ = ["ADAPTERS"]

Batch = list[HandClaim]


class ByHand:
    """A connection for each thread; the worker claims and acks up to `batch` at a time."""

    def __init__(self, folder: Path, sync: str, *, batch: int = 1, nap: float = 0.05) -> None:
        self.path, self.sync, self.batch, self.nap = folder / "hand.db", sync, batch, nap
        self.mine = threading.local()
        self.opened: list[HandQueue] = []
        self.queue()

    def queue(self) -> HandQueue:
        found: HandQueue | None = getattr(self.mine, "queue", None)
        if found is None:
            found = self.mine.queue = HandQueue(self.path, sync=self.sync)
            self.opened.append(found)
        return found

    def put(self, payload: Payload) -> object:
        return self.queue().enqueue_many([payload])

    def put_many(self, payloads: Sequence[Payload]) -> object:
        return self.queue().enqueue_many(payloads)

    def take(self) -> Payload | None:
        claims = self.queue().claim(1)
        self.queue().ack(claims)
        return dict(claims[0].payload) if claims else None

    def count(self) -> int:
        rows: list[tuple[int]] = self.queue().db.execute("SELECT count(*) FROM job").fetchall()
        return rows[0][0]

    def work(self, handler: Handler, stop: threading.Event) -> None:
        queue = self.queue()

        def claim() -> tuple[Batch, Batch] | None:
            claims = queue.claim(self.batch)
            return (claims, claims) if claims else None

        def each(claims: Batch) -> None:
            for one in claims:
                handler(one.payload)

        loop(claim, queue.ack, each, stop, self.nap)

    def close(self) -> None:
        for queue in self.opened:
            queue.close()


def by_hand(title: str, *offers: str, batch: int = 1, nap: float = 0.05) -> Adapter:
    opened = partial(ByHand, batch=batch, nap=nap)
    return Adapter(title, None, opened, "full", "lease, token", offers=offers)


ADAPTERS = {
    "hand": by_hand("by hand, stdlib sqlite3", *(word for word in ALL if word != "listen")),
    "hand-100": by_hand("by hand, batches of 100", "many", "work", batch=100),
    "hand-1ms": by_hand("by hand, polls every 1 ms", "listen", nap=0.001),
    "hand-50ms": by_hand("by hand, polls every 50 ms", "listen", nap=0.05),
}
