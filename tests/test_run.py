"""Steps of a run, pass after pass: no file, no worker, no clock."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import fencepost
from fencepost._workflow.outcomes import Completed, Failed, Suspended
from fencepost.errors import InvalidArgument, PayloadError
from fencepost.run import Run
from harness_run import Calls, DeclinedError, Runs, completed, declined, failed

if TYPE_CHECKING:
    from typing_extensions import Self

SECOND = 1_000_000


@pytest.fixture
def calls() -> Calls:
    return Calls()


# ---- steps ---------------------------------------------------------------------------------------


def test_a_recorded_step_never_runs_again(calls: Calls) -> None:
    """Each pass begins at the top, and is given what is recorded."""

    async def body(run: Run) -> list[str]:
        first = await run.step("a", calls("a"))
        await run.sleep("nap", 1)
        return [first, await run.step("b", calls("b"))]

    runs = Runs(body)
    assert completed(runs.until(Completed)) == ["a", "b"]
    assert calls.made == ["a", "b"]
    assert completed(runs.go()) == ["a", "b"]
    assert calls.made == ["a", "b"]


def test_each_step_is_a_commit_and_the_last_one_goes_with_the_end(calls: Calls) -> None:
    async def body(run: Run) -> None:
        for name in "abc":
            await run.step(name, calls(name))

    runs = Runs(body)
    completed(runs.go())
    assert runs.book.commits == [["a"], ["b"], ["c"]]


def test_a_step_before_a_sleep_is_recorded_with_its_deadline(calls: Calls) -> None:
    async def body(run: Run) -> None:
        await run.step("a", calls("a"))
        await run.sleep("nap", 1)

    runs = Runs(body)
    runs.go()
    assert runs.book.commits == [["a", "nap"]]


def test_who_awaits_something_else_after_a_step_finds_it_recorded(calls: Calls) -> None:
    seen: list[list[str]] = []

    async def body(run: Run) -> None:
        await run.step("a", calls("a"))
        await asyncio.sleep(0.01)
        seen.extend(runs.book.commits)

    runs = Runs(body)
    runs.go()
    assert seen == [["a"]]


def test_coroutines_plain_functions_and_what_makes_coroutines_are_steps() -> None:
    async def double(n: int) -> int:
        return 2 * n

    async def body(run: Run) -> list[int]:
        return [
            await run.step("a", double, 1),
            await run.step("b", lambda: 3),
            await run.step("c", lambda: double(2)),
        ]

    assert completed(Runs(body).go()) == [2, 3, 4]


def test_a_plain_step_runs_beside_the_event_loop() -> None:

    async def body(run: Run) -> bool:
        return await run.step("a", lambda: threading.current_thread() is threading.main_thread())

    assert completed(Runs(body).go()) is False


@dataclass
class Paid:
    order: int
    on: tuple[int, int]


def paid() -> Paid:
    return Paid(1, (2, 3))


def test_a_result_is_what_it_will_be_on_the_next_pass() -> None:
    """Decoded by the annotation, on the pass that made it, too."""
    seen: list[Any] = []

    async def body(run: Run) -> None:
        seen.append(await run.step("paid", paid))
        seen.append(await run.options(returns=tuple[int, int]).step("pair", lambda: (1, 2)))

    runs = Runs(body)
    runs.go()
    runs.go()
    assert seen == [Paid(1, (2, 3)), (1, 2)] * 2


def wrong() -> Paid:
    return (1, 2)  # type: ignore[return-value]


class Same:
    """Equal only to itself, as most classes are."""


@pytest.mark.parametrize(
    "fn",
    [lambda: (1, 2), lambda: {1: "a"}, lambda: Paid(1, (2, 3)), lambda: float("nan"), wrong, Same],
    ids=["tuple", "int keys", "dataclass", "nan", "not as annotated", "no form"],
)
def test_what_does_not_survive_is_refused_at_once(fn: Callable[[], Any]) -> None:
    async def body(run: Run) -> None:
        await run.step("a", fn)

    runs = Runs(body)
    assert isinstance(failed(runs.go()), PayloadError)
    assert "a" not in runs.book.records


def test_a_name_is_once_in_a_pass(calls: Calls) -> None:
    async def body(run: Run) -> None:
        await run.step("a", calls("a"))
        await run.sleep("a", 1)

    error = failed(Runs(body).go())
    assert isinstance(error, InvalidArgument)
    assert isinstance(error, ValueError)
    assert "used twice" in str(error)


@pytest.mark.parametrize("name", ["inbox:1", "signal:a", "until:a", 7, "\ud800"])
def test_names_that_cannot_be_one(name: Any, calls: Calls) -> None:
    async def body(run: Run) -> None:
        await run.step(name, calls("a"))

    assert isinstance(failed(Runs(body).go()), InvalidArgument)


def test_the_idempotency_key_is_of_the_run_and_the_step() -> None:
    async def body(run: Run) -> str:
        return run.key("pay")

    assert completed(Runs(body).go()) == "r:pay"


# ---- failures ------------------------------------------------------------------------------------


def test_what_a_step_raises_is_raised_and_the_next_pass_tries_again(calls: Calls) -> None:
    fail = True

    def sometimes() -> str:
        calls.made.append("b")
        if fail:
            raise DeclinedError
        return "paid"

    async def body(run: Run) -> str:
        await run.step("a", calls("a"))
        return await run.step("b", sometimes)

    runs = Runs(body)
    assert isinstance(failed(runs.go()), DeclinedError)
    fail = False
    assert completed(runs.go()) == "paid"
    assert calls.made == ["a", "b", "b"]


def test_a_failure_that_was_caught_is_history(calls: Calls) -> None:
    """The way that the run took because of it is taken again, though the step might succeed now."""
    fail = True
    seen: list[tuple[Any, ...]] = []

    def pay() -> None:
        calls.made.append("pay")
        if fail:
            declined()

    async def body(run: Run) -> str:
        try:
            await run.step("pay", pay)
        except DeclinedError as error:
            seen.append(error.args)
            await run.step("undo", calls("undo"))
            await run.sleep("nap", 1)
            return "undone"
        return "paid"

    runs = Runs(body)
    assert isinstance(runs.go(), Suspended)
    fail = False
    runs.book.time += SECOND
    assert completed(runs.go()) == "undone"
    assert calls.made == ["pay", "undo"]
    assert seen == [("no money", 7)] * 2


def test_a_failure_that_was_caught_side_by_side_is_history(calls: Calls) -> None:
    async def body(run: Run) -> str:
        try:
            await run.gather(run.step("pay", declined), run.step("a", calls("a")))
        except DeclinedError:
            await run.step("undo", calls("undo"))
            raise
        return "paid"

    runs = Runs(body)
    assert isinstance(failed(runs.go()), DeclinedError)
    assert list(runs.book.records) == ["a", "pay", "undo"]
    assert isinstance(failed(runs.go()), DeclinedError)
    assert calls.made == ["a", "undo"]


def test_a_failure_beside_steps_that_go_on_is_not_history(calls: Calls) -> None:
    async def two(run: Run) -> None:
        await run.step("b1", calls("b1"))
        await run.step("b2", calls("b2"))

    async def body(run: Run) -> None:
        await run.gather(run.step("pay", declined), two(run))

    runs = Runs(body)
    failed(runs.go())
    assert list(runs.book.records) == ["b1", "b2"]


def test_a_step_is_tried_again_after_its_backoff_without_the_others(calls: Calls) -> None:
    """Between two attempts the run sleeps; what has ended does not run again."""
    moments: list[int] = []

    def flaky() -> str:
        moments.append(runs.book.time)
        if len(moments) < 3:
            raise DeclinedError
        return "at last"

    async def body(run: Run) -> str:
        await run.step("a", calls("a"))
        backoff = fencepost.Backoff(10, 2, 100, 0)
        return await run.options(max_attempts=3, backoff=backoff).step("flaky", flaky)

    runs = Runs(body)
    assert completed(runs.until(Completed)) == "at last"
    assert [later - moments[0] for later in moments] == [0, 10 * SECOND, 30 * SECOND]
    assert calls.made == ["a"]


def test_attempts_of_a_step_end(calls: Calls) -> None:
    async def body(run: Run) -> None:
        await run.options(max_attempts=2, backoff=fencepost.Backoff(0, 1, 0, 0)).step("a", declined)

    runs = Runs(body)
    assert isinstance(runs.until(Failed).error, DeclinedError)
    assert runs.passes == 2


def test_a_step_past_its_time_is_cancelled() -> None:
    async def forever() -> None:
        await asyncio.sleep(3600)

    async def body(run: Run) -> None:
        await run.options(timeout=0.01).step("a", forever)

    assert isinstance(failed(Runs(body).go()), TimeoutError)


def test_a_step_may_raise_a_time_out_of_its_own() -> None:
    async def own() -> None:
        raise TimeoutError("own")

    async def body(run: Run) -> None:
        await run.options(timeout=60).step("a", own)

    assert str(failed(Runs(body).go())) == "own"


def test_a_handler_that_calls_exit_has_failed() -> None:
    def leave() -> None:
        raise SystemExit

    async def body(run: Run) -> None:
        await run.gather(run.step("a", leave))

    assert isinstance(failed(Runs(body).go()), SystemExit)


# ---- transact ------------------------------------------------------------------------------------


def test_transact_is_given_a_transaction_and_happens_once() -> None:
    given: list[tuple[Any, ...]] = []

    def effect(tx: Any, order: int) -> int:
        given.append((tx, order))
        return order + 1

    async def body(run: Run) -> int:
        got = await run.transact("pay", effect, 1)
        await run.sleep("nap", 1)
        return got

    runs = Runs(body)
    assert completed(runs.until(Completed)) == 2
    assert given == [("tx", 1)]


def test_transact_refuses_a_coroutine() -> None:
    async def effect(tx: Any) -> None: ...

    async def body(run: Run) -> None:
        _ = await run.transact("pay", effect)

    assert isinstance(failed(Runs(body).go()), InvalidArgument)


class OddError(Exception):
    """One that cannot be made without knowing how."""

    def __new__(cls, secret: int) -> Self:
        return super().__new__(cls, secret)


class NestedError(Exception):
    def __init__(self, what: object, why: str) -> None:
        super().__init__(what, why)


@pytest.mark.parametrize(
    ("error", "back", "args"),
    [
        (NestedError({"a": 1}, "b"), NestedError, ("({'a': 1}, 'b')",)),
        (NestedError(1, "b"), NestedError, (1, "b")),
        (fencepost.PermanentError("no", code="c"), fencepost.PermanentError, ("no",)),
        (OddError(1), fencepost.JobFailed, ("OddError: 1",)),
    ],
)
def test_what_comes_back_of_an_error_that_was_caught(
    error: Exception, back: type[Exception], args: tuple[object, ...]
) -> None:
    """Its class, if that can be made, and its arguments as far as they are plain."""
    seen: list[BaseException] = []

    def fails() -> None:
        raise error

    async def body(run: Run) -> None:
        try:
            await run.step("a", fails)
        except Exception as caught:
            seen.append(caught)
        await run.sleep("nap", 1)

    runs = Runs(body)
    runs.until(Completed)
    assert seen[0] is error
    assert type(seen[1]) is back
    assert seen[1].args == args
    if isinstance(seen[1], fencepost.PermanentError):
        assert seen[1].code == "c"
