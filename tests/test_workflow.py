"""Workflows on a real file, with a worker: what is started, told, looked at and listed."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from fencepost import App, Conflict, Gone, InvalidArgument, Run
from fencepost.testing import Clock, Point, override
from harness_worker import until, worked

FAR = timedelta(days=3650)


# ---- the whole way -------------------------------------------------------------------------------


def test_a_run_goes_its_way_and_its_result_is_kept(app: App) -> None:
    """Sleep, signal, messages, a step: the shop's refund, from start to result."""

    @app.workflow
    async def refund(run: Run, order: int) -> str:
        await run.sleep("cool off", 0.01)
        who = await run.wait("approved by", str, timeout=60)
        notes = await run.receive("notes", str)
        return await run.step("pay back", lambda: f"{order} {who} {notes[0]}")

    handle = refund.options(id="refund-42").start(42)
    assert handle.created
    with worked(app):
        until(lambda: handle.status().waiting_for == ("approved by",))
        assert handle.signal("approved by", "ann")
        assert not handle.signal("approved by", "bob")
        until(lambda: handle.status().waiting_for == ("notes",))
        handle.send("a note")
        assert handle.result(60) == "42 ann a note"
    assert handle.status().state == "done"
    assert [step.kind for step in handle.steps()] == ["sleep", "wait", "inbox", "receive", "step"]
    assert [step.name for step in handle.steps() if step.kind != "inbox"] == [
        "cool off",
        "approved by",
        "notes",
        "pay back",
    ]


def test_nothing_is_as_good_a_result(app: App) -> None:
    @app.workflow
    async def nothing(run: Run) -> None: ...

    with worked(app):
        nothing.start().result(60)


def test_a_run_has_one_id_and_one_beginning(app: App) -> None:
    @app.workflow
    async def echo(run: Run, n: int) -> int:
        return n

    @app.workflow
    async def other(run: Run, n: int) -> int:
        return n

    first = echo.options(id="a").start(1)
    again = echo.options(id="a").start(1)
    assert (first.created, again.created) == (True, False)
    with pytest.raises(Conflict):
        echo.options(id="a").start(2)
    with pytest.raises(Conflict):
        other.options(id="a").start(1)
    assert echo.start(1).id != echo.start(1).id
    with worked(app):
        assert first.result(60) == 1
    assert not echo.options(id="a").start(1).created


def test_what_is_rolled_back_has_not_begun(app: App) -> None:
    @app.workflow
    async def echo(run: Run, n: int) -> int:
        return n

    def begin(*, fail: bool) -> None:
        with app.transaction() as tx:
            tx.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER)")
            tx.execute("INSERT INTO orders VALUES (1)")
            echo.options(id="a", tx=tx).start(1)
            if fail:
                raise RuntimeError

    with pytest.raises(RuntimeError):
        begin(fail=True)
    with pytest.raises(Gone):
        echo.handle("a").status()
    begin(fail=False)
    with worked(app):
        assert echo.handle("a").result(60) == 1


def test_signals_and_messages_are_part_of_a_transaction(app: App) -> None:
    @app.workflow
    async def two(run: Run) -> list[Any]:
        return [await run.wait("a", int), await run.receive("b", int)]

    handle = two.start()
    with pytest.raises(RuntimeError), app.transaction() as tx:
        handle.signal("a", 1, tx=tx)
        handle.send(1, tx=tx)
        raise RuntimeError
    with app.transaction() as tx:
        assert handle.signal("a", 2, tx=tx)
        handle.send(3, tx=tx)
    with worked(app):
        assert handle.result(60) == [2, [3]]


def test_a_run_begins_when_it_is_due(app: App) -> None:
    @app.workflow
    async def echo(run: Run) -> None: ...

    moment = datetime.now(timezone.utc) + FAR
    for handle in (echo.options(delay=FAR).start(), echo.options(due=moment).start()):
        due = handle.status().due
        assert due is not None
        assert abs(due - moment) < timedelta(minutes=5)
        assert handle.status().state == "pending"


