"""
The queue that one writes by hand on the standard library, and a good one: the bar to clear; and
the worker that one writes for it.

WAL, one statement for each step, prepared once and kept by the module's cache, `executemany`, one
commit a batch, an index on (queue, due), a token against late acks. It has no priorities, keys,
lanes, outcomes, counts, dead letters, and no clock but the wall's.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["HandClaim", "HandQueue", "work"]

SCHEMA = """
CREATE TABLE IF NOT EXISTS job (
  id INTEGER PRIMARY KEY, queue TEXT NOT NULL, due INTEGER NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0, token INTEGER NOT NULL DEFAULT 0, body NOT NULL
);
CREATE INDEX IF NOT EXISTS job_due ON job (queue, due);
"""
LEASE_US = 30_000_000
Body = str | bytes
dumps = json.JSONEncoder(separators=(",", ":")).encode  # json.dumps would make one at each call


class HandClaim(NamedTuple):
    id: int
    token: int
    attempt: int
    payload: Any


class HandQueue:
    """One queue in one file. `encode` and `decode` are json's, unless they are given."""

    def __init__(
        self,
        path: Path,
        *,
        sync: str,
        encode: Callable[[object], Body] = dumps,
        decode: Callable[[Any], object] = json.loads,
    ) -> None:
        self.encode, self.decode = encode, decode
        self.db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=60)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute(f"PRAGMA synchronous = {sync}")
        self.db.executescript(SCHEMA)

    def enqueue_many(self, payloads: Sequence[object]) -> range:
        due = time.time_ns() // 1000
        rows = [("q", due, self.encode(payload)) for payload in payloads]
        self.db.execute("BEGIN IMMEDIATE")
        self.db.executemany("INSERT INTO job (queue, due, body) VALUES (?, ?, ?)", rows)
        last: int = self.db.execute("SELECT last_insert_rowid()").fetchone()[0]
        self.db.execute("COMMIT")
        return range(last - len(rows) + 1, last + 1)

    def claim(self, limit: int) -> list[HandClaim]:
        """What was just selected is what is taken: the bound of the update is its last row."""
        now, token = time.time_ns() // 1000, secrets.randbits(62)
        self.db.execute("BEGIN IMMEDIATE")
        rows = self.db.execute(
            "SELECT id, attempts, body, due FROM job WHERE queue = ? AND due <= ?"
            " ORDER BY due, id LIMIT ?",
            ("q", now, limit),
        ).fetchall()
        if rows:
            self.db.execute(
                "UPDATE job SET due = ?, attempts = attempts + 1, token = ?"
                " WHERE queue = ? AND (due, id) <= (?, ?)",
                (now + LEASE_US, token, "q", rows[-1][3], rows[-1][0]),
            )
        self.db.execute("COMMIT")
        return [HandClaim(id_, token, n + 1, self.decode(body)) for id_, n, body, _ in rows]

    def ack(self, claims: Sequence[HandClaim]) -> int:
        """How many were still ours."""
        keys = [(claim.id, claim.token) for claim in claims]
        self.db.execute("BEGIN IMMEDIATE")
        done = self.db.executemany("DELETE FROM job WHERE id = ? AND token = ?", keys)
        self.db.execute("COMMIT")
        return done.rowcount

    def close(self) -> None:
        self.db.close()


def work(
    open_queue: Callable[[], HandQueue], handler: Callable[[Any], object], threads: int
) -> None:
    """Claim one, run it, ack it, until none is due; each thread on a connection of its own."""

    def serve() -> None:
        queue = open_queue()
        while claims := queue.claim(1):
            handler(claims[0].payload)
            queue.ack(claims)
        queue.close()

    started = [threading.Thread(target=serve) for _ in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
