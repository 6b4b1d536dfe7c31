"""
The twins of `.aio`: the same names, the same logic, and commits that are shared by whoever calls
while one is under way.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from contextvars import ContextVar
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import fencepost
from fencepost import (
    App,
    Claim,
    Conflict,
    Handle,
    Inbox,
    InvalidArgument,
    Job,
    LeaseLost,
    Outbox,
    PayloadError,
    Queue,
    Store,
    Transaction,
)
from fencepost.testing import Clock
from harness_aio import behind, line, spin
from harness_core import lib
from harness_line import counts, since

# ---- names ---------------------------------------------------------------------------------------

TWINS = [
    (fencepost.AsyncStore, Store),
    (fencepost.AsyncQueue, Queue),
    (fencepost.AsyncClaim, Claim),
    (fencepost.AsyncJob, Job),
    (fencepost.AsyncHandle, Handle),
    (fencepost.AsyncOutbox, Outbox),
    (fencepost.AsyncInbox, Inbox),
]


@pytest.mark.parametrize(("twin", "thing"), TWINS, ids=lambda one: one.__name__)
def test_names_and_arguments_are_equal(twin: type, thing: type) -> None:
    """But for `tx=`, which is among the options of what is enqueued, and replay's dry run."""
    names = [name for name, _ in inspect.getmembers(twin) if not name.startswith("_")]
    assert names
    for name in names:
        if name == "transact":
            continue
        mine, other = getattr(twin, name), getattr(thing, name)
        if isinstance(mine, property):
            assert hasattr(thing, name)
            continue
        expected = dict(inspect.signature(other).parameters)
        expected.pop("tx", None)
        if name == "replay":
            expected.pop("apply")
        assert list(inspect.signature(mine).parameters) == list(expected), name
        kinds = [parameter.kind for parameter in inspect.signature(mine).parameters.values()]
        assert kinds == [parameter.kind for parameter in expected.values()], name


# ---- writing -------------------------------------------------------------------------------------


@pytest.mark.hostile
def test_calls_made_meanwhile_are_one_commit(store: Store, run_async: Any) -> None:
    """In the order in which they were made, each with an answer of its own."""
    queue = store.queue("q", int)
    queue.enqueue(-1)
    before = counts(store._file.core)
    found = run_async(behind(store, *(queue.aio.enqueue(n) for n in range(10))))
    assert since(store._file.core, before)[:2] == (1 + PLUG, 10 + PLUG)
    assert [one.id for one in found] == list(range(found[0].id, found[0].id + 10))
    assert [claim.payload for claim in queue.claim(20)] == list(range(-1, 10))


PLUG = 1  # `behind` makes a call that crosses before the others


@pytest.mark.hostile
def test_each_fails_alone(store: Store, run_async: Any) -> None:
    """What one is refused costs its neighbours nothing, not even their commit."""
    queue = store.queue("q")
    first = queue.enqueue(0, key="k")
    before = counts(store._file.core)
    found = run_async(
        behind(
            store,
            queue.aio.enqueue(1),
            queue.aio.enqueue(2, key="k"),
            queue.aio.enqueue(0, key="k"),
            queue.aio.enqueue(3, headers={"too": "much" * 20_000}),  # refused at the door
            queue.aio.enqueue(4),
        )
    )
    assert since(store._file.core, before)[:2] == (1 + PLUG, 4 + PLUG)
    assert isinstance(found[1], Conflict)
    assert found[1].id == first.id
    assert found[2] == (first.id, False)
    assert isinstance(found[3], InvalidArgument)
    assert [claim.payload for claim in queue.claim(20)] == [0, 1, 4]


@pytest.mark.hostile
def test_one_that_spoils_the_commit_fails_alone(store: Store, run_async: Any) -> None:
    """Its write fails on the disk: the others are made again without it, and are there."""
    queue = store.queue("q", int)
    queue.enqueue(-1)

    async def fault(_tasks: object) -> None:
        lib.fp_fault_step(8, 1)

    found = run_async(behind(store, *(queue.aio.enqueue(n) for n in range(5)), meanwhile=fault))
    lib.fp_fault_step(-1, 0)
    there = {claim.payload for claim in queue.claim(20)} - {-1}
    told = {n for n, one in enumerate(found) if not isinstance(one, Exception)}
    assert there == told
    assert len(told) >= 4


