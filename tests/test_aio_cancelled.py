"""
A coroutine that is cancelled: what had not been taken has not happened, what was taken happens, and
nothing is in between.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import fencepost
from fencepost import App, Store
from fencepost._binding.bridge import Taking
from fencepost._binding.pack import Take
from fencepost._binding.requests import Stepping
from harness_aio import behind, line, spin, waiting


@pytest.mark.hostile
def test_what_is_cancelled_before_it_was_taken_has_not_happened(
    store: Store, run_async: Any
) -> None:
    """Its key is free; its neighbours are written."""
    queue = store.queue("q", int)
    queue.enqueue(-1)

    async def cancel(tasks: list[asyncio.Task[Any]]) -> None:
        tasks[1].cancel()
        await asyncio.sleep(0)

    calls = [queue.aio.enqueue(n, key=str(n)) for n in range(3)]
    found = run_async(behind(store, *calls, meanwhile=cancel))
    assert isinstance(found[1], asyncio.CancelledError)
    assert [claim.payload for claim in queue.claim(9)] == [-1, 0, 2]
    assert queue.enqueue(1, key="1").created


@pytest.mark.hostile
def test_what_was_taken_happens_and_the_key_answers(store: Store, run_async: Any) -> None:
    """Its coroutine is gone, and the same enqueue says `created=False`."""
    queue = store.queue("q", int)
    queue.enqueue(-1)

    async def cancel() -> None:
        begun = store._file.core.begin(30)
        task = asyncio.create_task(queue.aio.enqueue(1, key="1"))
        await spin(lambda: waiting(store) == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        begun.end(commit=True)
        assert not (await queue.aio.enqueue(1, key="1")).created

    run_async(cancel())
    assert [claim.payload for claim in queue.claim(9)] == [-1, 1]


@pytest.mark.hostile
def test_a_claim_that_nobody_hears_of_goes_back(store: Store, run_async: Any) -> None:
    """At once, with its attempt: the next one finds it as if nothing had been."""
    queue = store.queue("q", int)
    queue.enqueue(1)

    async def cancel() -> None:
        begun = store._file.core.begin(30)
        task = asyncio.create_task(queue.aio.claim())
        await spin(lambda: waiting(store) == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        begun.end(commit=True)
        (claim,) = await queue.aio.claim(wait=3600)
        assert (claim.payload, claim.attempt) == (1, 1)

    run_async(cancel())


def test_one_that_is_cancelled_as_its_answer_comes_goes_back_too(
    store: Store, run_async: Any
) -> None:
    """Between the answer and the coroutine that it is for."""
    queue = store.queue("q", int)
    queue.enqueue(1)
    bridge, number = store._file.bridge, store._file.find("q")

    async def cancel() -> None:
        waiter = Taking(bridge, Stepping(None, Take([number], 1)))
        assert waiter.future is not None
        waiter.future.add_done_callback(lambda _: task.cancel())
        task = asyncio.create_task(waiter.awaited())
        bridge.writers.put([waiter])
        with pytest.raises(asyncio.CancelledError):
            await task
        (claim,) = await queue.aio.claim(wait=3600)
        assert claim.attempt == 1

    run_async(cancel())


def test_who_waits_and_is_cancelled_keeps_nobody_from_a_message(
    store: Store, run_async: Any
) -> None:
    """Also all who stood before the one that is left."""
    queue = store.queue("q", int)

    async def cancel() -> int:
        tasks = [asyncio.create_task(queue.aio.claim(wait=3600)) for _ in range(5)]
        await spin(lambda: len(line(store, queue).waiting) == 5)
        for task in tasks[:4]:
            task.cancel()
        await asyncio.sleep(0)
        await queue.aio.enqueue(7)
        (claim,) = await tasks[4]
        return claim.payload

    assert run_async(cancel()) == 7
    assert queue.size() == 1


@pytest.mark.hostile
def test_who_is_cancelled_while_it_tries_lets_the_next_one_try(real: Store, run_async: Any) -> None:
    """The message has come due, and the one whose turn it was is gone before it could claim it."""
    queue = real.queue("q", int)

    async def cancel() -> list[int]:
        tasks = [asyncio.create_task(queue.aio.claim(wait=3600)) for _ in range(2)]
        await spin(lambda: len(line(real, queue).waiting) == 2)
        await queue.aio.enqueue(7, delay=0.3)
        begun = real._file.core.begin(30)
        plug = asyncio.create_task(queue.aio.enqueue(8, delay=3600))
        await spin(lambda: waiting(real) == 1)
        await spin(lambda: line(real, queue).trying == 1)
        first = tasks[0] if len(line(real, queue).waiting) == 1 else tasks[1]
        first.cancel()
        await asyncio.sleep(0)
        begun.end(commit=True)
        await plug
        (claim,) = await tasks[1]
        return [claim.payload, claim.attempt]

    assert run_async(cancel()) == [7, 1]


def test_a_body_that_has_begun_commits(store: Store, run_async: Any) -> None:
    """Whoever waits for it may be gone; one that has not begun does not begin."""
    queue = store.queue("q", int)
    begun, go = threading.Event(), threading.Event()

    def body(tx: fencepost.Transaction, value: int) -> None:
        begun.set()
        assert go.wait(30)
        queue.enqueue(value, tx=tx)

    async def cancel() -> None:
        task = asyncio.create_task(store.aio.transact(body, 1))
        await spin(begun.is_set)
        others = [asyncio.create_task(store.aio.transact(body, n)) for n in range(2, 9)]
        await asyncio.sleep(0)
        for each in (task, others[-1]):
            each.cancel()
            with pytest.raises(asyncio.CancelledError):
                await each
        go.set()
        await asyncio.gather(*others[:-1])
        await spin(lambda: queue.size() == 7)

    run_async(cancel())
    assert sorted(claim.payload for claim in queue.claim(9)) == [1, 2, 3, 4, 5, 6, 7]


def test_awaiting_a_result_can_be_given_up(app: App, run_async: Any) -> None:
    """It costs nothing afterwards, and the job goes on."""

    @app.job
    def job(n: int) -> int:
        return n

    async def give_up() -> None:
        handle = await job.aio.enqueue(1)
        task = asyncio.create_task(handle.result())
        both = asyncio.create_task(handle.result())
        watch = app.store._file.bridge.watch
        await spin(lambda: len(watch._ending.get(handle.id, ())) == 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(watch._ending[handle.id]) == 1
        async with app.worker():
            assert await both == 1
        assert not watch._ending

    run_async(give_up())


# ---- workers -------------------------------------------------------------------------------------


def test_a_worker_that_is_not_awaited_any_more_does_not_run(app: App, run_async: Any) -> None:
    """Cancelled while it starts, it is stopped again before the cancellation goes on."""

    @app.job
    def job() -> None: ...

    async def cancel() -> None:
        worker = app.worker()
        task = asyncio.create_task(worker.__aenter__())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not worker.running
        async with worker:
            assert worker.running

    run_async(cancel())


def test_who_is_cancelled_while_a_worker_stops_hurries_it(app: App, run_async: Any) -> None:
    """Its handlers are told at once, and the block is left when it has stopped."""
    runs = threading.Event()

    @app.job(context=True)
    def job(ctx: fencepost.Context) -> None:
        runs.set()
        while not ctx.cancelled:
            threading.Event().wait(0.001)
        ctx.check()

    async def cancel() -> None:
        worker = app.worker(grace=3600)

        async def work() -> None:
            async with worker:
                await spin(runs.is_set)

        await job.aio.enqueue()
        task = asyncio.create_task(work())
        await spin(runs.is_set)
        loops = worker._loops
        await spin(lambda: any(one._stopping.is_set() for one in loops.values()))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not worker.running

    run_async(cancel())
    assert app.store.stats()["totals"]["pending"] == 1


@pytest.mark.hostile
def test_a_body_that_waits_for_its_turn_keeps_no_reader_waiting(
    store: Store, run_async: Any
) -> None:
    """However many there are: pages and counts have threads of their own."""

    async def ask() -> None:
        begun = store._file.core.begin(30)
        bodies = [asyncio.create_task(store.aio.transact(lambda tx: None)) for _ in range(9)]
        await spin(lambda: waiting(store) == 2)
        assert (await store.aio.stats())["queues"] == {}
        begun.end(commit=True)
        await asyncio.gather(*bodies)

    run_async(ask())
