"""What a handler knows, its transaction, and what happens when it is too late."""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

import fencepost
from fencepost import (
    App,
    Context,
    InvalidArgument,
    JobFailed,
)
from harness_worker import AT_ONCE, failure, lease, until

# ---- leases and time -----------------------------------------------------------------------------


def test_a_long_handler_keeps_its_lease(app: App) -> None:
    """The keeper renews it in C, also while the handler holds the interpreter."""
    ran: list[int] = []

    @app.job(context=True)
    def long(ctx: Context) -> int:
        ran.append(ctx.attempt)
        before = sys.getswitchinterval()
        sys.setswitchinterval(60)  # nobody else gets a turn in Python
        end = monotonic() + 1.2
        while monotonic() < end:
            pass
        sys.setswitchinterval(before)
        return ctx.attempt

    lease(app.store, 0.3)
    with app.worker():
        assert long.enqueue().result(30) == 1
    assert ran == [1]


def test_a_lost_lease_is_told_and_the_result_refused(app: App, path: Path) -> None:
    """Cancelled by somebody else while it runs: ctx.cancelled, and no result."""
    running, told = threading.Event(), threading.Event()

    @app.job(context=True)
    def work(ctx: Context) -> int:
        running.set()
        until(lambda: ctx.cancelled)
        told.set()
        return 7

    lease(app.store, 0.3)
    handle = work.enqueue()
    with app.worker():
        assert running.wait(30)
        assert handle.cancel()
        assert told.wait(30)
    with pytest.raises(fencepost.Cancelled):
        handle.result(30)


def test_a_plain_handler_past_its_time_out_loses_its_message(app: App) -> None:
    """It is told, its result is refused, the message is tried again, its thread stays counted."""
    gate = threading.Event()
    told: list[bool] = []

    @app.job(context=True, timeout=0.05, max_attempts=2, backoff=AT_ONCE)
    def slow(ctx: Context) -> int:
        if ctx.attempt == 1:
            until(lambda: ctx.cancelled)
            with pytest.raises(fencepost.Cancelled, match="its time is up"):
                ctx.check()
            told.append(True)
            assert gate.wait(30)
        return ctx.attempt

    with app.worker(threads=2) as worker:
        assert slow.enqueue().result(30) == 2
        until(lambda: worker._executor is not None and worker._executor.free(coroutine=False) == 1)
        gate.set()
        until(lambda: worker._executor is not None and worker._executor.free(coroutine=False) == 2)
    assert told == [True]


def test_what_a_handler_says_after_its_time_is_up_comes_too_late(app: App) -> None:
    """It holds no queue any more, and its slot is free when it returns."""
    gate = threading.Event()

    @app.job(context=True, timeout=0.05, max_attempts=1)
    def late(ctx: Context, again: bool) -> None:
        if not again:
            assert gate.wait(30)
            raise fencepost.RetryLater(delay=3600, whole_queue=True)

    with app.worker(threads=1):
        first = late.enqueue(False)
        until(lambda: first.status().state == "dead")
        second = late.enqueue(True)
        gate.set()
        second.result(30)


def test_a_coroutine_past_its_time_out_is_cancelled(app: App) -> None:
    """At its next await; after its last attempt the message is dead of the time-out."""
    cleaned = threading.Event()

    @app.job(timeout=0.05, max_attempts=1)
    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.set()

    handle = slow.enqueue()
    with app.worker(), pytest.raises(JobFailed, match="0.05 s"):
        handle.result(30)
    assert cleaned.wait(30)
    assert failure(handle).kind == "timeout"


# ---- a handler's transaction ---------------------------------------------------------------------


def test_a_coroutine_whose_message_was_cancelled_is_cancelled_too(app: App) -> None:
    """It need not ask: the next await says so, and there is no result."""
    running, told = threading.Event(), threading.Event()

    @app.job
    async def wait() -> None:
        running.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            told.set()
            raise

    lease(app.store, 0.3)
    handle = wait.enqueue()
    with app.worker():
        assert running.wait(30)
        assert handle.cancel()
        assert told.wait(30)
    assert handle.status().state == "cancelled"


@pytest.fixture
def table(app: App) -> None:
    with app.transaction() as tx:
        tx.execute("CREATE TABLE paid (id INTEGER PRIMARY KEY, token INT)")


def rows(app: App) -> list[tuple[Any, ...]]:
    with app.transaction() as tx:
        return list(tx.execute("SELECT id FROM paid ORDER BY id"))


