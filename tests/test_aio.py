"""
The twins of `.aio`: the same names, the same logic, and commits that are shared by whoever calls
while one is under way.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Coroutine
from contextvars import ContextVar
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, TypeVar

import pytest

import fencepost
from fencepost import (
    App,
    Cancelled,
    Claim,
    Conflict,
    Gone,
    Handle,
    Inbox,
    InvalidArgument,
    Job,
    JobFailed,
    LeaseLost,
    Outbox,
    PayloadError,
    Queue,
    Store,
    Transaction,
)
from fencepost.testing import Clock, Kit
from harness_aio import LOOPS, behind, run_on, spin
from harness_core import lib
from harness_line import counts, since

T = TypeVar("T")


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Any:
    pytest.importorskip(request.param)

    def run(main: Coroutine[Any, Any, T]) -> T:
        return run_on(request.param, main)

    return run


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
def test_calls_made_meanwhile_are_one_commit(store: Store, run: Any) -> None:
    """In the order in which they were made, each with an answer of its own."""
    queue = store.queue("q", int)
    queue.enqueue(-1)
    before = counts(store._file.core)
    found = run(behind(store, *(queue.aio.enqueue(n) for n in range(10))))
    assert since(store._file.core, before)[:2] == (1 + PLUG, 10 + PLUG)
    assert [one.id for one in found] == list(range(found[0].id, found[0].id + 10))
    assert [claim.payload for claim in queue.claim(20)] == list(range(-1, 10))


PLUG = 1  # `behind` makes a call that crosses before the others


@pytest.mark.hostile
def test_each_fails_alone(store: Store, run: Any) -> None:
    """What one is refused costs its neighbours nothing, not even their commit."""
    queue = store.queue("q")
    first = queue.enqueue(0, key="k")
    before = counts(store._file.core)
    found = run(
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
def test_one_that_spoils_the_commit_fails_alone(store: Store, run: Any) -> None:
    """Its write fails on the disk: the others are made again without it, and are there."""
    queue = store.queue("q", int)
    queue.enqueue(-1)

    async def fault(_tasks: object) -> None:
        lib.fp_fault_step(8, 1)

    found = run(behind(store, *(queue.aio.enqueue(n) for n in range(5)), meanwhile=fault))
    lib.fp_fault_step(-1, 0)
    there = {claim.payload for claim in queue.claim(20)} - {-1}
    told = {n for n, one in enumerate(found) if not isinstance(one, Exception)}
    assert there == told
    assert len(told) >= 4


@pytest.mark.hostile
def test_every_sort_of_call_is_gathered(app: App, run: Any) -> None:
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
    found = run(calls())
    assert since(app.store._file.core, before)[:2] == (1 + PLUG, 11 + PLUG)
    assert [one for one in found if isinstance(one, Exception)] == []
    assert found[3:6] == ["accepted", "duplicate", "conflict"]
    assert [claim.payload for claim in found[6]] == [4]
    assert found[7:] == [[], None, None, True]
    assert handle.status().state == "cancelled"


def test_thousands_of_coroutines_need_few_threads(app: App, run: Any) -> None:
    """And few commits: how many threads there are does not depend on how many coroutines."""
    job = app.job(name="j")(square)
    before = set(threading.enumerate())

    async def calls() -> list[Any]:
        handles = await asyncio.gather(*(job.aio.enqueue(n) for n in range(2000)))
        return [handle.id for handle in handles]

    ids = run(calls())
    assert len(set(ids)) == 2000
    assert app.store.stats()["totals"]["pending"] == 2000
    assert len(set(threading.enumerate()) - before) <= 6  # one writes, one waits, four are asked


def test_what_is_encoded_is_what_was_said(store: Store, run: Any) -> None:
    """The payload is encoded when the call begins, whatever becomes of the object then."""
    queue = store.queue("q", list[int])
    said = [1]

    async def change() -> None:
        task = asyncio.create_task(queue.aio.enqueue(said))
        await asyncio.sleep(0)
        said.append(2)
        await task

    run(change())
    assert queue.claim()[0].payload == [1]


def test_bad_input_is_refused_as_in_threads(store: Store, run: Any) -> None:
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

    run(bad())
    assert queue.size() == 0


def test_a_lost_claim_says_so(store: Store, clock: Clock, run: Any) -> None:
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

    run(late())


# ---- waiting -------------------------------------------------------------------------------------


def test_a_claim_waits_without_a_thread(store: Store, run: Any) -> None:
    """A thousand wait, and each of as many messages wakes one of them."""
    queue = store.queue("q", int)
    before = set(threading.enumerate())

    async def wait() -> list[int]:
        waiting = [asyncio.create_task(queue.aio.claim(wait=3600)) for _ in range(1000)]
        await spin(lambda: len(line(store, queue).waiting) == 1000)
        assert len(set(threading.enumerate()) - before) <= 6
        await queue.aio.enqueue_many(range(900))
        for n in range(900, 1000):
            await queue.aio.enqueue(n)
        return [claim.payload for (claim,) in await asyncio.gather(*waiting)]

    assert sorted(run(wait())) == list(range(1000))
    assert len(queue.claim(10)) == 0


def line(store: Store, queue: Queue[Any]) -> Any:
    """Those who wait for a message of the queue."""
    watch = store._file.bridge.watch
    number = store._file.find(queue.name)
    return watch._lines.setdefault((True, number), watch_line())


def watch_line() -> Any:
    from fencepost._watch import Line

    return Line()


def test_who_waits_longest_is_served_first(store: Store, run: Any) -> None:
    queue = store.queue("q", int)

    async def wait() -> list[int]:
        waiting = []
        for n in range(5):
            waiting.append(asyncio.create_task(queue.aio.claim(wait=3600)))
            await spin(lambda n=n: len(line(store, queue).waiting) == n + 1)  # type: ignore[misc]
        for n in range(5):
            await queue.aio.enqueue(n)
            await waiting[n]
        return [task.result()[0].payload for task in waiting]

    assert run(wait()) == list(range(5))


def test_a_claims_time_is_store_time(store: Store, clock: Clock, run: Any) -> None:
    """It ends when the clock's hand has come there, and a message that comes due then is found."""
    queue = store.queue("q", int)

    async def wait() -> None:
        nothing = asyncio.create_task(queue.aio.claim(wait=10))
        something = asyncio.create_task(store.queue("other", int).aio.claim(wait=30))
        await store.queue("other", int).aio.enqueue(7, delay=20)
        await spin(lambda: bool(line(store, queue).waiting))
        clock.advance(timedelta(seconds=9))
        assert await queue.aio.size() == 0
        assert not nothing.done()
        clock.advance(timedelta(seconds=1))
        assert await nothing == []
        assert not something.done()
        clock.advance(timedelta(seconds=10))
        assert [claim.payload for claim in await something] == [7]

    run(wait())


