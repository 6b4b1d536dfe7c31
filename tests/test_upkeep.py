"""Runs as an operator has them: forked, deleted, purged, listed, brought back."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fencepost import Conflict, Gone, InvalidArgument, QueueFull
from fencepost._binding.calls import restore
from fencepost._binding.codes import FP
from fencepost._binding.flow import Start
from fencepost._binding.pack import pairs
from harness_core import (
    START,
    Held,
    ack,
    define,
    keyed,
    lib,
    put,
    said,
    settle,
    state_of,
    take,
)
from harness_core import core as opened
from harness_flow import ARGS, LEASE, Scene, begin, keys, scene, start, wake
from harness_line import counts, since, together

pytestmark = pytest.mark.hostile


# ---- fork, delete, purge -------------------------------------------------------------------------


def test_a_fork_has_the_records_from_before_its_step(at: Scene, parent: Held, jobs: int) -> None:
    """And kind and arguments; links to children stay with the first, which goes on."""
    at.record(parent, b"one")
    at.start_job(jobs, parent, b"kid")
    ack(at.core, *take(at.core, jobs))
    at.flow.deliver(None, b"run", b"mail")
    at.record(parent, b"two")
    at.record(parent, b"three")
    at.flow.fork(None, b"run", b"two", Start(at.queue, 0, b"fork"))
    before = [*at.flow.records(b"run")]
    assert [*at.flow.records(b"fork")] == before[:3]
    row = at.flow.get(b"fork")
    assert row is not None
    assert (row.kind, row.args, at.state(b"fork")) == (at.kind, ARGS, "running")
    assert at.record(parent, b"four") == FP.DONE
    (forked,) = at.take()
    entry = at.flow.deliver(None, b"fork", b"more")
    assert at.record(forked, b"two", b"anew") == FP.DONE
    assert keys(at.flow.records(b"fork")) == [*keys(before[:3]), entry, b"two"]

    at.flow.fork(None, b"run", None, Start(at.queue, 0, b"whole"))
    assert len([*at.flow.records(b"whole")]) == 6


def test_a_fork_needs_a_run_a_record_and_a_free_id(at: Scene, parent: Held) -> None:
    at.record(parent, b"one")
    at.flow.supply(None, b"taken", b"k", b"v")
    with pytest.raises(Gone):
        at.flow.fork(None, b"nobody", None, Start(at.queue, 0, b"fork"))
    with pytest.raises(Gone):
        at.flow.fork(None, b"run", b"two", Start(at.queue, 0, b"fork"))
    for id_ in (b"run", b"taken"):
        with pytest.raises(Conflict):
            at.flow.fork(None, b"run", b"one", Start(at.queue, 0, id_))
    assert at.flow.get(b"fork") is None


@pytest.mark.parametrize("verb", [0, FP.END_DONE, FP.END_FAIL, FP.END_WAIT])
def test_a_deleted_run_leaves_nothing_and_its_pass_is_fenced(
    at: Scene, parent: Held, verb: int
) -> None:
    """Whatever state it is in (what would fail was told something, and lives); its id is free."""
    at.record(parent, b"one")
    at.start(b"kid", parent=at.parent(parent))
    at.flow.deliver(None, b"run", b"mail")
    if verb:
        at.end(parent, verb)
    assert at.flow.delete(None, b"run") == 2
    assert at.flow.get(b"run") is None
    assert [*at.flow.records(b"run")] == []
    assert at.record(parent, b"late") == FP.LOST
    assert at.end(parent, FP.END_DONE) == FP.LOST
    assert at.state(b"kid") == ("running" if verb == FP.END_DONE else "cancelled")
    assert at.flow.delete(None, b"run") == 0
    assert start(at)[1]


def test_a_deleted_run_whose_dead_letter_was_replayed_is_not_handed_out(
    at: Scene, parent: Held
) -> None:
    at.end(parent, FP.END_FAIL, kind=b"error")
    assert at.core.replay(pairs([(parent.id, -1)]), 0, 0, apply=True) == [FP.DONE]
    assert at.flow.delete(None, b"run") == 0
    assert at.take() == []


def test_with_its_dead_letter_goes_the_run(at: Scene, parent: Held, jobs: int) -> None:
    """An operator who prunes dead letters prunes what failed; other messages' runs stay."""
    at.record(parent, b"one")
    at.end(parent, FP.END_FAIL, kind=b"error")
    job = keyed(at.core, jobs, b"run", life=lib.FP_LIFE_LIVE, kind=at.kind)
    assert settle(at.core, said(take(at.core, jobs)[0], lib.FP_FAIL)) == [FP.DONE]
    assert at.core.purge(jobs, lib.FP_STATE_DEAD, START + 1, 9, apply=True) == 1
    assert state_of(at.core, job) is None
    assert at.state() == "failed"
    assert at.core.purge(at.queue, lib.FP_STATE_DEAD, START + 1, 9, apply=True) == 1
    assert at.flow.get(b"run") is None
    assert [*at.flow.records(b"run")] == []
    assert at.record(parent, b"late") == FP.LOST
    assert at.flow.resume(None, b"run") == FP.GONE


def test_a_deletion_takes_a_wake_up_without_a_run_too(at: Scene) -> None:
    """As a workflow has it that was never started as a run."""
    at.flow.deliver(None, b"w", b"mail", queue=at.queue, live=False)
    token = at.flow.claim(b"w", LEASE, LEASE)
    assert at.flow.delete(None, b"w", at.queue) == 1
    assert at.take() == []
    assert not at.flow.renew(None, b"w", token, LEASE)
    assert at.flow.claim(b"w", LEASE, LEASE) > token


