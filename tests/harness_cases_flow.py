"""The operations of workflows, as cases; each is one commit."""

from __future__ import annotations

from fencepost._binding.calls import Core
from fencepost._binding.codes import FP
from fencepost._binding.flow import End, Flow, Parent, RecordPut, Start
from fencepost._binding.pack import Put
from harness_case import DONE, Context, case
from harness_core import Held, define, lib, put
from harness_core import tx as transaction
from harness_flow import ARGS, LEASE, Scene, begin, scene, wake
from harness_scenes import LATER, MONTH_LATER, say

Out = tuple[Scene, Held]

# ---- what is there first -------------------------------------------------------------------------


def begin_with_jobs(core: Core) -> tuple[Scene, Held, int]:
    """A pass, and a queue of jobs."""
    at, held = begin(core)
    return at, held, define(core, "jobs")


def asleep(core: Core) -> Scene:
    """A run whose sleep is over."""
    at, held = begin(core)
    at.end(held, FP.END_SLEEP, at_us=LATER)
    core.hand(LATER)
    return at


def waiting(core: Core) -> Scene:
    at, held = begin(core)
    at.end(held, FP.END_WAIT, waiting=b'["go"]')
    return at


def failed_at_length(core: Core) -> Scene:
    """A run that has failed, with more records than go at once."""
    at, held = begin(core)
    for number in range(5):
        at.record(held, b"step %d" % number)
    at.end(held, FP.END_FAIL, kind=b"error")
    core.hand(MONTH_LATER)
    return at


def rearmed(core: Core) -> Out:
    """A pass that has not seen what came; its last attempt."""
    at = scene(core)
    at.start(max_attempts=1)
    (held,) = at.take()
    wake(at)
    return at, held


def used_up(core: Core) -> Scene:
    """Two runs whose last worker died, of which one was told something meanwhile."""
    at = scene(core)
    at.start(b"one", max_attempts=1)
    at.start(b"two", max_attempts=1)
    at.take(1)
    at.take(1)
    wake(at, b"two")
    core.hand(LATER)
    return at


def family(core: Core) -> tuple[Scene, Held, Held]:
    """A pass, that of its child, and a job of it that nobody has claimed."""
    at, held = begin(core)
    at.start(b"child", parent=at.parent(held))
    (child,) = at.take()
    at.start(b"grandchild", parent=Parent(b"child", child.token, b"grand"))
    at.flow.start_job(None, Put(define(core, "jobs"), [b"a"]), at.parent(held, b"job"))
    return at, held, child


def failed(core: Core) -> Scene:
    at, held = begin(core)
    at.record(held, b"one")
    at.record(held, b"two")
    at.end(held, FP.END_FAIL, kind=b"error", text=b"boom")
    return at


def ended(core: Core) -> Scene:
    """A done run, and a failed one."""
    at = failed(core)
    at.start(b"done")
    (held,) = at.take()
    at.record(held, b"step")
    at.end(held, FP.END_DONE, result=b"r")
    core.hand(MONTH_LATER)
    return at


def passing(core: Core) -> tuple[Flow, int]:
    """A pass without a wake-up, and records."""
    flow = Flow(core)
    token = flow.claim(b"w", 2 * LEASE, LEASE)
    flow.supply(None, b"w", b"signal:s", b"v")
    flow.append(None, b"w", b"v")
    return flow, token


# ---- runs ----------------------------------------------------------------------------------------


@case(begin_with_jobs)
def start_a_child_and_a_job_of_a_run(core: Core, out: Context) -> None:
    at, held, jobs = out
    with transaction(core) as tx:
        parent = at.parent(held)
        assert at.flow.start(tx, Start(at.queue, at.kind, b"child", ARGS, parent=parent))[1]
        assert at.flow.start_job(tx, Put(jobs, [b"a"]), at.parent(held, b"j"))[1]


@case(asleep)
def take_a_run_with_its_pass(core: Core, at: Context) -> None:
    assert len(at.take()) == 1


@case(used_up)
def take_what_killed_its_workers(core: Core, at: Context) -> None:
    """One has failed; the other goes on, because it was told something."""
    assert [held.key for held in at.take(5)] == [b"two"]


