"""Workflows from an event loop: runs are started, told of things and awaited like all else."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import fencepost
from fencepost import App, Cancelled, Conflict, Gone, InvalidArgument, JobFailed, Run, Workflow
from harness_aio import behind, spin
from harness_line import counts, since

PLUG = 1  # `behind` makes a call that crosses before the others


def approval(app: App) -> Workflow[[int], str]:
    @app.workflow(max_attempts=1)
    async def approve(run: Run, order: int) -> str:
        if order < 0:
            raise ValueError("no such order")
        return f"{order} by {await run.wait('who', str)}"

    return approve


@pytest.mark.hostile
def test_starts_and_signals_are_gathered(app: App, run_async: Any) -> None:
    """With whatever else is called meanwhile: one commit, and each has an answer of its own."""
    approve = approval(app)
    queue = app.store.queue("q", int)
    queue.enqueue(0)
    there = approve.options(id="there").start(1)

    async def calls() -> list[Any]:
        twin = there.aio
        return await behind(
            app.store,
            approve.options(id="new").aio.start(2),
            approve.options(id="there").aio.start(1),
            approve.options(id="there").aio.start(7),
            twin.signal("who", "ann"),
            twin.signal("who", "bob"),
            twin.send("a letter"),
            approve.aio.handle("nobody").signal("who", "eve"),
            queue.aio.enqueue(1),
        )

    before = counts(app.store._file.core)
    found = run_async(calls())
    assert since(app.store._file.core, before)[:2] == (1 + PLUG, 8 + PLUG)
    assert [found[0].created, found[1].created] == [True, False]
    assert isinstance(found[2], Conflict)
    assert found[3:6] == [True, False, None]
    assert isinstance(found[6], Gone)
    assert found[7].created
    assert {info.id for info in app.store.runs()} == {"new", "there"}


def test_a_thousand_runs_are_awaited_without_a_thread_each(app: App, run_async: Any) -> None:
    """Each is told of its own end."""
    approve = approval(app)
    before = set(threading.enumerate())

    async def wait() -> list[str]:
        handles = await asyncio.gather(*(approve.aio.start(n) for n in range(1000)))
        results = [asyncio.create_task(handle.result()) for handle in handles]
        watch = app.store._file.bridge.watch
        await spin(lambda: len(watch._ending) == 1000)
        assert len(set(threading.enumerate()) - before) <= 6
        await asyncio.gather(*(handle.signal("who", "ann") for handle in handles))
        async with app.worker():
            return await asyncio.gather(*results)

    assert run_async(wait()) == [f"{n} by ann" for n in range(1000)]


def test_how_a_run_ended_is_told(app: App, run_async: Any) -> None:
    """As in threads: its result, its failure, its cancellation, or that it is not there."""
    approve = approval(app)

    async def ask() -> None:
        done, bad, taken, idle = [
            await approve.options(id=name).aio.start(n)
            for name, n in (("done", 1), ("bad", -1), ("taken", 3), ("idle", 4))
        ]
        assert await taken.cancel()
        assert not await taken.cancel()
        assert await done.signal("who", "ann")
        async with app.worker():
            assert await done.result(60) == "1 by ann"
            with pytest.raises(JobFailed, match="no such order"):
                await bad.result(60)
            with pytest.raises(TimeoutError):
                await idle.result(0)
            await bad.resume()
            with pytest.raises(JobFailed, match="no such order"):
                await bad.result(60)
        with pytest.raises(Cancelled):
            await taken.result()
        with pytest.raises(InvalidArgument, match="is done"):
            await done.resume()
        with pytest.raises(Gone):
            await approve.aio.handle("nobody").result()
        assert [step.name for step in await done.steps()] == ["who"]
        again = await done.fork("who", id="again")
        assert (again.id, (await again.status()).state) == ("again", "pending")
        assert await done.delete() > 0
        assert {one.id for one in await app.aio.runs()} == {"again", "idle", "taken", "bad"}

    run_async(ask())


def test_watching_a_run_tells_each_change_to_the_end(app: App, run_async: Any) -> None:
    approve = approval(app)

    async def watch() -> list[fencepost.Status]:
        handle = await approve.aio.start(1)
        seen: list[fencepost.Status] = []
        told: list[bool] = []
        async with app.worker():
            async for status in handle.watch():
                seen.append(status)
                if status.waiting_for == ("who",) and not told:
                    told.append(await handle.signal("who", "ann"))
        return seen

    seen = run_async(watch())
    assert ("who",) in [status.waiting_for for status in seen]
    assert seen[-1].state == "done"


def test_a_start_that_nobody_awaits_any_more_is_answered_for_by_its_id(
    app: App, run_async: Any
) -> None:
    approve = approval(app)

    async def cancel() -> None:
        task = asyncio.create_task(approve.options(id="r").aio.start(1))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await approve.options(id="r").aio.start(1)  # created, or it was there: one run
        assert not (await approve.options(id="r").aio.start(1)).created
        assert [info.id for info in await app.aio.runs()] == ["r"]

    run_async(cancel())


def test_in_a_transaction_a_run_begins_with_its_commit(app: App, run_async: Any) -> None:
    approve = approval(app)

    async def inside() -> None:
        with app.transaction() as tx:
            handle = await approve.options(id="r", tx=tx).aio.start(1)
            assert handle.created
            raise KeyError

    with pytest.raises(KeyError):
        run_async(inside())
    assert app.store.runs() == []