@pytest.mark.parametrize("id", ["", "a" * 1025, 7, "\ud800"])
def test_ids_that_cannot_be_one(app: App, id: Any) -> None:
    @app.workflow
    async def echo(run: Run) -> None: ...

    with pytest.raises(InvalidArgument):
        echo.options(id=id)
    with pytest.raises(InvalidArgument):
        echo.handle(id)


def test_what_cannot_be_a_workflow_is_refused_when_it_is_declared(app: App) -> None:
    with pytest.raises(InvalidArgument, match="async def"):
        app.workflow(lambda run: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(InvalidArgument, match="first parameter"):

        @app.workflow  # type: ignore[arg-type]
        async def none() -> None: ...

    @app.workflow
    async def taken(run: Run) -> None: ...

    def plain() -> None: ...

    with pytest.raises(InvalidArgument, match="already"):
        app.job(name="taken")(plain)
    with pytest.raises(InvalidArgument, match="workflows"):
        app.job(queue="workflows")(plain)
    with pytest.raises(InvalidArgument, match="another one"):
        app.queue("workflows", int)


def test_a_run_that_never_was_is_gone(app: App) -> None:
    @app.workflow
    async def echo(run: Run) -> None: ...

    handle = echo.handle("nowhere")
    for ask in (
        handle.status,
        lambda: handle.result(1),
        handle.steps,
        lambda: handle.signal("a", 1),
        lambda: handle.send(1),
        handle.cancel,
        handle.resume,
        lambda: handle.fork("a", id="b"),
    ):
        with pytest.raises(Gone):
            ask()


def test_watching_ends_with_the_run(app: App) -> None:
    @app.workflow
    async def waits(run: Run) -> int:
        return await run.wait("go", int)

    handle = waits.start()
    with worked(app):
        seen = []
        for status in handle.watch():
            seen.append(status.state)
            if status.waiting_for:
                handle.signal("go", 1)
    assert seen[-1] == "done"


def test_a_result_that_does_not_come_in_time(app: App) -> None:
    @app.workflow
    async def waits(run: Run) -> int:
        return await run.wait("go", int)

    with pytest.raises(TimeoutError):
        waits.start().result(0.01)


def test_progress_is_seen_while_it_runs(app: App) -> None:
    go = threading.Event()

    @app.workflow
    async def slow(run: Run) -> None:
        run.progress({"done": 1})
        await run.step("slow", go.wait, 60)

    handle = slow.start()
    with worked(app):
        until(lambda: handle.status().progress == {"done": 1})
        go.set()
        handle.result(60)


# ---- listing -------------------------------------------------------------------------------------


def test_runs_are_listed_by_state_and_name_in_pages(app: App) -> None:
    @app.workflow
    async def quick(run: Run, n: int) -> int:
        return n

    @app.workflow
    async def waits(run: Run) -> int:
        return await run.wait("go", int)

    for n in range(5):
        quick.options(id=f"q{n}").start(n)
    waits.options(id="w").start()
    with worked(app):
        until(lambda: len(app.store.runs("done")) == 5)
        until(lambda: app.store.runs("waiting"))
    (waiting,) = app.store.runs("waiting")
    assert (waiting.id, waiting.name, waiting.waiting_for) == ("w", "waits", ("go",))
    seen: list[str] = []
    after: str | None = None
    while True:
        page = app.store.runs(name="quick", after=after, limit=2)
        seen += [run.id for run in page]
        after = page.next
        if after is None:
            break
    assert sorted(seen) == [f"q{n}" for n in range(5)]
    assert len(app.store.runs()) == 6
    assert app.store.runs(name="nobody") == []
    with pytest.raises(InvalidArgument):
        app.store.runs("odd")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument):
        app.store.runs(after="odd")


