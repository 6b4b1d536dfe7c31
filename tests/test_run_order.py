"""What is recorded before what, and by whom: no file, no worker, no clock."""

from __future__ import annotations

import asyncio

import pytest

import fencepost
from fencepost._workflow.outcomes import Completed, Failed, Suspended
from fencepost.run import Run
from harness_run import Calls, DeclinedError, Runs, completed, declined, failed
from harness_worker import AT_ONCE


@pytest.fixture
def calls() -> Calls:
    return Calls()


def test_a_step_begins_when_all_before_it_is_recorded(calls: Calls) -> None:
    """Or a death between the two would repeat the first one behind the second."""
    seen: list[list[str]] = []

    async def body(run: Run) -> None:
        await run.step("a", calls("a"))
        await run.step("b", lambda: seen.append(list(runs.book.records)))
        await run.transact("c", lambda tx: seen.append(list(runs.book.records)))

    runs = Runs(body)
    completed(runs.go())
    assert seen == [["a"], ["a", "b"]]


@pytest.mark.parametrize("waits", [False, True])
def test_a_failure_that_was_caught_is_recorded_with_the_end(calls: Calls, *, waits: bool) -> None:
    async def body(run: Run) -> str:
        try:
            await run.step("pay", declined)
        except DeclinedError:
            if waits:
                await run.wait("ok", str)
        return "went on"

    runs = Runs(body)
    assert isinstance(runs.go(), Suspended if waits else Completed)
    assert "pay" in runs.book.records


def test_a_failure_that_a_branch_caught_is_history(calls: Calls) -> None:
    """In a gather of its own, within another one; the first step is not tried again."""
    fail = True

    def pay() -> None:
        calls.made.append("pay")
        if fail:
            declined()

    async def branch(run: Run) -> str:
        try:
            await run.gather(run.step("pay", pay), run.step("a", calls("a")))
        except DeclinedError:
            return await run.step("undo", calls("undo"))
        return "paid"

    async def body(run: Run) -> list[str]:
        return await run.gather(branch(run), run.wait("ok", str))

    runs = Runs(body)
    assert isinstance(runs.go(), Suspended)
    fail = False
    runs.book.signal("ok", "x")
    assert completed(runs.go()) == ["undo", "x"]
    assert calls.made == ["pay", "a", "undo"]
    assert list(runs.book.records)[:3] == ["a", "pay", "undo"]


def test_who_cancels_a_step_does_not_cancel_its_effect(calls: Calls) -> None:
    async def slow() -> str:
        await asyncio.sleep(0.02)
        calls.made.append("slow")
        return "done"

    async def body(run: Run) -> None:
        task = asyncio.ensure_future(run.step("slow", slow))
        await asyncio.sleep(0.005)
        task.cancel()
        await run.wait("ok", str)

    runs = Runs(body)
    assert isinstance(runs.go(), Suspended)
    assert calls.made == ["slow"]
    assert "slow" in runs.book.records


@pytest.mark.parametrize("permanent", [fencepost.PermanentError("no"), KeyError("no")])
def test_what_is_hopeless_is_tried_once(calls: Calls, permanent: Exception) -> None:
    """By its own word, or by the workflow's `permanent`."""

    def fails() -> None:
        calls.made.append("a")
        raise permanent

    async def body(run: Run) -> None:
        await run.options(max_attempts=3, backoff=AT_ONCE).step("a", fails)

    runs = Runs(body, permanent=(KeyError,))
    assert runs.until(Failed).error is permanent
    assert calls.made == ["a"]


def test_a_group_of_messages_is_counted_on_from_where_it_ended(calls: Calls) -> None:
    """Two receives of one pass never have the same message."""

    async def body(run: Run) -> list[list[int]]:
        return [await run.receive("first", int, limit=2), await run.receive("second", int)]

    runs = Runs(body)
    for n in range(3):
        runs.book.send(n)
    assert completed(runs.go()) == [[0, 1], [2]]


def test_a_body_that_cancels_itself_has_failed() -> None:
    async def body(run: Run) -> None:
        raise asyncio.CancelledError

    assert isinstance(failed(Runs(body).go()), asyncio.CancelledError)
