"""Wake-ups as `without-durability` asks for them; the numbers are the contract's rows."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import fencepost
from fencepost.testing import Clock
from harness_durable import (
    MINUTE,
    NOW,
    Checkpointer,
    Database,
    Durable,
    Fenced,
    Scheduler,
    claimed,
    real_time,
)
from harness_worker import NOON

MOMENT = timedelta(microseconds=1)


@pytest.fixture
def line(durable: Durable) -> Scheduler:
    return durable.scheduler


@pytest.fixture
async def waiting_line(path: Path) -> AsyncIterator[Scheduler]:
    """By the real clock."""
    async with real_time(path.with_name("real.db")) as durable:
        await durable.scheduler.prepare()
        yield durable.scheduler


async def taken(line: Scheduler) -> list[str]:
    """All that is due, in its order, and done with."""
    found = []
    while (delivery := await line.next_ready(NOW)) is not None:
        found.append(delivery.workflow)
        await line.done(delivery)
    return found


@pytest.mark.parametrize("what", ["lease", "poll"])
def test_spans_of_no_time_are_refused(line: Scheduler, what: str) -> None:
    """A48, A60"""
    with pytest.raises(ValueError, match="positive"):
        Scheduler(line.database, **{what: NOW})  # type: ignore[arg-type]
    assert line.lease == MINUTE


async def test_preparing_is_repeatable(line: Scheduler, unchanged: Callable[[], None]) -> None:
    """A61"""
    await line.prepare()
    unchanged()
    await line.prepare()
    unchanged()
    assert await line.next_ready(NOW) is None


async def test_each_is_in_line_once_and_the_oldest_comes_first(line: Scheduler) -> None:
    """A9, A62, A64, G-A7: however often it is made ready; it keeps its place."""
    for workflow in ("a", "b", "c", "a", "b"):
        await line.make_ready(workflow)
    assert await taken(line) == ["a", "b", "c"]


async def test_one_that_sleeps_is_due_at_its_moment_and_not_before(
    line: Scheduler, clock: Clock
) -> None:
    """A63: it may come earlier, but later only by its own pass."""
    await line.schedule("a", NOON + MINUTE)
    await line.schedule("a", NOON + 2 * MINUTE)
    clock.advance(MINUTE - MOMENT)
    assert await taken(line) == []
    clock.advance(MOMENT)
    assert await taken(line) == ["a"]
    await line.schedule("a", NOON + 9 * MINUTE)
    await line.make_ready("a")
    assert await taken(line) == ["a"]


async def test_a_pass_puts_its_workflow_to_sleep(line: Scheduler, clock: Clock) -> None:
    """A67: until a moment of the caller's clock; one that has passed is now."""
    await line.make_ready("a")
    out = await line.next_ready(NOW)
    assert out is not None
    await line.wake_at(out, NOON + MINUTE)
    clock.advance(MINUTE - MOMENT)
    assert await line.next_ready(NOW) is None
    clock.advance(MOMENT)
    again = await line.next_ready(NOW)
    assert again is not None
    await line.wake_at(again, NOON - MINUTE)
    assert await taken(line) == ["a"]


async def test_who_waits_is_woken_by_what_comes(waiting_line: Scheduler) -> None:
    """A64, G-A3: of another process, too; and is answered None when its time is up."""
    line = waiting_line
    assert await line.next_ready(timedelta(milliseconds=5)) is None
    waiting = asyncio.ensure_future(line.next_ready(MINUTE))
    program = (
        "import sys, fencepost\n"
        "from fencepost._binding.pack import Put\n"
        "with fencepost.open(sys.argv[1]) as store:\n"
        "    core = store._file.core\n"
        "    queue, _ = core.queue_find(None, b'without_durability:workflow')\n"
        "    core.enqueue(None, Put(queue, [b''], keys=[b'a'], life=2))\n"
    )
    command = [sys.executable, "-c", program, line.database.store.path]
    await asyncio.to_thread(subprocess.run, command, check=True)
    delivery = await waiting
    assert delivery is not None
    assert delivery.workflow == "a"


