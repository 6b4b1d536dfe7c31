"""A worker whose disk or memory fails in the middle goes on when it works again."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections import Counter
from collections.abc import Callable

import pytest

from fencepost import App, Batch, Context, Job
from fencepost._worker import executor
from harness_ladder import FOR_EVER, Arm, disarm, memory, steps
from harness_worker import AT_ONCE, until

pytestmark = [pytest.mark.hostile, pytest.mark.usefixtures("faults_end")]


@pytest.mark.parametrize("faults", [steps, memory])
def test_failing_statements_lose_and_repeat_nothing(app: App, faults: Callable[[int], Arm]) -> None:
    """
    Whichever step of claiming or settling fails, the loop says it again: each job runs once, for a
    claim that failed was none, and a result waits until it can be settled.
    """
    ran: Counter[int] = Counter()
    gate = threading.Event()

    @app.job
    def count(n: int) -> int:
        assert gate.wait(30)
        ran[n] += 1
        return n

    handles = count.enqueue_many(count.call(n) for n in range(40))
    fail = faults(1)
    with app.worker(threads=2):
        gate.set()
        for rung in range(0, 60, 3):
            fail(rung)
            seen = sum(ran.values())
            until(lambda seen=seen: sum(ran.values()) > min(seen, 38))  # type: ignore[misc]
        disarm()
        assert [handle.result(30) for handle in handles] == list(range(40))
    assert set(ran.values()) == {1}
    assert app.store.check(full=True) == []


def test_a_handlers_transaction_that_fails_is_tried_again(app: App) -> None:
    """Rows and the end of the message stay together, whatever of them failed."""
    with app.transaction() as tx:
        tx.execute("CREATE TABLE paid (n INTEGER PRIMARY KEY, attempt INT)")

    began: set[int] = set()
    over, arming = threading.Event(), threading.Lock()
    fail = steps(1)

    @app.job(context=True, max_attempts=100, backoff=AT_ONCE)
    def pay(ctx: Context, n: int) -> int:
        began.add(n)
        ctx.tx.execute("INSERT INTO paid VALUES (?, ?)", (n, ctx.attempt))
        with arming:
            if ctx.attempt <= 2 and not over.is_set():
                fail(n)
        return n

    handles = pay.enqueue_many(pay.call(n) for n in range(12))
    with app.worker(threads=1):
        until(lambda: len(began) == 12)
        with arming:
            over.set()  # or what this test asks next may meet a fault
            disarm()
        assert [handle.result(30) for handle in handles] == list(range(12))
    with app.transaction() as tx:
        assert [n for (n,) in tx.execute("SELECT n FROM paid ORDER BY n")] == list(range(12))
    assert app.store.check(full=True) == []


def test_a_batch_whose_commit_fails_is_tried_again_one_by_one(app: App) -> None:
    """Nothing of it has happened, and each of them happens once."""
    with app.transaction() as tx:
        tx.execute("CREATE TABLE seen (n INTEGER PRIMARY KEY)")
    queue = app.queue("q", int, backoff=AT_ONCE, max_attempts=100)
    fail = steps(3)  # the loop may meet one of them, and then pauses
    alone: set[int] = set()

    @queue.handler(batch=20)
    def take(batch: Batch[int]) -> None:
        batch.tx.executemany("INSERT INTO seen VALUES (?)", ((n,) for n in batch.payloads))
        if len(batch) > 1:
            fail(0)
        else:
            alone.update(batch.payloads)

    queue.enqueue_many(range(20))
    with app.worker(threads=1):
        until(lambda: len(alone) == 20)
        disarm()
        until(lambda: queue.size() == 0)
    with app.transaction() as tx:
        assert [n for (n,) in tx.execute("SELECT n FROM seen ORDER BY n")] == list(range(20))


def test_a_worker_stops_although_its_disk_is_gone(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    """It tries a few times, without haste, and leaves what it cannot settle to its lease."""
    running, gate = threading.Event(), threading.Event()

    @app.job
    def work() -> None:
        running.set()
        assert gate.wait(30)

    handle = work.enqueue()
    with app.worker(threads=1) as worker:
        assert running.wait(30)
        steps(FOR_EVER)(0)
        gate.set()
        worker.stop(grace=1)
        disarm()
    assert handle.status().state == "leased"
    assert 0 < caplog.text.count("again in") < 50


def test_a_message_that_no_thread_is_to_be_had_for_goes_back_as_it_was(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs in its first attempt, as soon as there is one."""
    begin = threading.Thread.start
    refused: list[str] = []

    def start(thread: threading.Thread) -> None:
        if thread.name.startswith("fencepost-handler") and not refused:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        begin(thread)

    @app.job(context=True)
    def work(ctx: Context) -> int:
        return ctx.attempt

    monkeypatch.setattr(threading.Thread, "start", start)
    with app.worker(threads=1):
        assert work.enqueue().result(20) == 1
    assert len(refused) == 1


