"""
Durable workflows as one writes them by hand on the standard library: records, fenced claims and a
line of wake-ups in three tables, one connection and one lock, a commit a statement that polls.

A workflow of three steps costs it eight commits: made ready, taken, claimed, three records,
released, done. It has no results, states, failures or messages, and no clock but the wall's.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["HandDurable", "Pass", "work"]

SCHEMA = """
CREATE TABLE IF NOT EXISTS step (
  number INTEGER PRIMARY KEY, workflow TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,
  at REAL NOT NULL, UNIQUE (workflow, key)
);
CREATE TABLE IF NOT EXISTS holder (
  workflow TEXT PRIMARY KEY, token INTEGER NOT NULL, until REAL NOT NULL, alive REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS ready (workflow TEXT PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS ready_at ON ready (at);
"""
LEASE_S, BUDGET_S, POLL_S = 60.0, 300.0, 0.05


class Pass(NamedTuple):
    workflow: str
    token: int
    seen: float  # the moment it was taken until, which is its receipt


class HandDurable:
    """All of it in one file, for all threads."""

    def __init__(self, path: Path, *, sync: str = "FULL") -> None:
        self.db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=60)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute(f"PRAGMA synchronous = {sync}")
        self.db.executescript(SCHEMA)
        self._lock = threading.Lock()

    @contextmanager
    def _commit(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self.db.execute("BEGIN IMMEDIATE")
            try:
                yield self.db
                self.db.execute("COMMIT")
            except BaseException:
                self.db.execute("ROLLBACK")
                raise

    def make_ready(self, workflow: str) -> None:
        with self._commit() as db:
            db.execute(
                "INSERT INTO ready VALUES (?, ?) ON CONFLICT (workflow) DO UPDATE SET at = min(at,"
                " excluded.at)",
                (workflow, time.time()),
            )

    def take(self) -> Pass | None:
        """The next workflow, taken and claimed: two commits, of which the first is the poll."""
        now = time.time()
        with self._commit() as db:
            row = db.execute(
                "UPDATE ready SET at = ? WHERE workflow = (SELECT workflow FROM ready"
                " WHERE at <= ? ORDER BY at LIMIT 1) RETURNING workflow",
                (now + LEASE_S, now),
            ).fetchone()
        if row is None:
            return None
        with self._commit() as db:
            token = db.execute(
                "INSERT INTO holder VALUES (?, 1, ?, ?) ON CONFLICT (workflow) DO UPDATE SET"
                " token = token + 1, until = excluded.until, alive = excluded.alive"
                " WHERE alive <= ? RETURNING token",
                (row[0], now + BUDGET_S, now + LEASE_S, now),
            ).fetchone()
        return None if token is None else Pass(row[0], token[0], now + LEASE_S)

    def load(self, workflow: str) -> dict[str, Any]:
        with self._lock:
            rows = self.db.execute(
                "SELECT key, value FROM step WHERE workflow = ? ORDER BY number", (workflow,)
            ).fetchall()
        return {key: json.loads(value) for key, value in rows}

    def record(self, held: Pass, key: str, value: object) -> object:
        """What is stored, be it this or what was there; and a sign of life."""
        now, text = time.time(), json.dumps(value)
        with self._commit() as db:
            row = db.execute(
                "INSERT INTO step (workflow, key, value, at) SELECT ?, ?, ?, ? FROM holder"
                " WHERE workflow = ? AND token <= ? ON CONFLICT (workflow, key) DO UPDATE SET"
                " value = step.value RETURNING value",
                (held.workflow, key, text, now, held.workflow, held.token),
            ).fetchone()
            db.execute(
                "UPDATE holder SET alive = min(?, until) WHERE workflow = ? AND token <= ?",
                (now + LEASE_S, held.workflow, held.token),
            )
        if row is None:
            raise RuntimeError(f"{held.workflow} is somebody else's")
        return json.loads(row[0])

    def release(self, held: Pass) -> None:
        now = time.time()
        with self._commit() as db:
            db.execute(
                "UPDATE holder SET until = ?, alive = ? WHERE workflow = ? AND token = ?",
                (now, now, held.workflow, held.token),
            )

    def done(self, held: Pass) -> None:
        with self._commit() as db:
            db.execute(
                "DELETE FROM ready WHERE workflow = ? AND at = ?", (held.workflow, held.seen)
            )

    def close(self) -> None:
        self.db.close()


def work(
    durable: HandDurable,
    body: Callable[[HandDurable, Pass], object],
    threads: int,
    over: threading.Event,
) -> None:
    """So many passes at once, until it is `over`."""

    def loop() -> None:
        while not over.is_set():
            held = durable.take()
            if held is None:
                over.wait(POLL_S)
                continue
            body(durable, held)
            durable.release(held)
            durable.done(held)

    workers = [threading.Thread(target=loop) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
