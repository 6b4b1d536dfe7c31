"""Transactions, jobs and workflows within a workflow, and what cancelling takes with it."""

from __future__ import annotations

import asyncio
import threading

import pytest

import fencepost
from fencepost import App, Cancelled, Gone, JobFailed, Run
from harness_worker import AT_ONCE, until, worked

# ---- transact, jobs, children --------------------------------------------------------------------


def test_transact_writes_rows_jobs_and_its_record_together(app: App) -> None:
    @app.job
    def mail(to: str) -> str:
        return to

    def pay(tx: fencepost.Transaction, order: int) -> int:
        tx.execute("CREATE TABLE IF NOT EXISTS paid (id INTEGER)")
        tx.execute("INSERT INTO paid VALUES (?)", (order,))
        return mail.options(tx=tx).enqueue("ann").id

    failing = True

    @app.workflow(backoff=AT_ONCE)
    async def buy(run: Run, order: int) -> int:
        nonlocal failing
        job = await run.transact("pay", pay, order)
        if failing:
            failing = False
            raise RuntimeError
        return job

    with worked(app):
        job = buy.start(7).result(60)
        assert mail.handle(job).result(60) == "ann"
    with app.transaction() as tx:
        assert tx.execute("SELECT id FROM paid") == [(7,)]


def test_a_transact_that_fails_leaves_nothing(app: App) -> None:
    with app.transaction() as tx:
        tx.execute("CREATE TABLE paid (id INTEGER)")

    def pay(tx: fencepost.Transaction) -> None:
        tx.execute("INSERT INTO paid VALUES (1)")
        raise ZeroDivisionError("no division")

    @app.workflow(max_attempts=2, backoff=AT_ONCE)
    async def buy(run: Run) -> None:
        await run.transact("pay", pay)

    with worked(app), pytest.raises(JobFailed) as raised:
        buy.start().result(60)
    assert raised.value.failure.text == "no division"
    with app.transaction() as tx:
        assert tx.execute("SELECT id FROM paid") == []


def test_children_are_jobs_and_workflows(app: App) -> None:
    @app.job
    def double(n: int) -> int:
        return 2 * n

    @app.workflow
    async def inner(run: Run, n: int) -> int:
        await run.sleep("nap", 0.01)
        return await run.child("double", double, n)

    @app.workflow
    async def outer(run: Run) -> list[int]:
        return await run.gather(
            *(run.child(f"job {n}", double, n) for n in range(3)),
            *(run.child(f"run {n}", inner, n) for n in range(3)),
        )

    handle = outer.options(id="outer").start()
    with worked(app):
        assert handle.result(60) == [0, 2, 4, 0, 2, 4]
    assert inner.handle("outer:run 1").result(1) == 2


def test_a_child_that_fails_is_raised_where_it_was_awaited(app: App) -> None:
    @app.job(max_attempts=1)
    def bad() -> int:
        raise ValueError("no")

    @app.workflow(max_attempts=1)
    async def inner(run: Run) -> int:
        raise ValueError("inner no")

    @app.workflow
    async def outer(run: Run) -> list[str]:
        said = []
        for name, target in (("job", bad), ("run", inner)):
            try:
                await run.child(name, target)
            except JobFailed as error:
                said.append(error.failure.text)
        return said

    with worked(app):
        assert outer.start().result(60) == ["no", "inner no"]


def test_a_child_that_is_cancelled_by_an_operator(app: App) -> None:
    @app.job(queue="never")
    def never() -> None: ...

    @app.workflow
    async def outer(run: Run) -> str:
        try:
            await run.child("never", never)
        except Cancelled:
            return "cancelled"
        return "done"

    handle = outer.start()
    with app.worker(queues=["workflows"]):
        (message,) = until(lambda: app.store.messages("pending", queue="never"))
        app.store.cancel([message])
        assert handle.result(60) == "cancelled"


def test_cancelling_a_run_cancels_its_children_and_jobs_that_have_not_begun(app: App) -> None:
    """In one commit; what is under way is finished and recorded, and nothing further begins."""
    began, go = threading.Event(), threading.Event()
    after: list[str] = []

    @app.job(queue="never")
    def never() -> None: ...

    @app.workflow
    async def inner(run: Run) -> None:
        await run.wait("never", int)

    def slow() -> None:
        began.set()
        assert go.wait(60)

    @app.workflow
    async def outer(run: Run) -> None:
        await run.gather(run.child("job", never), run.child("run", inner), run.step("slow", slow))
        await run.step("after", after.append, "after")

    handle = outer.options(id="outer").start()
    child = inner.handle("outer:run")
    with app.worker(queues=["workflows"], grace=5):
        until(lambda: app.store.messages("pending", queue="never"))
        until(lambda: app.store.runs("waiting", name="inner"))
        assert began.wait(60)
        assert handle.cancel()
        with pytest.raises(Cancelled):
            handle.result(1)
        with pytest.raises(Cancelled):
            child.result(1)
        assert app.store.messages("pending", queue="never") == []
        go.set()
        until(lambda: [step.name for step in handle.steps()] == ["slow"])
    assert not handle.cancel()
    assert after == []
    with pytest.raises(Gone):
        handle.signal("never", 1)
    assert app.store.check(full=True) == []


def test_a_step_may_see_that_its_run_was_cancelled(app: App) -> None:
    """The keeper's next beat tells the worker; the step comes to an end of its own, recorded."""
    began = threading.Event()

    async def polls(run: Run) -> str:
        began.set()
        while not run.cancelled:
            await asyncio.sleep(0.005)
        return "stopped early"

    @app.workflow
    async def one(run: Run) -> None:
        await run.step("polls", polls, run)

    handle = one.start()
    app.store.set_policy("workflows", lease=0.3)
    with worked(app):
        assert began.wait(60)
        assert handle.cancel()
        until(lambda: [step.value for step in handle.steps()] == ["stopped early"])
    assert handle.status().state == "cancelled"


@pytest.mark.parametrize("what", ["transact", "child"])
def test_nothing_begins_in_a_run_that_was_cancelled_before_its_turn_came(
    app: App, what: str
) -> None:
    """Its effect is rolled back, its child is not started: the cancellation came first."""
    asked, go = threading.Event(), threading.Event()
    with app.transaction() as tx:
        tx.execute("CREATE TABLE paid (id INTEGER)")

    @app.job(queue="never")
    def never() -> None: ...

    def pay(tx: fencepost.Transaction) -> None:
        tx.execute("INSERT INTO paid VALUES (1)")

    @app.workflow
    async def one(run: Run) -> None:
        asked.set()
        while not go.is_set():
            await asyncio.sleep(0.001)
        if what == "child":
            await run.child("never", never)
        await run.transact("pay", pay)

    handle = one.start()
    with app.worker(queues=["workflows"]):
        assert asked.wait(60)
        assert handle.cancel()
        go.set()
    with app.transaction() as tx:
        assert tx.execute("SELECT * FROM paid") == []
    assert app.store.messages("pending", queue="never") == []
    assert [run.state for run in app.store.runs()] == ["cancelled"]
    assert app.store.check(full=True) == []
