"""
The worker of `fencepost demo`, and an example of one: a queue, a handler, one commit for it all.

    fencepost --database demo.db work fencepost.cli.demo_app:app
"""

import time

import msgspec

import fencepost

BATCH = 20
WORK = 0.005  # seconds of other work that each report stands for: time to be killed in

TABLES = (
    "CREATE TABLE region (name TEXT PRIMARY KEY, reports INT, strongest REAL, place TEXT)",
    "CREATE TABLE applied (quake TEXT, token INT, attempt INT)",  # without a key: it would show
)


class Quake(msgspec.Struct):
    id: str
    mag: float | None
    place: str

    @property
    def region(self) -> str:
        """`4km W of Castaic, CA` is in California, `South of Alaska` in Alaska."""
        name = self.place.rpartition(", ")[2].rpartition(" of ")[2]
        return {"CA": "California", "MX": "Mexico", "NV": "Nevada"}.get(name, name)


app = fencepost.App()
quakes = app.queue("quakes", Quake, max_attempts=100)


@quakes.handler(batch=BATCH)
def summarise(batch: fencepost.Batch[Quake]) -> None:
    """These rows and the ack of the batch are one commit: all of it happens, once, or none."""
    time.sleep(WORK * len(batch))
    batch.tx.executemany(
        "INSERT INTO region VALUES (?, 1, ?, ?) ON CONFLICT (name) DO UPDATE SET"
        " reports = reports + 1,"
        " place = iif(excluded.strongest > strongest, excluded.place, place),"
        " strongest = max(strongest, excluded.strongest)",
        ((q.region, q.mag or 0.0, q.place) for q in batch.payloads),
    )
    batch.tx.executemany(
        "INSERT INTO applied VALUES (?, ?, ?)", ((c.payload.id, c.token, c.attempt) for c in batch)
    )
