"""
What a workflow waits for: moments, signals, messages, children; and several things at once.

Each deadline is recorded on the pass that comes to it first, and never moves. What ends a wait is
in the file, too: the signal, the children's end, or that the deadline came first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from fencepost._checks import shown
from fencepost._workflow.history import (
    CHILD,
    DEADLINE,
    LATE,
    RECEIVE,
    SIGNAL,
    SLEEP,
    Entry,
    Record,
    deadline_key,
    ended_key,
    signal_key,
)
from fencepost._workflow.outcomes import weightiest
from fencepost._workflow.passes import Pass
from fencepost._workflow.roundtrip import read_moment, write_moment
from fencepost._workflow.tasks import kept

__all__ = ["child", "gather", "receive", "sleep", "wait"]


class Taken(msgspec.Struct):
    """Which messages a `receive` took: those behind `after`, up to `last`."""

    after: int
    last: int


async def sleep(p: Pass, name: str, record: Record | None, due_us: Callable[[], int]) -> None:
    if record is None:
        await p.frontier()
        until_us = due_us()
        p.note(Entry(name, SLEEP, write_moment(until_us), p.ledger.now_us()))
    else:
        await p.in_turn(record)
        until_us = read_moment(record.value)
    if p.ledger.now_us() < until_us:
        await p.suspend(name, until_us, others=False)


async def wait(p: Pass, name: str, record: Record | None, type: Any, timeout_us: int | None) -> Any:
    """`TimeoutError`, also on each later pass."""
    if record is None:
        until_us = await _deadline(p, name, timeout_us)
        if until_us is None or p.ledger.now_us() < until_us:
            await p.suspend(name, until_us, others=True)
        # Whoever is first in the file: a signal that comes from now on is told that it is late.
        key = signal_key(name)
        told = await p.at_once(Entry(key, LATE, None))
        if key not in told.others:
            raise _late(name)
        return p.codec.decode(told.others[key] or b"null", type)
    if record.kind != SIGNAL:
        raise _late(name)
    return p.codec.decode(record.value or b"null", type)


def _late(name: str) -> TimeoutError:
    return TimeoutError(f"{shown(name)} did not come in time")


async def _deadline(p: Pass, name: str, timeout_us: int | None) -> int | None:
    key = deadline_key(name)
    recorded = p.history.find(key)
    if recorded is not None:
        await p.in_turn(recorded)
        await p.frontier()
        return read_moment(recorded.value)
    await p.frontier()
    if timeout_us is None:
        return None
    now_us = p.ledger.now_us()
    p.note(Entry(key, DEADLINE, write_moment(now_us + timeout_us), now_us))
    return now_us + timeout_us


async def receive(
    p: Pass, name: str, record: Record | None, type: Any, limit: int, timeout_us: int | None
) -> list[Any]:
    if record is not None:
        await p.in_turn(record)
        taken = msgspec.json.decode(record.value or b"", type=Taken)
        p.taken = max(p.taken, taken.last)
        return [
            p.codec.decode(one.value or b"null", type)
            for one in p.history.inbox(taken.after, None)
            if one.seq <= taken.last
        ]
    until_us = await _deadline(p, name, timeout_us)
    found = p.history.inbox(p.taken, limit)
    now_us = p.ledger.now_us()
    if not found and (until_us is None or now_us < until_us):
        await p.suspend(name, until_us, others=True)
    values = [p.codec.decode(one.value or b"null", type) for one in found]
    taken = Taken(p.taken, found[-1].seq if found else p.taken)
    p.taken = taken.last
    p.note(Entry(name, RECEIVE, msgspec.json.encode(taken), now_us))
    return values


async def child(
    p: Pass, name: str, record: Record | None, start: object, result: Callable[[Record], Any]
) -> Any:
    """`start` is what the file is asked to begin; `result` reads what came of it, or raises it."""
    if record is None:
        await p.frontier()
        p.note(Entry(name, CHILD, None, p.ledger.now_us(), start))
        await p.suspend(name, None, others=True)
    await p.in_turn(record)
    ended = p.history.find(ended_key(name))
    if ended is None:
        await p.suspend(name, None, others=True)
    return result(ended)


async def gather(p: Pass, steps: Sequence[Awaitable[Any]]) -> list[Any]:
    """
    All of them, each to its end or to what it waits for. What is raised is what counts most: a
    failure before a wait.
    """
    if not steps:
        return []
    tasks = [p.tasks.gathered(kept(step)) for step in steps]
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise
    p.answer_for(tasks)
    ended = [task.result() for task in tasks]
    errors = [one.error for one in ended if one.error is not None]
    if errors:
        raise weightiest(errors)
    return [one.value for one in ended]