@pytest.mark.usefixtures("table")
def test_rows_follow_ups_and_the_end_of_the_message_are_one_commit(app: App) -> None:
    """What ctx.tx wrote is there exactly if the message is done."""

    @app.job
    def mail(n: int) -> int:
        return n

    @app.job(context=True, max_attempts=2, backoff=AT_ONCE)
    def pay(ctx: Context, n: int) -> int:
        ctx.tx.execute("INSERT INTO paid VALUES (?, ?)", (n, ctx.token))
        mail.options(tx=ctx.tx, key="mail").enqueue(n)
        if ctx.attempt == 1:
            raise ValueError("not yet")
        return n

    with app.worker():
        assert pay.enqueue(42).result(30) == 42
        assert mail.options(key="mail").enqueue(42).result(30) == 42
    assert rows(app) == [(42,)]
    assert app.store.stats()["totals"]["done"] == 2


@pytest.mark.usefixtures("table")
def test_a_lease_lost_before_the_commit_undoes_the_handlers_effects(app: App) -> None:
    """The token is looked at inside the transaction: nothing of it happens."""
    ended = threading.Event()

    @app.job(context=True)
    def pay(ctx: Context) -> None:
        assert handle.cancel()  # before the transaction: somebody else ends the message
        ctx.tx.execute("INSERT INTO paid VALUES (1, 1)")
        ended.set()

    handle = pay.enqueue()
    with app.worker():
        assert ended.wait(30)
    assert rows(app) == []
    assert handle.status().state == "cancelled"


@pytest.mark.usefixtures("table")
def test_a_message_can_be_acked_in_a_transaction_of_ones_own(app: App) -> None:
    """Committed it is done; rolled back it is tried again, although the handler returned."""
    attempts: list[int] = []

    @app.job(context=True, backoff=AT_ONCE)
    def pay(ctx: Context) -> str:
        attempts.append(ctx.attempt)
        try:
            with app.transaction() as tx:
                tx.execute("INSERT INTO paid VALUES (?, 1)", (ctx.attempt,))
                ctx.ack("paid", tx=tx)
                if ctx.attempt == 1:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            pass
        return "ignored"

    with app.worker():
        assert pay.enqueue().result(30) == "paid"
    assert attempts == [1, 2]
    assert rows(app) == [(2,)]


@pytest.mark.usefixtures("table")
def test_an_ack_of_ones_own_is_no_lost_lease(app: App) -> None:
    """The keeper cannot renew it any more; the handler may go on in peace."""
    told: list[bool] = []

    @app.job(context=True)
    def pay(ctx: Context) -> str:
        with app.transaction() as tx:
            ctx.ack("paid", tx=tx)
        errand: Any = ctx._errand
        until(lambda: errand._leases.lost(ctx._claim))
        told.append(ctx.cancelled)
        return "said already"

    lease(app.store, 0.3)
    handle = pay.enqueue()
    with app.worker():
        until(lambda: told)
    assert told == [False]
    assert handle.result(0) == "paid"


@pytest.mark.usefixtures("table")
def test_a_transaction_that_outlives_the_time_out_is_rolled_back(app: App) -> None:
    """As long as it is open nobody else can say that it is too late: so it is asked before."""

    @app.job(context=True, timeout=0.05, max_attempts=2, backoff=AT_ONCE)
    def pay(ctx: Context) -> int:
        ctx.tx.execute("INSERT INTO paid VALUES (?, 1)", (ctx.attempt,))
        if ctx.attempt == 1:
            until(lambda: ctx.cancelled)
        return ctx.attempt

    with app.worker(threads=1):
        assert pay.enqueue().result(30) == 2
    assert rows(app) == [(2,)]


def test_a_coroutine_has_no_transaction_of_its_own(app: App) -> None:
    """It could await with everybody else locked out."""

    @app.job(context=True)
    async def pay(ctx: Context) -> bool:
        with pytest.raises(InvalidArgument, match="plain functions"):
            ctx.tx.execute("SELECT 1")
        return True

    with app.worker():
        assert pay.enqueue().result(30)


def test_a_context_is_valid_until_its_handler_returns(app: App) -> None:
    """Kept for later it refuses."""
    kept: list[Context] = []

    @app.job(context=True)
    def keep(ctx: Context) -> None:
        kept.append(ctx)

    with app.worker():
        keep.enqueue().result(30)
    for use in (lambda: kept[0].tx, lambda: kept[0].progress(1)):
        with pytest.raises(InvalidArgument, match="until its handler returns"):
            use()


def test_a_context_knows_its_message(app: App) -> None:
    """All that was said when it was enqueued."""
    seen: list[Context] = []

    @app.job(context=True, queue="mail")
    def look(ctx: Context) -> None:
        seen.append(ctx)
        assert ctx.store is app.store

    handle = look.options(unique="u", lane="l", headers={"trace": "é"}).enqueue()
    with app.worker():
        handle.result(30)
    ctx = seen[0]
    assert (ctx.id, ctx.queue, ctx.key, ctx.lane) == (handle.id, "mail", "u", "l")
    assert (ctx.attempt, ctx.headers, ctx.last_attempt) == (1, {"trace": "é"}, False)
    assert ctx.due == ctx.enqueued_at
    assert ctx.token > 0
    assert ctx.cancelled  # nobody renews the lease any more
