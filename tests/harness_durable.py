"""
The stores of `without_durability` over ours, and what tests of them share. Where it is not
installed, a stand-in has the types that they speak in, and its runner's tests are skipped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import without_durability

import standin_durability
from fencepost.compat.without_durability import (
    Checkpointer,
    Cursor,
    Database,
    Durable,
    Scheduler,
    connect,
    migrate,
)

__all__ = ["BUDGET", "MINUTE", "NOW", "REAL", "Checkpointer", "Cursor", "Database", "Durable"]
__all__ += ["Fenced", "Pass", "Scheduler", "as_is", "claimed", "connect", "durable_of", "key_of"]
__all__ += ["migrate", "needs_it", "real_time", "working"]

REAL = standin_durability.REAL
needs_it = pytest.mark.skipif(not REAL, reason="without-durability is not installed: make compat")

Fenced: Any = without_durability.Fenced
Pass: Any = without_durability.Pass

NOW = timedelta()
MINUTE = timedelta(minutes=1)
BUDGET = timedelta(minutes=5)


def durable_of(database: Database, **scheduler: Any) -> Durable:
    return Durable(Checkpointer(database), Scheduler(database, **scheduler))


@asynccontextmanager
async def real_time(path: Path, **scheduler: Any) -> AsyncIterator[Durable]:
    """Both on a file of their own."""
    database = connect(path)
    try:
        yield durable_of(database, **scheduler)
    finally:
        await database.aclose()


async def claimed(records: Checkpointer, workflow: str = "w", **spans: timedelta) -> Any:
    held = await records.claim(workflow, spans.get("budget", BUDGET), spans.get("alive", MINUTE))
    assert held is not None
    return held


def as_is(value: Any) -> Any:
    return value


@asynccontextmanager
async def working(durable: Durable, body: Callable[[Any], Any], **how: Any) -> AsyncIterator[None]:
    """Its own worker, until the end of the block."""
    worker = asyncio.ensure_future(without_durability.work(durable, body, **how))
    try:
        yield
    finally:
        worker.cancel()
        with suppress(asyncio.CancelledError):
            await worker


async def key_of(durable: Durable, workflow: str, key: str) -> Any:
    """Its value, once it is recorded."""
    while key not in (found := await durable.checkpointer.load(workflow)):
        await asyncio.sleep(0.001)
    return found[key]
