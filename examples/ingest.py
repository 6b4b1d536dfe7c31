"""
Files of JSON lines into a queue, a thread each; summarised in batches, each report once.

    python examples/ingest.py python/fencepost/data/quakes.jsonl

Run it again, or kill it half-way and run it again: the sums stay right. Reports are known by their
id, and what a batch adds to the sums is one commit with the end of its messages.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import msgspec

import fencepost


class Quake(msgspec.Struct):
    id: str
    time: int
    mag: float | None
    net: str


app = fencepost.App("quakes.db")
quakes = app.queue("quakes", Quake, max_size=100_000, max_attempts=3, lease=60)


@quakes.handler(batch=500, linger=0.2)
def summarise(batch: fencepost.Batch[Quake]) -> None:
    for claim in batch:
        if claim.payload.mag is None:
            claim.fail("no magnitude", tx=batch.tx)  # the others are acked when this returns
    batch.tx.executemany(
        "INSERT INTO network VALUES (?, 1, ?) ON CONFLICT (net) DO UPDATE SET"
        " reports = reports + 1, strongest = max(strongest, excluded.strongest)",
        ((quake.net, quake.mag) for quake in batch.payloads if quake.mag is not None),
    )


def batches(file: BinaryIO, size: int) -> Iterator[list[Quake]]:
    while lines := list(islice(file, size)):
        yield [msgspec.json.decode(line, type=Quake) for line in lines]


def produce(path: Path) -> None:
    """While the queue is full, `enqueue_many` waits: a reader is never far ahead of the worker."""
    with path.open("rb") as file:
        for batch in batches(file, 1000):
            answers = quakes.enqueue_many(batch, key=lambda quake: quake.id, wait=600)
            new = sum(answer.created for answer in answers)
            print(f"{path.name}: {new} new, {len(answers) - new} known")


def main(paths: list[str]) -> None:
    with app.transaction() as tx:
        tx.execute(
            "CREATE TABLE IF NOT EXISTS network (net TEXT PRIMARY KEY, reports INT, strongest REAL)"
        )
    producers = [threading.Thread(target=produce, args=(Path(path),)) for path in paths]
    with app.worker(threads=2):
        for producer in producers:
            producer.start()
        for producer in producers:
            producer.join()
        while quakes.size():
            time.sleep(0.05)
    with app.transaction() as tx:
        for net, reports, strongest in tx.execute("SELECT * FROM network ORDER BY reports DESC"):
            print(f"{net}: {reports} reports, strongest {strongest}")


if __name__ == "__main__":
    main(sys.argv[1:])
