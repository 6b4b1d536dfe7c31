"""Workflows in the kit: days pass in milliseconds, and a pass dies between any two of its steps."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest

import fencepost
from fencepost import App, InvalidArgument, Run, Transaction
from fencepost.testing import Kit, Point, override
from harness_worker import AT_ONCE, NOON

HOUR = timedelta(hours=1)

app = App()
ran: list[str] = []


def note(word: str) -> str:
    ran.append(word)
    return word


def write(tx: Transaction, word: str) -> str:
    tx.execute("INSERT INTO said VALUES (?)", [word])
    return word


@app.job
def pack(order: int) -> str:
    return note(f"packed {order}")


@app.workflow(backoff=AT_ONCE)
async def refund(run: Run, order: int) -> str:
    first = await run.step("first", note, "one")
    await run.sleep("cool off", HOUR)
    second = await run.transact("write", write, "two")
    packed = await run.child("pack", pack, order)
    who = await run.wait("approved by", str, timeout=timedelta(days=3))
    return f"{first} {second} {packed} {who}"


@app.workflow(max_attempts=2, backoff=fencepost.Backoff(60, 1, 60, 0))
async def fails(run: Run) -> None:
    raise OSError("down")


@pytest.fixture
def kit() -> Iterator[Kit]:
    ran.clear()
    with override(app, now=NOON) as kit:
        with app.transaction() as tx:
            tx.execute("CREATE TABLE said (word)")
        yield kit


def rows() -> list[str]:
    with app.transaction() as tx:
        return [word for (word,) in tx.execute("SELECT word FROM said")]


# ---- the way of a run ----------------------------------------------------------------------------


def test_a_run_goes_its_way_as_the_clock_is_turned(kit: Kit) -> None:
    threads = threading.active_count()
    handle = refund.start(7)
    assert kit.drain() == (0, 1, 0, 0)
    assert handle.status().waiting_for == ("cool off",)
    kit.advance(HOUR)
    kit.drain()
    assert handle.status().waiting_for == ("approved by",)
    assert handle.signal("approved by", "ann")
    assert kit.drain() == (1, 0, 0, 0)
    assert handle.result() == "one two packed 7 ann"
    assert ran == ["one", "packed 7"]
    assert kit.now == NOON + HOUR
    assert threading.active_count() == threads


def test_idle_turns_the_clock_to_the_end_of_each_wait(kit: Kit) -> None:
    handle = refund.start(7)
    assert kit.drain(until_idle=True).dead == 1
    assert kit.now == NOON + HOUR + timedelta(days=3)
    with pytest.raises(fencepost.JobFailed, match="did not come in time"):
        handle.result()


def test_a_run_that_fails_is_tried_again_and_counts_as_dead_at_its_end(kit: Kit) -> None:
    handle = fails.start()
    assert kit.drain() == (0, 1, 0, 0)
    assert kit.drain(until_idle=True) == (0, 0, 1, 0)
    assert kit.now == NOON + timedelta(minutes=1)
    assert handle.status().state == "dead"
    handle.resume()
    assert kit.drain() == (0, 1, 0, 0)


def test_a_step_is_tried_again_when_the_clock_says_so() -> None:
    own = App()
    left = [OSError("down"), OSError("down")]

    def shaky() -> str:
        if left:
            raise left.pop()
        return "up"

    @own.workflow
    async def patient(run: Run) -> str:
        often = run.options(max_attempts=3, backoff=fencepost.Backoff(60, 2, 600, 0))
        return await often.step("shaky", shaky)

    with override(own, now=NOON) as kit:
        handle = patient.start()
        assert kit.drain(until_idle=True) == (1, 2, 0, 0)
        assert handle.result() == "up"
        assert kit.now == NOON + timedelta(seconds=60 + 120)


def test_a_cancelled_run_counts_nowhere() -> None:
    own = App()

    @own.workflow
    async def gives_up(run: Run) -> None:
        await run.step("cancel", run_handle().cancel)
        await run.step("never", note, "never")

    def run_handle() -> fencepost.WorkflowHandle[None]:
        return handle

    with override(own) as kit:
        handle = gives_up.start()
        assert kit.drain(until_idle=True) == (0, 0, 0, 0)
        assert handle.status().state == "cancelled"
    assert "never" not in ran


async def test_runs_go_on_where_a_loop_runs() -> None:
    loops: list[asyncio.AbstractEventLoop] = []
    threads: list[threading.Thread] = []
    own = App()

    async def here() -> None:
        loops.append(asyncio.get_running_loop())

    def beside() -> None:
        threads.append(threading.current_thread())

    @own.workflow
    async def both(run: Run) -> None:
        await run.step("here", here)
        await run.step("beside", beside)

    with override(own) as kit:
        both.start()
        assert await kit.adrain(until_idle=True) == (1, 0, 0, 0)
    assert loops == [asyncio.get_running_loop()]
    assert threads[0] is not threading.current_thread()


def test_plain_steps_run_in_the_thread_that_drains() -> None:
    """What belongs to it, an ORM's connection, is theirs too."""
    threads: list[threading.Thread] = []
    own = App()

    @own.workflow
    async def here(run: Run) -> None:
        await run.step("here", lambda: threads.append(threading.current_thread()))

    with override(own) as kit:
        here.start()
        kit.drain()
    assert threads == [threading.current_thread()]


