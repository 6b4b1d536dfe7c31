"""Handlers of plain queues, which are given many messages at a time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost import (
    App,
    Batch,
    Failure,
    InvalidArgument,
    PermanentError,
    Queue,
    RetryLater,
)
from harness_worker import AT_ONCE, until


@pytest.fixture
def app(path: Path) -> Iterator[App]:
    app = App(path)
    with app.transaction() as tx:
        tx.execute("CREATE TABLE seen (n INT)")
    yield app
    app.store.close()


def seen(app: App) -> list[int]:
    with app.transaction() as tx:
        return [n for (n,) in tx.execute("SELECT n FROM seen ORDER BY n")]


def drained(queue: Queue[Any]) -> bool:
    return queue.size() == 0


def dead(app: App) -> dict[int, Failure | None]:
    return {message.id: message.failure for message in app.store.messages("dead")}


def test_a_batch_is_acked_when_it_returns(app: App) -> None:
    """Up to so many at a time, all of them, in their order."""
    queue = app.queue("q", int)
    sizes: list[int] = []
    order: list[int] = []

    @queue.handler(batch=40)
    def take(batch: Batch[int]) -> None:
        sizes.append(len(batch))
        order.extend(batch.payloads)

    queue.enqueue_many(range(100))
    with app.worker(threads=1):
        until(lambda: drained(queue))
    assert order == list(range(100))
    assert sizes == [40, 40, 20]


def test_what_is_settled_by_name_is_not_settled_again(app: App) -> None:
    """One fails, one is released for later, the others are acked."""
    queue = app.queue("q", int)
    once: list[int] = []

    @queue.handler(batch=10)
    def take(batch: Batch[int]) -> None:
        for claim in batch:
            if claim.payload == 3:
                claim.fail("not three")
            elif claim.payload == 4 and not once:
                once.append(4)
                claim.retry(0)
            elif claim.payload == 5:
                claim.ack()

    ids = queue.enqueue_many(range(6))
    with app.worker():
        until(lambda: drained(queue))
    assert dead(app) == {ids[3].id: Failure("error", None, "not three")}


def test_rows_and_acks_of_a_batch_are_one_commit(app: App) -> None:
    """A batch that raises leaves nothing behind, and comes back one by one."""
    queue = app.queue("q", int, backoff=AT_ONCE, lease=3600)
    sizes: list[int] = []

    @queue.handler(batch=10)
    def take(batch: Batch[int]) -> None:
        sizes.append(len(batch))
        if len(batch) > 1:
            batch[1].fail("said before the transaction began")
        batch[0].ack(tx=batch.tx)
        batch.tx.executemany("INSERT INTO seen VALUES (?)", ((n,) for n in batch.payloads))
        if len(batch) > 1:
            raise ValueError("too many at once")

    queue.enqueue_many(range(10))
    with app.worker(threads=1):
        until(lambda: drained(queue))
    assert seen(app) == [n for n in range(10) if n != 1]
    assert sizes == [10] + [1] * 9


def test_one_bad_message_costs_its_neighbours_one_attempt(app: App) -> None:
    """It alone is a dead letter; the others are done."""
    queue = app.queue("q", int, max_attempts=2, backoff=AT_ONCE)

    @queue.handler(batch=10)
    def take(batch: Batch[int]) -> None:
        if 7 in batch.payloads:
            raise ValueError("seven")
        batch.tx.executemany("INSERT INTO seen VALUES (?)", ((n,) for n in batch.payloads))

    ids = queue.enqueue_many(range(10))
    with app.worker():
        until(lambda: drained(queue))
    assert seen(app) == [n for n in range(10) if n != 7]
    assert list(dead(app)) == [ids[7].id]


def test_a_permanent_error_means_one_message_only(app: App) -> None:
    """Said of a batch it is found out which one it means, before anything is a dead letter."""
    queue = app.queue("q", int, backoff=AT_ONCE)

    @queue.handler(batch=10)
    def take(batch: Batch[int]) -> None:
        if 7 in batch.payloads:
            raise PermanentError("seven", code="7")

    ids = queue.enqueue_many(range(10))
    with app.worker():
        until(lambda: drained(queue))
    assert dead(app) == {ids[7].id: Failure("error", "7", "seven")}


def test_undecodable_payloads_are_dead_letters_before_the_handler(app: App) -> None:
    """One by one, with their bytes; the batch goes on without them."""
    anything, numbers = app.store.queue("q"), app.queue("q", int)
    got: list[int] = []

    @numbers.handler(batch=10)
    def take(batch: Batch[int]) -> None:
        got.extend(batch.payloads)

    ids = anything.enqueue_many([1, "two", 3, None])
    with app.worker():
        until(lambda: drained(numbers))
    assert got == [1, 3]
    failures = dead(app)
    assert sorted(failures) == [ids[1].id, ids[3].id]
    assert {failure.kind for failure in failures.values() if failure} == {"undecodable"}
    assert app.store.content(ids[1].id).body == b'"two"'


def test_a_batch_of_nothing_readable_calls_nobody(app: App) -> None:
    """All of them are dead letters, and the queue goes on."""
    anything, numbers = app.store.queue("q"), app.queue("q", int)
    sizes: list[int] = []

    @numbers.handler(batch=10)
    def take(batch: Batch[int]) -> None:
        sizes.append(len(batch))

    anything.enqueue_many(["one", "two"])
    with app.worker():
        until(lambda: drained(numbers))
        numbers.enqueue(3)
        until(lambda: drained(numbers))
    assert sizes == [1]


def test_a_batch_lingers_until_it_is_full(app: App) -> None:
    """What comes within the time is one batch; a full one does not wait for the end of it."""
    queue = app.queue("q", int)
    sizes: list[int] = []

    @queue.handler(batch=3, linger=60)
    def take(batch: Batch[int]) -> None:
        sizes.append(len(batch))

    with app.worker():
        queue.enqueue(1)
        until(lambda: app.store.stats()["totals"]["leased"] == 1)
        queue.enqueue_many([2, 3])
        until(lambda: drained(queue))
    assert sizes == [3]


def test_a_batch_that_lingers_is_given_back_at_the_stop(app: App) -> None:
    """With its attempts: another worker finds it as new."""
    queue = app.queue("q", int)

    @queue.handler(batch=3, linger=60)
    def take(batch: Batch[int]) -> None: ...

    queue.enqueue(1)
    with app.worker() as worker:
        until(lambda: app.store.stats()["totals"]["leased"] == 1)
        assert worker.stop() is False
    (claim,) = queue.claim()
    assert claim.attempt == 1


def test_what_was_tried_does_not_join_a_batch_that_lingers(app: App) -> None:
    """It runs alone, at once; the others are let go before it."""
    queue = app.queue("q", int)
    batches: list[list[int]] = []

    @queue.handler(batch=10, linger=60)
    def take(batch: Batch[int]) -> None:
        batches.append(batch.payloads)

    queue.enqueue(1)
    (claim,) = queue.claim()
    with app.worker():
        queue.enqueue(2)
        until(lambda: app.store.stats()["totals"]["leased"] == 2)
        claim.retry(0)
        until(lambda: drained(queue))
    assert sorted(batches) == [[1], [2]]


def test_what_was_settled_by_name_is_no_lost_lease(app: App) -> None:
    """The keeper cannot renew it any more; the batch is not cancelled by that."""
    queue = app.queue("q", int, lease=0.3)
    told: list[bool] = []

    @queue.handler(batch=2)
    def take(batch: Batch[int]) -> None:
        batch[0].ack()
        run: Any = batch._holder
        until(lambda: run._leases.lost(batch[0]))
        told.append(batch.cancelled)

    queue.enqueue_many(range(2))
    with app.worker():
        until(lambda: drained(queue))
    assert told == [False]


def test_a_lost_lease_costs_the_others_nothing_where_nothing_was_written(app: App) -> None:
    """The handler has done its work: what can be acked is acked, once."""
    queue = app.queue("q", int, addressed=True, listed=True)
    sizes: list[int] = []

    @queue.handler(batch=10)
    def take(batch: Batch[int]) -> None:
        sizes.append(len(batch))
        (message,) = [m for m in app.store.messages("leased") if m.id == batch[0].id]
        assert app.store.cancel([message]) == 1

    queue.enqueue_many(range(3))
    with app.worker():
        until(lambda: drained(queue))
    assert sizes == [3]


def test_a_batch_handler_may_be_a_coroutine(app: App) -> None:
    """It acks when it returns; it has no transaction of its own."""
    queue = app.queue("q", int)
    got: list[int] = []

    @queue.handler(batch=10)
    async def take(batch: Batch[int]) -> None:
        with pytest.raises(InvalidArgument, match="plain functions"):
            _ = batch.tx
        await asyncio.sleep(0)
        got.extend(batch.payloads)

    queue.enqueue_many(range(5))
    with app.worker():
        until(lambda: drained(queue))
    assert got == list(range(5))


def test_later_for_a_batch_uses_no_attempts(app: App) -> None:
    """All of it comes back as it was."""
    queue = app.queue("q", int, max_attempts=1)
    rounds: list[int] = []

    @queue.handler(batch=10)
    def take(batch: Batch[int]) -> None:
        rounds.append(len(batch))
        if len(rounds) < 3:
            raise RetryLater(delay=0)

    queue.enqueue_many(range(5))
    with app.worker():
        until(lambda: drained(queue))
    assert rounds == [5, 5, 5]


def test_a_lease_lost_in_a_batch_undoes_its_rows_and_spares_the_others(app: App) -> None:
    """The transaction cannot commit with an old token in it; the sound ones start anew."""
    queue = app.queue("q", int, addressed=True, listed=True, max_attempts=1)
    first = threading.Event()

    @queue.handler(batch=10)
    def take(batch: Batch[int]) -> None:
        if not first.is_set():
            first.set()
            (message,) = [m for m in app.store.messages("leased") if m.id == batch[0].id]
            assert app.store.cancel([message]) == 1
        batch.tx.executemany("INSERT INTO seen VALUES (?)", ((n,) for n in batch.payloads))

    queue.enqueue_many(range(3))
    with app.worker():
        until(lambda: drained(queue))
    assert seen(app) == [1, 2]
    assert dead(app) == {}