async def test_what_was_taken_is_nobody_elses_until_its_lease_ends(
    line: Scheduler, clock: Clock
) -> None:
    """A65, A66, G-A1: each taker has a receipt of its own, and a late one says nothing."""
    await line.make_ready("a")
    dead = await line.next_ready(NOW)
    assert dead is not None
    clock.advance(MINUTE - MOMENT)
    assert await line.next_ready(NOW) is None
    clock.advance(MOMENT)
    again = await line.next_ready(NOW)
    assert again is not None
    assert (again.workflow, again.receipt) != (dead.workflow, dead.receipt)
    await line.done(dead)
    await line.wake_at(dead, NOON)
    assert await line.next_ready(NOW) is None
    await line.wake_at(again, NOON)
    assert await taken(line) == ["a"]


@pytest.mark.parametrize("answer", ["done", "wake_at"])
async def test_a_wake_up_that_comes_meanwhile_is_not_lost(line: Scheduler, answer: str) -> None:
    """A66, A67, A71: it is delivered after the pass that is out."""
    await line.make_ready("a")
    out = await line.next_ready(NOW)
    assert out is not None
    await line.make_ready("a")
    assert await line.next_ready(NOW) is None
    if answer == "done":
        await line.done(out)
    else:
        await line.wake_at(out, NOON + 9 * MINUTE)
    assert await taken(line) == ["a"]


async def test_a_wake_up_outlives_the_worker_it_came_to(line: Scheduler, clock: Clock) -> None:
    """A71: who held the workflow died."""
    await line.make_ready("a")
    await line.next_ready(NOW)
    await line.make_ready("a")
    clock.advance(MINUTE)
    out = await line.next_ready(NOW)
    assert out is not None
    await line.done(out)
    assert await taken(line) in (["a"], [])  # once more is no harm; never is


async def test_a_delivery_is_held_on_and_keeps_its_name(line: Scheduler, clock: Clock) -> None:
    """A68: also one that is not held any more."""
    await line.make_ready("a")
    out = await line.next_ready(NOW)
    assert out is not None
    clock.advance(MINUTE - MOMENT)
    assert await line.extend(out, 2 * MINUTE) == out
    clock.advance(2 * MINUTE - MOMENT)
    assert await line.next_ready(NOW) is None
    clock.advance(MOMENT)
    other = await line.next_ready(NOW)
    assert other is not None
    assert await line.extend(out, 9 * MINUTE) == out
    clock.advance(MINUTE)
    assert await taken(line) == ["a"]


@pytest.mark.parametrize("state", ["queued", "asleep", "out", "nowhere"])
async def test_what_is_cancelled_stays_away(line: Scheduler, state: str, clock: Clock) -> None:
    """A69, A67: nor does who holds it put it back."""
    out = None
    if state != "nowhere":
        await line.make_ready("a")
    if state in ("asleep", "out"):
        out = await line.next_ready(NOW)
        assert out is not None
    if state == "asleep":
        await line.wake_at(out, NOON + MINUTE)
    await line.cancel("a")
    if out is not None:
        assert await line.extend(out, MINUTE) == out
        await line.wake_at(out, NOON)
        await line.done(out)
    clock.advance(9 * MINUTE)
    assert await taken(line) == []
    await line.make_ready("a")
    assert await taken(line) == ["a"]


async def test_there_is_nothing_to_wake_and_nothing_to_reclaim(line: Scheduler) -> None:
    """A70: both happen by themselves."""
    assert await line.wake_due(NOON) == ()
    await line.reclaim(NOW)
    assert await taken(line) == []


async def test_namespaces_are_lines_of_their_own_over_the_same_records(line: Scheduler) -> None:
    """A72"""
    other = Scheduler(line.database, namespace="other")
    await line.make_ready("a")
    await other.make_ready("b")
    await other.cancel("a")
    assert await taken(other) == ["b"]
    assert await taken(line) == ["a"]


