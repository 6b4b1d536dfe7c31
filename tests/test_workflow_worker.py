"""What a worker pays for a run, and what becomes of passes when it stops, loses them or hangs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import fencepost
from fencepost import App, Run
from harness_line import counts, since
from harness_worker import AT_ONCE, until, worked


@pytest.mark.hostile
def test_three_steps_cost_four_commits_and_a_wait_one_more(app: App) -> None:
    """The claim of the wake-up takes the pass, and the last record ends it."""

    @app.workflow
    async def three(run: Run) -> None:
        for name in "abc":
            await run.step(name, str, name)

    @app.workflow
    async def waits(run: Run) -> None:
        await run.step("a", str, "a")
        await run.wait("go", str)

    core = app.store._file.core

    def commits(least: int) -> int:
        """They are counted just after they are seen."""
        found = since(core, before).commits
        return found if found >= least else 0

    with app.worker(threads=1):
        three.start().result(60)
        waits.start()  # the file knows their names from now on
        until(lambda: app.store.runs("waiting"))
        before = counts(core)
        three.start().result(60)
        assert until(lambda: commits(5)) == 1 + 4
        before = counts(core)
        handle = waits.start()
        until(lambda: handle.status().waiting_for)
        assert until(lambda: commits(3)) == 1 + 2


@pytest.mark.hostile
def test_runs_that_go_side_by_side_share_their_commits(app: App) -> None:
    @app.workflow
    async def three(run: Run) -> None:
        for name in "abc":
            await run.step(name, str, name)

    core = app.store._file.core
    with app.transaction() as tx:
        handles = [three.options(tx=tx).start() for _ in range(20)]
    before = counts(core)
    with app.worker(threads=4):
        for handle in handles:
            handle.result(60)
    assert since(core, before).commits < 20 * 4 / 2


def test_many_runs_wait_without_a_thread_or_a_slot(app: App) -> None:
    """More of them than there are slots for coroutines; and a job is run meanwhile."""

    @app.job
    def job() -> int:
        return 1

    @app.workflow
    async def waits(run: Run, n: int) -> int:
        return n + await run.wait("go", int)

    with app.transaction() as tx:
        handles = [waits.options(tx=tx).start(n) for n in range(250)]
    with worked(app):
        until(lambda: len(app.store.runs("waiting", limit=200)) == 200)
        assert job.enqueue().result(60) == 1
        with app.transaction() as tx:
            for handle in handles:
                handle.signal("go", 1000, tx=tx)
        assert [handle.result(60) for handle in handles] == [1000 + n for n in range(250)]


def test_a_step_that_is_under_way_is_finished_within_the_grace(app: App) -> None:
    began, go = threading.Event(), threading.Event()
    after: list[str] = []

    def slow() -> None:
        began.set()
        assert go.wait(60)

    @app.workflow
    async def two(run: Run) -> None:
        await run.step("slow", slow)
        await run.step("after", after.append, "after")

    handle = two.start()
    worker = app.worker(threads=1, grace=30).start()
    assert began.wait(60)
    stopper = threading.Thread(target=worker.stop)
    stopper.start()
    go.set()
    stopper.join()
    assert [step.name for step in handle.steps()] == ["slow", "after"]
    assert handle.result(1) is None


def test_a_pass_that_does_not_end_in_the_grace_is_given_back_with_its_attempt(app: App) -> None:
    """Its coroutine is cancelled, and another worker has it at once."""
    began = threading.Event()
    hang = True

    async def slow() -> None:
        began.set()
        await asyncio.sleep(3600 if hang else 0)

    @app.workflow(max_attempts=1)
    async def two(run: Run) -> int:
        await run.step("first", str, 1)
        await run.step("slow", slow)
        return run.attempt

    handle = two.start()
    worker = app.worker(threads=1).start()
    assert began.wait(60)
    worker.stop(0)
    assert handle.status()[:2] == ("pending", 0)
    hang = False
    with worked(app):
        assert handle.result(60) == 1


def test_a_plain_step_that_hangs_is_left_behind_and_its_run_goes_on_elsewhere(app: App) -> None:
    began, go = threading.Event(), threading.Event()
    calls: list[int] = []

    def hangs() -> int:
        calls.append(1)
        if len(calls) == 1:
            began.set()
            go.wait(60)
        return len(calls)

    @app.workflow(max_attempts=1)
    async def two(run: Run) -> int:
        return await run.step("hangs", hangs)

    handle = two.start()
    worker = app.worker(threads=1).start()
    assert began.wait(60)
    worker.stop(0)
    with worked(app):
        assert handle.result(60) == 2
    go.set()
    assert [step.value for step in handle.steps()] == [2]


def test_a_deadly_step_is_found_out(path: Path, tmp_path: Path) -> None:
    """Each worker that dies of it uses an attempt; the run has failed when none is left."""
    program = tmp_path / "deadly.py"
    program.write_text(
        "import os, sys, fencepost\n"
        "app = fencepost.App(sys.argv[1])\n"
        "@app.workflow(max_attempts=2)\n"
        "async def deadly(run: fencepost.Run) -> None:\n"
        "    await run.step('die', os._exit, 1)\n"
        "if sys.argv[2] == 'work':\n"
        "    app.run()\n"
        "else:\n"
        "    deadly.options(id='d').start()\n"
    )
    run = [sys.executable, str(program), str(path)]
    subprocess.run([*run, "start"], check=True)
    for _ in range(2):
        assert subprocess.run([*run, "work"], check=False).returncode == 1
    app = App(path)

    @app.workflow(max_attempts=2)
    async def deadly(run: Run) -> None: ...

    handle = deadly.handle("d")
    with worked(app), pytest.raises(fencepost.JobFailed) as raised:
        handle.result(60)
    assert raised.value.failure.kind == "worker_lost"
    app.store.close()


def test_a_long_lease_is_renewed_while_a_step_runs(app: App) -> None:
    calls: list[int] = []

    async def slow() -> None:
        calls.append(1)
        await asyncio.sleep(1.2)

    @app.workflow(backoff=AT_ONCE)
    async def one(run: Run) -> None:
        await run.step("slow", slow)

    handle = one.start()
    app.store.set_policy("workflows", lease=0.4)
    with worked(app):
        handle.result(60)
    assert calls == [1]


def test_looking_does_not_wait_for_a_transact(app: App) -> None:
    """Statuses, listings and steps are read while an effect holds the file's one writer."""
    began, go = threading.Event(), threading.Event()

    def slow(tx: fencepost.Transaction) -> None:
        began.set()
        assert go.wait(60)

    @app.workflow
    async def one(run: Run) -> None:
        await run.transact("slow", slow)

    handle = one.options(id="a").start()
    with worked(app):
        assert began.wait(60)
        assert handle.status().state == "leased"
        assert handle.steps() == []
        assert [run.state for run in app.store.runs()] == ["running"]
        go.set()
        handle.result(60)


