"""A worker that dies in its own process leaves in the file what a killed one leaves."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

import fencepost
from fencepost import App, Context, InvalidArgument
from fencepost._worker import failpoints
from fencepost.testing import Crash, Kit, override
from harness_worker import AT_ONCE


def die() -> None:
    """As a workflow dies between its steps: in the middle of what its author wrote."""
    failpoints.at("step done", "refund", "pay back")


def rows(app: App) -> list[int]:
    with app.transaction() as tx:
        tx.execute("CREATE TABLE IF NOT EXISTS said (word)")
        return [word for (word,) in tx.execute("SELECT word FROM said")]


# ---- what is left --------------------------------------------------------------------------------


def test_the_message_is_held_and_comes_again_when_its_lease_is_over(app: App, kit: Kit) -> None:
    attempts: list[int] = []

    @app.job(context=True)
    def dies_once(ctx: Context) -> None:
        attempts.append(ctx.attempt)
        die()

    handle = dies_once.enqueue()
    with kit.crash_at("step done"):
        assert kit.drain() == (0, 0, 0, 1)
    assert handle.status().state == "leased"
    assert handle.status().failure is None
    kit.advance(29)
    assert kit.drain() == (0, 0, 0, 0)
    kit.advance(1)
    assert kit.drain() == (1, 0, 0, 0)
    assert attempts == [1, 2]


def test_dying_uses_attempts_up(app: App, kit: Kit) -> None:
    @app.job(max_attempts=2)
    def deadly() -> None: ...

    handle = deadly.enqueue()
    with kit.crash_at("claimed", "deadly", times=2):
        assert kit.drain(until_idle=True).crashed == 2
    failure = handle.status().failure
    assert failure is not None
    assert (handle.status().state, failure.kind) == ("dead", "worker_lost")


def put(app: App, note: fencepost.Job[[], None]) -> None:
    note.enqueue()


def write(app: App, note: fencepost.Job[[], None]) -> None:
    with app.transaction():
        pytest.fail("it has begun")


def put_in_a_thread(app: App, note: fencepost.Job[[], None]) -> None:
    asyncio.run(asyncio.to_thread(note.enqueue))


@pytest.mark.parametrize("act", [put, write, put_in_a_thread])
@pytest.mark.parametrize("coroutine", [False, True])
def test_what_a_handler_does_on_its_way_out_changes_nothing(
    app: App,
    kit: Kit,
    act: Callable[[App, fencepost.Job[[], None]], None],
    coroutine: bool,
) -> None:
    """A killed process has no `finally`: neither it nor what it starts is answered."""
    assert rows(app) == []

    @app.job
    def note() -> None: ...

    def dies() -> None:
        try:
            die()
        finally:
            act(app, note)

    async def dies_beside() -> None:
        await asyncio.to_thread(dies)

    fn: Callable[[], object] = dies_beside if coroutine else dies
    handle = app.job(fn).enqueue()
    with kit.crash_at("step done"):
        assert kit.drain() == (0, 0, 0, 1)
    assert rows(app) == []
    assert kit.enqueued(note) == []
    assert handle.status().state == "leased"


def test_a_transaction_that_was_open_is_not_committed_whoever_hides_the_death(
    app: App, kit: Kit
) -> None:
    assert rows(app) == []

    @app.job(context=True)
    def stubborn(ctx: Context) -> None:
        ctx.tx.execute("INSERT INTO said VALUES (1)")
        with suppress(BaseException):
            die()
        ctx.tx.execute("INSERT INTO said VALUES (2)")

    handle = stubborn.enqueue()
    with kit.crash_at("step done"):
        assert kit.drain() == (0, 0, 0, 1)
    assert rows(app) == []
    assert handle.status().state == "leased"


def test_nor_is_one_of_the_handlers_own_and_it_is_told(app: App, kit: Kit) -> None:
    assert rows(app) == []
    reached: list[str] = []

    @app.job
    def stubborn() -> None:
        with app.transaction() as tx:
            tx.execute("INSERT INTO said VALUES (1)")
            with suppress(BaseException):
                die()
        reached.append("what follows a commit")

    stubborn.enqueue()
    with kit.crash_at("step done"):
        assert kit.drain() == (0, 0, 0, 1)
    assert rows(app) == []
    assert reached == []


def test_tasks_of_the_dead_say_nothing_either(app: App, kit: Kit) -> None:
    said: list[str] = []

    @app.job
    def note() -> None: ...

    @app.job
    async def dies() -> None:
        asked, over = asyncio.Event(), asyncio.Event()

        async def beside() -> None:
            await asked.wait()
            try:
                note.enqueue()
            except Crash:
                said.append("refused")
            over.set()

        task = asyncio.create_task(beside())
        try:
            die()
        finally:
            asked.set()
            await over.wait()
            await task

    dies.enqueue()
    with kit.crash_at("step done"):
        assert kit.drain() == (0, 0, 0, 1)
    assert said == ["refused"]
    assert kit.enqueued(note) == []


def test_the_next_worker_lives(app: App, kit: Kit) -> None:
    """In the same drain, and whoever looked on lives, too."""

    @app.job
    def fine() -> str:
        return "fine"

    handles = fine.enqueue_many([fine.call(), fine.call()])
    with kit.crash_at("handled", "fine"):
        assert kit.drain() == (1, 0, 0, 1)
        assert sorted(handle.status().state for handle in handles) == ["done", "leased"]
        fine.enqueue()


def test_the_next_worker_has_its_own_say(app: App, kit: Kit) -> None:
    """What the dead one had to say is not said by it, and what it has to say is."""

    @app.job
    def fine() -> str:
        return "fine"

    @App().job
    def unknown() -> None: ...

    first, second = fine.enqueue(), unknown.at(kit.store).enqueue()
    with kit.crash_at("handled", "fine"):
        assert kit.drain() == (0, 1, 0, 1)
    assert (first.status().state, second.status().attempt) == ("leased", 0)


def test_a_batch_dies_together(app: App, kit: Kit) -> None:
    numbers = app.queue("numbers", int, addressed=True)

    @numbers.handler(batch=3)
    def take(batch: fencepost.Batch[int]) -> None: ...

    numbers.enqueue_many([1, 2, 3])
    with kit.crash_at("handled", "numbers"):
        assert kit.drain() == (0, 0, 0, 1)
    assert {message.state for message in kit.enqueued("numbers")} == {"leased"}
    assert kit.drain(until_idle=True) == (3, 0, 0, 0)


def test_what_the_dead_left_behind_ends_with_it(app: App, kit: Kit) -> None:
    """And what the living left beside it: a process that dies takes its event loop with it."""
    ended: list[str] = []
    loops: set[asyncio.AbstractEventLoop] = set()
    tasks: list[asyncio.Task[None]] = []

    async def stays(whose: str) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(whose)

    @app.job
    async def leaves(whose: str) -> None:
        loops.add(asyncio.get_running_loop())
        tasks.append(asyncio.create_task(stays(whose)))
        await asyncio.sleep(0)

    leaves.enqueue("the living")
    kit.drain()
    assert ended == []
    leaves.enqueue("the dead")
    with kit.crash_at("handled"):
        kit.drain()
    assert set(ended) == {"the dead", "the living"}
    assert len(loops) == 1
    leaves.enqueue("the next")
    kit.drain()
    assert len(loops) == 2


def test_what_is_awaited_is_refused_too(app: App, kit: Kit) -> None:
    refused: list[str] = []

    @app.job
    def note() -> None: ...

    @app.job
    async def dies() -> None:
        try:
            die()
        finally:
            for awaited in (note.aio.enqueue(), app.store.aio.stats(), handle.aio.cancel()):
                try:
                    await awaited
                except Crash:
                    refused.append("refused")

    handle = dies.enqueue()
    with kit.crash_at("step done"):
        assert kit.drain() == (0, 0, 0, 1)
    assert refused == ["refused"] * 3
    assert kit.enqueued(note) == []
    assert handle.status().state == "leased"


async def test_coroutines_die_where_a_loop_runs(app: App, kit: Kit) -> None:
    @app.job
    async def fine() -> None: ...

    handle = fine.enqueue()
    with kit.crash_at("handled", "fine"):
        assert await kit.adrain() == (0, 0, 0, 1)
    assert handle.status().state == "leased"
    assert await kit.adrain(until_idle=True) == (1, 0, 0, 0)


# ---- where ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "refund", "pay back"])
def test_a_step_is_named_by_its_workflow_or_by_itself(app: App, kit: Kit, name: str) -> None:
    app.job(name="refund")(die).enqueue()
    with kit.crash_at("step done", name):
        assert kit.drain().crashed == 1


def test_the_worker_of_another_kit_does_not_die(app: App, kit: Kit) -> None:
    other = App()

    @other.job
    def fine() -> str:
        return "fine"

    with override(other) as beside:
        fine.enqueue()
        with pytest.raises(AssertionError, match="0 times, not 1"), kit.crash_at("claimed"):
            beside.drain()
        assert len(beside.store.messages("done")) == 1


def test_so_many_times(app: App, kit: Kit) -> None:
    @app.job(backoff=AT_ONCE)
    def fine() -> None: ...

    fine.enqueue_many([fine.call() for _ in range(5)])
    with kit.crash_at("claimed", times=3):
        assert kit.drain() == (2, 0, 0, 3)


def test_what_goes_wrong_within_the_block_is_not_covered(kit: Kit) -> None:
    with pytest.raises(ZeroDivisionError), kit.crash_at("claimed"):
        raise ZeroDivisionError


def test_wrong_use_is_told_at_once(kit: Kit) -> None:
    with pytest.raises(InvalidArgument, match="'claimed', 'begun', 'handled', 'sent'"):
        kit.crash_at("before breakfast")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="times"):
        kit.crash_at("claimed", times=0)
    with pytest.raises(InvalidArgument, match="name"):
        kit.crash_at("claimed", fencepost)  # type: ignore[arg-type]


def test_points_of_a_real_worker_are_nobodys_death(app: App, kit: Kit) -> None:
    """Whoever reaches one in no life of this kit's goes on."""
    with pytest.raises(AssertionError, match="0 times"), kit.crash_at("claimed"):
        failpoints.at("claimed", "somebody")
        thread = threading.Thread(target=failpoints.at, args=["claimed", "somebody"])
        thread.start()
        thread.join()