def test_a_pass_past_its_time_is_cut_off_by_the_clock() -> None:
    own = App()

    @own.workflow(timeout=60, max_attempts=1)
    async def stalls(run: Run) -> None:
        stalled.advance(60)
        await asyncio.sleep(3600)

    with override(own, now=NOON) as stalled:
        handle = stalls.start()
        assert stalled.drain() == (0, 0, 1, 0)
        failure = handle.status().failure
        assert failure is not None
        assert failure.kind == "timeout"


def test_what_ends_the_test_goes_up_from_a_step() -> None:
    own = App()

    @own.workflow
    async def forbidden(run: Run) -> None:
        await run.step("pay", lambda: pytest.fail("nothing may be paid"))

    with override(own) as kit:
        forbidden.start()
        with pytest.raises(pytest.fail.Exception, match="nothing may be paid"):
            kit.drain()


# ---- dying ---------------------------------------------------------------------------------------

DEATHS: list[tuple[Point, str, list[str]]] = [
    ("claimed", "refund", ["one"]),
    ("handled", "refund", ["one", "one"]),
    ("committed", "refund", ["one"]),
    ("step done", "first", ["one", "one"]),
    ("step recorded", "first", ["one"]),
    ("step done", "write", ["one"]),
    ("step recorded", "write", ["one"]),
    ("sleep recorded", "cool off", ["one"]),
]


@pytest.mark.parametrize(("point", "name", "steps"), DEATHS)
def test_wherever_it_dies_it_goes_on_from_what_is_recorded(
    kit: Kit, point: Point, name: str, steps: list[str]
) -> None:
    """A step runs again only if its record was not there; an effect in `transact` happens once."""
    handle = refund.start(7)
    handle.signal("approved by", "ann")
    with kit.crash_at(point, name):
        assert kit.drain(until_idle=True).crashed == 1
    assert handle.result() == "one two packed 7 ann"
    assert [word for word in ran if word == "one"] == steps
    assert rows() == ["two"]
    assert ran.count("packed 7") == 1


def test_what_the_dead_had_begun_beside_does_not_go_on() -> None:
    """Two steps at the same time: the other one's effect never happens in that life."""
    own = App()
    said: list[str] = []

    async def quick() -> None: ...

    async def slow(attempt: int) -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0.001 * (attempt == 1))
        said.append(f"slow, attempt {attempt}")

    @own.workflow
    async def both(run: Run) -> None:
        await run.gather(run.step("quick", quick), run.step("slow", slow, run.attempt))

    with override(own) as kit:
        handle = both.start()
        with kit.crash_at("step done", "quick"):
            kit.drain(until_idle=True)
        assert handle.status().state == "done"
    assert said == ["slow, attempt 2"]


def test_dying_uses_attempts_up(kit: Kit) -> None:
    handle = fails.start()
    with kit.crash_at("claimed", "fails", times=2):
        kit.drain(until_idle=True)
    failure = handle.status().failure
    assert failure is not None
    assert failure.kind == "worker_lost"


# ---- looking -------------------------------------------------------------------------------------


def test_runs_are_asserted_by_their_arguments(kit: Kit) -> None:
    refund.options(id="refund-7").start(7)
    assert kit.assert_enqueued(refund, order=7).key == "refund-7"
    refund.options(delay=60).start(8)
    assert len(kit.enqueued(refund)) == 2
    kit.drain()
    assert len(kit.enqueued(refund)) == 2  # it sleeps, and goes on
    with pytest.raises(AssertionError) as raised:
        kit.assert_enqueued(refund, 9)
    assert str(raised.value).splitlines() == [
        'no call of refund with {"order":9} is in line',
        "  of refund there are in line:",
        '    {"order":7}, due in 1:00:00',
        '    {"order":8}, due in 0:01:00',
    ]


def test_runs_that_have_ended_are_told(kit: Kit) -> None:
    fails.options(id="f").start()
    kit.drain(until_idle=True)
    assert kit.enqueued(fails) == []
    pack.enqueue(1)
    with pytest.raises(AssertionError) as raised:
        kit.assert_enqueued(fails)
    assert str(raised.value).splitlines() == [
        "no call of fails with {} is in line",
        "  there was one, run f, and it is failed",
        "  in line: 1 of pack; calls of it that have ended: 1",
    ]


def test_a_workflow_of_another_app_is_refused(kit: Kit) -> None:
    other = App()

    @other.workflow
    async def elsewhere(run: Run) -> None: ...

    with pytest.raises(InvalidArgument, match="of another App"):
        kit.enqueued(elsewhere)