def test_a_purge_goes_in_slices_and_takes_what_ended_before(at: Scene) -> None:
    """Exclusively; what runs stays, and so does what ended in another state."""
    passes: list[Held] = []
    for number in range(4):
        at.start(b"%d" % number)
        (held,) = at.take()
        passes.append(held)
        at.core.hand(START + number)
        for step in range(5):
            at.record(held, b"%d" % step)
        at.end(held, FP.END_FAIL if number == 1 else FP.END_DONE, kind=b"error")
    before = START + 3
    assert at.flow.purge(FP.RUN_DONE, before, 100, apply=False) == (2, False)
    slices = 0
    while True:
        _, more = at.flow.purge(FP.RUN_DONE, before, 3, apply=True)
        slices += 1
        if not more:
            break
    assert slices > 2
    assert [row.id for row in at.flow.runs()[0]] == [b"1", b"3"]
    assert [*at.flow.records(b"0")] == []
    assert at.record(passes[0], b"late") == FP.LOST
    assert at.flow.purge(FP.RUN_FAILED, before, 100, apply=True) == (1, False)
    assert at.counts() == (0, 0, 0, 0)
    for state in (FP.RUN_RUNNING, FP.RUN_WAITING, 7):
        with pytest.raises(InvalidArgument):
            at.flow.purge(state, before, 100, apply=True)


# ---- listing -------------------------------------------------------------------------------------


def many(at: Scene) -> None:
    """Thirty runs in four states, two kinds; several end in one moment."""
    other = at.core.kind(None, b"other")
    for number in range(30):
        at.start(b"run-%02d" % number, kind=at.kind if number % 2 else other)
    for number, held in enumerate(at.take(20)):
        at.core.hand(START + number // 5)
        verbs = (FP.END_DONE, FP.END_FAIL, FP.END_WAIT, FP.END_DONE)
        at.end(held, verbs[number % 4])


def listed(at: Scene, limit: int, **said: Any) -> list[bytes]:
    """All pages of a listing."""
    found: list[bytes] = []
    after = None
    while True:
        page, after = at.flow.runs(limit=limit, after=after, **said)
        assert len(page) <= limit
        found += [row.id for row in page]
        if after is None:
            return found


def test_runs_are_listed_newest_first_state_by_state_without_gaps(at: Scene) -> None:
    many(at)
    whole = listed(at, 1000)
    assert len(whole) == len(set(whole)) == 30
    for limit in (1, 2, 7):
        assert listed(at, limit) == whole
    for number, state in enumerate(FP.RUN_STATES):
        page = at.flow.runs(number, limit=1000)[0]
        assert {FP.RUN_STATES[row.state] for row in page} <= {state}
        keyed_by = [(row.ended_us, row.message) for row in page]
        assert keyed_by == sorted(keyed_by, reverse=True)
        assert listed(at, 2, state=number) == [row.id for row in page]


def test_runs_are_found_by_kind_and_by_a_part_of_their_id(at: Scene) -> None:
    many(at)
    assert len(listed(at, 4, kind=at.kind)) == 15
    assert sorted(listed(at, 2, text=b"-1")) == [b"run-1%d" % number for number in range(10)]
    assert listed(at, 2, text=b"run-07", kind=at.kind) == [b"run-07"]
    assert listed(at, 2, text=b"nothing") == []


def test_a_listing_shows_no_arguments_and_no_results(at: Scene, parent: Held) -> None:
    at.end(parent, FP.END_DONE, result=b"secret")
    (row,), _ = at.flow.runs()
    assert (row.args, row.result) == (None, None)


# ---- the file ------------------------------------------------------------------------------------


def test_in_a_restored_file_no_pass_of_before_opens_anything(path: Path, tmp_path: Path) -> None:
    """The counter is raised, and with it each pass: a run, too, is taken anew."""
    with opened(path) as core:
        at, held = begin(core)
        token = at.flow.claim(b"plain", 10 * LEASE, 10 * LEASE)
        core.backup(str(tmp_path / "copy.db").encode(), over=False)
    restore(str(tmp_path / "copy.db").encode(), str(tmp_path / "back.db").encode())
    with opened(tmp_path / "back.db") as core:
        at = Scene(core, type(at.flow)(core), at.queue, at.kind)
        assert at.record(held, b"late") == FP.LOST
        assert at.end(held, FP.END_DONE) == FP.LOST
        assert not at.flow.renew(None, b"plain", token, LEASE)
        assert at.flow.claim(b"plain", LEASE, LEASE) > token + 2**40 - 1
        core.hand(START + LEASE)
        (again,) = at.take()
        assert again.token > held.token + 2**40 - 1
        assert at.record(again, b"step") == FP.DONE
        assert core.check(full=True).rows == 0


def test_records_of_concurrent_passes_share_commits(path: Path) -> None:
    """Who comes while a commit is under way is in the next one."""
    with opened(path) as core:
        at = scene(core)
        for number in range(8):
            at.start(b"%d" % number)
        passes = at.take(8)
        before = counts(core)
        answers = together(core, *[partial(at.record, held, b"step") for held in passes])
        assert answers == [FP.DONE] * 8
        assert (since(core, before).members, since(core, before).commits) == (8, 1)


def test_a_full_queue_takes_no_further_run_and_says_so_before_anything_is_written(
    at: Scene,
) -> None:
    at.core.queue_define(None, b"workflow", lib.FP_PROFILE_WAKEUP, {"max_size": 1})
    at.start()
    with pytest.raises(QueueFull):
        at.start(b"two")
    assert at.flow.get(b"two") is None
    assert wake(at)
    put(at.core, define(at.core, "jobs"), b"a")