def test_a_full_queue_is_waited_for(store: Store, clock: Clock, run: Any) -> None:
    """As many get in as there is room for, the others when their time is over: `QueueFull`."""
    queue = store.queue("q", int, max_size=2)
    queue.enqueue_many([1, 2])

    async def wait() -> list[Any]:
        waiting = [asyncio.create_task(queue.aio.enqueue(n, wait=10)) for n in range(5)]
        for claim in await queue.aio.claim(2):
            await claim.ack()
        await spin(lambda: sum(task.done() for task in waiting) == 2)
        clock.advance(timedelta(seconds=11))
        return await asyncio.gather(*waiting, return_exceptions=True)

    found = run(wait())
    assert sum(isinstance(one, fencepost.QueueFull) for one in found) == 3
    assert len(queue.claim(10)) == 2


def test_thousands_await_results(app: App, run: Any) -> None:
    """Each is told of its own, and no thread is taken for it."""
    job = app.job(name="square")(square)
    before = set(threading.enumerate())

    async def wait() -> list[int]:
        handles = await job.aio.enqueue_many(job.call(n) for n in range(2000))
        results = [asyncio.create_task(handle.result()) for handle in handles]
        await spin(lambda: len(app.store._file.bridge.watch._ending) == 2000)
        assert len(set(threading.enumerate()) - before) <= 6
        async with app.worker(threads=2):
            return await asyncio.gather(*results)

    assert run(wait()) == [n * n for n in range(2000)]


