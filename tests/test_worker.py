"""The worker: what becomes of a message whose handler returns, raises, hangs, or is too late."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

import fencepost
from fencepost import (
    App,
    Backoff,
    Context,
    InvalidArgument,
    JobFailed,
    LeaseLost,
    PermanentError,
    RetryLater,
)
from harness_worker import lease, until

AT_ONCE = Backoff(0, 1, 0, 0)


@pytest.fixture
def app(path: Path) -> Iterator[App]:
    app = App(path)
    yield app
    app.store.close()


def failure(handle: fencepost.Handle[Any]) -> fencepost.Failure:
    found = handle.status().failure
    assert found is not None
    return found


# ---- results -------------------------------------------------------------------------------------


def test_a_result_comes_back_as_its_annotation_says(app: App) -> None:
    """Plain functions and coroutines; nothing stays nothing; what is not annotated is plain."""
    moment = datetime(2026, 3, 1, tzinfo=timezone.utc)

    @app.job
    def plain(at: datetime) -> list[datetime]:
        return [at, at]

    @app.job
    async def awaited(at: datetime) -> dict[str, datetime]:
        await asyncio.sleep(0)
        return {"at": at}

    @app.job
    def nothing() -> None: ...

    @app.job
    def untold(n):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        return (n, n)

    with app.worker():
        assert plain.enqueue(moment).result(30) == [moment, moment]
        assert awaited.enqueue(moment).result(30) == {"at": moment}
        assert nothing.enqueue().result(30) is None
        assert untold.enqueue(1).result(30) == [1, 1]


def test_a_result_that_cannot_be_encoded_is_a_dead_letter(app: App) -> None:
    """To run it again would end the same way."""

    @app.job
    def bad() -> Any:
        return object()

    with app.worker(), pytest.raises(JobFailed) as failed:
        bad.enqueue().result(30)
    assert failed.value.failure.kind == "unencodable"


def test_watching_shows_each_change_to_the_end(app: App) -> None:
    """Progress included, the newest wins; the last status has ended."""
    seen = threading.Event()

    @app.job(context=True)
    def work(ctx: Context) -> None:
        ctx.progress("old")
        ctx.progress({"done": 3})
        assert seen.wait(30)

    handle = work.enqueue()
    statuses = []
    with app.worker():
        for status in handle.watch():
            statuses.append(status)
            if status.progress == {"done": 3}:
                seen.set()
    assert seen.is_set()
    assert statuses[-1].state == "done"
    assert [status.state for status in statuses].count("done") == 1


# ---- failures ------------------------------------------------------------------------------------


def test_a_failure_is_tried_again_until_the_attempts_are_used_up(app: App) -> None:
    """The first run included; then it is dead, and says how it failed last."""
    attempts: list[tuple[int, bool]] = []

    @app.job(max_attempts=3, backoff=AT_ONCE, context=True)
    def fail(ctx: Context) -> None:
        attempts.append((ctx.attempt, ctx.last_attempt))
        raise ValueError(f"no {ctx.attempt}")

    with app.worker(), pytest.raises(JobFailed, match="no 3") as failed:
        fail.enqueue().result(30)
    assert attempts == [(1, False), (2, False), (3, True)]
    assert failed.value.failure == fencepost.Failure("error", "ValueError", "no 3")


def test_a_waiting_retry_shows_its_last_failure(app: App) -> None:
    """Pending again, with one attempt behind it, and due after the job's own back-off."""

    @app.job(backoff=Backoff(3600, 1, 3600, 0))
    def fail() -> None:
        raise ValueError("no")

    handle = fail.enqueue()
    with app.worker():
        until(lambda: handle.status().failure)
    status = handle.status()
    assert (status.state, status.attempt) == ("pending", 1)
    assert status.due is not None
    message = app.store.message(handle.id)
    assert message is not None
    assert (status.due - message.enqueued_at).total_seconds() >= 3600


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PermanentError("no such order", code="missing"), "missing"),
        (PermanentError("no such order"), "PermanentError"),
        (KeyError("no such order"), "KeyError"),
    ],
)
def test_a_permanent_error_is_a_dead_letter_at_once(
    app: App, error: Exception, code: str
) -> None:
    """What the handler says is permanent, and what the job declares to be."""

    @app.job(permanent=(LookupError,))
    def fail() -> None:
        raise error

    handle = fail.enqueue()
    with app.worker(), pytest.raises(JobFailed, match="no such order"):
        handle.result(30)
    assert handle.status().attempt == 1
    assert failure(handle).code == code


