"""Ways in which a workflow may run branches side by side."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from fencepost.run import Run

__all__ = ["SIDEWAYS", "Branches", "by_run", "sideways", "task_group"]

Branches = Callable[..., Awaitable[object]]
task_group: Any = getattr(asyncio, "TaskGroup", None)


async def by_run(run: Run, *branches: Coroutine[Any, Any, Any]) -> None:
    await run.gather(*branches)


async def by_gather(run: Run, *branches: Coroutine[Any, Any, Any]) -> None:
    await asyncio.gather(*branches)


async def by_nested_gathers(run: Run, *branches: Coroutine[Any, Any, Any]) -> None:
    await asyncio.gather(*(asyncio.gather(asyncio.gather(branch)) for branch in branches))


async def by_shields(run: Run, *branches: Coroutine[Any, Any, Any]) -> None:
    await asyncio.gather(*(asyncio.shield(branch) for branch in branches))


async def by_timeouts(run: Run, *branches: Coroutine[Any, Any, Any]) -> None:
    await asyncio.gather(*(asyncio.wait_for(branch, 60) for branch in branches))


async def by_wait(run: Run, *branches: Coroutine[Any, Any, Any]) -> None:
    tasks = [asyncio.ensure_future(branch) for branch in branches]
    await asyncio.wait(tasks)
    for task in tasks:
        task.result()


async def by_tasks(run: Run, *branches: Coroutine[Any, Any, Any]) -> None:
    for task in [asyncio.ensure_future(branch) for branch in branches]:
        await task


async def by_group(run: Run, *branches: Coroutine[Any, Any, Any]) -> None:
    async with task_group() as group:
        for branch in branches:
            group.create_task(branch)


SIDEWAYS: list[Branches] = [by_run, by_gather, by_nested_gathers, by_shields, by_timeouts]
SIDEWAYS += [by_wait, by_tasks]
if sys.version_info >= (3, 11):
    SIDEWAYS.append(by_group)
sideways = pytest.mark.parametrize("beside", SIDEWAYS, ids=lambda fn: fn.__name__)
