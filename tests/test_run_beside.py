"""
What a workflow awaits that is not its run's, and tasks that it makes itself: no file, no worker.

While history is given back a branch may have to wait until another one asks for what was recorded
before. Whether that one will is known from what it awaits, and from no time that has passed.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from fencepost._binding.outcomes import Suspended
from fencepost._workflow import tasks
from fencepost.errors import InvalidArgument
from fencepost.run import Run
from harness_run import Calls, Runs, completed, failed, parked

Branches = Callable[..., Awaitable[object]]
task_group: Any = getattr(asyncio, "TaskGroup", None)
LONG = 0.3  # seconds: longer than any look around


async def by_run(run: Run, *branches: Coroutine[Any, Any, Any]) -> None:
    await run.gather(*branches)


async def by_gather(run: Run, *branches: Coroutine[Any, Any, Any]) -> None:
    await asyncio.gather(*branches)


async def by_nested_gathers(run: Run, *branches: Coroutine[Any, Any, Any]) -> None:
    await asyncio.gather(*(asyncio.gather(asyncio.gather(branch)) for branch in branches))


async def by_shields(run: Run, *branches: Coroutine[Any, Any, Any]) -> None:
    await asyncio.gather(*(asyncio.shield(branch) for branch in branches))


async def by_wait(run: Run, *branches: Coroutine[Any, Any, Any]) -> None:
    tasks = [asyncio.ensure_future(branch) for branch in branches]
    await asyncio.wait(tasks)
    for task in tasks:
        task.result()


async def by_tasks(run: Run, *branches: Coroutine[Any, Any, Any]) -> None:
    for task in [asyncio.ensure_future(branch) for branch in branches]:
        await task


async def by_group(run: Run, *branches: Coroutine[Any, Any, Any]) -> None:
    async with task_group() as group:
        for branch in branches:
            group.create_task(branch)


SIDEWAYS: list[Branches] = [by_run, by_gather, by_nested_gathers, by_shields, by_wait, by_tasks]
if sys.version_info >= (3, 11):
    SIDEWAYS.append(by_group)
sideways = pytest.mark.parametrize("beside", SIDEWAYS, ids=lambda fn: fn.__name__)


async def sleeps() -> None:
    await asyncio.sleep(LONG)


async def asks_a_thread() -> None:
    await asyncio.to_thread(threading.Event().wait, LONG)


async def waits_for_a_lock() -> None:
    lock = asyncio.Lock()
    await lock.acquire()
    asyncio.get_running_loop().call_later(LONG, lock.release)
    async with lock:
        pass


async def waits_for_a_task() -> None:
    await asyncio.gather(asyncio.create_task(sleeps()))


async def is_timed() -> None:
    await asyncio.wait_for(sleeps(), 60)


FOREIGN = [sleeps, asks_a_thread, waits_for_a_lock, waits_for_a_task, is_timed]


@pytest.fixture
def calls() -> Calls:
    return Calls()


# ---- what is not its run's -----------------------------------------------------------------------


@sideways
@pytest.mark.parametrize("foreign", FOREIGN, ids=lambda fn: fn.__name__)
def test_who_awaits_something_else_may_still_ask(
    calls: Calls, beside: Branches, foreign: Callable[[], Awaitable[None]]
) -> None:
    """However long it takes; it asked first when that was recorded, and was quick."""
    slow = False

    async def first(run: Run) -> None:
        if slow:
            await foreign()
        await run.step("a", calls("a"))

    async def second(run: Run) -> None:
        if not slow:
            while not calls.made:
                await asyncio.sleep(0)
        await run.step("b", calls("b"))

    async def body(run: Run) -> str:
        await beside(run, second(run), first(run))
        return await run.wait("ok", str)

    runs = Runs(body)
    assert isinstance(runs.go(), Suspended)
    assert list(runs.book.records) == ["a", "b"]
    slow = True
    runs.book.signal("ok", "done")
    assert completed(runs.go()) == "done"
    assert calls.made == ["a", "b"]


def test_a_task_that_nobody_awaits_yet_may_still_ask(calls: Calls) -> None:
    slow = False

    async def first(run: Run) -> None:
        if slow:
            await sleeps()
        await run.step("a", calls("a"))

    async def body(run: Run) -> None:
        task = asyncio.create_task(first(run))
        while not slow and not calls.made:
            await asyncio.sleep(0)
        await run.step("b", calls("b"))
        await task
        await run.wait("ok", str)

    runs = Runs(body)
    assert isinstance(runs.go(), Suspended)
    slow = True
    assert isinstance(runs.go(), Suspended)
    assert calls.made == ["a", "b"]


def test_branches_may_share_a_semaphore(calls: Calls) -> None:
    """Who stands before it asks when it is let in, which is when what is recorded is given back."""

    async def branch(run: Run, door: asyncio.Semaphore, n: int) -> None:
        async with door:
            await run.step(f"a{n}", calls(f"a{n}"))

    async def body(run: Run) -> None:
        door = asyncio.Semaphore(2)
        await run.gather(*(branch(run, door, n) for n in range(6)))

    runs = Runs(body)
    completed(runs.go())
    del runs.book.records["a0"]  # the first did not end before its worker died
    completed(runs.go())
    assert calls.made.count("a0") == 2
    assert len(calls.made) == 7


# ---- code that has changed -----------------------------------------------------------------------


@sideways
def test_changed_code_is_noticed_at_once_whatever_runs_side_by_side(
    calls: Calls, beside: Branches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where each branch waits for its turn, nobody is left who could ask."""
    monkeypatch.setattr(tasks, "NAP", 3600)

    async def body(run: Run) -> None:
        await run.step("a", calls("a"))
        await beside(run, run.step("b", calls("b")))
        await run.wait("ok", str)

    async def changed(run: Run) -> None:
        await beside(run, run.step("b", calls("b")), run.step("new", calls("new")))
        await run.wait("ok", str)

    runs = Runs(body)
    assert isinstance(runs.go(), Suspended)
    assert "'a' is recorded" in parked(runs.go(changed))
    assert calls.made == ["a", "b"]