def test_later_uses_no_attempt(app: App) -> None:
    """However often it is said."""
    attempts: list[int] = []

    @app.job(max_attempts=1, context=True)
    def shy(ctx: Context) -> int:
        attempts.append(ctx.attempt)
        if len(attempts) < 4:
            raise RetryLater("not now", delay=0)
        return len(attempts)

    with app.worker():
        assert shy.enqueue().result(30) == 4
    assert attempts == [1, 1, 1, 1]


def test_later_for_the_whole_queue_holds_all_of_it(app: App) -> None:
    """The second message is not handed out; another queue goes on."""
    ran: list[int] = []

    @app.job
    def limited(n: int) -> None:
        ran.append(n)
        raise RetryLater(delay=3600, whole_queue=True)

    @app.job(queue="other")
    def free() -> None: ...

    first = limited.enqueue(1)
    with app.worker(threads=1):
        until(lambda: failure(first) if first.status().failure else None)
        limited.enqueue(2)
        free.enqueue().result(30)
        free.enqueue().result(30)
    assert ran == [1]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_what_would_end_a_program_ends_only_its_message(app: App, error: BaseException) -> None:
    """A handler that calls sys.exit() has failed; the worker goes on."""

    @app.job(max_attempts=1)
    def leave() -> None:
        raise error

    @app.job(max_attempts=1)
    async def leave_too() -> None:
        raise error

    @app.job
    def stay() -> int:
        return 7

    with app.worker():
        for handle in (leave.enqueue(), leave_too.enqueue()):
            with pytest.raises(JobFailed):
                handle.result(30)
            assert failure(handle).code == type(error).__name__
        assert stay.enqueue().result(30) == 7


def test_a_failure_says_at_most_so_much_and_the_log_says_nothing_of_it(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    """A thousand bytes, cut between two characters; the log has the type and the place."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    @app.job(max_attempts=1)
    def fail(secret: str) -> None:
        raise ValueError(secret)

    @app.job(max_attempts=1)
    def mute() -> None:
        raise Mute

    handle, other = fail.enqueue("x" + "é" * 700), mute.enqueue()
    with caplog.at_level(logging.DEBUG), app.worker():
        for ended in (handle, other):
            with pytest.raises(JobFailed):
                ended.result(30)
    assert failure(handle).text == "x" + "é" * 499
    assert "Mute" in (failure(other).code or "")
    assert "raised ValueError" in caplog.text
    assert "test_worker.py" in caplog.text
    assert "éé" not in caplog.text


def test_an_unknown_name_is_put_off_without_using_an_attempt(app: App, path: Path) -> None:
    """A message of code that is not deployed here yet: it waits for it, and says so."""
    newer = App(path)

    @newer.job(max_attempts=1)
    def tomorrow() -> None: ...

    @app.job
    def today() -> int:
        return 1

    handle = tomorrow.enqueue()
    with app.worker():
        until(lambda: handle.status().failure)
        assert today.enqueue().result(30) == 1
    status = handle.status()
    assert (status.state, status.attempt) == ("pending", 0)
    assert failure(handle) == fencepost.Failure(
        "unknown_name", "tomorrow", "no worker knew this name"
    )
    newer.store.close()


def test_a_former_name_is_still_run(app: App, path: Path) -> None:
    """What was enqueued under the alias finds the job under its new name."""
    older = App(path)

    @older.job
    def post() -> int: ...  # type: ignore[empty-body]

    handle = post.enqueue()

    @app.job(aliases=["post"])
    def mail() -> int:
        return 7

    with app.worker():
        assert handle.result(30) == 7
    older.store.close()


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
            with pytest.raises(fencepost.Cancelled, match="time-out"):
                ctx.check()
            told.append(True)
            assert gate.wait(30)
        return ctx.attempt

    with app.worker(threads=2) as worker:
        assert slow.enqueue().result(30) == 2
        assert worker._crew is not None
        assert worker._crew.free(coroutine=False) == 1
        gate.set()
        until(lambda: worker._crew is not None and worker._crew.free(coroutine=False) == 2)
    assert told == [True]


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
        assert worker._crew is not None
        until(lambda: worker._crew is not None and worker._crew.free(coroutine=False) == 2)
        until(lambda: worker._crew is not None and worker._crew.free(coroutine=True) == 100)


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
