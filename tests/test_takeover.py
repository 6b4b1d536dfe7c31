"""
How what a dead worker held is taken over: in slices, by one at a time, whoever dies meanwhile.

The leases here are an hour, as in test_death.py.
"""

from __future__ import annotations

import signal
from array import array
from collections.abc import Iterable
from pathlib import Path

import pytest

pytest.importorskip("fencepost._core_test")

from fencepost._binding.calls import Core
from harness_core import (
    REAL_CLOCK,
    SECOND,
    START,
    Verdict,
    define,
    die,
    lib,
    look_after,
    message,
    put,
    said,
    settle,
    stats,
    take,
)
from harness_core import core as opened
from harness_death import HOUR, Holder, claimed, due, kill, look_after_all
from harness_ladder import findings
from harness_outside import Outside
from harness_processes import heard, start

pytestmark = [pytest.mark.hostile, pytest.mark.usefixtures("no_process_left")]


@pytest.fixture
def hand_us() -> int:
    return REAL_CLOCK


def test_many_orphans_are_taken_over_in_slices_while_others_claim(
    core: Core, queue: int, path: Path, outside: Outside
) -> None:
    """A slice is a commit; between two of them a living process claims and acks as ever."""
    put(core, queue, *[b"orphan"] * 50)
    holder = Holder(path, 50)
    live = define(core, "live")
    working = start(WORKING, path)
    assert heard(working) == "began"
    holder.kill()
    found = claimed(core, queue, 50, lease_us=HOUR)
    assert {claim.attempt for claim in found} == {2}
    assert len({claim.id for claim in found}) == 50
    done, *_ = working.communicate("x", timeout=60)
    assert int(done) > 0
    assert stats(core, live).leased == 0


WORKING = """
import threading
over, done = threading.Event(), 0
threading.Thread(target=lambda: (sys.stdin.read(1), over.set()), daemon=True).start()
with opened(path, hand_us=-1) as core:
    queue = define(core, "live")
    say("began")
    while not over.is_set() or done == 0:
        put(core, queue, b"x")
        assert ack(core, *take(core, queue)) == [lib.FP_DONE]
        done += 1
    say(done)
"""


def moved(core: Core, ids: Iterable[int]) -> set[int]:
    """Those that are due."""
    now = core.now()
    return {id_ for id_ in ids if due(core, id_) <= now}


def test_who_begins_to_take_over_and_looks_no_more_keeps_nobody_from_it(
    core: Core, queue: int, path: Path
) -> None:
    """It lives, and has only no call to claim again; what it has moved is not moved once more."""
    put(core, queue, *[b"orphan"] * 5)
    Holder(path, 5).kill()
    heir = start(HEIR, path)
    assert heard(heir) is True
    before = {id_: due(core, id_) for id_ in moved(core, range(1, 6))}
    assert len(before) == 2
    look_after_all(core)
    assert len(moved(core, range(1, 6))) == 5
    assert {id_: due(core, id_) for id_ in before} == before
    assert len(claimed(core, queue, 5)) == 5
    kill(heir)


HEIR = """
with opened(path, hand_us=-1) as core:
    say(look_after(core))
    sys.stdin.read()
"""


def test_who_dies_while_it_takes_over_is_followed_by_the_next(
    core: Core, queue: int, path: Path
) -> None:
    """At any step of a slice: it was done, or it was not."""
    put(core, queue, *[b"orphan"] * 5)
    Holder(path, 5).kill()
    for step in (3, 8, 13):
        heir = start(KILLED, path, step)
        assert heir.wait(60) == -signal.SIGKILL
        assert len(moved(core, range(1, 6))) % 2 == 0
    look_after_all(core)
    assert len(claimed(core, queue, 5)) == 5


KILLED = """
with opened(path, hand_us=-1) as core:
    lib.fp_fault_kill(int(sys.argv[2]))
    while look_after(core):
        pass
"""


def test_several_dead_workers_are_served_in_turn(core: Core, queue: int, path: Path) -> None:
    """So that what one held does not wait for all that another one held."""
    put(core, queue, *[b"orphan"] * 20)
    many, few = Holder(path, 19), Holder(path, 1)
    many.kill()
    few.kill()
    ((id_, _, _),) = few.claims
    while not moved(core, [id_]):
        assert look_after(core)
    assert 1 < len(moved(core, range(1, 21))) < 20
    assert len(claimed(core, queue, 20)) == 20


def test_two_that_notice_at_once_do_no_harm(
    core: Core, queue: int, path: Path, outside: Outside
) -> None:
    put(core, queue, *[b"orphan"] * 40)
    Holder(path, 40).kill()
    heirs = [start(HEIRS, path) for _ in range(2)]
    look_after_all(core)
    for heir in heirs:
        heir.communicate(timeout=60)
        assert heir.returncode == 0
    look_after_all(core)
    assert sorted(claim.id for claim in claimed(core, queue, 40)) == list(range(1, 41))
    assert outside.rows(path, "SELECT count(*) FROM fencepost_worker") == [[1]]


HEIRS = """
with opened(path, hand_us=-1) as core:
    while look_after(core):
        pass
"""