@sideways
def test_changed_code_is_noticed_when_what_was_awaited_is_over(
    calls: Calls, beside: Branches
) -> None:
    async def body(run: Run) -> None:
        await run.step("a", calls("a"))
        await run.step("b", calls("b"))
        await run.wait("ok", str)

    async def changed(run: Run) -> None:
        await beside(run, sleeps(), run.step("b", calls("b")))

    runs = Runs(body)
    runs.go()
    assert "'a' is recorded" in parked(runs.go(changed))


def test_who_is_waited_for_long_is_named(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, in the log: a pass that does not come any further is somebody's to mend."""
    monkeypatch.setattr(tasks, "TELL", 2)
    slow = False

    async def body(run: Run) -> None:
        await run.gather(*(run.step(f"b{n}", calls(f"b{n}")) for n in range(3)), first(run))

    async def first(run: Run) -> None:
        if slow:
            await sleeps()
        await run.step("a", calls("a"))

    runs = Runs(body)
    completed(runs.go())
    seq = min(record.seq for record in runs.book.records.values())
    runs.book.records["a"] = runs.book.records["a"]._replace(seq=seq - 1)
    slow = True
    completed(runs.go())
    (said,) = caplog.records
    assert "'a' is recorded" in said.getMessage()
    assert said.getMessage().endswith("first > sleeps > sleep")


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


@pytest.mark.skipif(task_group is None, reason="there are no task groups")
def test_a_wait_in_the_body_of_a_task_group_lets_the_others_go_on(calls: Calls) -> None:
    async def several(run: Run) -> None:
        for n in range(3):
            await run.step(f"a{n}", calls(f"a{n}"))

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
