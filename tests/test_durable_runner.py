"""
The worker of `without-durability`, unchanged, over our stores; with workers that are killed. `make
compat` runs it where Python is new enough for that package.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import fencepost
from harness_durable import (
    NOW,
    REAL,
    Durable,
    as_is,
    claimed,
    connect,
    durable_of,
    key_of,
    needs_it,
    real_time,
    working,
)
from harness_pages import run_block

if REAL:
    from without_durability import (
        Run,
        work,
    )

pytestmark = needs_it


@pytest.fixture
async def durable(path: Path) -> AsyncIterator[Durable]:
    async with real_time(path) as durable:
        yield durable


async def test_workflows_go_on_where_they_left_off(durable: Durable) -> None:
    """A97, A120 to A125: twenty at once, through sleeps, answers and messages."""
    ran: list[str] = []

    async def body(run: Run) -> None:
        name = run.holder.workflow

        async def effect() -> Any:
            ran.append(name)
            return name

        await run.step("first", effect, as_is)
        await run.sleep("nap", timedelta(milliseconds=5))
        answer = await run.awaiting("answer", as_is)
        messages = await run.receive("messages")
        await run.step("end", lambda: asyncio.sleep(0, [answer, messages[0].value]), as_is)

    names = [f"w{number}" for number in range(20)]
    async with working(durable, body):
        await asyncio.gather(*(durable.scheduler.make_ready(name) for name in names))
        await asyncio.gather(*(durable.arrive(name, "answer", "yes") for name in names))
        await asyncio.gather(*(durable.deliver(name, name) for name in names))
        ends = await asyncio.gather(*(key_of(durable, name, "end") for name in names))
    assert ends == [["yes", name] for name in names]
    assert sorted(ran) == sorted(names)
    assert await durable.scheduler.next_ready(NOW) is None


async def test_what_another_pass_holds_is_looked_at_again(durable: Durable) -> None:
    """A123, A127"""
    held = await claimed(durable.checkpointer)

    async def body(run: Run) -> None:
        await run.step("end", lambda: asyncio.sleep(0, 1), as_is)

    async with working(durable, body, contended=timedelta(milliseconds=20)):
        await durable.scheduler.make_ready("w")
        await asyncio.sleep(0)
        assert await durable.checkpointer.load("w") == {}
        await durable.checkpointer.release(held)
        assert await key_of(durable, "w", "end") == 1


async def test_a_pass_longer_than_its_lease_keeps_its_workflow(path: Path) -> None:
    """A124: claim and delivery are renewed, and nobody else gets it."""
    database = connect(path)
    durable = durable_of(database, lease=timedelta(milliseconds=300))
    ran: list[str] = []

    async def body(run: Run) -> None:
        async def slow() -> int:
            ran.append(run.holder.workflow)
            await asyncio.sleep(1)
            return 1

        await run.step("end", slow, as_is)

    async with working(durable, body), working(durable, body):
        await durable.scheduler.make_ready("w")
        assert await key_of(durable, "w", "end") == 1
    assert ran == ["w"]
    await database.aclose()


async def test_a_worker_that_stops_gives_its_workflow_back(durable: Durable) -> None:
    """A128: its claim is free at once; another one finishes, when the delivery's lease is over."""
    inside = asyncio.Event()

    async def hangs(run: Run) -> None:
        inside.set()
        await asyncio.Event().wait()

    async with working(durable, hangs):
        await durable.scheduler.make_ready("w")
        await inside.wait()
    await claimed(durable.checkpointer)


# ---- trouble -------------------------------------------------------------------------------------


async def test_a_body_that_raises_is_tried_again(path: Path) -> None:
    """A126: when its lease is over."""
    database = connect(path)
    durable = durable_of(database, lease=timedelta(milliseconds=50))
    tries: list[int] = []

    async def body(run: Run) -> None:
        tries.append(1)
        if len(tries) < 3:
            raise KeyError
        await run.step("end", lambda: asyncio.sleep(0, 1), as_is)

    async with working(durable, body):
        await durable.scheduler.make_ready("w")
        assert await key_of(durable, "w", "end") == 1
    assert len(tries) == 3
    await database.aclose()


