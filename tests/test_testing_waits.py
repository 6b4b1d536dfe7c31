"""Whoever waits in the one thread that there is turns the clock, and keeps nobody waiting."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

import fencepost
from fencepost import App, InvalidArgument
from fencepost.testing import Kit
from harness_worker import NOON, failure


def test_whoever_waits_turns_the_clock(app: App, kit: Kit) -> None:
    """To what is due next, or to the end of the wait; no real time passes."""
    numbers = app.queue("numbers", int)
    assert numbers.claim(wait=3600) == []
    assert kit.now == NOON + timedelta(hours=1)
    numbers.enqueue(1, delay=60)
    numbers.enqueue(2)
    for payload in (2, 1):
        (claim,) = numbers.claim(wait=3600)
        assert claim.payload == payload
        claim.ack()
    assert kit.now == NOON + timedelta(hours=1, seconds=60)


def test_a_full_queue_is_waited_for(app: App, kit: Kit) -> None:
    numbers = app.queue("numbers", int, max_size=1)
    numbers.enqueue(1)
    with pytest.raises(fencepost.QueueFull):
        numbers.enqueue(2, wait=5)
    assert kit.now == NOON + timedelta(seconds=5)


def test_a_result_is_waited_for_in_vain_where_nothing_runs(app: App, kit: Kit) -> None:
    @app.job
    def one() -> int:
        return 1

    handle = one.enqueue()
    with pytest.raises(TimeoutError):
        handle.result(timeout=5)
    assert kit.now == NOON + timedelta(seconds=5)
    with pytest.raises(InvalidArgument, match="drain"):
        handle.result()
    kit.drain()
    assert handle.result() == 1


async def test_a_coroutine_waits_for_the_drain_of_another(app: App, kit: Kit) -> None:
    """An awaited wait turns no clock: whoever ends it may be another task."""

    @app.job
    def one() -> int:
        return 1

    handle = await one.aio.enqueue()
    waiting = asyncio.create_task(handle.result())
    assert (await kit.adrain()).done == 1
    assert await waiting == 1
    assert kit.now == NOON


def test_who_watches_is_told_that_nothing_will_change(app: App, kit: Kit) -> None:
    @app.job
    def one() -> int:
        return 1

    looks = one.enqueue().watch()
    assert next(looks).state == "pending"
    with pytest.raises(InvalidArgument, match="drain"):
        next(looks)


def test_a_handler_that_waits_for_another_fails_at_once(app: App, kit: Kit) -> None:
    """In a worker the other would run beside it; here nothing does."""

    @app.job
    def one() -> int:
        return 1

    @app.job(max_attempts=1)
    def waits() -> int:
        return one.enqueue().result()

    handle = waits.enqueue()
    assert kit.drain() == (1, 0, 1, 0)
    assert "drain" in failure(handle).text


def test_another_thread_is_woken_by_the_drain(app: App, kit: Kit) -> None:
    @app.job
    def one() -> int:
        return 1

    handle = one.enqueue()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(handle.result)
        kit.drain()
        assert waiting.result() == 1
    assert kit.now == NOON


def test_starts_that_cannot_be_are_not_waited_for(app: App, kit: Kit) -> None:
    """Of what is due in a year, or never, because its queue is paused: the clock makes one step."""
    year = timedelta(days=365)

    @app.job
    def note() -> None: ...

    note.options(delay=year).enqueue()
    kit.store.set_policy("default", rate=1000)
    assert kit.drain(until_idle=True).done == 1
    assert kit.now == NOON + year
    note.enqueue()
    kit.store.pause("default")
    assert kit.drain(until_idle=True).done == 0
    assert kit.now == NOON + year