def square(n: int) -> int:
    return n * n


def fail() -> None:
    raise ValueError("no")


def test_how_it_ended_is_told(app: App, kit: Kit, run: Any) -> None:
    """As in threads: a result, a failure, a cancellation, nothing there, or not in time."""
    good, bad = app.job(name="good")(square), app.job(name="bad", max_attempts=1)(fail)

    async def ask() -> None:
        done, dead, taken, idle = [
            await good.aio.enqueue(3),
            await bad.aio.enqueue(),
            await good.options(delay=9).aio.enqueue(4),
            await good.options(delay=9).aio.enqueue(5),
        ]
        assert await taken.cancel()
        assert not await taken.cancel()
        kit.drain()
        assert await done.result() == 9
        assert (await done.status()).state == "done"
        with pytest.raises(JobFailed, match="no") as failed:
            await dead.result()
        assert failed.value.failure.code == "ValueError"
        with pytest.raises(Cancelled):
            await taken.result()
        with pytest.raises(Gone):
            await good.aio.handle(10**6).result()
        with pytest.raises(TimeoutError):
            await idle.result(0)
        assert done.id == good.aio.handle(done.id).id

    run(ask())


def test_the_time_for_a_result_is_store_time(
    store: Store, clock: Clock, app: App, run: Any
) -> None:
    job = app.job(name="good")(square).at(store)

    async def ask() -> None:
        handle = await job.options(delay=3600).aio.enqueue(4)
        waiting = asyncio.create_task(handle.result(10))
        await spin(lambda: bool(store._file.bridge.watch._times))
        clock.advance(timedelta(seconds=11))
        with pytest.raises(TimeoutError):
            await waiting
        assert not store._file.bridge.watch._ending

    run(ask())


def test_watching_tells_each_change_to_the_end(app: App, run: Any) -> None:
    gate = threading.Event()

    @app.job(name="slow", context=True)
    def slow(ctx: fencepost.Context) -> None:
        ctx.progress("half")
        assert gate.wait(30)

    async def watch() -> list[Any]:
        handle = await slow.aio.enqueue()
        seen = []
        async with app.worker():
            async for status in handle.watch():
                seen.append((status.state, status.progress))
                if status.progress == "half":
                    gate.set()
        return seen

    seen = run(watch())
    assert seen[0][0] in ("pending", "leased")
    assert ("leased", "half") in seen
    assert seen[-1] == ("done", "half")


# ---- transactions --------------------------------------------------------------------------------

_who: ContextVar[str] = ContextVar("who")


def test_a_body_is_one_commit_or_none(store: Store, run: Any) -> None:
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

    run(transact())
    with store.transaction() as tx:
        assert tx.execute("SELECT n FROM t") == [(1,)]
    assert [claim.payload for claim in queue.claim(5)] == [1]


def test_in_ones_own_transaction_it_is_done_at_once(store: Store, run: Any) -> None:
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
        run(inside())
    assert queue.size() == 0


# ---- the store -----------------------------------------------------------------------------------


def test_what_an_operator_asks_can_be_awaited(path: Path, tmp_path: Path, run: Any) -> None:
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

    run(operate())
    assert (tmp_path / "copy.db").exists()


def test_closing_lets_what_was_called_before_be_written(path: Path, run: Any) -> None:
    async def close() -> list[Any]:
        store = fencepost.open(path).aio
        queue = store.queue("q", int)
        tasks = [asyncio.create_task(queue.enqueue(n)) for n in range(300)]
        await asyncio.sleep(0)
        await tasks[0]
        await store.close()
        return await asyncio.gather(*tasks)

    assert len(run(close())) == 300
    with fencepost.open(path) as store:
        assert store.queue("q").size() == 300


def test_closing_lets_those_go_who_wait(path: Path, run: Any) -> None:
    async def close() -> list[Any]:
        store = fencepost.open(path)
        waiting = [asyncio.create_task(store.queue("q", int).aio.claim(wait=3600))]
        await spin(lambda: bool(line(store, store.queue("q")).waiting))
        await store.aio.close()
        return await asyncio.gather(*waiting, return_exceptions=True)

    (answer,) = run(close())
    assert isinstance(answer, fencepost.Closed)
