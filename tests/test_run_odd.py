"""Names that no record can have, and errors that cannot be written as they are."""

from __future__ import annotations

import asyncio

import pytest

from fencepost import App
from fencepost.errors import InvalidArgument, PermanentError
from fencepost.run import Run
from harness_run import Calls, Runs, completed, failed

LONGEST = "n" * 1000
NO_NAMES = ("", "a\0b", "n" * 1001, "ä" * 501, "\ud800")
ODD = (ValueError("half \ud800"), ValueError(2**200), PermanentError("no", code="\udfff"))


@pytest.mark.parametrize("name", NO_NAMES)
def test_nothing_is_called_under_a_name_that_cannot_be_recorded(name: str) -> None:
    """It would be called again on each attempt."""
    calls = Calls()

    async def body(run: Run) -> None:
        await run.step(name, calls("a"))

    assert isinstance(failed(Runs(body).go()), InvalidArgument)
    assert calls.made == []


@pytest.mark.parametrize("name", NO_NAMES)
def test_no_signal_has_a_name_that_no_wait_could_have(app: App, name: str) -> None:
    @app.workflow
    async def waits(run: Run) -> None: ...

    handle = waits.start()
    with pytest.raises(InvalidArgument, match="the name of a signal"):
        handle.signal(name, 1)


def test_the_longest_name_has_room_for_all_that_is_recorded_beside_it(app: App) -> None:
    def fails() -> None:
        raise OSError

    @app.workflow
    async def long(run: Run) -> str:
        assert run.patched(LONGEST)
        try:
            await run.options(max_attempts=2).step(LONGEST, fails)
        except OSError:
            return await run.wait(LONGEST[1:] + "w", str, timeout=60)
        return ""

    handle = long.start()
    handle.signal(LONGEST[1:] + "w", "told")
    with app.worker():
        assert handle.result(60) == "told"


@pytest.mark.parametrize("error", ODD, ids=("text", "number", "code"))
def test_what_a_step_raises_is_raised_even_if_it_cannot_be_written(error: Exception) -> None:
    """On the first pass the very same; later one of its class, its text spelled out."""

    def fails() -> None:
        raise error

    caught: list[Exception] = []

    async def body(run: Run) -> str:
        try:
            await run.step("a", fails)
        except Exception as raised:
            caught.append(raised)
        await run.sleep("nap", 1)
        return "done"

    runs = Runs(body)
    runs.go()
    assert caught == [error]
    runs.book.time += 1_000_000
    assert completed(runs.go()) == "done"
    assert type(caught[1]) is type(error)
    str(caught[1]).encode()


def test_nothing_begins_once_the_function_has_ended() -> None:
    """A task that it left behind would do what nobody records."""
    calls = Calls()
    kept: list[Run] = []

    async def body(run: Run) -> None:
        kept.append(run)
        await run.step("a", calls("a"))

    completed(Runs(body).go())
    with pytest.raises(BaseException, match="the pass is over"):
        asyncio.run(kept[0].step("b", calls("b")))
    assert calls.made == ["a"]
