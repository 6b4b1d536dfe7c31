"""The testing kit: time that is turned by hand, handlers that run where they are asked to."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import fencepost
from fencepost.testing import Kit, override
from harness_worker import NOON

app = fencepost.App()
numbers = app.queue("numbers", int)
seen: list[object] = []


@app.job(max_attempts=3, backoff=fencepost.Backoff(base=10, factor=2, jitter=0))
def flaky(fails: int) -> str:
    seen.append(fails)
    if len(seen) <= fails:
        raise ConnectionError("not yet")
    return "ok"


@app.job(context=True)
def booked(ctx: fencepost.Context, order: int) -> None:
    ctx.progress("on it")
    ctx.tx.execute("INSERT INTO booking VALUES (?, ?)", (order, ctx.token))


@app.job
async def awaited(n: int) -> int:
    return n + 1


@app.job
def wait_for_the_provider() -> None:
    if not seen:
        seen.append("down")
        raise fencepost.RetryLater("down", delay=60, whole_queue=True)


@numbers.handler(batch=2)
def take(batch: fencepost.Batch[int]) -> None:
    seen.append(batch.payloads)
    for claim in batch:
        if claim.payload < 0:
            claim.fail("negative")
        if claim.payload > 100 and claim.attempt == 1:
            claim.retry(5)


@pytest.fixture
def kit() -> Iterator[Kit]:
    seen.clear()
    with override(app, now=NOON) as kit:
        yield kit


def test_nothing_happens_until_it_is_drained(kit: Kit) -> None:
    handle = flaky.enqueue(0)
    assert handle.status().state == "pending"
    assert kit.drain() == (1, 0, 0, 0)
    assert handle.result() == "ok"
    assert kit.now == NOON


def test_idle_turns_the_clock_to_each_due_moment(kit: Kit) -> None:
    """Two retries after 10 and 20 seconds, and the time is then."""
    handle = flaky.enqueue(2)
    assert kit.drain() == (0, 1, 0, 0)
    assert kit.drain(until_idle=True) == (1, 1, 0, 0)
    assert kit.now == NOON + timedelta(seconds=30)
    assert handle.result() == "ok"


def test_attempts_are_used_up(kit: Kit) -> None:
    handle = flaky.enqueue(99)
    assert kit.drain(until_idle=True) == (0, 2, 1, 0)
    with pytest.raises(fencepost.JobFailed, match="not yet"):
        handle.result()


def test_a_delay_is_waited_for_by_hand(kit: Kit) -> None:
    flaky.options(delay=60).enqueue(0)
    assert kit.drain() == (0, 0, 0, 0)
    kit.advance(60)
    assert kit.drain().done == 1
    kit.advance(NOON + timedelta(days=1))
    assert kit.now == NOON + timedelta(days=1)
    with pytest.raises(fencepost.InvalidArgument, match="never falls"):
        kit.advance(NOON)


def test_a_whole_queue_is_held_until_the_provider_is_back(kit: Kit) -> None:
    wait_for_the_provider.enqueue()
    flaky.enqueue(0)
    assert kit.drain() == (0, 1, 0, 0)
    kit.advance(59)
    assert kit.drain() == (0, 0, 0, 0)
    assert kit.drain(until_idle=True) == (2, 0, 0, 0)
    assert kit.now == NOON + timedelta(seconds=60)


def test_the_end_of_a_hold_is_a_moment_to_turn_to(kit: Kit) -> None:
    """Whoever asked for it is gone; the others still wait for it."""
    held = wait_for_the_provider.enqueue()
    kit.drain()
    held.cancel()
    flaky.enqueue(0)
    assert kit.drain(until_idle=True).done == 1
    assert kit.now == NOON + timedelta(seconds=60)


def test_the_limit_is_a_limit(kit: Kit) -> None:
    flaky.enqueue_many([flaky.call(0) for _ in range(5)])
    assert kit.drain(limit=3).done == 3
    assert len(kit.enqueued(flaky)) == 2


async def test_coroutines_run_in_the_loop_that_is_there(kit: Kit) -> None:
    handle = awaited.enqueue(1)
    flaky.enqueue(0)
    assert (await kit.adrain()).done == 2
    assert handle.result() == 2


def test_coroutines_run_without_a_loop_too(kit: Kit) -> None:
    handle = awaited.enqueue(1)
    assert kit.drain().done == 1
    assert handle.result() == 2


def test_batches_and_what_they_settle_by_name(kit: Kit) -> None:
    """-3 is a dead letter and 101 comes back; the others are acked when the handler returns."""
    numbers.enqueue_many([1, 2, -3, 4, 101])
    assert kit.drain() == (3, 1, 1, 0)
    assert seen == [[1, 2], [-3, 4], [101]]
    assert kit.drain(until_idle=True) == (1, 0, 0, 0)
    assert numbers.size() == 0


# ---- dying ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["claimed", "handled"])
def test_what_the_worker_did_not_commit_comes_back(
    kit: Kit, point: fencepost.testing.Point
) -> None:
    """The message is held until its lease ends, and then runs once more: attempt 2."""
    handle = flaky.enqueue(0)
    with kit.crash_at(point, "flaky"):
        assert kit.drain() == (0, 0, 0, 1)
    status = handle.status()
    assert (status.state, status.attempt) == ("leased", 1)
    assert kit.drain() == (0, 0, 0, 0)
    assert kit.drain(until_idle=True) == (1, 0, 0, 0)
    assert handle.status().attempt == 2
    assert kit.now == NOON + timedelta(seconds=30)


@pytest.mark.parametrize("point", ["claimed", "handled"])
def test_a_transaction_dies_with_its_worker(kit: Kit, point: fencepost.testing.Point) -> None:
    """The row and the end of the message are one commit: one row after two runs."""
    with app.transaction() as tx:
        tx.execute("CREATE TABLE booking (job, token)")
    booked.enqueue(7)
    with kit.crash_at(point):
        assert kit.drain().crashed == 1
    assert kit.drain(until_idle=True).done == 1
    with app.transaction() as tx:
        assert tx.execute("SELECT job FROM booking") == [(7,)]


def test_what_was_committed_is_done(kit: Kit) -> None:
    with app.transaction() as tx:
        tx.execute("CREATE TABLE booking (job, token)")
    first, second = booked.enqueue(7), flaky.enqueue(0)
    with kit.crash_at("committed", times=2):
        assert kit.drain() == (2, 0, 0, 2)
    assert (first.status().state, second.status().state) == ("done", "done")
    assert kit.drain(until_idle=True) == (0, 0, 0, 0)


def test_a_point_that_is_never_reached_fails_the_test(kit: Kit) -> None:
    flaky.enqueue(0)
    words = "came to 'claimed' for awaited 0 times, not 1"
    with pytest.raises(AssertionError, match=words), kit.crash_at("claimed", "awaited"):
        kit.drain()


# ---- looking -------------------------------------------------------------------------------------


def test_what_was_enqueued_is_asserted_by_its_arguments(kit: Kit) -> None:
    handle = flaky.options(delay=5, key="k").enqueue(fails=1)
    found = kit.assert_enqueued(flaky, 1)
    assert (found.id, found.key, found.due) == (handle.id, "k", NOON + timedelta(seconds=5))
    with pytest.raises(AssertionError, match=r'(?s)no call of flaky with {"fails":2}.*{"fails":1}'):
        kit.assert_enqueued(flaky, 2)
    awaited.enqueue(1)
    assert [message.id for message in kit.enqueued(flaky)] == [handle.id]
    assert len(kit.enqueued("default")) == 2
    assert kit.enqueued("numbers") == []


def test_a_handler_is_called_by_hand(kit: Kit) -> None:
    """Its transaction is seen through its context, and is gone with the kit."""
    with app.transaction() as tx:
        tx.execute("CREATE TABLE booking (job, token)")
    ctx = kit.context(attempt=3)
    booked.fn(ctx, 7)
    assert ctx.attempt == 3
    assert not ctx.cancelled
    assert ctx.tx.execute("SELECT job FROM booking") == [(7,)]


def test_the_app_is_itself_again_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "here.db"
    with override(app, path) as kit:
        assert app.store is kit.store
        assert kit.store.path == str(path)
        flaky.enqueue(0)
    with pytest.raises(fencepost.InvalidArgument, match="no path"):
        flaky.enqueue(0)
    with override(app, path) as kit:
        assert len(kit.enqueued(flaky)) == 1
