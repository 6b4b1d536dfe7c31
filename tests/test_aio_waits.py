"""Coroutines that wait: for messages, for room, for results and changes; none takes a thread."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import fencepost
from fencepost import App, Cancelled, Gone, JobFailed, Store
from fencepost.testing import Clock, Kit
from harness_aio import line, spin


def test_a_claim_waits_without_a_thread(store: Store, run_async: Any) -> None:
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

    assert sorted(run_async(wait())) == list(range(1000))
    assert len(queue.claim(10)) == 0


def test_who_waits_longest_is_served_first(store: Store, run_async: Any) -> None:
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

    assert run_async(wait()) == list(range(5))


def test_a_claims_time_is_store_time(store: Store, clock: Clock, run_async: Any) -> None:
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

    run_async(wait())


def test_a_full_queue_is_waited_for(store: Store, clock: Clock, run_async: Any) -> None:
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

    found = run_async(wait())
    assert sum(isinstance(one, fencepost.QueueFull) for one in found) == 3
    assert len(queue.claim(10)) == 2


def test_thousands_await_results(app: App, run_async: Any) -> None:
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

    assert run_async(wait()) == [n * n for n in range(2000)]


def square(n: int) -> int:
    return n * n


def fail() -> None:
    raise ValueError("no")


def test_how_it_ended_is_told(app: App, kit: Kit, run_async: Any) -> None:
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
        await kit.adrain()
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

    run_async(ask())


def test_the_time_for_a_result_is_store_time(
    store: Store, clock: Clock, app: App, run_async: Any
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

    run_async(ask())


def test_watching_tells_each_change_to_the_end(app: App, run_async: Any) -> None:
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

    seen = run_async(watch())
    assert seen[0][0] in ("pending", "leased")
    assert ("leased", "half") in seen
    assert seen[-1] == ("done", "half")


def test_what_a_killed_worker_held_is_had_at_once(path: Path, run_async: Any) -> None:
    """Its lease is an hour: who waits looks after the other workers, as a waiting thread does."""
    program = (
        "import fencepost, sys, time\n"
        "claims = fencepost.open(sys.argv[1]).queue('q', int).claim(lease=3600)\n"
        "print(len(claims), flush=True)\n"
        "time.sleep(3600)"
    )

    async def wait(store: Store, process: subprocess.Popen[str]) -> tuple[int, int]:
        task = asyncio.create_task(store.queue("q", int).aio.claim(wait=3600))
        await spin(lambda: bool(store._file.bridge.watch._times))
        process.kill()
        (claim,) = await task
        return claim.payload, claim.attempt

    with fencepost.open(path) as store:
        store.queue("q", int).enqueue(7)
        command = [sys.executable, "-c", program, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "1\n"
            assert run_async(wait(store, process)) == (7, 2)