@pytest.mark.hostile
def test_every_sort_of_call_is_gathered(app: App, run_async: Any) -> None:
    """Jobs, outboxes, inboxes, claims and settlements: one commit."""
    job = app.job(name="j")(print)
    outbox, inbox = app.outbox("out", int), app.inbox("in", int)
    queue = app.store.queue("q", int)
    queue.enqueue_many([1, 2, 3, 4])
    held = queue.claim(3)
    handle = job.enqueue()
    outbox.send("there", 0)
    inbox.accept("0", 0)

    async def calls() -> list[Any]:
        twins = [fencepost.AsyncClaim(claim) for claim in held]
        return await behind(
            app.store,
            job.aio.enqueue(),
            job.aio.enqueue_many([job.call(), job.call()]),
            outbox.aio.send("there", 1),
            inbox.aio.accept("1", 1),
            inbox.aio.accept("0", 0),
            inbox.aio.accept("0", 1),
            queue.aio.claim(),
            queue.aio.ack(twins[:1]),
            twins[1].ack(),
            twins[2].renew(60),
            handle.aio.cancel(),
        )

    before = counts(app.store._file.core)
    found = run_async(calls())
    assert since(app.store._file.core, before)[:2] == (1 + PLUG, 11 + PLUG)
    assert [one for one in found if isinstance(one, Exception)] == []
    assert found[3:6] == ["accepted", "duplicate", "conflict"]
    assert [claim.payload for claim in found[6]] == [4]
    assert found[7:] == [[], None, None, True]
    assert handle.status().state == "cancelled"


def test_thousands_of_coroutines_need_few_threads(app: App, run_async: Any) -> None:
    """And few commits: how many threads there are does not depend on how many coroutines."""

    @app.job
    def job(n: int) -> None: ...

    before = set(threading.enumerate())

    async def calls() -> list[Any]:
        handles = await asyncio.gather(*(job.aio.enqueue(n) for n in range(2000)))
        return [handle.id for handle in handles]

    ids = run_async(calls())
    assert len(set(ids)) == 2000
    assert app.store.stats()["totals"]["pending"] == 2000
    assert len(set(threading.enumerate()) - before) <= 6  # one writes, one waits, four are asked


def test_what_is_encoded_is_what_was_said(store: Store, run_async: Any) -> None:
    """The payload is encoded when the call begins, whatever becomes of the object then."""
    queue = store.queue("q", list[int])
    said = [1]

    async def change() -> None:
        task = asyncio.create_task(queue.aio.enqueue(said))
        await asyncio.sleep(0)
        said.append(2)
        await task

    run_async(change())
    assert queue.claim()[0].payload == [1]


def test_bad_input_is_refused_as_in_threads(store: Store, run_async: Any) -> None:
    queue = store.queue("q")

    async def bad() -> None:
        with pytest.raises(PayloadError):
            await queue.aio.enqueue(object())
        with pytest.raises(InvalidArgument, match="at once"):
            await queue.aio.enqueue(1, key="a", unique="b")
        with pytest.raises(InvalidArgument, match="claims"):
            await queue.aio.ack([1])  # type: ignore[list-item]
        with pytest.raises(InvalidArgument, match="limit"):
            await queue.aio.claim(0)
        with pytest.raises(InvalidArgument, match="no such option"):
            await queue.aio.enqueue(1, nonsense=2)  # type: ignore[call-arg]

    run_async(bad())
    assert queue.size() == 0


def test_a_lost_claim_says_so(store: Store, clock: Clock, run_async: Any) -> None:
    queue = store.queue("q", int)
    queue.enqueue(1)

    async def late() -> None:
        (claim,) = await queue.aio.claim(lease=1)
        assert (claim.payload, claim.attempt, claim.key, claim.lane) == (1, 1, None, None)
        clock.advance(timedelta(seconds=2))
        (other,) = await queue.aio.claim()
        with pytest.raises(LeaseLost):
            await claim.ack()
        assert await queue.aio.ack([claim, other]) == [claim]
        assert await queue.aio.size() == 0

    run_async(late())


# ---- transactions --------------------------------------------------------------------------------

_who: ContextVar[str] = ContextVar("who")


