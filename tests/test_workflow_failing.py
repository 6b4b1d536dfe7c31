"""Runs that fail, are parked, go on, are forked and deleted."""

from __future__ import annotations

import asyncio
import threading
from datetime import datetime, timezone
from pathlib import Path

import pytest

import fencepost
from fencepost import App, Gone, InvalidArgument, JobFailed, Run
from harness_worker import AT_ONCE, until, worked

# ---- failing, parking, going on ------------------------------------------------------------------


def test_a_failing_run_backs_off_to_its_limit_and_keeps_its_error(app: App) -> None:
    attempts: list[int] = []

    @app.workflow(max_attempts=3, backoff=AT_ONCE)
    async def bad(run: Run) -> None:
        attempts.append(run.attempt)
        raise ValueError("no money")

    handle = bad.options(id="a").start()
    with worked(app), pytest.raises(JobFailed) as raised:
        handle.result(60)
    assert attempts == [1, 2, 3]
    assert raised.value.failure[:3:2] == ("error", "no money")
    (info,) = app.store.runs("failed")
    assert (info.id, info.name, info.failure) == ("a", "bad", raised.value.failure)
    assert info.ended_at is not None


def test_it_is_resumed_at_the_step_that_failed(app: App) -> None:
    made: list[str] = []
    broken = True

    def second() -> None:
        made.append("second")
        if broken:
            raise ValueError

    @app.workflow(max_attempts=1)
    async def two(run: Run) -> str:
        await run.step("first", made.append, "first")
        await run.step("second", second)
        return "done"

    handle = two.start()
    with worked(app):
        with pytest.raises(JobFailed):
            handle.result(60)
        broken = False
        handle.resume()
        assert handle.result(60) == "done"
        with pytest.raises(InvalidArgument, match="done"):
            handle.resume()
    assert made == ["first", "second", "second"]


def test_permanent_errors_are_tried_once(app: App) -> None:
    attempts: list[int] = []

    @app.workflow(permanent=(ValueError,), backoff=AT_ONCE)
    async def bad(run: Run) -> None:
        attempts.append(run.attempt)
        raise ValueError("no")

    with worked(app), pytest.raises(JobFailed):
        bad.start().result(60)
    assert attempts == [1]


def test_retry_later_uses_no_attempt(app: App) -> None:
    attempts: list[int] = []

    @app.workflow(max_attempts=1)
    async def later(run: Run) -> int:
        attempts.append(run.attempt)
        if len(attempts) < 4:
            raise fencepost.RetryLater(delay=0.001)
        return 1

    with worked(app):
        assert later.start().result(60) == 1
    assert attempts == [1] * 4


def test_a_pass_past_its_time_is_a_failed_one(app: App) -> None:
    @app.workflow(max_attempts=1, timeout=0.05)
    async def slow(run: Run) -> None:
        await run.step("slow", asyncio.sleep, 3600)

    with worked(app), pytest.raises(JobFailed) as raised:
        slow.start().result(60)
    assert raised.value.failure.kind == "timeout"


def test_attempts_count_from_the_last_wait(app: App) -> None:
    seen: list[int] = []

    @app.workflow(max_attempts=2, backoff=AT_ONCE)
    async def often(run: Run) -> None:
        for n in range(3):
            seen.append(run.attempt)
            if run.attempt == 1:
                raise ValueError
            await run.sleep(f"nap {n}", 0.001)

    with worked(app):
        often.start().result(60)
    assert max(seen) == 2


def test_changed_code_parks_the_run_and_uses_no_attempt(path: Path) -> None:
    def version(*, changed: bool) -> tuple[App, fencepost.Workflow[[], str]]:
        app = App(path)

        @app.workflow(max_attempts=1)
        async def flow(run: Run) -> str:
            for name in "ba" if changed else "ab":
                await run.step(name, str, name)
            return await run.wait("go", str)

        return app, flow

    app, flow = version(changed=False)
    handle = flow.options(id="r").start()
    with worked(app):
        until(lambda: handle.status().waiting_for)
    app.store.close()
    app, flow = version(changed=True)
    handle = flow.handle("r")
    handle.signal("go", "x")
    with worked(app), pytest.raises(JobFailed, match="the code has changed: 'a' is recorded"):
        handle.result(60)
    (info,) = app.store.runs("parked")
    assert info.failure is not None
    assert info.failure.kind == "changed_code"
    app.store.close()
    app, flow = version(changed=False)
    handle = flow.handle("r")
    handle.resume()
    with worked(app):
        assert handle.result(60) == "x"
    app.store.close()