@case(family)
def cancel_a_run_and_what_it_has_started(core: Core, out: Context) -> None:
    assert out[0].flow.cancel(None, b"run") == FP.DONE


@case(failed)
def resume_a_run(core: Core, at: Context) -> None:
    assert at.flow.resume(None, b"run") == FP.DONE


@case(failed)
def fork_a_run(core: Core, at: Context) -> None:
    assert at.flow.fork(None, b"run", b"two", Start(at.queue, 0, b"fork"))


@case(failed)
def delete_a_run(core: Core, at: Context) -> None:
    assert at.flow.delete(None, b"run", at.queue) == 2


@case(ended)
def purge_a_run(core: Core, at: Context) -> None:
    assert at.flow.purge(FP.RUN_DONE, MONTH_LATER, 10, apply=True) == (1, False)


@case(failed_at_length)
def purge_a_part_of_a_run(core: Core, at: Context) -> None:
    assert at.flow.purge(FP.RUN_FAILED, MONTH_LATER, 3, apply=True) == (0, True)


@case(failed_at_length)
def purge_the_dead_letter_of_a_long_run(core: Core, at: Context) -> None:
    assert core.purge(0, lib.FP_STATE_DEAD, MONTH_LATER, 100, apply=True) == 1


# ---- passes --------------------------------------------------------------------------------------


@case(begin_with_jobs)
def record_what_is_new_what_is_there_and_what_was_fenced(core: Core, out: Context) -> None:
    at, held, jobs = out
    with transaction(core) as tx:
        assert at.flow.find(tx, b"run", held.token, b"a") == (False, None)
        puts = [RecordPut(b"run", token, b"a", 0, b"v") for token in (held.token, held.token - 1)]
        puts.append(puts[0]._replace(value=b"other"))
        told = [one.answer for one in at.flow.record(tx, puts)]
        assert told == [FP.DONE, FP.LOST, FP.ALREADY]
        put(core, jobs, b"a", tx=tx)


@case(begin)
def record_and_wait(core: Core, out: Context) -> None:
    at, held = out
    last = [RecordPut(b"run", held.token, b"a", 0, b"v")]
    end = [End(b"run", held.token, FP.END_WAIT, waiting=b'["go"]')]
    assert at.flow.end(None, last, end)[1] == DONE


@case(family)
def finish_a_child(core: Core, out: Context) -> None:
    at, _, child = out
    assert at.end(child, FP.END_DONE, result=b"r") == FP.DONE


@case(begin)
def park_a_run(core: Core, out: Context) -> None:
    assert out[0].end(out[1], FP.END_PARK, kind=b"changed", text=b"order") == FP.DONE


@case(rearmed)
def fail_what_was_told_something_meanwhile(core: Core, out: Context) -> None:
    assert out[0].end(out[1], FP.END_RETRY, at_us=5, kind=b"error", text=b"boom") == FP.REARMED


@case(begin)
def renew_a_run_with_its_pass(core: Core, out: Context) -> None:
    assert core.settle(None, [say(out[1], lib.FP_RENEW, 2 * LEASE)]) == DONE


@case(passing)
def prolong_renew_and_release_a_pass(core: Core, out: Context) -> None:
    flow, token = out
    with transaction(core) as tx:
        assert flow.extend(tx, b"w", token, 3 * LEASE, LEASE)
        assert flow.renew(tx, b"w", token, 2 * LEASE)
        assert flow.release(tx, b"w", token)


@case(passing)
def take_a_pass(core: Core, out: Context) -> None:
    assert out[0].claim(b"other", LEASE, LEASE) > 0


@case(passing)
def discard_all_records(core: Core, out: Context) -> None:
    assert out[0].discard(None, b"w") == 2


# ---- from outside --------------------------------------------------------------------------------


@case(waiting)
def signal_a_waiting_run(core: Core, at: Context) -> None:
    assert wake(at)


@case(scene)
def deliver_to_a_workflow_without_a_run(core: Core, at: Context) -> None:
    assert at.flow.deliver(None, b"w", b"v", queue=at.queue, live=False)