def test_only_what_the_dead_one_held_is_moved(core: Core, path: Path) -> None:
    """On every level; not what others hold, what is delayed, or what waits in a lane."""
    first, second = define(core, "q"), define(core, "bulk", lib.FP_PROFILE_QUEUE)
    priorities = array("b", [3, 0, -3])
    theirs = put(core, first, b"1", b"2", b"3", priorities=priorities)
    holder = Holder(path, 3)
    assert sorted(claim[0] for claim in holder.claims) == theirs
    put(core, first, b"delayed", delay_us=HOUR // 2)
    put(core, first, b"head", b"waits", lanes=[b"x", b"x"])
    put(core, second, b"bulk", b"bulk", priorities=array("b", [0, 1]))
    mine = take(core, [first, second], 10, lease_us=HOUR)
    assert len(mine) == 3
    holder.kill()
    look_after_all(core)
    assert sorted(claim.id for claim in claimed(core, first, 3)) == theirs
    assert stats(core, first).pending == 1
    assert stats(core, first).waiting == 1
    assert settle(core, *(said(claim, lib.FP_ACK) for claim in mine)) == [lib.FP_DONE] * 3


def test_a_send_that_had_begun_is_unknown_at_once(core: Core, path: Path) -> None:
    """A moved row is a lapsed lease in this, too: what may have been sent is doubted."""
    queue = define(core, "outbox", lib.FP_PROFILE_OUTBOX)
    begun, fresh = put(core, queue, b"begun", b"fresh")
    with opened(path, hand_us=REAL_CLOCK) as other:
        held = take(other, queue, 2, lease_us=HOUR)
        said_so = Verdict(begun, held[0].token, lib.FP_BEGIN, HOUR)
        assert settle(other, said_so) == [lib.FP_DONE]
        die(other)
        look_after_all(core)
        assert [claim.id for claim in take(core, queue, 2)] == [fresh]
    found = message(core, begun)
    assert found is not None
    assert found.state == lib.FP_STATE_UNKNOWN


# ---- what goes wrong -----------------------------------------------------------------------------


def test_taking_over_rings_for_who_waits(core: Core, queue: int, path: Path) -> None:
    """Like a commit of a new message in that queue, and in no other."""
    put(core, queue, b"orphan")
    Holder(path).kill()
    assert look_after(core)
    rung = lib.fp_fault_rung()
    assert rung & 1 << queue % 31
    assert not rung & 1 << (queue + 1) % 31


def test_a_look_that_fails_fails_no_claim(core: Core, queue: int, path: Path) -> None:
    """The next one goes on where it was."""
    put(core, queue, b"orphan", b"mine")
    holder = Holder(path)
    holder.kill()
    lib.fp_fault_step(0, 1)
    try:
        assert [claim.body for claim in take(core, queue)] == [b"mine"]
        assert lib.fp_fault_hits() == 1
    finally:
        lib.fp_fault_step(-1, 0)
    assert claimed(core, queue)[0].body == b"orphan"


def test_a_registration_that_was_rolled_back_leaves_no_byte_held(
    core: Core, queue: int, path: Path
) -> None:
    """Or the worker that gets the number next would live for ever."""
    put(core, queue, b"a")
    clumsy = start(CLUMSY, path)
    id_, failures = heard(clumsy)
    assert failures > 0
    assert due(core, id_) > core.now() + HOUR // 2
    assert claimed(core, queue)[0].id == id_
    kill(clumsy)


# The first step of a claim that does not look is its own.
CLUMSY = """
from fencepost.errors import StorageError
with opened(path, hand_us=-1) as core:
    queue, failures, held = define(core, "q"), 0, []
    assert take(core, define(core, "empty")) == []
    while not held:
        lib.fp_fault_step(failures, 1)
        try:
            held = take(core, queue, lease_us=3600 * 1_000_000)
        except StorageError:
            failures += 1
    lib.fp_fault_step(-1, 0)
    die(core)
    say([held[0].id, failures])
    sys.stdin.read()
"""


@pytest.mark.parametrize("concurrency", [0, 3])
def test_a_grace_is_not_for_the_dead(path: Path, outside: Outside, concurrency: int) -> None:
    """
    After a suspend, leases that ran out are left alone, because who holds them may still renew;
    what a dead worker held is handed out at once, also where its lease had run out before.
    """
    with opened(path) as core, opened(path) as other, opened(path) as third:
        queue = define(core, "q", concurrency=concurrency)  # 3: no place is free
        put(core, queue, b"dead's, lapsed", b"dead's", b"alive's")
        take(other, queue, lease_us=SECOND)
        take(other, queue, lease_us=HOUR)
        take(third, queue, lease_us=SECOND)
        die(other)
        for one in (core, third):
            one.hand(START + 2 * SECOND)
        outside.change(path, f"UPDATE fencepost_meta SET grace_until = {START + HOUR}")
        look_after_all(core)
        bodies = {claim.body for _ in range(3) for claim in take(core, queue)}
        assert bodies == {b"dead's, lapsed", b"dead's"}
        assert take(core, queue, until_us=START + 2 * SECOND) == []
        assert findings(core) == ""