def test_a_body_is_one_commit_or_none(store: Store, run_async: Any) -> None:
    """In another thread, with the caller's context variables."""
    queue = store.queue("q", int)

    def body(tx: Transaction, value: int, *, fail: bool) -> str:
        tx.execute("CREATE TABLE IF NOT EXISTS t (n)")
        tx.execute("INSERT INTO t VALUES (?)", (value,))
        queue.enqueue(value, tx=tx)
        if fail:
            raise RuntimeError("no")
        return _who.get()

    async def transact() -> None:
        _who.set("me")
        assert await store.aio.transact(body, 1, fail=False) == "me"
        with pytest.raises(RuntimeError, match="no"):
            await store.aio.transact(body, 2, fail=True)

        async def awaits(tx: Transaction) -> None: ...

        with pytest.raises(InvalidArgument, match="awaits nothing"):
            await store.aio.transact(awaits)  # type: ignore[unused-coroutine]

    run_async(transact())
    with store.transaction() as tx:
        assert tx.execute("SELECT n FROM t") == [(1,)]
    assert [claim.payload for claim in queue.claim(5)] == [1]


def test_in_ones_own_transaction_it_is_done_at_once(store: Store, run_async: Any) -> None:
    """It belongs to the task; beside it, the task's other calls would wait for itself."""
    queue = store.queue("q", int)

    async def inside() -> None:
        with store.transaction() as tx:
            found = await queue.aio.enqueue(1, tx=tx)
            assert found.created
            with pytest.raises(InvalidArgument, match="pass it as tx="):
                await queue.aio.enqueue(2)
            with pytest.raises(InvalidArgument, match="pass it as tx="):
                await store.aio.stats()
            other = asyncio.create_task(queue.aio.enqueue(3, tx=tx))
            with pytest.raises(InvalidArgument, match="belongs to the thread and task"):
                await other
            raise KeyError

    with pytest.raises(KeyError):
        run_async(inside())
    assert queue.size() == 0


# ---- the store -----------------------------------------------------------------------------------


def test_what_an_operator_asks_can_be_awaited(path: Path, tmp_path: Path, run_async: Any) -> None:
    now = datetime.now(timezone.utc) + timedelta(hours=1)

    async def operate() -> None:
        async with fencepost.open(path).aio as store:
            queue = store.queue("q", int, keep=3600, addressed=True, listed=True, max_attempts=1)
            await queue.enqueue_many(range(4), key=str, lane=lambda n: "l")
            (claim,) = await queue.claim()
            await claim.fail("no")
            (dead,) = await store.messages("dead")
            assert (await store.message(dead.id)) == dead
            assert (await store.content(dead.id)).body == b"0"
            assert (await store.stats())["totals"]["dead"] == 1
            assert [one.outcome for one in await store.replay([dead])] == ["replayed"]
            assert await store.confirm([dead]) == 0
            assert not await store.release_lane("q", "l")
            await store.pause("q")
            assert await queue.claim() == []
            await store.resume("q")
            (again,) = await queue.claim()
            await again.ack()
            assert await store.cancel(await store.messages("pending")) == 3
            assert await store.purge("cancelled", now, apply=True) == 3
            await store.backup(tmp_path / "copy.db")
            assert await store.check(full=True) == []
        with pytest.raises(fencepost.Closed):
            await queue.enqueue(1)
        with pytest.raises(fencepost.Closed):
            await store.stats()

    run_async(operate())
    assert (tmp_path / "copy.db").exists()


def test_closing_lets_what_was_called_before_be_written(path: Path, run_async: Any) -> None:
    async def close() -> list[Any]:
        store = fencepost.open(path).aio
        queue = store.queue("q", int)
        tasks = [asyncio.create_task(queue.enqueue(n)) for n in range(300)]
        await asyncio.sleep(0)
        await tasks[0]
        await store.close()
        return await asyncio.gather(*tasks)

    assert len(run_async(close())) == 300
    with fencepost.open(path) as store:
        assert store.queue("q").size() == 300


def test_closing_lets_those_go_who_wait(path: Path, run_async: Any) -> None:
    async def close() -> list[Any]:
        store = fencepost.open(path)
        waiting = [asyncio.create_task(store.queue("q", int).aio.claim(wait=3600))]
        await spin(lambda: bool(line(store, store.queue("q")).waiting))
        await store.aio.close()
        return await asyncio.gather(*waiting, return_exceptions=True)

    (answer,) = run_async(close())
    assert isinstance(answer, fencepost.Closed)
