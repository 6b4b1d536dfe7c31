"""
Arguments that nobody should give, to every call of the public page.

What comes out is an error of ours, or Python's own TypeError about a call; its words can be shown;
and a call that raised has left the file as it was, which is asked of another process.
"""

from __future__ import annotations

import asyncio
import os
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fencepost
from fencepost import App
from fencepost._workflow.outcomes import Failed
from harness_garbage import GARBAGE, INSIDE, CallOf, World, calls, fits, takes_long
from harness_outside import Outside
from harness_processes import forks_beside_threads
from harness_run import Runs

ALL = list(dict.fromkeys(calls()))
OWNERS = sorted({call.owner for call in ALL} - INSIDE)


class Watched:
    """The file, as it was before a call."""

    def __init__(self, path: Path, outside: Outside) -> None:
        self._path = path
        self._outside = outside
        self._before = ""
        self._stamp: object = None

    def _touched(self) -> object:
        """Each write of SQLite's changes one of these, so only then is the whole file compared."""
        files = [self._path, self._path.with_name(f"{self._path.name}-wal")]
        return [(file.stat().st_size, file.stat().st_mtime_ns) for file in files if file.exists()]

    def begin(self) -> None:
        if self._stamp != (stamp := self._touched()):
            self._before = self._outside.dump(self._path)
            self._stamp = stamp

    def same(self) -> bool:
        return self._stamp == self._touched() or self._before == self._outside.dump(self._path)


