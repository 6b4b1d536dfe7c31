"""Which of several things that went up counts; and threads that work for coroutines."""

from __future__ import annotations

import asyncio
import builtins
import sys
import threading
from collections.abc import Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest

from fencepost._binding.waiters import Batcher, Callers
from fencepost._workflow.outcomes import (
    Changed,
    Fenced,
    Suspended,
    Suspension,
    Withdrawn,
    weigh,
    weightiest,
)
from fencepost.run import Run
from harness_run import DeclinedError, Runs, declined, failed

task_group: Any = getattr(asyncio, "TaskGroup", None)
groups = pytest.mark.skipif(sys.version_info < (3, 11), reason="there are no exception groups")


@groups
def test_what_counts_most_in_a_group() -> None:
    """Being fenced, changed code, cancellation; then failures, without what only waits."""
    fenced, changed, withdrawn = Fenced(), Changed(), Withdrawn()
    one, two, wait = ValueError("1"), KeyError("2"), Suspension()

    def weighed(*errors: BaseException) -> BaseException:
        group: Any = vars(builtins)["BaseExceptionGroup"]
        inner = group("inner", list(errors))
        return weigh(group("outer", [inner, wait]))

    assert weighed(one, fenced, changed) is fenced
    assert weighed(one, withdrawn, changed) is changed
    assert weighed(one, withdrawn) is withdrawn
    assert weighed(one) is one
    assert weighed(wait) is wait
    several: Any = weighed(one, two)
    assert type(several).__name__ == "ExceptionGroup"
    assert several.subgroup(Suspension) is None


@groups
def test_a_task_group_may_wait() -> None:
    """It cancels what stands beside the first that waits; `run.gather` lets that go on."""

    async def waits(run: Run) -> None:
        async with task_group() as group:
            group.create_task(run.wait("ok", str))
            group.create_task(run.sleep("nap", 1))

    assert isinstance(Runs(waits).go(), Suspended)


@groups
def test_what_a_task_group_raises_is_unwrapped() -> None:
    async def fails(run: Run) -> None:
        async with task_group() as group:
            group.create_task(run.step("a", declined))

    assert isinstance(failed(Runs(fails).go()), DeclinedError)


def test_side_by_side_the_first_failure_comes_alone() -> None:
    one, two = ValueError("1"), KeyError("2")
    assert weightiest([Suspension(), one, two]) is one
    assert isinstance(weightiest([Suspension()]), Suspension)


async def test_callers_answer_each_and_go_on_though_nobody_waits() -> None:
    callers, began, go = Callers("steps", 2), threading.Event(), threading.Event()
    done: list[int] = []

    def slow() -> None:
        began.set()
        assert go.wait(60)
        done.append(1)

    task = asyncio.create_task(callers.call(slow))
    while not began.is_set():
        await asyncio.sleep(0.001)
    task.cancel()
    assert await asyncio.gather(*(callers.call(partial(int, n)) for n in range(20))) == [*range(20)]
    go.set()
    with pytest.raises(ZeroDivisionError):
        await callers.call(lambda: 1 // 0)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await callers.call(lambda: next(iter(())))
    while not done:
        await asyncio.sleep(0.001)
    callers.dismiss()


async def test_no_call_waits_for_another_while_there_is_room_for_a_thread() -> None:
    """Of two that come at once where one thread is idle, each waits for the other to have begun."""
    callers, both = Callers("steps", 2), threading.Barrier(2)
    await callers.call(int)
    assert callers.wait_until_idle(30)
    calls = [callers.call(partial(both.wait, 30)) for _ in range(2)]
    assert sorted(await asyncio.gather(*calls)) == [0, 1]
    callers.dismiss()


async def test_a_batcher_commits_together_what_was_said_meanwhile() -> None:
    go = threading.Event()
    commits: list[list[int]] = []

    def commit(items: Sequence[int]) -> list[int]:
        if not commits:
            assert go.wait(60)
        commits.append(list(items))
        if 7 in items:
            raise ValueError("seven")
        return [2 * item for item in items]

    batcher: Batcher[int, int] = Batcher("records", commit)
    first = asyncio.create_task(batcher.say(1))
    await asyncio.sleep(0.01)
    rest = [asyncio.create_task(batcher.say(n)) for n in (2, 3)]
    await asyncio.sleep(0.01)
    go.set()
    assert await asyncio.gather(first, *rest) == [2, 4, 6]
    assert commits == [[1], [2, 3]]
    batcher.dismiss()


async def test_what_is_wrong_with_one_is_nobody_elses_trouble() -> None:
    go = threading.Event()

    def commit(items: Sequence[int]) -> list[int]:
        assert go.wait(60)
        if 7 in items:
            raise ValueError("seven")
        return list(items)

    batcher: Batcher[int, int] = Batcher("records", commit)
    said = [asyncio.create_task(batcher.say(n)) for n in (1, 2, 7, 3)]
    await asyncio.sleep(0.01)
    go.set()
    answers = await asyncio.gather(*said, return_exceptions=True)
    assert [answer for answer in answers if isinstance(answer, int)] == [1, 2, 3]
    batcher.dismiss()


async def test_what_was_said_is_committed_though_who_said_it_is_cancelled() -> None:
    """A result that a step had, and whose pass was cut off, is recorded."""
    began, go = threading.Event(), threading.Event()
    commits: list[list[int]] = []

    def commit(items: Sequence[int]) -> list[int]:
        began.set()
        assert go.wait(60)
        commits.append(list(items))
        return list(items)

    batcher: Batcher[int, int] = Batcher("records", commit)
    first = asyncio.create_task(batcher.say(1))
    while not began.is_set():
        await asyncio.sleep(0.001)
    second = asyncio.create_task(batcher.say(2))
    await asyncio.sleep(0.01)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    go.set()
    assert await first == 1
    while len(commits) < 2:
        await asyncio.sleep(0.001)
    assert commits == [[1], [2]]
    batcher.dismiss()


async def test_a_commit_has_the_context_of_the_first_who_said_something() -> None:
    """What is around a call, a span for example, is around its commit."""
    around: ContextVar[str] = ContextVar("around", default="nobody")
    batcher: Batcher[int, str] = Batcher("records", lambda items: [around.get()] * len(items))
    around.set("a caller")
    assert await batcher.say(1) == "a caller"
    batcher.dismiss()
