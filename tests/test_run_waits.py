"""What a run waits for, and several things side by side: no file, no worker, no clock."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from fencepost import Backoff
from fencepost._workflow.outcomes import Completed, Suspended
from fencepost.run import Run
from harness_run import Calls, DeclinedError, Runs, completed, declined, failed

SECOND = 1_000_000


@pytest.fixture
def calls() -> Calls:
    return Calls()


# ---- sleeping and waiting ------------------------------------------------------------------------


def test_a_deadline_is_recorded_when_it_is_first_come_to() -> None:
    async def body(run: Run) -> None:
        await run.sleep("nap", timedelta(hours=1))

    runs = Runs(body)
    first = runs.go()
    assert first == Suspended(runs.book.time + 3600 * SECOND, ("nap",), asleep=True)
    runs.book.time += 1800 * SECOND
    assert runs.go() == first
    runs.book.time += 1800 * SECOND
    completed(runs.go())


def test_a_signal_is_there_before_or_comes_later() -> None:
    async def body(run: Run) -> list[str]:
        return [await run.wait("one", str), await run.wait("two", str)]

    runs = Runs(body)
    assert runs.book.signal("one", "a")
    assert runs.go() == Suspended(None, ("two",), asleep=False)
    assert runs.book.signal("two", "b")
    assert not runs.book.signal("two", "c")
    assert completed(runs.go()) == ["a", "b"]


def test_a_wait_ends_at_its_deadline_on_every_later_pass() -> None:
    """Also where the signal came later, which was told so."""

    async def body(run: Run) -> str:
        try:
            return await run.wait("ok", str, timeout=10)
        except TimeoutError:
            await run.sleep("nap", 1)
            return "too late"

    runs = Runs(body)
    assert runs.go() == Suspended(runs.book.time + 10 * SECOND, ("ok",), asleep=False)
    runs.book.time += 10 * SECOND
    assert isinstance(runs.go(), Suspended)
    assert not runs.book.signal("ok", "yes")
    runs.book.time += SECOND
    assert completed(runs.go()) == "too late"


def test_a_signal_before_the_time_out_is_recorded_wins() -> None:
    async def body(run: Run) -> str:
        return await run.wait("ok", str, timeout=10)

    runs = Runs(body)
    runs.go()
    runs.book.time += 60 * SECOND
    assert runs.book.signal("ok", "yes")
    assert completed(runs.go()) == "yes"


def test_what_comes_meanwhile_shortens_no_backoff() -> None:
    """The run goes on with what it waited for, and the step is tried at its own moment."""
    tried: list[int] = []

    def flaky() -> None:
        tried.append(runs.book.time)
        if len(tried) == 1:
            raise DeclinedError

    async def body(run: Run) -> None:
        patient = run.options(max_attempts=2, backoff=Backoff(10, 1, 10, 0))
        await asyncio.gather(patient.step("flaky", flaky), run.wait("word", str))

    runs = Runs(body)
    due_us = runs.book.time + 10 * SECOND
    assert runs.go() == Suspended(due_us, ("flaky", "word"), asleep=False)
    runs.book.time = due_us - 1
    runs.book.signal("word", "go on")
    assert runs.go() == Suspended(due_us, ("flaky",), asleep=True)
    assert len(tried) == 1
    runs.book.time = due_us
    completed(runs.go())
    assert len(tried) == 2


def test_a_failure_that_a_branch_caught_beside_a_wait_is_history(calls: Calls) -> None:
    """It is recorded with the suspension: the next pass calls nothing again."""

    def fails() -> None:
        calls.made.append("a")
        raise DeclinedError

    async def careful(run: Run) -> str:
        try:
            await run.step("a", fails)
        except DeclinedError:
            return "no"
        return "yes"

    async def body(run: Run) -> list[str]:
        return list(await asyncio.gather(careful(run), run.wait("word", str)))

    runs = Runs(body)
    assert runs.go() == Suspended(None, ("word",), asleep=False)
    runs.book.signal("word", "go on")
    assert completed(runs.go()) == ["no", "go on"]
    assert calls.made == ["a"]


def test_a_signal_cannot_answer_for_a_step(calls: Calls) -> None:
    """Names of signals are a world of their own."""

    async def body(run: Run) -> str:
        return await run.step("pay", calls("pay"))

    runs = Runs(body)
    runs.book.signal("pay", "forged")
    assert completed(runs.go()) == "pay"


def test_messages_are_received_once_and_in_order() -> None:
    async def body(run: Run) -> list[list[int]]:
        first = await run.receive("first", int, limit=2)
        await run.sleep("nap", 1)
        return [first, await run.receive("rest", int)]

    runs = Runs(body)
    assert runs.go() == Suspended(None, ("first",), asleep=False)
    for n in range(3):
        runs.book.send(n)
    assert isinstance(runs.go(), Suspended)
    runs.book.send(3)
    runs.book.time += SECOND
    assert completed(runs.go()) == [[0, 1], [2, 3]]
    assert completed(runs.go()) == [[0, 1], [2, 3]]


def test_nothing_is_received_at_the_deadline_and_that_is_recorded() -> None:
    async def body(run: Run) -> list[list[int]]:
        first = await run.receive("first", int, timeout=5)
        return [first, await run.receive("second", int)]

    runs = Runs(body)
    runs.go()
    runs.book.time += 5 * SECOND
    runs.go()
    runs.book.send(1)
    assert completed(runs.go()) == [[], [1]]


def test_the_earliest_deadline_counts_and_all_that_is_waited_for_is_told() -> None:
    async def body(run: Run) -> None:
        await run.gather(
            run.sleep("long", 20), run.wait("ok", str, timeout=10), run.wait("go", str)
        )

    runs = Runs(body)
    due = runs.book.time + 10 * SECOND
    assert runs.go() == Suspended(due, ("go", "long", "ok"), asleep=False)


# ---- side by side --------------------------------------------------------------------------------


def test_branches_go_as_far_as_they_can(calls: Calls) -> None:
    async def branch(run: Run, n: int) -> str:
        await run.step(f"a{n}", calls(f"a{n}"))
        await run.sleep(f"nap{n}", n)
        return await run.step(f"b{n}", calls(f"b{n}"))

    async def body(run: Run) -> list[str]:
        return await run.gather(*(branch(run, n) for n in range(1, 4)))

    runs = Runs(body)
    assert completed(runs.until(Completed)) == ["b1", "b2", "b3"]
    assert calls.made[:3] == ["a1", "a2", "a3"]
    assert sorted(calls.made) == ["a1", "a2", "a3", "b1", "b2", "b3"]


def test_what_ended_in_another_order_is_no_changed_code(calls: Calls) -> None:
    """The slower branch is recorded later, and asked for first."""

    async def step(name: str, seconds: float) -> str:
        await asyncio.sleep(seconds)
        calls.made.append(name)
        return name

    async def branch(run: Run, name: str, seconds: float) -> None:
        await run.step(f"{name}1", step, f"{name}1", seconds)
        await run.step(f"{name}2", step, f"{name}2", seconds)

    async def body(run: Run) -> None:
        tasks = [
            asyncio.ensure_future(branch(run, *it)) for it in (("slow", 0.03), ("quick", 0.01))
        ]
        await asyncio.gather(*tasks)
        await run.sleep("nap", 1)

    runs = Runs(body)
    runs.until(Completed)
    assert calls.made == ["quick1", "quick2", "slow1", "slow2"]


def test_a_half_finished_fan_out_is_no_changed_code(calls: Calls) -> None:
    """One branch had not ended when the worker died; it is the first that is asked for."""

    async def branch(run: Run, n: int) -> None:
        await run.step(f"a{n}", calls(f"a{n}"))
        await run.step(f"b{n}", calls(f"b{n}"))

    async def body(run: Run) -> None:
        await asyncio.gather(*(branch(run, n) for n in range(3)))

    runs = Runs(body)
    runs.go()
    del runs.book.records["b0"]
    completed(runs.go())
    assert calls.made.count("b0") == 2
    assert len(calls.made) == 7


def test_a_failure_beside_a_wait_is_a_failure(calls: Calls) -> None:
    async def body(run: Run) -> None:
        await run.gather(run.wait("ok", str), run.step("a", declined), run.step("b", calls("b")))

    runs = Runs(body)
    assert isinstance(failed(runs.go()), DeclinedError)
    assert "b" in runs.book.records


def test_an_effect_outlives_who_waited_for_it(calls: Calls) -> None:
    """The other branch waits, which ends the pass; what is under way is finished and recorded."""

    async def slow() -> str:
        await asyncio.sleep(0.02)
        return "done"

    async def body(run: Run) -> None:
        await asyncio.gather(run.step("slow", slow), run.wait("ok", str))

    runs = Runs(body)
    assert isinstance(runs.go(), Suspended)
    assert "slow" in runs.book.records


def test_nothing_side_by_side_is_an_empty_list() -> None:
    async def body(run: Run) -> list[int]:
        return await run.gather()

    assert completed(Runs(body).go()) == []