@pytest.mark.parametrize("queue", ["default", "other"])
@pytest.mark.parametrize("what", ["event loop", "thread"])
def test_what_cannot_start_is_not_claimed_again_and_again(
    app: App, what: str, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    No descriptor for an event loop, or no thread for it: its jobs wait in line, with their
    attempts, while plain ones go on, of the same queue, too.
    """
    monkeypatch.setattr(executor, "SHORT", 3600.0)
    plain, awaited = two_sorts(app, queue)
    with app.worker(threads=2):
        assert plain.enqueue(1).result(30) == 1
        with monkeypatch.context() as poor:
            refused = refuse_loops(poor, what, FOR_EVER)
            handle = awaited.enqueue(2)
            for n in range(20):
                assert plain.enqueue(n).result(30) == n
            until(lambda: bool(refused))
            for n in range(100):
                assert plain.enqueue(n).result(30) == n
            status = handle.status()
            assert len(refused) == 1
    assert (status.state, status.attempt) == ("pending", 0)


@pytest.mark.parametrize("queue", ["default", "other"])
@pytest.mark.parametrize("what", ["event loop", "thread"])
def test_what_could_not_start_runs_when_it_can(
    app: App, what: str, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when nothing else happens meanwhile that would wake the worker."""
    monkeypatch.setattr(executor, "SHORT", 0.05)
    plain, awaited = two_sorts(app, queue)
    with app.worker(threads=2), monkeypatch.context() as poor:
        assert plain.enqueue(1).result(30) == 1
        refused = refuse_loops(poor, what, 3)
        assert awaited.enqueue(2).result(30) == 2
    assert len(refused) == 3


def two_sorts(app: App, queue: str) -> tuple[Job[[int], int], Job[[int], int]]:
    @app.job
    def plain(n: int) -> int:
        return n

    @app.job(queue=queue)
    async def awaited(n: int) -> int:
        return n

    return plain, awaited


def refuse_loops(poor: pytest.MonkeyPatch, what: str, times: int) -> list[int]:
    """So many event loops cannot be made, or get no thread; the list grows with each."""
    refused: list[int] = []
    make, start = asyncio.new_event_loop, threading.Thread.start

    def refuse() -> None:
        if len(refused) < times:
            refused.append(1)
            raise OSError(errno.EMFILE, "Too many open files")

    def made() -> asyncio.AbstractEventLoop:
        refuse()
        return make()

    def started(thread: threading.Thread) -> None:
        if thread.name == "fencepost-event-loop":
            refuse()
        start(thread)

    if what == "thread":
        poor.setattr(threading.Thread, "start", started)
    else:
        poor.setattr(asyncio, "new_event_loop", made)
    return refused


def test_a_coroutine_that_stops_its_loop_stops_nobody_else(app: App) -> None:
    """And the worker stops as always."""

    @app.job
    async def stop() -> None:
        asyncio.get_running_loop().stop()

    with app.worker():
        for _ in range(3):
            assert stop.enqueue().result(30) is None
