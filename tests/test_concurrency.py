"""How much a worker does at once, and what it does not."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

import fencepost
from fencepost import (
    App,
    Batch,
    Context,
    JobFailed,
    LeaseLost,
)
from fencepost._worker import launcher
from fencepost._worker.loop import Loop
from harness_worker import failure, until

# ---- how many at once ----------------------------------------------------------------------------


def test_nothing_is_claimed_that_cannot_start(app: App) -> None:
    """With two threads two are leased, however many wait."""
    gate, started = threading.Event(), threading.Semaphore(0)

    @app.job
    def hold() -> None:
        started.release()
        assert gate.wait(30)

    hold.enqueue_many(hold.call() for _ in range(5))
    with app.worker(threads=2):
        for _ in range(2):
            assert started.acquire(timeout=30)
        totals = app.store.stats()["totals"]
        assert (totals["leased"], totals["pending"]) == (2, 3)
        gate.set()
        until(lambda: app.store.stats()["totals"]["done"] == 5)


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a loop has turned: what has not happened in thirty of them does not happen."""
    counted: Counter[str] = Counter()
    turn = Loop._turn

    def counting(loop: Loop) -> None:
        turn(loop)
        counted["turns"] += 1

    monkeypatch.setattr(Loop, "_turn", counting)
    return counted


