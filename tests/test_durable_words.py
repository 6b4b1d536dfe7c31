"""
The words of `without-durability`, unchanged, over our stores: `resume`, what a pass says, graphs,
its doubles. `make compat` runs it where Python is new enough for that package.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from harness_durable import (
    NOW,
    REAL,
    Durable,
    Scheduler,
    as_is,
    claimed,
    connect,
    needs_it,
    real_time,
)

if REAL:
    TaskGroup: Any = vars(asyncio)["TaskGroup"]  # Python is new enough where this runs

    from without_dag import Graph
    from without_durability import (
        Blocked,
        Completed,
        Contended,
        Fenced,
        Interruption,
        MemoryCheckpointer,
        MemoryScheduler,
        Run,
        Sleeping,
        SplitDurable,
        Swallowed,
        extending,
        now_utc,
        resume,
        run_durably,
    )
    from without_durability import Checkpointer as CheckpointerOf
    from without_durability import Durable as DurableOf
    from without_durability import Scheduler as SchedulerOf
    from without_durability import claimed as claimed_of
    from without_durability.testing import passing

pytestmark = needs_it


@pytest.fixture
async def durable(path: Path) -> AsyncIterator[Durable]:
    async with real_time(path) as durable:
        yield durable


async def test_a_pass_ends_as_it_says(durable: Durable) -> None:
    """A90, A91, A95, A96: asleep, blocked, completed; what is recorded does not run again."""
    ran: list[str] = []

    async def effect(name: str) -> str:
        ran.append(name)
        return name

    async def body(run: Run) -> Any:
        await run.step("first", lambda: effect("first"), as_is)
        await run.sleep("nap", NOW)
        who = await run.awaiting("approved", as_is)
        return [who, await run.transact("last", lambda cursor: 42, as_is)]

    records = durable.checkpointer

    async def once() -> Any:
        held = await claimed(records)
        try:
            return await resume(held, records, body)
        finally:
            await records.release(held)

    outcome = await once()
    while isinstance(outcome, Sleeping):  # a nap of no time may still be seen as a deadline
        outcome = await once()
    assert isinstance(outcome, Blocked)
    assert [*outcome.waiting] == ["approved"]
    await durable.arrive("w", "approved", "ann")
    assert await once() == Completed(["ann", 42])
    assert await once() == Completed(["ann", 42])
    assert ran == ["first"]


async def test_a_suspension_cannot_be_swallowed(durable: Durable) -> None:
    """A101"""

    async def body(run: Run) -> None:
        with suppress(BaseException):
            await run.awaiting("never", as_is)

    with pytest.raises(Swallowed):
        await resume(await claimed(durable.checkpointer), durable.checkpointer, body)


async def test_a_graph_is_run_once(durable: Durable) -> None:
    """A106: recorded node by node; a finished one runs nothing; a lost race is told."""
    ran: list[str] = []

    async def double(value: int) -> int:
        ran.append("double")
        return value * 2

    async def add(one: int, other: int) -> int:
        ran.append("add")
        return one + other

    graph, (entry,) = Graph.of(int)
    doubled = graph.node("child:doubled", double, entry)
    run = graph.build(output=graph.node("sum", add, entry, doubled), limit=4)
    held = await claimed(durable.checkpointer)
    for _ in range(2):
        assert await run_durably(run, durable.checkpointer, held, 14) == 42
    assert ran == ["double", "add"]
    assert await durable.checkpointer.load("w") == {"child:doubled": 28, "sum": 42}

    async def late(value: int) -> int:
        await durable.checkpointer.supply("x", "only", -1)
        return value

    graph, (entry,) = Graph.of(int)
    run = graph.build(output=graph.node("only", late, entry), limit=1)
    with pytest.raises(Contended):
        await run_durably(run, durable.checkpointer, await claimed(durable.checkpointer, "x"), 1)


def test_our_stores_have_all_that_its_protocols_ask_for(durable: Durable) -> None:
    """Every public name, callable where theirs is."""
    for ours, theirs in (
        (durable, DurableOf),
        (durable.checkpointer, CheckpointerOf),
        (durable.scheduler, SchedulerOf),
    ):
        for name in dir(theirs):
            if not name.startswith("_"):
                assert hasattr(ours, name)


async def test_a_pass_is_claimed_or_contended(durable: Durable) -> None:
    """A35"""
    with pytest.raises(ValueError, match="positive"):
        await claimed_of(durable.checkpointer, "w", NOW)
    await claimed_of(durable.checkpointer, "w")
    with pytest.raises(Contended):
        await claimed_of(durable.checkpointer, "w")


async def test_a_finished_step_is_recorded_though_its_pass_is_cancelled(durable: Durable) -> None:
    """A92: cancelled again and again while the record is on its way."""
    done = asyncio.Event()

    async def effect() -> int:
        done.set()
        return 1

    async def body(run: Run) -> None:
        await run.step("a", effect, as_is)
        await run.awaiting("never", as_is)

    held = await claimed(durable.checkpointer)
    with durable.scheduler.database.store.transaction():  # the record has to wait for its turn
        running = asyncio.ensure_future(resume(held, durable.checkpointer, body))
        await done.wait()
        for _ in range(3):
            running.cancel()
            await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await durable.checkpointer.load("w") == {"a": 1}


async def test_a_step_buys_its_time_before_it_runs(durable: Durable) -> None:
    """A93, A105: who has lost the workflow does not run it; who has time enough does not ask."""
    records = durable.checkpointer
    ran: list[int] = []

    async def effect() -> int:
        ran.append(1)
        return 1

    async def body(run: Run) -> Any:
        return await run.step("a", effect, as_is, within=timedelta(hours=1))

    lost = await claimed(records)
    await records.discard("w")
    extend = extending(records)
    with pytest.raises(Fenced):
        await resume(lost, records, body, extend=extend)
    assert ran == []
    held = await claimed(records)
    assert await resume(held, records, body, extend=extend) == Completed(1)
    assert await resume(held, records, body, extend=extend) == Completed(1)
    assert ran == [1]


async def test_messages_are_read_once_and_the_same_again(durable: Durable) -> None:
    """A97 to A99, A107: a read of nothing is one; what comes meanwhile is for the next pass."""
    records = durable.checkpointer
    held = await claimed(records)
    first = await records.append("w", 1)
    run = passing(held, records, await records.load("w"))
    second = await records.append("w", 2)
    assert await run.receive("one") == (first,)
    assert await run.pending("none", after=first.key) == ()
    again = passing(held, records, await records.load("w"))
    assert await again.receive("one") == (first,)
    assert await again.pending("none", after=first.key) == ()
    assert await again.receive("two", after=first.key) == (second,)


async def test_names_are_steps_once(durable: Durable) -> None:
    """A100"""
    run = passing(await claimed(durable.checkpointer), durable.checkpointer)
    await run.step("a", lambda: asyncio.sleep(0, 1), as_is)
    for name in ("a", "inbox:1"):
        with pytest.raises(ValueError, match=name):
            await run.step(name, lambda: asyncio.sleep(0, 1), as_is)


async def test_what_a_pass_waits_for_is_told_together(durable: Durable) -> None:
    """A102, A103: out of a group of exceptions; and a deadline comes first."""

    async def waits(run: Run) -> None:
        async with TaskGroup() as group:
            group.create_task(run.awaiting("b", as_is))
            group.create_task(run.awaiting("a", as_is))

    async def sleeps(run: Run) -> None:
        async with TaskGroup() as group:
            group.create_task(run.awaiting("a", as_is))
            group.create_task(run.sleep("nap", timedelta(hours=1)))

    held = await claimed(durable.checkpointer)
    outcome = await resume(held, durable.checkpointer, waits)
    assert isinstance(outcome, Blocked)
    assert sorted(outcome.waiting) == ["a", "b"]
    outcome = await resume(held, durable.checkpointer, sleeps)
    assert isinstance(outcome, Sleeping)
    assert outcome.key == "nap"


async def test_interruptions_are_no_exceptions(durable: Durable) -> None:
    """A104: a body that catches all of its own failures does not catch that it has lost."""
    records = durable.checkpointer
    lost = await claimed(records)
    await records.discard("w")

    async def body(run: Run) -> None:
        with suppress(Exception):
            await run.step("a", lambda: asyncio.sleep(0, 1), as_is)

    with pytest.raises(Fenced):
        await resume(lost, records, body)
    assert issubclass(Fenced, Interruption)
    assert not issubclass(Interruption, Exception)


async def test_two_files_are_two_commits(durable: Durable, tmp_path: Path) -> None:
    """A84: its own composition takes our stores, too."""
    other = connect(tmp_path / "other.db")
    split = SplitDurable(durable.checkpointer, Scheduler(other))
    assert await split.arrive("w", "a", 1) == 1
    entry = await split.deliver("w", 2)
    assert await durable.checkpointer.load("w") == {"a": 1, entry.key: 2}
    assert (await split.scheduler.next_ready(NOW)).workflow == "w"
    assert await split.delete("w") == 2
    await other.aclose()


async def test_its_doubles_and_ours_tell_the_same_story(durable: Durable) -> None:
    """A108: what its stores in memory answer, ours do."""

    async def story(records: Any, line: Any) -> list[Any]:
        told: list[Any] = []
        held = await records.claim("w", timedelta(minutes=5), timedelta(minutes=1))
        told.append(await records.claim("w", timedelta(minutes=5), timedelta(minutes=1)))
        told.append(await records.record(held, "a", (1, 2)))
        told.append(await records.record(held, "a", [3]))
        told.append(await records.supply("w", "b", None))
        told.append((await records.append("w", {"x": 1})).value)
        told += [len(await records.load("w")), [*await records.load("w")][:2]]
        told.append(await records.renew(held, timedelta(minutes=1)))
        told.append(await records.discard("w"))
        told.append(await records.extend(held, timedelta(minutes=1), timedelta(minutes=1)))
        for workflow in ("x", "y"):
            await line.make_ready(workflow)
        out = await line.next_ready(NOW)
        told.append(out.workflow)
        await line.make_ready("x")
        await line.done(out)
        rest = [await line.next_ready(NOW), await line.next_ready(NOW)]
        told += [sorted(one.workflow for one in rest), await line.next_ready(NOW)]
        await line.cancel("y")
        await line.wake_at(next(one for one in rest if one.workflow == "y"), now_utc())
        told.append(await line.next_ready(NOW))
        return told

    theirs = await story(MemoryCheckpointer(), MemoryScheduler())
    assert await story(durable.checkpointer, durable.scheduler) == theirs