async def test_a_lock_that_is_held_for_long_ends_no_worker(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """G-A6: for longer than a call waits, while it takes, claims and answers."""

    class Nothing:
        count = 0

    database = connect(path, timeout=Nothing())
    durable = durable_of(database)
    end = asyncio.Event()

    async def body(run: Run) -> None:
        await run.awaiting("go", as_is)
        end.set()

    async with working(durable, body):
        await durable.scheduler.make_ready("w")
        with connect(path).store as other, other.transaction():
            while not any("waits on" in one.getMessage() for one in caplog.records):
                await asyncio.sleep(0.001)
        await durable.arrive("w", "go", 1)
        await end.wait()
    await database.aclose()


async def test_a_worker_whose_file_is_closed_ends(path: Path) -> None:
    """A121: both halves of it, and in words of ours."""
    database = connect(path)
    durable = durable_of(database)

    async def body(run: Run) -> None:
        await run.step("end", lambda: asyncio.sleep(0, 1), as_is)

    worker = asyncio.ensure_future(work(durable, body))
    await durable.scheduler.make_ready("w")
    await key_of(durable, "w", "end")
    await database.aclose()
    with pytest.raises(BaseException, match="unhandled errors") as told:
        await worker
    ended: Any = told.value
    assert {type(error) for error in ended.exceptions} == {fencepost.Closed}


WORKER = """
import asyncio, sys
from datetime import timedelta
from fencepost.compat.without_durability import Checkpointer, Durable, Scheduler, connect
from without_durability import work

async def effect(run, step):
    print(run.holder.workflow, step, flush=True)
    return step

async def body(run):
    for step in range(5):
        await run.step(f"step {step}", lambda: effect(run, step), lambda value: value)
        await run.transact(f"row {step}", lambda cursor: cursor.execute(
            "INSERT INTO rows VALUES (?, ?)", (run.holder.workflow, step)).rowcount, lambda v: v)
    await run.step("end", lambda: effect(run, "end"), lambda value: value)

async def main():
    database = connect(sys.argv[1])
    lease = timedelta(milliseconds=200)
    durable = Durable(Checkpointer(database), Scheduler(database, lease=lease))
    await work(durable, body, contended=timedelta(milliseconds=20))

asyncio.run(main())
"""


def heard(path: Path, lines: int) -> list[str]:
    """What a worker says that is killed after so many lines, or once it has no more to say."""
    command = [sys.executable, "-c", WORKER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        said = [worker.stdout.readline() for _ in range(lines)]
        worker.send_signal(signal.SIGKILL)
        return said + worker.stdout.readlines()


async def test_killed_workers_finish_what_they_began(durable: Durable, path: Path) -> None:
    """
    Killed again and again: at the end each row was written once, and a step ran again only where
    its worker was killed before its record.
    """
    with durable.scheduler.database.store.transaction() as tx:
        tx.execute("CREATE TABLE rows (workflow TEXT, step INTEGER)")
    names = [f"w{number}" for number in range(10)]
    await asyncio.gather(*(durable.scheduler.make_ready(name) for name in names))
    said: list[str] = []
    for lines in (1, 3, 8, 17):
        said += await asyncio.to_thread(heard, path, lines)
    ends = asyncio.gather(*(key_of(durable, name, "end") for name in names))
    command = [sys.executable, "-c", WORKER, str(path)]
    worker = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    await ends
    worker.kill()
    assert worker.stdout is not None
    said += (await worker.stdout.read()).decode().splitlines()
    await worker.wait()
    with durable.scheduler.database.store.transaction() as tx:
        rows = tx.execute("SELECT workflow, step FROM rows ORDER BY workflow, step")
    assert rows == [(name, step) for name in sorted(names) for step in range(5)]
    for name in names:
        ran = [line.split()[1] for line in said if line.split()[0] == name]
        assert set(ran) == {*map(str, range(5)), "end"}
        assert len(ran) <= 6 + 4  # each kill may repeat the one under way


def test_the_program_of_the_guide_runs(tmp_path: Path) -> None:
    run_block("compat.md", "durable.py", tmp_path)
