"""
Long histories go in slices, each a commit. Between two of them, and after a kill, nobody goes on
with what is left: a step whose record has gone would run again.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost import Gone
from fencepost._binding.calls import Core
from fencepost._binding.codes import FP
from fencepost._binding.flow import Start
from harness_core import lib, opened
from harness_flow import Scene, keys, scene
from harness_ladder import findings
from harness_outside import Outside

pytestmark = pytest.mark.hostile

STEPS = 7
ALL = 2**53 - 1  # before which moment


def begun(at: Scene, verb: int, id: bytes = b"run") -> int:
    """A run of some steps that has ended: the id of its wake-up."""
    message = at.start(id)
    (held,) = at.take()
    for number in range(STEPS):
        at.record(held, b"step %d" % number)
    at.end(held, verb, kind=b"error" if verb != FP.END_DONE else None)
    return message


def left(at: Scene) -> list[bytes]:
    return keys(at.flow.records(b"run"))


def resumes(at: Scene, message: int) -> None:
    assert at.flow.resume(None, b"run") == FP.GONE


def replays(at: Scene, message: int) -> None:
    at.core.replay(array("q", [message, -1]), 0, 0, apply=True)


def forks(at: Scene, message: int) -> None:
    with pytest.raises(Gone):
        at.flow.fork(None, b"run", b"step 5", Start(at.queue, 0, b"other"))


Deed = Callable[[Scene, int], None]


@pytest.mark.parametrize("deed", [resumes, replays, forks], ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("verb", [FP.END_FAIL, FP.END_PARK, FP.END_DONE])
def test_nobody_goes_on_with_a_half_forgotten_run(
    path: Path, core: Core, at: Scene, deed: Deed, verb: int
) -> None:
    """Whoever forgets it dies behind a slice; the next one who does comes to the end."""
    message = begun(at, verb)
    state = {FP.END_FAIL: FP.RUN_FAILED, FP.END_PARK: FP.RUN_PARKED}.get(verb, FP.RUN_DONE)
    assert at.flow.purge(state, ALL, 3, apply=True) == (0, True)
    assert left(at) == [b"step 3", b"step 4", b"step 5", b"step 6"]
    if deed is not resumes or verb != FP.END_DONE:
        deed(at, message)
    assert at.take() == []
    assert findings(core) == ""
    after = opened(path)
    try:
        again = scene(after)
        while again.flow.purge(state, ALL, 3, apply=True)[1]:
            pass
        assert left(again) == []
        assert again.state() is None
        assert again.start() > 0
    finally:
        after.close()


def test_a_replay_that_nobody_has_taken_goes_with_the_first_slice(core: Core, at: Scene) -> None:
    message = begun(at, FP.END_FAIL)
    replays(at, message)
    at.flow.purge(FP.RUN_FAILED, ALL, 3, apply=True)
    assert at.take() == []
    assert findings(core) == ""


def test_a_dead_letter_that_goes_leaves_no_long_commit(core: Core, at: Scene) -> None:
    """What is left of a long history goes later, as that of a run that was cancelled."""
    message = begun(at, FP.END_FAIL)
    begun(at, FP.END_FAIL, b"second")
    assert core.purge(0, lib.FP_STATE_DEAD, ALL, 10, apply=True) == 2
    assert len(left(at)) == STEPS - 3  # as many as go at once, in the build for tests
    assert [at.state(), at.state(b"second")] == ["cancelled"] * 2
    assert at.flow.resume(None, b"run") == FP.ALREADY
    replays(at, message)
    forks(at, message)
    assert at.take() == []
    assert findings(core) == ""
    while at.flow.purge(FP.RUN_CANCELLED, ALL, 3, apply=True)[1]:
        pass
    assert (left(at), at.state(), at.state(b"second")) == ([], None, None)


@pytest.mark.parametrize("verb", [FP.END_FAIL, FP.END_DONE])
def test_a_run_that_is_deleted_goes_at_once(
    path: Path, core: Core, at: Scene, outside: Outside, verb: int
) -> None:
    """Together or not at all, however long it is; also if a purge had begun."""
    begun(at, verb)
    assert at.flow.delete(None, b"run") == STEPS
    assert outside.rows(path, "SELECT count(*) FROM fencepost_record") == [[0]]
    begun(at, verb)
    at.flow.purge(FP.RUN_FAILED if verb == FP.END_FAIL else FP.RUN_DONE, ALL, 3, apply=True)
    at.flow.delete(None, b"run")
    for table in ("record", "run", "claim", "message", "outcome", "due", "key"):
        assert outside.rows(path, f"SELECT count(*) FROM fencepost_{table}") == [[0]], table
    assert findings(core) == ""
