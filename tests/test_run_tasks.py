"""
Tasks that a workflow makes itself, and what they come to before a wait ends the pass; and steps
within steps, which there are none: no file, no worker.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from fencepost._workflow import tasks
from fencepost._workflow.outcomes import Suspended
from fencepost.errors import InvalidArgument
from fencepost.run import Run
from harness_beside import Branches, sideways, task_group
from harness_run import Calls, Runs, failed, parked

groups = pytest.mark.skipif(task_group is None, reason="there are no task groups")


@pytest.fixture
def calls() -> Calls:
    return Calls()


# ---- waits within tasks of its own ---------------------------------------------------------------


@sideways
def test_what_stands_beside_a_wait_goes_as_far_as_it_can(calls: Calls, beside: Branches) -> None:
    """A TaskGroup cancels it when the wait ends the pass, and so that comes last."""

    async def several(run: Run) -> None:
        for n in range(3):
            await run.step(f"a{n}", calls(f"a{n}"))
            await asyncio.sleep(0.02)
            await run.gather(run.step(f"b{n}", calls(f"b{n}")))
        await run.wait("go", str)

    async def body(run: Run) -> None:
        await beside(run, run.wait("ok", str), run.sleep("nap", 1), several(run))

    runs = Runs(body)
    found = runs.go()
    assert isinstance(found, Suspended)
    assert found.waiting_for == ("go", "nap", "ok")
    assert len(calls.made) == 6


@groups
def test_a_wait_in_the_body_of_a_task_group_lets_the_others_go_on(calls: Calls) -> None:
    async def step(name: str) -> None:
        await asyncio.sleep(0.02)
        calls(name)()

    async def several(run: Run) -> None:
        for n in range(3):
            await run.step(f"a{n}", step, f"a{n}")

    async def beats() -> None:
        while True:
            await asyncio.sleep(0.001)

    async def body(run: Run) -> None:
        async with task_group() as group:
            group.create_task(several(run))
            group.create_task(beats())
            await run.wait("ok", str)

    runs = Runs(body)
    assert runs.go() == Suspended(None, ("ok",), asleep=False)
    assert calls.made == ["a0", "a1", "a2"]


@groups
def test_a_wait_is_not_quicker_than_changed_code(calls: Calls) -> None:
    """It would cancel who is about to notice, and the run would come here again for ever."""

    async def body(run: Run) -> None:
        await run.gather(run.sleep("nap", 60), run.step("a", calls("a")))

    runs = Runs(body)
    assert isinstance(runs.go(), Suspended)

    async def sleeps_late(run: Run) -> None:
        await asyncio.sleep(0.035)
        await run.sleep("nap", 60)  # looks after 0.185 s

    async def changed(run: Run) -> None:
        async with task_group() as group:
            group.create_task(sleeps_late(run))
            group.create_task(asyncio.sleep(0.175))
            group.create_task(run.step("b", calls("b")))  # looks after 0.15 s, and after 0.21 s

    assert "'a' is recorded" in parked(runs.go(changed))


def test_many_waits_side_by_side_are_no_long_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each go of the event loop looks at all of them once, and not once for each of them."""
    looked: list[object] = []
    brings = tasks._brings

    def count(task: asyncio.Task[Any]) -> set[asyncio.Future[Any]]:
        looked.append(task)
        return brings(task)

    monkeypatch.setattr(tasks, "_brings", count)

    async def body(run: Run) -> None:
        await asyncio.gather(*(run.wait(f"w{n}", str) for n in range(500)))

    assert isinstance(Runs(body).go(), Suspended)
    assert len(looked) < 500 * 3 * tasks.GOES


def test_what_a_step_has_begun_is_no_task_of_the_run(calls: Calls) -> None:
    """A pool of connections, say, that whoever comes first makes for all."""
    kept: list[asyncio.Task[None]] = []

    async def connect() -> None:
        kept.append(asyncio.create_task(asyncio.sleep(3600)))

    async def body(run: Run) -> None:
        await asyncio.gather(run.step("connect", connect), run.wait("ok", str))

    runs = Runs(body)
    assert runs.go() == Suspended(None, ("ok",), asleep=False)
    assert list(runs.book.records) == ["connect"]


def test_deadlines_of_waits_side_by_side_are_one_commit_with_the_end(calls: Calls) -> None:
    async def body(run: Run) -> None:
        await run.gather(run.sleep("nap", 60), run.wait("ok", str, timeout=9))

    runs = Runs(body)
    runs.go()
    assert runs.book.commits == [["nap", "until:ok"]]


# ---- steps within steps --------------------------------------------------------------------------


def by_a_loop_of_its_own(run: Run, calls: Calls) -> None:
    asyncio.run(run.step("inner", calls("inner")))


async def by_a_coroutine(run: Run, calls: Calls) -> None:
    await run.step("inner", calls("inner"))


def by_a_thread(run: Run, calls: Calls) -> None:
    found: list[Exception] = []

    def call() -> None:
        try:
            asyncio.run(run.step("inner", calls("inner")))
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    raise found[0]


async def by_a_wait(run: Run, calls: Calls) -> None:
    await run.gather(run.sleep("inner", 1))


@pytest.mark.parametrize("how", [by_a_loop_of_its_own, by_a_coroutine, by_a_thread, by_a_wait])
def test_a_step_has_no_steps_of_its_own(calls: Calls, how: Callable[[Run, Calls], Any]) -> None:
    """Once the outer one is recorded nobody would ask for the inner one, and the run would park."""

    async def body(run: Run) -> None:
        await run.step("outer", partial(how, run, calls))

    runs = Runs(body)
    error = failed(runs.go())
    assert isinstance(error, InvalidArgument)
    assert "'inner'" in str(error)
    assert calls.made == []
    assert runs.book.records == {}


def test_a_transaction_has_no_steps_of_its_own(calls: Calls) -> None:
    async def body(run: Run) -> None:
        await run.transact("outer", lambda tx: asyncio.run(run.step("inner", calls("inner"))))

    assert isinstance(failed(Runs(body).go()), InvalidArgument)
    assert calls.made == []