def test_runs_that_have_ended_are_purged(path: Path, clock: Clock) -> None:
    """By an operator at any time, by a worker after a week; what has failed stays."""
    app = App(path)

    @app.workflow(max_attempts=1)
    async def maybe(run: Run, ok: bool) -> None:
        await run.step("a", str, 1)
        if not ok:
            raise ValueError

    with override(app, path, now=clock.now) as kit:
        for ok in (True, False):
            maybe.options(id=str(ok)).start(ok)
        kit.drain()
        store = kit.store
        assert store.purge_runs("done", kit.now) == 0
        kit.advance(timedelta(days=6))
        assert (store.purge_runs("done", kit.now), store.purge_runs("failed", kit.now)) == (1, 1)
        assert len(store.runs()) == 2
        kit.drain()
        assert len(store.runs()) == 2
        kit.advance(timedelta(days=2))
        kit.drain()
        assert [run.id for run in store.runs()] == ["False"]
        assert store.purge_runs("failed", kit.now, apply=True) == 1
        assert store.runs() == []
        with pytest.raises(InvalidArgument):
            store.purge_runs("running", kit.now)


@pytest.mark.parametrize("days", [2, 30])
def test_runs_are_kept_as_long_as_their_queue_says(path: Path, clock: Clock, days: int) -> None:
    app = App(path)

    @app.workflow
    async def one(run: Run) -> int:
        return 1

    with override(app, path, now=clock.now) as kit:
        handle = one.start()
        kit.store.set_policy("workflows", keep=timedelta(days=days))
        kit.drain()
        kit.advance(timedelta(days=days - 1))
        kit.drain()
        assert handle.result(1) == 1
        kit.advance(timedelta(days=2))
        kit.drain()
        assert kit.store.runs() == []
        assert kit.store.check(full=True) == []


def test_a_long_history_is_read_in_pages(app: App) -> None:
    """More records than a page has; each pass is given all of them, in order."""
    passes: list[int] = []

    @app.workflow
    async def long(run: Run) -> int:
        seen = await run.gather(*(run.step(f"s{n}", int, n) for n in range(2500)))
        passes.append(sum(seen))
        await run.sleep("nap", 0)
        return len(await run.receive("all", int, limit=500))

    handle = long.start()
    for n in range(500):
        handle.send(n)
    with worked(app):
        assert handle.result(120) == 500
    assert set(passes) == {sum(range(2500))}
    steps = handle.steps()
    assert len(steps) == 2500 + 500 + 2
    assert [step.at for step in steps] == sorted(step.at for step in steps)


def test_the_shop_of_the_design_runs_as_it_stands(tmp_path: Path) -> None:
    """Jobs, an outbox, an inbox and a workflow in one file, from an event loop."""
    program = Path(__file__).parent / "programs" / "shop.py"
    command = [sys.executable, "-W", "error", str(program)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[0] == "accepted duplicate"
    # One `print` is several writes: a thread of the worker may say something between them.
    assert re.search(r"True.*? False", done.stdout, re.DOTALL)
    app = App(tmp_path / "shop.db")
    (run,) = app.store.runs()
    assert (run.id, run.name) == ("refund-42", "refund")
    assert run.state in ("running", "sleeping")
    with app.transaction() as tx:
        assert tx.execute("SELECT paid FROM orders") == [(1,)]
    app.store.close()


@pytest.mark.parametrize("point", ["step done", "step recorded", "sleep recorded"])
def test_h13_with_an_hour_that_is_turned(app: App, point: Point) -> None:
    """The worker dies there, and is down past the deadline: one step too many at the most."""
    keys: list[str] = []

    def reserve(key: str) -> str:
        keys.append(key)
        return "1"

    @app.workflow
    async def three(run: Run) -> list[str]:
        first = await run.step("first", reserve, run.key("first"))
        await run.step("second", str, 2)
        await run.sleep("an hour", 3600)
        return [first, await run.step("third", str, 3)]

    with override(app) as kit:
        handle = three.options(id="r").start()
        with kit.crash_at(point):
            kit.drain()
        before = {step.name: step for step in handle.steps()}
        kit.advance(7200)
        kit.drain(until_idle=True)
        assert handle.result(1) == ["1", "3"]
        after = {step.name: step for step in handle.steps()}
        assert {name: after[name] for name in before} == before
        assert keys == ["r:first"] * (2 if point == "step done" else 1)
        if "an hour" in before:  # it ended at its first deadline, at once because that had passed
            assert after["third"].at == kit.now
