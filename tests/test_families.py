"""Runs and what they start: children and jobs, how they are told of and cancelled."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost import Conflict, InvalidArgument, LeaseLost
from fencepost._binding.codes import FP
from fencepost._binding.flow import ChildOutcome, Parent, RecordPut, child_outcome
from fencepost._binding.pack import Put
from harness_core import (
    START,
    Held,
    Verdict,
    ack,
    define,
    keyed,
    lib,
    settle,
    state_of,
    take,
)
from harness_flow import LEASE, Scene, keys, start

pytestmark = pytest.mark.hostile

FAILED = ChildOutcome("failed", None, "error", "boom")


def told(at: Scene, key: bytes = b"child", id: bytes = b"run") -> ChildOutcome | None:
    """What the parent was told of a child."""
    for one in at.flow.records(id):
        if one.key == key:
            assert one.kind == FP.RECORD_CHILD
            return child_outcome(one.value)
    return None


# ---- what came of a child ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "said", "outcome"),
    [
        (FP.END_DONE, {"result": b"42"}, ChildOutcome("done", b"42")),
        (FP.END_DONE, {}, ChildOutcome("done", b"")),
        (FP.END_FAIL, {"kind": b"error", "text": b"boom"}, FAILED),
        (FP.END_PARK, {"kind": b"changed"}, ChildOutcome("failed", None, "changed", "")),
    ],
)  # fmt: skip
def test_a_parent_that_waits_is_woken_with_what_came_of_its_child(
    at: Scene, parent: Held, verb: int, said: dict[str, Any], outcome: ChildOutcome
) -> None:
    """In the commit that ends the child."""
    at.start(b"kid", parent=at.parent(parent))
    at.end(parent, FP.END_WAIT)
    (kid,) = at.take(5)
    assert told(at) is None
    assert at.end(kid, verb, **said) == FP.DONE
    assert told(at) == outcome
    assert [held.key for held in at.take(5)] == [b"run"]


def test_a_child_that_ends_while_its_parent_is_out_is_delivered_after_it(
    at: Scene, parent: Held
) -> None:
    at.start(b"kid", parent=at.parent(parent))
    at.end(at.take()[0], FP.END_DONE, result=b"r")
    at.end(parent, FP.END_WAIT)
    assert [held.key for held in at.take(5)] == [b"run"]


def test_a_child_whose_worker_dies_for_good_is_told_of(at: Scene, parent: Held) -> None:
    at.start(b"kid", parent=at.parent(parent), max_attempts=1)
    at.end(parent, FP.END_WAIT)
    at.take()
    at.core.hand(START + LEASE)
    assert [held.key for held in at.take()] == [b"run"]  # in the commit that has found it out
    outcome = told(at)
    assert outcome is not None
    assert (outcome.state, outcome.kind) == ("failed", "worker_lost")


def test_a_child_is_started_once_however_often_its_parent_says_so(at: Scene, parent: Held) -> None:
    """A pass that runs again finds it; a run of that id which is not its child is a conflict."""
    first = start(at, b"kid", parent=at.parent(parent))
    assert first[1]
    assert start(at, b"kid", parent=at.parent(parent)) == (first[0], False)
    at.start(b"stranger")
    with pytest.raises(Conflict):
        start(at, b"stranger", parent=at.parent(parent, b"other"))
    assert keys(at.flow.records(b"run")) == []  # links are not shown


def test_who_was_fenced_starts_nothing(at: Scene, parent: Held, jobs: int) -> None:
    at.core.hand(START + LEASE)
    at.take()
    with pytest.raises(LeaseLost):
        start(at, b"kid", parent=at.parent(parent))
    with pytest.raises(LeaseLost):
        at.start_job(jobs, parent)
    assert at.flow.get(b"kid") is None
    assert at.core.size(None, jobs) == 0


@pytest.mark.parametrize(
    ("verdict", "outcome"),
    [
        ((lib.FP_ACK, 0, b"42"), ChildOutcome("done", b"42")),
        ((lib.FP_FAIL, 0, None, b"error", None, b"boom"), FAILED),
        ((lib.FP_CANCEL,), ChildOutcome("cancelled")),
    ],
)  # fmt: skip
def test_a_parent_is_told_of_a_job_whoever_settles_it(
    at: Scene, parent: Held, jobs: int, verdict: tuple[Any, ...], outcome: ChildOutcome
) -> None:
    id_ = at.start_job(jobs, parent)
    at.end(parent, FP.END_WAIT)
    (held,) = take(at.core, jobs)
    assert held.id == id_
    assert settle(at.core, Verdict(held.id, held.token, *verdict)) == [FP.DONE]
    assert told(at) == outcome
    assert [held.key for held in at.take()] == [b"run"]


def test_a_job_that_an_operator_cancels_or_that_uses_up_its_attempts_is_told_of(
    at: Scene, parent: Held, jobs: int
) -> None:
    first = at.start_job(jobs, parent, b"one")
    assert at.core.cancel(None, [first]) == [FP.DONE]
    assert told(at, b"one") == ChildOutcome("cancelled")
    at.start_job(jobs, parent, b"two", max_attempts=1)
    take(at.core, jobs)
    at.core.hand(START + LEASE)
    assert take(at.core, jobs) == []
    outcome = told(at, b"two")
    assert outcome is not None
    assert outcome.kind == "worker_lost"


def test_jobs_are_told_of_also_when_they_are_acked_together(
    at: Scene, parent: Held, jobs: int
) -> None:
    for number in range(20):
        at.start_job(jobs, parent, b"%02d" % number)
    at.end(parent, FP.END_WAIT)
    assert ack(at.core, *take(at.core, jobs, 20)) == [FP.DONE] * 20
    assert keys(at.flow.records(b"run")) == [b"%02d" % number for number in range(20)]


def test_a_job_is_started_once_under_its_name(at: Scene, parent: Held, jobs: int) -> None:
    first = at.start_job(jobs, parent)
    assert at.flow.start_job(None, Put(jobs, [b"other"]), at.parent(parent)) == (first, False)
    ack(at.core, *take(at.core, jobs))
    assert at.flow.start_job(None, Put(jobs, [b"other"]), at.parent(parent)) == (first, False)
    assert take(at.core, jobs) == []


def test_a_key_that_only_looks_like_a_childs_tells_nobody(
    at: Scene, parent: Held, jobs: int
) -> None:
    """Anybody may name a job so; the parent has to know it."""
    for key in (
        b"child:3:runchild",
        b"child:9999:x",
        b"child:",
        b"child:3:",
        b"child:3:run",
        b"child:x",
    ):
        keyed(at.core, jobs, key, life=lib.FP_LIFE_LIVE)
    at.start_job(jobs, parent, b"real")
    assert len(ack(at.core, *take(at.core, jobs, 9))) == 7
    assert keys(at.flow.records(b"run")) == [b"real"]


def test_only_the_job_that_was_started_tells_of_itself(at: Scene, parent: Held, jobs: int) -> None:
    """Its key may be taken in another queue: that message is another one."""
    at.start_job(jobs, parent)
    other = define(at.core, "other")
    keyed(at.core, other, b"child:3:runchild", life=lib.FP_LIFE_LIVE)
    assert ack(at.core, *take(at.core, other)) == [FP.DONE]
    assert told(at) is None
    assert ack(at.core, *take(at.core, jobs)) == [FP.DONE]
    assert told(at) == ChildOutcome("done", b"")


def test_a_child_has_a_key_of_its_own_and_no_other(at: Scene, parent: Held, jobs: int) -> None:
    of = at.parent(parent)
    with pytest.raises(InvalidArgument, match="its key is given to it"):
        at.flow.start_job(None, Put(jobs, [b"a"], keys=[b"k"], life=1), of)
    with pytest.raises(InvalidArgument, match="its key is given to it"):
        at.flow.start_job(None, Put(jobs, [b"a", b"b"]), of)
    with pytest.raises(InvalidArgument, match="bytes together"):
        at.flow.start_job(None, Put(jobs, [b"a"]), of._replace(key=b"x" * 1024))
    for key in (b"child:x", b"inbox:1", b"parent:", b""):
        with pytest.raises(InvalidArgument):
            at.flow.start_job(None, Put(jobs, [b"a"]), of._replace(key=key))
    assert at.core.size(None, jobs) == 0


# ---- cancel --------------------------------------------------------------------------------------


def test_a_cancelled_run_takes_its_children_and_unstarted_jobs_with_it(
    at: Scene, parent: Held, jobs: int
) -> None:
    """All the way down, in one commit; a job that somebody has begun is left to him."""
    at.start(b"kid", parent=at.parent(parent))
    (kid,) = at.take()
    at.start(b"grandkid", parent=Parent(b"kid", kid.token, b"g"))
    begun, unstarted = (at.start_job(jobs, kid, key) for key in (b"a", b"b"))
    (held,) = take(at.core, jobs)
    assert held.id == begun
    assert at.flow.cancel(None, b"run") == FP.DONE
    assert [at.state(name) for name in (b"run", b"kid", b"grandkid")] == ["cancelled"] * 3
    assert state_of(at.core, unstarted) == lib.FP_CANCELLED
    assert ack(at.core, held) == [FP.DONE]
    assert at.take(5) == []
    assert at.counts() == (0, 0, 0, 0)
    assert at.flow.cancel(None, b"run") == FP.ALREADY
    assert at.flow.cancel(None, b"nobody") == FP.GONE


def test_a_step_under_way_is_recorded_after_the_cancellation(at: Scene, parent: Held) -> None:
    """Its pass is told, begins nothing further, and ends nothing."""
    assert at.flow.cancel(None, b"run") == FP.DONE
    (said,) = at.flow.record(None, [RecordPut(b"run", parent.token, b"step", 0, b"v")])
    assert (said.answer, said.cancelled) == (FP.DONE, True)
    assert settle(at.core, Verdict(parent.id, parent.token, lib.FP_RENEW, -1)) == [FP.LOST]
    assert at.end(parent, FP.END_DONE, result=b"r") == FP.CANCELLED
    assert (at.state(), keys(at.flow.records(b"run"))) == ("cancelled", [b"step"])


def test_a_parent_is_told_of_a_cancelled_child(at: Scene, parent: Held) -> None:
    at.start(b"kid", parent=at.parent(parent))
    at.end(parent, FP.END_WAIT)
    at.flow.cancel(None, b"kid")
    assert told(at) == ChildOutcome("cancelled")
    assert [held.key for held in at.take(5)] == [b"run"]


def test_an_operator_who_cancels_a_wake_up_cancels_its_run(at: Scene) -> None:
    """So that no run sleeps for ever without one."""
    message = at.start()
    assert at.core.cancel(None, [message]) == [FP.DONE]
    assert at.state() == "cancelled"
