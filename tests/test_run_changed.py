"""Code that differs from what is recorded, and passes that are cut off: no file, no clock."""

from __future__ import annotations

import pytest

from fencepost._workflow.history import Record
from fencepost._workflow.outcomes import Completed, Lost, Stopped, Suspended, Suspension, Swallowed
from fencepost.run import Run
from harness_run import Book, Calls, Runs, completed, failed, parked

SECOND = 1_000_000


@pytest.fixture
def calls() -> Calls:
    return Calls()


# ---- suspensions are not to be caught ------------------------------------------------------------


def test_except_exception_lets_a_suspension_through() -> None:
    async def body(run: Run) -> None:
        try:
            await run.wait("ok", str)
        except Exception:
            return

    assert isinstance(Runs(body).go(), Suspended)


def test_a_suspension_that_was_swallowed_is_noticed() -> None:
    async def body(run: Run) -> str:
        try:
            return await run.wait("ok", str)
        except BaseException:
            return "went on"

    error = failed(Runs(body).go())
    assert isinstance(error, Swallowed)
    assert "ok" in str(error)


def test_a_suspension_raised_by_hand_is_an_error() -> None:

    async def body(run: Run) -> None:
        raise Suspension

    assert isinstance(failed(Runs(body).go()), TypeError)


def test_being_fenced_ends_the_pass_and_records_nothing(calls: Calls) -> None:
    async def body(run: Run) -> None:
        await run.step("a", calls("a"))
        await run.step("b", calls("b"))

    runs = Runs(body)
    runs.book.fenced = True
    assert isinstance(runs.go(), Lost)
    assert calls.made == ["a"]
    assert runs.book.records == {}


def test_a_cancelled_run_records_what_was_under_way_and_begins_nothing(calls: Calls) -> None:
    async def body(run: Run) -> None:
        await run.step("a", calls("a"))
        await run.step("b", calls("b"))

    runs = Runs(body)
    runs.book.withdrawn = True
    assert runs.go() == Stopped(withdrawn=True)
    assert calls.made == ["a"]
    assert list(runs.book.records) == ["a"]


# ---- changed code --------------------------------------------------------------------------------


def two_steps(calls: Calls) -> Runs:
    """A and b are recorded, and it waits."""

    async def body(run: Run) -> None:
        await run.step("a", calls("a"))
        await run.step("b", calls("b"))
        await run.wait("ok", str)

    runs = Runs(body)
    runs.go()
    calls.made.clear()
    return runs


def test_another_order_is_noticed(calls: Calls) -> None:
    async def changed(run: Run) -> None:
        await run.step("b", calls("b"))
        await run.step("a", calls("a"))

    text = parked(two_steps(calls).go(changed))
    assert "'a' is recorded, and the code now asks for 'b' before it" in text
    assert calls.made == []


def test_another_kind_is_noticed(calls: Calls) -> None:
    async def changed(run: Run) -> None:
        await run.step("a", calls("a"))
        await run.sleep("b", 1)

    text = parked(two_steps(calls).go(changed))
    assert "'b' is recorded as a step, and the code now asks for it as a sleep" in text


def test_a_new_step_before_recorded_ones_is_noticed_before_it_runs(calls: Calls) -> None:
    async def changed(run: Run) -> None:
        await run.step("a", calls("a"))
        await run.step("new", calls("new"))
        await run.step("b", calls("b"))

    assert "'b' is recorded" in parked(two_steps(calls).go(changed))
    assert calls.made == []


def test_a_step_that_is_gone_is_noticed(calls: Calls) -> None:
    async def changed(run: Run) -> None:
        await run.step("a", calls("a"))

    assert "'b' is recorded" in parked(two_steps(calls).go(changed))


def test_a_wait_with_a_deadline_that_became_a_step_is_noticed(calls: Calls) -> None:
    async def body(run: Run) -> None:
        await run.wait("ok", str, timeout=10)

    async def changed(run: Run) -> None:
        await run.step("ok", calls("ok"))

    runs = Runs(body)
    runs.go()
    assert "'ok' as a step" in parked(runs.go(changed)).replace("asks for it", "'ok'")
    assert calls.made == []


def test_new_steps_behind_what_is_recorded_are_welcome(calls: Calls) -> None:
    async def changed(run: Run) -> str:
        await run.step("a", calls("a"))
        await run.step("b", calls("b"))
        return await run.step("c", calls("c"))

    assert completed(two_steps(calls).go(changed)) == "c"


def test_a_patch_goes_the_old_way_in_runs_that_were_past_it(calls: Calls) -> None:
    async def changed(run: Run) -> bool:
        await run.step("a", calls("a"))
        new = run.patched("with a check")
        if new:
            await run.step("check", calls("check"))
        await run.step("b", calls("b"))
        await run.sleep("nap", 1)
        return new

    old = two_steps(calls)
    old.body = changed
    assert completed(old.until(Completed)) is False
    assert calls.made == []
    new = Runs(changed)
    assert completed(new.until(Completed)) is True
    assert calls.made == ["a", "check", "b"]


def test_a_patch_may_be_asked_twice_and_taken_out_again(calls: Calls) -> None:
    async def changed(run: Run) -> bool:
        both = run.patched("p") and run.patched("p")
        await run.sleep("nap", 1)
        return both and run.patched("p")

    async def cleaned(run: Run) -> None:
        await run.sleep("nap", 1)

    runs = Runs(changed)
    assert completed(runs.until(Completed)) is True
    completed(runs.go(cleaned))


def test_history_is_asked_for_by_kind(calls: Calls) -> None:
    """A record of a kind that nobody knows is no step."""
    book = Book()
    book.records["a"] = Record(1, "a", 100, b"1", None, 0)

    async def body(run: Run) -> None:
        await run.step("a", calls("a"))

    assert "'a' is recorded" in parked(Runs(body, book).go())
