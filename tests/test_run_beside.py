"""
What a workflow awaits that is not its run's: no file, no worker.

While history is given back a branch may have to wait until another one asks for what was recorded
before. Whether that one will is known from what it awaits, and from no time that has passed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from fencepost._workflow import tasks
from fencepost._workflow.outcomes import Suspended
from fencepost.run import Run
from harness_beside import SIDEWAYS, Branches, by_run, sideways
from harness_run import Calls, Runs, completed, parked

LONG = 0.2  # seconds: longer than any look around


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


FOREIGN = [asks_a_thread, waits_for_a_lock, waits_for_a_task, is_timed]


@pytest.fixture
def calls() -> Calls:
    return Calls()


# ---- what is not its run's -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("beside", "foreign"),
    [(beside, sleeps) for beside in SIDEWAYS] + [(by_run, foreign) for foreign in FOREIGN],
    ids=lambda fn: fn.__name__,
)
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


def test_who_may_go_on_and_has_not_looked_yet_is_waited_for(calls: Calls) -> None:
    """Looks come at some distance; who looks first must not take the others for stuck."""
    slow = False

    async def first(run: Run) -> None:
        if slow:
            await asyncio.sleep(0.175)
        await run.step("a", calls("a"))

    async def second(run: Run) -> None:
        await run.step("b", calls("b"))  # looks after 0.15 s, and after 0.21 s
        await run.step("c", calls("c"))

    async def third(run: Run) -> None:
        if slow:
            await asyncio.sleep(0.035)
        while not slow and len(calls.made) < 3:
            await asyncio.sleep(0)
        await run.step("d", calls("d"))  # looks after 0.185 s

    async def body(run: Run) -> None:
        await run.gather(first(run), second(run), third(run))
        await run.wait("ok", str)

    runs = Runs(body)
    runs.go()
    slow = True
    assert isinstance(runs.go(), Suspended)
    assert sorted(calls.made) == ["a", "b", "c", "d"]


def test_a_failure_takes_its_time_to_go_up(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    """A go of the event loop for each level; whoever catches it then asks."""
    monkeypatch.setattr(tasks, "NAP", 0)
    slow = False

    async def fails() -> None:
        if slow:
            await asyncio.sleep(0.02)
        raise KeyError

    async def body(run: Run) -> None:
        later = run.step("b", calls("b")) if slow else asyncio.sleep(0)
        try:
            await asyncio.gather(asyncio.gather(asyncio.gather(asyncio.gather(fails(), later))))
        except KeyError:
            await run.step("a", calls("a"))
        if not slow:
            await run.step("b", calls("b"))
        await run.wait("ok", str)

    runs = Runs(body)
    runs.go()
    slow = True
    assert isinstance(runs.go(), Suspended)


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


@sideways
def test_changed_code_is_noticed_beside_a_sleep_that_is_not_over(
    calls: Calls, beside: Branches
) -> None:
    async def body(run: Run) -> None:
        await beside(run, run.sleep("nap", 60), run.step("a", calls("a")))

    async def changed(run: Run) -> None:
        await beside(run, run.sleep("nap", 60), run.step("b", calls("b")))

    runs = Runs(body)
    assert isinstance(runs.go(), Suspended)
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
    (said,) = [one for one in caplog.records if one.name == "fencepost.worker"]
    assert "'a' is recorded" in said.getMessage()
    assert said.getMessage().endswith("first > sleeps > sleep")