def test_a_fork_begins_at_a_chosen_step(app: App) -> None:
    made: list[str] = []

    def step(name: str) -> str:
        made.append(name)
        return f"{name} {made.count(name)}"

    @app.workflow
    async def three(run: Run, n: int) -> list[str]:
        first = await run.step("first", step, "first")
        await run.sleep("nap", 0)
        return [first, await run.step("second", step, "second"), await run.wait("go", str)]

    handle = three.options(id="a").start(1)
    handle.signal("go", "x")
    with worked(app):
        assert handle.result(60) == ["first 1", "second 1", "x"]
        fork = handle.fork("second", id="b")
        until(lambda: fork.status().waiting_for == ("go",) or fork.status().state == "done")
        if fork.status().state != "done":
            fork.signal("go", "y")
        assert fork.result(60)[:2] == ["first 1", "second 2"]
        with pytest.raises(Gone, match="no step"):
            handle.fork("third", id="c")


def test_a_deleted_run_is_gone_and_its_pass_is_fenced(app: App) -> None:
    began, go = threading.Event(), threading.Event()
    after: list[str] = []

    def slow() -> None:
        began.set()
        assert go.wait(60)

    @app.workflow
    async def two(run: Run) -> None:
        await run.step("first", str, "x")
        await run.step("slow", slow)
        await run.step("after", after.append, "after")

    handle = two.options(id="a").start()
    with worked(app):
        assert began.wait(60)
        assert handle.delete() == 1
        go.set()
        with pytest.raises(Gone):
            handle.status()
        assert handle.delete() == 0
        again = two.options(id="a").start()
        assert again.created
        again.result(60)
    assert after == ["after"]


def test_a_name_that_nobody_knows_is_put_off_without_an_attempt(path: Path) -> None:
    app = App(path)

    @app.workflow
    async def old(run: Run) -> int:
        return 1

    handle = old.start()
    app.store.close()
    app = App(path)

    @app.workflow
    async def new(run: Run) -> None: ...

    @app.workflow(name="newer", aliases=["older"])
    async def renamed(run: Run) -> int:
        return 2

    with worked(app):
        new.start().result(60)
        due = until(lambda: renamed.handle(handle.id).status().due)
    status = renamed.handle(handle.id).status()
    assert (status.state, status.attempt) == ("pending", 0)
    assert due is not None
    assert due > datetime.now(timezone.utc)
    app.store.close()


def test_undecodable_arguments_fail_at_once(path: Path) -> None:
    app = App(path)

    @app.workflow(name="f")
    async def old(run: Run, n: str) -> None: ...

    handle = old.options(id="a").start("x")
    app.store.close()
    app = App(path)

    @app.workflow(name="f")
    async def new(run: Run, n: int) -> None: ...

    with worked(app), pytest.raises(JobFailed) as raised:
        new.handle(handle.id).result(60)
    assert "Expected `int`" in raised.value.failure.text
    app.store.close()


def test_a_fork_does_not_go_over_a_child_that_has_not_ended(app: App) -> None:
    """Nobody would tell the new run of its end."""

    @app.job(queue="never")
    def never() -> str:
        return ""

    @app.workflow
    async def outer(run: Run) -> None:
        await run.gather(run.child("never", never), run.step("a", str, 1))

    handle = outer.options(id="a").start()
    with app.worker(queues=["workflows"]):
        until(handle.steps)
    with pytest.raises(InvalidArgument, match="the child 'never' had not ended"):
        handle.fork("a", id="b")


def test_a_child_that_cannot_begin_fails_its_run_and_nothing_else_is_lost(app: App) -> None:
    """Its id is taken by another run; what was recorded before stays."""

    @app.workflow
    async def inner(run: Run, n: int) -> None: ...

    @app.workflow(max_attempts=1)
    async def outer(run: Run) -> None:
        await run.step("a", str, 1)
        await run.child("inner", inner, 1)

    inner.options(id="o:inner").start(2)
    handle = outer.options(id="o").start()
    with worked(app), pytest.raises(JobFailed) as raised:
        handle.result(60)
    assert raised.value.failure.kind == "error"
    assert [step.name for step in handle.steps()] == ["a"]
