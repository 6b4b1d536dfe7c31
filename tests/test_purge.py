"""An operator's purge: one state, of one queue or of all, before a moment; counted first."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fencepost._core_test")

from fencepost._binding.calls import Core
from harness_bell import until
from harness_core import (
    START,
    ack,
    define,
    lib,
    message,
    put,
    stats,
    take,
)
from harness_core import core as opened
from harness_ended import BULK, FOREVER, again, end
from harness_line import aside
from harness_processes import finish, heard, start

pytestmark = pytest.mark.hostile


@pytest.fixture
def core(path: Path) -> Iterator[Core]:
    with opened(path) as core:
        yield core


def purge(
    core: Core, state: int, *, queue: int = 0, before: int = FOREVER, limit: int = 100
) -> int:
    """Slice by slice, until nothing is left; what would go is counted first."""
    purged = 0
    while True:
        counted = core.purge(queue, state, before, limit, apply=False)
        assert core.purge(queue, state, before, limit, apply=True) == counted
        if counted == 0:
            return purged
        purged += counted


@pytest.mark.parametrize(
    ("verb", "state"),
    [
        (lib.FP_ACK, lib.FP_DONE_UNLISTED),
        (lib.FP_FAIL, lib.FP_STATE_DEAD),
        (lib.FP_CANCEL, lib.FP_CANCELLED),
    ],
)
def test_a_purge_removes_one_state_and_frees_its_keys(core: Core, verb: int, state: int) -> None:
    queue = define(core, "q")
    ids = {v: end(core, queue, b"%d" % v, verb=v) for v in (lib.FP_ACK, lib.FP_FAIL, lib.FP_CANCEL)}
    assert purge(core, state) == 1
    for kept, (id_,) in ids.items():
        assert (message(core, id_) is None) == (kept == verb)
        assert again(core, queue, b"%d" % kept)[1] == (kept == verb)
    assert core.check(full=True).blob == b""


def test_a_purge_of_the_done_takes_the_unlisted_too(core: Core) -> None:
    """Slice by slice along the table, past all that stays."""
    listed = define(core, "listed")
    bulk = define(core, "bulk", **BULK)
    for i in range(10):
        end(core, listed, b"%d" % i, verb=lib.FP_ACK if i % 2 else lib.FP_FAIL)
        end(core, bulk, b"%d" % i)
    assert purge(core, lib.FP_DONE_UNLISTED, limit=3) == 15
    assert (stats(core, listed).done, stats(core, bulk).done, stats(core, listed).dead) == (0, 0, 5)


def test_a_purge_of_one_queue_leaves_the_others(core: Core) -> None:
    one, two = define(core, "one", **BULK), define(core, "two", **BULK)
    for queue in (one, two):
        end(core, queue, b"a", b"b")
    assert purge(core, lib.FP_DONE_UNLISTED, queue=one, limit=1) == 2
    assert (stats(core, one).done, stats(core, two).done) == (0, 2)


@pytest.mark.parametrize("profile", [lib.FP_PROFILE_JOB, lib.FP_PROFILE_QUEUE])
def test_a_purge_takes_what_ended_before_its_moment(core: Core, profile: int) -> None:
    """Before it, not at it."""
    queue = define(core, "q", profile)
    (before,) = end(core, queue, b"a")
    core.hand(START + 1)
    (at,) = end(core, queue, b"b")
    assert purge(core, lib.FP_DONE_UNLISTED, before=START + 1) == 1
    assert message(core, before) is None
    assert message(core, at) is not None


def test_a_purge_goes_on_when_more_has_ended_behind_it(core: Core) -> None:
    """The walk begins anew at its end: what settled late, under an early number, is not missed."""
    queue = define(core, "q", **BULK)
    early = put(core, queue, b"1", b"2", keys=[b"a", b"b"], life=1)
    claims = take(core, queue, 2)
    end(core, queue, b"c", b"d", b"e")
    assert core.purge(0, lib.FP_DONE_UNLISTED, FOREVER, 2, apply=True) == 2
    assert ack(core, *claims) == [lib.FP_DONE] * 2
    assert purge(core, lib.FP_DONE_UNLISTED, limit=2) == 3
    assert [message(core, one) for one in early] == [None, None]


def test_what_was_replayed_meanwhile_is_not_purged(core: Core) -> None:
    """A purge and a replay of the same dead letter: exactly one of them has it."""
    queue = define(core, "q")
    (dead,) = end(core, queue, b"a", verb=lib.FP_FAIL)
    found = message(core, dead)
    assert found is not None
    assert core.replay(array("q", [dead, found.generation]), 0, 0, apply=True) == [lib.FP_DONE]
    assert purge(core, lib.FP_STATE_DEAD) == 0
    assert message(core, dead) is not None


CHANGE = """
import sqlite3
connection = sqlite3.connect(path, isolation_level=None)
connection.executescript("BEGIN IMMEDIATE; " + sys.argv[2])
say("ready")
sys.stdin.readline()
connection.execute("COMMIT")
"""


ENDED_ANEW = {
    "cancelled": "UPDATE fencepost_outcome SET state = 7;"
    "UPDATE fencepost_tally SET dead = 0, cancelled = 1 WHERE queue > 0",
    "dead again": f"UPDATE fencepost_outcome SET settled_at = {START + 5}",
}


@pytest.mark.parametrize("how", ENDED_ANEW)
def test_what_ended_anew_between_the_look_and_the_purge_stays(
    core: Core, path: Path, how: str
) -> None:
    """It is read once more when the turn has come."""
    (dead,) = end(core, define(core, "q"), b"a", verb=lib.FP_FAIL)
    said = 0, lib.FP_STATE_DEAD, START + 5, 100
    steps = lib.fp_steps()
    assert core.purge(*said, apply=False) == 1
    look = lib.fp_steps() - steps
    other = start(CHANGE, path, ENDED_ANEW[how])
    assert heard(other) == "ready"
    purged: list[int] = []
    steps = lib.fp_steps()
    with aside(lambda: purged.append(core.purge(*said, apply=True))):
        until(lambda: lib.fp_steps() > steps + look)  # it has looked, and asks for the write lock
        assert other.stdin is not None
        other.stdin.write("go\n")
        other.stdin.flush()
    finish(other)
    assert purged == [0]
    assert message(core, dead) is not None