@pytest.fixture
def world(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.chdir(tmp_path)  # a name of a file that is garbage is one of a file here
    app = App(path, durability="normal")
    with app.store as store:
        yield World(app, store, tmp_path)


def spoiled(call: CallOf) -> Iterator[tuple[str, str, Any]]:
    """Each parameter in turn is each of the garbage."""
    for name in (*call.places, *call.names, *call.options):
        for title, make in GARBAGE.items():
            value = make()
            if not takes_long(call.title, name, value):
                yield name, title, value


def told(call: CallOf, wrong: object, error: BaseException) -> str:
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{call.title}({wrong}): {type(error).__name__} of {where.name}, line {where.lineno}"


@pytest.mark.parametrize(
    "owner", [one for one in OWNERS if not one.lstrip("_").startswith("Async")]
)
def test_garbage_is_refused_and_nothing_is_written(
    owner: str, world: World, path: Path, outside: Outside
) -> None:
    """Each argument of each call, one after the other, everything else being right."""
    wrong: list[str] = []
    file = Watched(path, outside)
    for call in (call for call in ALL if call.owner == owner):
        for name, title, value in spoiled(call):
            try:
                with world.subject(owner) as subject:
                    file.begin()
                    world.ask(subject, call, {name: value})
            except Exception as error:
                if not fits(error):
                    wrong.append(told(call, f"{name}={title}", error))
                if not file.same():
                    wrong.append(
                        f"{call.title}({name}={title}) wrote, and raised {type(error).__name__}"
                    )
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("owner", [one for one in OWNERS if one.lstrip("_").startswith("Async")])
def test_the_twins_refuse_it_too(owner: str, world: World, path: Path, outside: Outside) -> None:
    wrong: list[str] = []
    file = Watched(path, outside)

    async def one(call: CallOf, name: str, value: object) -> None:
        if owner == "AsyncClaim":
            world.queue.enqueue(1)
            (subject,) = await world.queue.aio.claim()
            file.begin()
            await world.ask(subject, call, {name: value})
            return
        with world.subject(owner) as subject:
            file.begin()
            answer = world.ask(subject, call, {name: value})
            if call.awaited:
                await answer

    async def everything() -> None:
        for call in (call for call in ALL if call.owner == owner):
            for name, title, value in spoiled(call):
                try:
                    await one(call, name, value)
                except Exception as error:
                    if not fits(error):
                        wrong.append(told(call, f"{name}={title}", error))
                    if not file.same():
                        wrong.append(
                            f"{call.title}({name}={title}) wrote, and raised {type(error).__name__}"
                        )

    asyncio.run(everything())
    assert not wrong, "\n".join(wrong)


def test_what_a_workflow_gives_its_run_is_looked_at(world: World) -> None:
    """A pass that gives garbage leaves no record of that step, unless it is a value like others."""
    wrong: list[str] = []
    for call in (call for call in ALL if call.owner == "Run"):
        for name, title, value in spoiled(call):

            async def body(run: Any, call: CallOf = call, one: Any = (name, value)) -> None:
                answer = world.ask(run, call, dict([one]))
                if call.awaited:
                    await answer

            runs = Runs(body)
            outcome = runs.go()
            if isinstance(outcome, Failed):
                if not fits(outcome.error):
                    wrong.append(told(call, f"{name}={title}", outcome.error))
                if runs.book.records and not isinstance(outcome.error, TimeoutError):
                    wrong.append(f"{call.title}({name}={title}) recorded {runs.book.commits}")
    assert not wrong, "\n".join(wrong)


def test_what_a_handler_gives_its_context_is_looked_at(world: World) -> None:
    wrong: list[str] = []
    mine = [call for call in ALL if call.owner == "Context"]

    def handler(ctx: fencepost.Context) -> None:
        for call in mine:
            for name, title, value in spoiled(call):
                try:
                    world.ask(ctx, call, {name: value})
                except Exception as error:
                    if not fits(error):
                        wrong.append(told(call, f"{name}={title}", error))

    from fencepost.testing import override

    job = world.app.job(name="asks", context=True)(handler)
    with override(world.app) as kit:
        handle = job.enqueue()
        assert kit.drain().done == 1
        assert handle.status().state == "done"
    assert not wrong, "\n".join(wrong)


VALUES = st.recursive(
    st.sampled_from(list(GARBAGE.values())).map(lambda make: make())
    | st.integers()
    | st.floats()
    | st.binary(max_size=8)
    | st.text(st.characters(), max_size=8)
    | st.datetimes()
    | st.timedeltas(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def several_wrong(draw: st.DrawFn) -> tuple[CallOf, dict[str, Any]]:
    some = [one for one in ALL if one.owner in OWNERS and not one.awaited]
    call = draw(st.sampled_from([one for one in some if one.places or one.names or one.options]))
    names = list(dict.fromkeys((*call.places, *call.names, *call.options)))
    chosen = draw(st.lists(st.sampled_from(names), min_size=1, max_size=4, unique=True))
    wrong = {name: draw(VALUES) for name in chosen}
    return call, {n: v for n, v in wrong.items() if not takes_long(call.title, n, v)}


def test_several_wrong_ones_at_once_are_no_other(
    world: World, path: Path, outside: Outside
) -> None:
    file = Watched(path, outside)

    @settings(
        max_examples=400, deadline=None, database=None, derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )  # fmt: skip
    @given(several_wrong())
    def try_them(case: tuple[CallOf, dict[str, Any]]) -> None:
        call, wrong = case
        try:
            with world.subject(call.owner) as subject:
                file.begin()
                world.ask(subject, call, wrong)
        except Exception as error:
            wrote = [] if file.same() else [f"{call.title} wrote"]
            strange = [] if fits(error) else [told(call, list(wrong), error)]
            assert wrote + strange == []

    try_them()


# Of the store, and so of what is open no more.
OF_A_STORE = ["Store", "Job", "_Handle", "Queue", "Claim", "Outbox", "Inbox", "Workflow"]
OF_A_STORE += ["WorkflowHandle"]


def asked_of_what_is_shut(world: World, shut: Callable[[], None]) -> list[str]:
    """Calls of what is that store's, right and wrong ones, that raised what is none of ours."""
    wrong: list[str] = []
    subjects = {}
    for owner in OF_A_STORE:
        with world.subject(owner) as subject:
            # An App opens its file anew in the child of a fork; this store stays the parent's.
            subjects[owner] = subject.at(world.store) if hasattr(subject, "at") else subject
    shut()
    for call in (call for call in ALL if call.owner in subjects):
        spoilt = [("", "", None), *spoiled(call)]
        for name, title, value in spoilt:
            try:
                world.ask(subjects[call.owner], call, {name: value} if name else {})
            except Exception as error:
                if not fits(error):
                    wrong.append(told(call, f"{name}={title}", error))
    return wrong


def test_of_a_closed_store_it_is_refused_all_the_same(world: World) -> None:
    wrong = asked_of_what_is_shut(world, world.store.close)
    assert not wrong, "\n".join(wrong)


@forks_beside_threads
def test_of_a_store_of_the_parents_too(world: World, path: Path, outside: Outside) -> None:
    """In the child of a fork each call is refused, and the file is as it was."""
    out, into = os.pipe()
    parent = os.getpid()
    before: list[str] = []

    def fork() -> None:
        before.append(outside.dump(path))
        if (pid := os.fork()) != 0:
            os.close(into)
            with os.fdopen(out) as said:
                words = said.read()
            assert os.waitpid(pid, 0)[1] == 0, words
            assert words == ""
            raise InterruptedError

    try:
        wrong = asked_of_what_is_shut(world, fork)
    except InterruptedError:  # the parent
        assert outside.dump(path) == before[0]
        return
    except BaseException as error:
        if os.getpid() == parent:
            raise
        wrong = [repr(error)]
    os.write(into, "\n".join(wrong)[:60_000].encode())
    os._exit(0)