def test_nothing_is_claimed_beside_a_message_that_may_be_deadly(
    app: App, turns: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One whose last holder never answered has its first second for itself."""
    monkeypatch.setattr(launcher, "WARY", 3600.0)
    queue = app.queue("q", int, lease=0.05)
    started: list[int] = []
    gate = threading.Event()

    @queue.handler()
    def take(batch: Batch[int]) -> None:
        started.extend(batch.payloads)
        assert gate.wait(30)

    queue.enqueue(1)
    assert len(queue.claim()) == 1
    until(lambda: app.store.stats()["queues"]["q"]["lapsed"])
    with app.worker():
        until(lambda: started)
        queue.enqueue_many(range(2, 6))
        begun = turns["turns"]
        until(lambda: turns["turns"] > begun + 30)
        assert started == [1]
        gate.set()
        until(lambda: queue.size() == 0)


def test_a_hung_handler_keeps_its_slot_and_nothing_is_claimed_for_it(
    app: App, turns: Counter[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Nor claimed and given back again and again: the file is left alone."""
    gate = threading.Event()

    @app.job(timeout=0.05, max_attempts=1)
    def hang() -> None:
        assert gate.wait(30)

    @app.job
    def other() -> int:
        return 7

    hung = hang.enqueue()
    with app.worker(threads=1):
        with pytest.raises(JobFailed):
            hung.result(30)
        waiting = other.enqueue()
        version = app.store._file.core.version()
        begun = turns["turns"]
        until(lambda: turns["turns"] > begun + 30)
        assert app.store._file.core.version() == version
        assert waiting.status().state == "pending"
        assert "again in" not in caplog.text
        gate.set()
        assert waiting.result(30) == 7


def test_context_variables_are_a_handlers_own(app: App) -> None:
    """What one sets, the next one in the same thread does not see."""
    name: ContextVar[str] = ContextVar("name", default="nobody")

    @app.job
    def call(own: str) -> str:
        before = name.get()
        name.set(own)
        return before

    with app.worker(threads=1):
        assert [call.enqueue(own).result(30) for own in ("ann", "bob")] == ["nobody"] * 2


def test_coroutines_run_side_by_side(app: App) -> None:
    """Fifty that wait for each other, in a worker of one thread, beside a plain one."""
    arrived: list[int] = []

    @app.job(queue="async")
    async def meet(n: int) -> None:
        arrived.append(n)
        while len(arrived) < 50:
            await asyncio.sleep(0.001)

    @app.job
    def plain() -> int:
        return 1

    with app.worker(threads=1):
        handles = meet.enqueue_many(meet.call(n) for n in range(50))
        assert plain.enqueue().result(30) == 1
        for handle in handles:
            handle.result(30)


def test_a_queue_of_both_sorts_runs_both(app: App) -> None:
    """A coroutine gives the thread's slot that it was claimed for back."""

    @app.job
    async def awaited(n: int) -> int:
        await asyncio.sleep(0)
        return n

    @app.job
    def plain(n: int) -> int:
        return n

    with app.worker(threads=2) as worker:
        handles = awaited.enqueue_many(awaited.call(n) for n in range(30))
        handles += plain.enqueue_many(plain.call(n) for n in range(30))
        assert [handle.result(30) for handle in handles] == [*range(30), *range(30)]
        assert worker._executor is not None
        until(lambda: worker._executor is not None and worker._executor.free(coroutine=False) == 2)
        until(lambda: worker._executor is not None and worker._executor.free(coroutine=True) == 100)


def test_work_in_lanes_is_one_after_the_other(app: App) -> None:
    """Also with many threads; the lanes do not wait for each other."""
    busy: set[str] = set()
    order: dict[str, list[int]] = {}

    @app.job(context=True)
    def step(ctx: Context, n: int) -> None:
        assert ctx.lane is not None
        assert ctx.lane not in busy
        busy.add(ctx.lane)
        order.setdefault(ctx.lane, []).append(n)
        busy.discard(ctx.lane)

    calls = [step.options(lane=f"l{n % 5}").call(n) for n in range(100)]
    with app.worker():
        for handle in step.enqueue_many(calls):
            handle.result(30)
    assert order == {f"l{lane}": list(range(lane, 100, 5)) for lane in range(5)}


def test_a_full_queue_gives_room_when_the_worker_does(app: App) -> None:
    """wait= in a producer ends when a handler has finished."""
    queue = app.queue("small", int, max_size=3)

    @queue.handler()
    def take(batch: fencepost.Batch[int]) -> None: ...

    with app.worker(threads=1):
        for n in range(50):
            queue.enqueue(n, wait=30)
    assert queue.size() <= 3


def test_what_a_handler_raises_around_it_fails_the_message(app: App) -> None:
    """What is entered around a handler is a part of it."""

    @app.job(max_attempts=1)
    def work() -> None: ...

    def enter(ctx: Context) -> Any:
        raise LeaseLost("not really")

    app.around(enter)
    handle = work.enqueue()
    with app.worker(), pytest.raises(JobFailed):
        handle.result(30)
    assert failure(handle).code == "LeaseLost"


# ---- a worker beside others, and its stores beside each other ------------------------------------


def test_slow_jobs_are_shared_by_two_workers(app: App) -> None:
    """Each run waits for one in the other worker: who took two for himself would wait for ever."""
    both = threading.Barrier(2)

    @app.job
    def meet() -> None:
        both.wait(30)

    handles = meet.enqueue_many(meet.call() for _ in range(10))
    with app.worker(threads=1), app.worker(threads=1):
        for handle in handles:
            handle.result(60)


def test_a_store_that_is_busy_leaves_slots_to_the_others(path: Path) -> None:
    """One thread, and a backlog that never runs out: the other store's job has its turn."""
    app = App()
    ran: list[str] = []

    @app.job(context=True)
    def work(ctx: Context) -> None:
        ran.append(str(ctx.store.path))

    with app.open(path) as busy, app.open(path.with_name("calm.db")) as calm:
        over = threading.Event()

        def fill() -> None:
            while not over.is_set():
                if busy.stats()["totals"]["pending"] < 2000:
                    work.at(busy).enqueue_many(work.call() for _ in range(1000))

        filling = threading.Thread(target=fill)
        with app.worker(threads=1, stores=[busy, calm]) as worker:
            filling.start()
            try:
                until(lambda: len(ran) > 1000)
                for _ in range(3):
                    work.at(calm).enqueue().result(30)
                assert worker.running
            finally:
                over.set()
                filling.join()