def test_a_lock_that_is_held_for_long_ends_no_pass(app: App) -> None:
    """Others hold the writer while a run wants to record and to end: it waits for its turn."""
    asked, go = threading.Event(), threading.Event()

    def step() -> None:
        asked.set()
        assert go.wait(60)

    @app.workflow(max_attempts=1)
    async def two(run: Run) -> str:
        await run.step("a", step)
        await run.step("b", str, 1)
        return "done"

    handle = two.start()
    with worked(app):
        assert asked.wait(60)
        with app.transaction() as tx:
            tx.execute("CREATE TABLE x (y)")
            go.set()
            tx.execute(
                "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n"
                " WHERE i < 300000) INSERT INTO x SELECT i FROM n"
            )
        assert handle.result(60) == "done"


def test_steps_that_take_their_time_are_not_in_the_way_of_other_runs(app: App) -> None:
    """They hold each thread for plain steps; others are read, write their rows, and end."""
    began, go = threading.Event(), threading.Event()

    def slow() -> None:
        began.set()
        assert go.wait(60)

    @app.workflow
    async def held(run: Run) -> None:
        await run.step("slow", slow)

    @app.workflow
    async def quick(run: Run) -> list[tuple[int]]:
        await run.sleep("nap", 0.001)
        return await run.options(returns=list[tuple[int]]).transact(
            "rows", lambda tx: list(tx.execute("SELECT 1"))
        )

    held.start()
    with worked(app):
        assert began.wait(60)
        for _ in range(4):
            held.start()
        assert quick.start().result(60) == [(1,)]
        go.set()