async def test_who_stops_waiting_takes_nothing_along(waiting_line: Scheduler) -> None:
    """What a cancelled `next_ready` got all the same is given back, and at once."""
    line = waiting_line
    for round_ in range(20):
        waiting = asyncio.ensure_future(line.next_ready(MINUTE))
        making = asyncio.ensure_future(line.make_ready(f"w{round_}"))
        await asyncio.sleep(0)
        if round_ % 2:
            await making
        waiting.cancel()
        await asyncio.gather(waiting, making, return_exceptions=True)
        found = waiting.result() if not waiting.cancelled() else await line.next_ready(MINUTE)
        assert found is not None
        assert found.workflow == f"w{round_}"
        await line.done(found)


async def test_who_stops_waiting_is_not_told_that_the_file_was_closed(path: Path) -> None:
    """Its thread may still be in the call; whoever still waits is told."""
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, said: told.append(said))
    async with real_time(path.with_name("real.db")) as durable:
        await durable.scheduler.prepare()
        waits = [asyncio.ensure_future(durable.scheduler.next_ready(MINUTE)) for _ in range(2)]
        await durable.checkpointer.load("w")
        waits[0].cancel()
        with suppress(asyncio.CancelledError):
            await waits[0]
    with pytest.raises(fencepost.Closed):
        await waits[1]
    durable.scheduler.database.threads.shutdown(wait=True)
    await asyncio.sleep(0)
    assert told == []


async def test_two_takers_never_have_the_same(waiting_line: Scheduler) -> None:
    """A65: each delivery is one taker's, and each workflow comes out once."""
    line = waiting_line
    await asyncio.gather(*(line.make_ready(f"w{number}") for number in range(40)))

    found = await asyncio.gather(*(taken(line) for _ in range(8)))
    assert sorted(name for names in found for name in names) == sorted(
        f"w{number}" for number in range(40)
    )


# ---- both ----------------------------------------------------------------------------------------


def test_both_share_one_file(durable: Durable, store: fencepost.Store) -> None:
    """A80"""
    with pytest.raises(ValueError, match="share"):
        Durable(durable.checkpointer, Scheduler(Database(store)))


async def test_what_arrives_is_recorded_and_wakes(durable: Durable) -> None:
    """A81: the first one is what is told; each wakes."""
    assert await durable.arrive("w", "approved", "ann") == "ann"
    assert await taken(durable.scheduler) == ["w"]
    assert await durable.arrive("w", "approved", "bob") == "ann"
    assert await taken(durable.scheduler) == ["w"]
    assert await durable.checkpointer.load("w") == {"approved": "ann"}


async def test_what_is_delivered_is_appended_and_wakes(durable: Durable) -> None:
    """A82"""
    first = await durable.deliver("w", [1])
    second = await durable.deliver("w", [2])
    assert await durable.checkpointer.load("w") == {first.key: [1], second.key: [2]}
    assert await taken(durable.scheduler) == ["w"]


async def test_what_is_deleted_is_gone_and_stays_away(durable: Durable) -> None:
    """A83: the pass that is out is fenced, and puts nothing back."""
    records: Checkpointer = durable.checkpointer
    await durable.arrive("w", "a", 1)
    await durable.deliver("w", 2)
    out = await durable.scheduler.next_ready(NOW)
    assert out is not None
    held = await claimed(records)
    await records.record(held, "b", 3)
    assert await durable.delete("w") == 3
    with pytest.raises(Fenced):
        await records.record(held, "c", 4)
    await durable.scheduler.wake_at(out, NOON)
    assert await taken(durable.scheduler) == []
    assert await records.load("w") == {}
    assert await durable.delete("w") == 0


@pytest.mark.hostile
async def test_each_is_one_commit(durable: Durable) -> None:
    """A81 to A83, G-A15: whoever looks never sees a half of it."""
    from harness_line import counts, since

    core = durable.scheduler.database.file.core
    await durable.scheduler.prepare()
    for call in (durable.arrive("w", "a", 1), durable.deliver("w", 1), durable.delete("w")):
        before = counts(core)
        await call
        assert since(core, before).commits == 1


def test_its_own_names_are_ours() -> None:
    """A10: one changed import is all."""
    from fencepost.compat import without_durability as ours

    for name in ("Checkpointer", "Scheduler", "Durable", "Effect"):
        assert getattr(ours, f"Sqlite{name}") is getattr(ours, name)
