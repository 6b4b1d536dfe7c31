"""The kit's worker is the worker: what handlers say and raise becomes what it becomes there."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

import fencepost
from fencepost import App, Context, InvalidArgument
from fencepost.testing import Kit, override
from harness_worker import AT_ONCE, NOON, failure, until

# ---- what a handler's end becomes ----------------------------------------------------------------


def test_a_result_that_cannot_be_encoded_is_a_dead_letter(app: App, kit: Kit) -> None:
    @app.job
    def odd() -> Any:
        return object()

    handle = odd.enqueue()
    assert kit.drain() == (0, 0, 1, 0)
    assert failure(handle).kind == "unencodable"


def test_a_name_that_nobody_knows_is_put_off(app: App, kit: Kit) -> None:
    """Until whoever knows it is deployed: here by a second App on the same file."""
    other = App()

    @app.job
    def known() -> None: ...

    @other.job
    def unknown() -> str:
        return "ran"

    handle = unknown.at(kit.store).enqueue()
    assert kit.drain() == (0, 1, 0, 0)
    assert failure(handle).kind == "unknown_name"
    app._registry.add_job(unknown)
    assert kit.drain() == (0, 0, 0, 0)
    assert kit.drain(until_idle=True) == (1, 0, 0, 0)
    assert kit.now == NOON + timedelta(seconds=60)


def test_a_delivery_of_which_nobody_knows_counts_with_the_dead(app: App, kit: Kit) -> None:
    box = app.outbox("receipt", int)

    @box.handler
    def deliver(d: fencepost.Delivery[int]) -> None:
        raise fencepost.DeliveryUnknown

    box.send("somewhere", 1)
    assert kit.drain() == (0, 0, 1, 0)
    assert len(kit.store.messages("unknown")) == 1


def test_a_handler_past_its_time_is_told_and_its_result_is_refused(app: App, kit: Kit) -> None:
    told: list[bool] = []

    @app.job(timeout=10, context=True, max_attempts=1)
    def slow(ctx: Context) -> str:
        kit.advance(9)
        told.append(ctx.cancelled)
        kit.advance(1)
        told.append(ctx.cancelled)
        return "too late"

    handle = slow.enqueue()
    assert kit.drain() == (0, 0, 1, 0)
    assert told == [False, True]
    assert failure(handle).kind == "timeout"


def test_a_coroutine_past_its_time_is_cancelled(app: App, kit: Kit) -> None:
    ended: list[str] = []

    @app.job(timeout=10, max_attempts=1)
    async def slow() -> None:
        kit.advance(10)
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("cancelled")

    handle = slow.enqueue()
    assert kit.drain() == (0, 0, 1, 0)
    assert ended == ["cancelled"]
    assert failure(handle).kind == "timeout"


def test_who_takes_its_time_over_a_debugger_is_not_timed_out(app: App, kit: Kit) -> None:
    """Time-outs are counted by the hand of the clock alone."""

    @app.job(timeout=1e-6)
    def looked_at() -> str:
        return "fine"

    handle = looked_at.enqueue()
    assert kit.drain().done == 1
    assert handle.result() == "fine"


def test_a_handler_whose_message_is_cancelled_is_told(app: App, kit: Kit) -> None:
    @app.job(context=True)
    def changed_its_mind(ctx: Context) -> str:
        assert not ctx.cancelled
        handle.cancel()
        told.append(ctx.cancelled)
        return "never"

    told: list[bool] = []
    handle = changed_its_mind.enqueue()
    assert kit.drain() == (0, 0, 0, 0)
    assert told == [True]
    assert handle.status().state == "cancelled"


def test_who_has_lost_the_lease_is_told(app: App, kit: Kit) -> None:
    """Another worker has taken it over, whether it has finished it or not."""
    told: list[bool] = []

    @app.job(context=True)
    def stalled(ctx: Context) -> int:
        if ctx.attempt == 1:
            kit.advance(31)
            assert not ctx.cancelled  # the lease is over, and nobody has taken it
            with kit.crash_at("claimed"):
                kit.drain()
            told.append(ctx.cancelled)
            kit.drain(until_idle=True)
            told.append(ctx.cancelled)
        return ctx.attempt

    handle = stalled.enqueue()
    assert kit.drain() == (1, 0, 0, 0)
    assert told == [True, True]
    assert handle.result() == 3


def test_progress_is_seen(app: App, kit: Kit) -> None:
    @app.job(context=True, backoff=AT_ONCE)
    def half(ctx: Context) -> None:
        ctx.progress({"half": ctx.attempt})
        raise OSError

    handle = half.enqueue()
    kit.drain(limit=1)
    assert handle.status().progress == {"half": 1}


def test_a_drain_lets_go_what_retention_lets_go(app: App, kit: Kit) -> None:
    @app.job
    def brief() -> str:
        return "here"

    handle = brief.enqueue()
    kit.drain()
    assert handle.result() == "here"
    kit.advance(timedelta(days=8))
    kit.drain()
    with pytest.raises(fencepost.Gone):
        handle.result()


def test_each_queue_is_the_first_in_its_turn(app: App, kit: Kit) -> None:
    """A job that goes on for ever keeps nobody else from running."""
    ran: list[str] = []

    @app.job(queue="first")
    def again() -> None:
        ran.append("again")
        again.enqueue()

    @app.job(queue="second")
    def once() -> None:
        ran.append("once")

    again.enqueue()
    once.enqueue()
    kit.drain(until_idle=True, limit=4)
    assert sorted(ran) == ["again", "again", "again", "once"]


# ---- what breaks into a handler ------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt("ctrl-c"), pytest.fail.Exception("no")])
def test_what_ends_the_test_goes_up_once_it_is_settled(
    app: App, kit: Kit, error: BaseException
) -> None:
    @app.job(backoff=AT_ONCE)
    def interrupted() -> None:
        raise error

    handle = interrupted.enqueue()
    with pytest.raises(type(error), match=str(error)):
        kit.drain(until_idle=True)
    assert (handle.status().state, handle.status().attempt) == ("pending", 1)


async def test_what_ends_the_test_goes_up_from_a_coroutine_too(app: App, kit: Kit) -> None:
    box = app.outbox("receipt", int)

    @box.handler
    async def deliver(d: fencepost.Delivery[int]) -> None:
        pytest.fail("nothing may be sent")

    box.send("somewhere", 1)
    with pytest.raises(pytest.fail.Exception, match="nothing may be sent"):
        await kit.adrain()
    assert len(kit.store.messages("unknown")) == 1


def test_a_handler_that_exits_has_failed(app: App, kit: Kit) -> None:
    """As in a worker, which goes on."""

    @app.job(max_attempts=1)
    def leaves() -> None:
        raise SystemExit(3)

    @app.job(max_attempts=1)
    async def gives_up() -> None:
        raise asyncio.CancelledError

    handles = [leaves.enqueue(), gives_up.enqueue()]
    assert kit.drain() == (0, 0, 2, 0)
    assert [failure(handle).code for handle in handles] == ["SystemExit", "CancelledError"]


# ---- event loops and threads ---------------------------------------------------------------------


def test_coroutines_share_one_loop_and_all_of_it_ends_with_the_kit(app: App) -> None:
    loops: list[asyncio.AbstractEventLoop] = []
    ended: list[str] = []
    before = threading.active_count()

    async def stays() -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)
        ended.append("left behind")

    @app.job
    async def here() -> None:
        loops.append(asyncio.get_running_loop())
        loops.append(asyncio.get_running_loop())
        tasks.append(asyncio.create_task(stays()))
        await asyncio.to_thread(threading.get_ident)

    tasks: list[asyncio.Task[None]] = []
    with override(app) as kit:
        for _ in range(2):
            here.enqueue()
            assert kit.drain().done == 1
    assert len(set(loops)) == 1
    assert loops[0].is_closed()
    assert ended == ["left behind"] * 2
    assert threading.active_count() == before


def test_plain_handlers_run_in_the_thread_that_drains(app: App, kit: Kit) -> None:
    threads: list[threading.Thread] = []

    @app.job
    def here() -> None:
        threads.append(threading.current_thread())

    here.enqueue()
    kit.drain()
    assert threads == [threading.current_thread()]


async def test_a_drain_where_a_loop_runs_is_refused(app: App, kit: Kit) -> None:
    with pytest.raises(InvalidArgument, match="adrain"):
        kit.drain()


async def test_plain_handlers_run_beside_a_loop(app: App, kit: Kit) -> None:
    """They may begin one of their own, as in a worker."""

    async def inner() -> str:
        return "of its own"

    @app.job
    def plain() -> str:
        return asyncio.run(inner())

    handle = plain.enqueue()
    assert (await kit.adrain()).done == 1
    assert handle.result() == "of its own"


async def test_a_drain_that_is_cancelled_gives_its_message_back(app: App, kit: Kit) -> None:
    """As a worker that stops; the attempt does not count."""
    began = asyncio.Event()

    @app.job
    async def hangs() -> None:
        began.set()
        await asyncio.Event().wait()

    handle = hangs.enqueue()
    drain = asyncio.create_task(kit.adrain(until_idle=True))
    await began.wait()
    drain.cancel()
    with pytest.raises(asyncio.CancelledError):
        await drain
    assert (handle.status().state, handle.status().attempt) == ("pending", 0)


async def test_a_plain_handler_is_told_that_its_drain_is_cancelled(app: App, kit: Kit) -> None:
    began, told = threading.Event(), threading.Event()

    @app.job(context=True)
    def waits(ctx: Context) -> None:
        began.set()
        until(lambda: ctx.cancelled)
        told.set()
        ctx.check()

    handle = waits.enqueue()
    drain = asyncio.create_task(kit.adrain())
    await asyncio.to_thread(began.wait)
    drain.cancel()
    with pytest.raises(asyncio.CancelledError):
        await drain
    assert told.is_set()
    assert (handle.status().state, handle.status().attempt) == ("pending", 0)
