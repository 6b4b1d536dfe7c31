"""Event loops for tests: those of asyncio and of uvloop, and calls that are made behind a turn."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from fencepost import Queue, Store
from fencepost._binding.requests import Cancelling
from fencepost._binding.watch import Line
from harness_core import lib

__all__ = ["behind", "line", "run_on", "spin", "waiting"]

T = TypeVar("T")


def run_on(name: str, main: Coroutine[Any, Any, T]) -> T:
    """What `asyncio.run` does, on a loop of that library."""
    loop = importlib.import_module(name).new_event_loop()
    try:
        asyncio.set_event_loop(loop)
        found: T = loop.run_until_complete(main)
        return found
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def spin(fact: Callable[[], bool]) -> None:
    """The loop goes on until it is so; the test's own time-out ends a wait that never ends."""
    while not fact():
        await asyncio.sleep(0.001)


async def behind(store: Store, *calls: Coroutine[Any, Any, Any], **more: Any) -> list[Any]:
    """
    Made while somebody else has the turn, which ends once all of them have come; their answers, or
    what they raised. One more stands in line before them, so that they cross together. `meanwhile`
    is called before the turn ends, with their tasks.
    """
    bridge, core = store._file.bridge, store._file.core
    begun = core.begin(30)
    try:
        plug = asyncio.create_task(bridge.write(Cancelling([])))
        await spin(lambda: lib.fp_waiting(core._store) == 1)
        tasks = [asyncio.create_task(call) for call in calls]
        await spin(lambda: len(bridge.writers._line) == len(tasks))
        await more.get("meanwhile", _nothing)(tasks)
    finally:
        begun.end(commit=True)
    await plug
    return await asyncio.gather(*tasks, return_exceptions=True)


async def _nothing(_tasks: object) -> None: ...


def line(store: Store, queue: Queue[Any]) -> Line:
    """Those who wait for a message of the queue."""
    watch = store._file.bridge.watch
    return watch._lines.setdefault((True, store._file.find(queue.name)), Line())


def waiting(store: Store) -> int:
    """How many calls stand in the core's line for the turn."""
    found: int = lib.fp_waiting(store._file.core._store)
    return found
