"""Outboxes in a worker that runs: nothing is sent ahead, and stopping in the middle is known."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fencepost import App, Cancelled, Context, Delivery
from fencepost._worker import failpoints
from harness_worker import AT_ONCE, until

QUICK = 300  # sends that are so quick that a job's worker would read ahead


@pytest.fixture
def stuck() -> Iterator[threading.Event]:
    """Set at the end, so that no thread is left behind."""
    event = threading.Event()
    yield event
    event.set()


def totals(app: App) -> dict[str, int]:
    return {name: count for name, count in app.store.stats()["totals"].items() if count}


def test_nothing_is_claimed_that_does_not_begin_at_once(app: App, stuck: threading.Event) -> None:
    outbox = app.outbox("events", int)

    @outbox.handler
    def deliver(d: Delivery[int]) -> None:
        if d.payload >= QUICK:
            stuck.wait(60)

    with app.transaction() as tx:
        for n in range(QUICK + 20):
            outbox.send("d", n, tx=tx)
    with app.worker(threads=2, grace=0):
        until(lambda: totals(app).get("done") == QUICK)
        until(lambda: totals(app).get("leased") == 2)
        assert totals(app)["pending"] == 18


def test_a_send_that_the_stopping_worker_gives_up_is_unknown(
    app: App, stuck: threading.Event
) -> None:
    """What its handler says later comes too late; those that had not begun are as they were."""
    outbox = app.outbox("events", int)
    went = threading.Event()

    @outbox.handler
    def deliver(d: Delivery[int]) -> None:
        went.set()
        stuck.wait(60)

    for n in range(2):
        outbox.send("d", n)
    worker = app.worker(threads=1).start()
    assert went.wait(60)
    assert not worker.stop(0.1)
    assert totals(app) == {"unknown": 1, "pending": 1}
    (message,) = app.store.messages("unknown")
    assert message.failure is not None
    assert message.failure.kind == "stopped"
    stuck.set()
    (other,) = app.store.messages("pending")
    assert other.attempt == 0
    assert totals(app) == {"unknown": 1, "pending": 1}


def test_what_is_given_back_while_it_begins_is_not_sent_any_more(
    app: App, stuck: threading.Event
) -> None:
    """The worker has stopped between the two: its thread, when it goes on, must not send."""
    outbox = app.outbox("events", int)
    begun, over = threading.Event(), threading.Event()
    sent: list[int] = []

    @outbox.handler
    def deliver(d: Delivery[int]) -> None:
        sent.append(d.payload)

    @contextmanager
    def around(ctx: Context) -> Iterator[None]:
        try:
            yield
        finally:
            over.set()

    def hold(point: str, name: str) -> None:
        if point == "begun":
            begun.set()
            stuck.wait(60)

    app.around(around)
    outbox.send("d", 1)
    unwatch = failpoints.watch(hold)
    try:
        worker = app.worker(threads=1).start()
        assert begun.wait(60)
        assert not worker.stop(0)
        assert totals(app) == {"pending": 1}
        stuck.set()
        assert over.wait(60)
    finally:
        unwatch()
    assert sent == []
    assert app.store.messages("pending")[0].attempt == 0


def test_a_handler_that_stops_by_itself_has_sent_nothing(app: App) -> None:
    """It looked before it sent: given back, without using an attempt."""
    outbox = app.outbox("events", int)
    went = threading.Event()

    @outbox.handler
    def deliver(d: Delivery[int]) -> None:
        went.set()
        until(lambda: d.cancelled)
        with pytest.raises(Cancelled):
            d.check()
        d.check()

    outbox.send("d", 1)
    worker = app.worker(threads=1).start()
    assert went.wait(60)
    worker.stop(0)
    assert totals(app) == {"pending": 1}
    assert app.store.messages("pending")[0].attempt == 0


def test_a_coroutine_that_is_cancelled_in_the_middle_is_unknown(app: App) -> None:
    outbox = app.outbox("events", int)
    went = threading.Event()

    @outbox.handler
    async def deliver(d: Delivery[int]) -> None:
        went.set()
        await asyncio.sleep(60)

    outbox.send("d", 1)
    worker = app.worker().start()
    assert went.wait(60)
    worker.stop(0)
    assert totals(app) == {"unknown": 1}


def test_what_is_cancelled_by_an_operator_meanwhile_stays_so(
    app: App, stuck: threading.Event
) -> None:
    outbox = app.outbox("events", int, backoff=AT_ONCE)
    went = threading.Event()

    @outbox.handler
    def deliver(d: Delivery[int]) -> None:
        went.set()
        stuck.wait(60)

    outbox.send("d", 1)
    with app.worker(threads=1):
        assert went.wait(60)
        assert app.store.cancel(app.store.messages("leased")) == 1
        stuck.set()
    assert totals(app) == {"cancelled": 1}


def test_jobs_and_sends_share_the_threads(app: App) -> None:
    """An outbox that is busy keeps no job waiting for ever, nor the other way round."""
    outbox = app.outbox("events", int)
    sent: list[int] = []
    ran: list[int] = []

    @outbox.handler
    def deliver(d: Delivery[int]) -> None:
        sent.append(d.payload)

    @app.job
    def job(n: int) -> None:
        ran.append(n)

    with app.worker(threads=1):
        for n in range(50):
            outbox.send("d", n)
            job.enqueue(n)
        until(lambda: len(sent) == len(ran) == 50)
        until(lambda: totals(app) == {"done": 100})
    assert sorted(sent) == sorted(ran) == list(range(50))


def test_an_outbox_has_a_group_of_its_own_that_reads_nothing_ahead(app: App) -> None:
    """However quick its sends prove to be; what is read ahead is for jobs and queues."""
    outbox = app.outbox("events", int)
    outbox.handler(lambda d: None)
    inbox = app.inbox("slow", int)
    inbox.handler(settle="completed")(lambda ctx, n: None)
    app.job(name="job")(lambda: None)
    with app.worker() as worker:
        (loop,) = worker._loops.values()
        ahead = {
            route.queue.name: group._prefetch._most  # type: ignore[attr-defined]
            for route in loop._routes.values()
            for group in loop._groups
            if route.number in group.queues
        }
    assert ahead.pop("default") > 0
    assert ahead == {"events": 0, "slow": 0}
