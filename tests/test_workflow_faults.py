"""A worker of workflows whose disk or memory fails in the middle goes on when it works again."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable

import pytest

import fencepost
from fencepost import App, Run
from fencepost._worker.flowwriter import FlowWriter, PassWriter
from fencepost.spans import SECOND
from harness_ladder import Arm, disarm, memory, steps
from harness_worker import AT_ONCE, until

pytestmark = [pytest.mark.hostile, pytest.mark.usefixtures("faults_end")]

RUNS = 40


@pytest.mark.parametrize("faults", [steps, memory])
def test_failing_statements_lose_no_run_and_repeat_no_transact(
    app: App, faults: Callable[[int], Arm]
) -> None:
    """
    Whichever step of taking, recording, `transact` or ending fails: each run comes to its end, and
    what `transact` wrote is there once.
    """
    with app.transaction() as tx:
        tx.execute("CREATE TABLE paid (run TEXT)")
    ran: Counter[str] = Counter()
    gate = threading.Semaphore(0)

    def first(name: str) -> str:
        ran[name] += 1
        if ran[name] == 1:
            assert gate.acquire(timeout=60)
        return name

    async def last(name: str) -> str:
        ran[name] += 1
        return name

    def pay(tx: fencepost.Transaction, run: str) -> None:
        tx.execute("INSERT INTO paid VALUES (?)", (run,))

    @app.workflow(max_attempts=0, backoff=AT_ONCE)
    async def flow(run: Run) -> str:
        await run.step("a", first, run.key("a"))
        await run.sleep("nap", 0.001)
        await run.transact("pay", pay, run.id)
        return await run.step("b", last, run.key("b"))

    fail = faults(1)
    with app.transaction() as tx:
        handles = [flow.options(id=f"r{n}", tx=tx).start() for n in range(RUNS)]
    with app.worker(threads=1):
        for n in range(RUNS):
            fail(2 * n)
            gate.release()
            until(lambda n=n: ended(ran) > n)  # type: ignore[misc]
        disarm()
        assert [handle.result(60) for handle in handles] == [f"r{n}:b" for n in range(RUNS)]
    recorded = {step.value for handle in handles for step in handle.steps() if step.kind == "step"}
    assert recorded == set(ran)
    with app.transaction() as tx:
        assert sorted(tx.execute("SELECT run FROM paid")) == sorted((f"r{n}",) for n in range(RUNS))
    assert app.store.check(full=True) == []


def ended(ran: Counter[str]) -> int:
    """Runs that came to their last step: asked of nobody who may fail."""
    return sum(name.endswith(":b") for name in tuple(ran))


@pytest.mark.parametrize("rung", range(3))
def test_a_clock_that_cannot_be_read_uses_no_attempt(app: App, rung: int) -> None:
    """That a pass cannot ask its file what time it is, is not the workflow's failure."""
    passes: list[int] = []
    fail = steps(1)

    @app.workflow(max_attempts=1)
    async def nap(run: Run) -> int:
        passes.append(run.attempt)
        if len(passes) == 1:
            fail(rung)
        await run.sleep("nap", 0)
        return 7

    handle = nap.start()
    with app.worker(threads=1):
        assert handle.result(60) == 7
    assert set(passes) == {1}
    assert len(passes) > 1


def test_an_end_that_cannot_be_written_is_written_later_and_uses_no_attempt(app: App) -> None:
    """The step that had ended does not run again: its record is said until it is written."""
    ran: list[int] = []
    fail = steps(1)

    def step() -> int:
        ran.append(1)
        fail(0)  # the first statement of what is said next
        return 7

    @app.workflow(max_attempts=1)
    async def one(run: Run) -> int:
        return await run.step("a", step)

    handle = one.start()
    with app.worker(threads=1):
        assert handle.result(60) == 7
    assert ran == [1]


def test_a_record_that_cannot_be_written_uses_no_attempt(app: App) -> None:
    """That the disk was full is not the workflow's failure; its record is said again, and lands."""
    ran: list[int] = []
    fail = steps(1)

    def step() -> int:
        ran.append(1)
        if len(ran) == 1:
            fail(0)
        return 7

    @app.workflow(max_attempts=1)
    async def two(run: Run) -> int:
        found = await run.step("a", step)
        await run.step("b", str, 1)
        return found

    handle = two.start()
    with app.worker(threads=1):
        assert handle.result(60) == 7
    assert ran == [1]


def test_a_transact_that_is_said_twice_happens_once(app: App) -> None:
    """Who does not know whether its commit is there says it again, and is told what is recorded."""
    store = app.store
    writer = FlowWriter(store._file, 1)
    held = PassWriter(writer, b"run", writer.flow.claim(b"run", 60 * SECOND, 60 * SECOND))
    with store.transaction() as tx:
        tx.execute("CREATE TABLE made (n)")

    def effect(tx: fencepost.Transaction) -> bytes:
        tx.execute("INSERT INTO made VALUES (1)")
        return b"%d" % len(tx.execute("SELECT n FROM made"))

    async def twice() -> list[bytes | None]:
        return [await held.transact("a", 0, effect) for _ in range(2)]

    assert asyncio.run(twice()) == [b"1", b"1"]
    writer.close()
    with store.transaction() as tx:
        assert tx.execute("SELECT count(*) FROM made") == [(1,)]
