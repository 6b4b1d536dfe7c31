"""Whose turn it is: first come, first served, the keeper in front; and what waiting leads to."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from commands import until
from fencepost._binding.calls import Core
from fencepost.errors import Busy, Closed
from harness_core import START, define, lib, put, stats, take
from harness_core import core as opening
from harness_line import aside, stand_in_line
from harness_outside import Outside

SECOND = 1_000_000
HOUR = 3600 * SECOND
REAL = -1
SLICE_S = 0.5  # how long a call waits in the core at once


def refused(core: Core, queue: int) -> None:
    with pytest.raises(Busy):
        put(core, queue)


# ---- the order -----------------------------------------------------------------------------------


@pytest.mark.hostile
def test_who_has_had_the_turn_lines_up_behind_those_who_wait(path: Path) -> None:
    """However quickly it comes back: nobody is starved by a thread that writes without a pause."""
    with opening(path) as core:
        queue = define(core, "q")
        begun = core.begin(30)
        with aside(lambda: put(core, queue, b"waited")):
            stand_in_line(core, 1)
            begun.end(commit=False)
            begun = core.begin(30)
            assert core.size(begun, queue) == 1
            begun.end(commit=False)


@pytest.mark.hostile
def test_turns_come_in_the_order_they_were_asked_for(path: Path) -> None:
    with opening(path) as core:
        queue = define(core, "q")
        begun = core.begin(30)
        threads = []
        for number in range(5):
            body = b"%d" % number
            threads.append(threading.Thread(target=put, args=(core, queue, body)))
            threads[-1].start()
            stand_in_line(core, number + 1)
        begun.end(commit=False)
        for thread in threads:
            thread.join()
        assert [claim.body for claim in take(core, queue, 5)] == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.hostile
def test_the_keepers_beat_goes_first(path: Path) -> None:
    """A claim that came before it does not take over the lease that it is about to renew."""
    with opening(path) as core:
        queue = define(core, "q")
        put(core, queue, b"a")
        (held,) = take(core, queue, lease_us=SECOND)
        core.hand(START + SECOND)
        found: list[object] = []
        begun = core.begin(30)
        with aside(lambda: found.extend(take(core, queue))):
            stand_in_line(core, 1)
            keeper = core.keeper(1000)
            keeper.hold([held.id, held.token, SECOND, 0])
            stand_in_line(core, 2)
            begun.end(commit=False)
        assert found == []
        assert not keeper.lost(held.id, held.token)
        keeper.stop()


@pytest.mark.hostile
def test_who_gave_up_holds_nobody_up(path: Path) -> None:
    """A call that leaves the line in vain leaves no gap in it."""
    with opening(path) as core:
        queue = define(core, "q")
        begun, core.patience = core.begin(30), 0
        with aside(lambda: refused(core, queue)):
            stand_in_line(core, 1)
        assert lib.fp_waiting(core._store) == 0
        begun.end(commit=False)
        put(core, queue)
        assert stats(core, queue).pending == 1


# ---- waiting for what is due ---------------------------------------------------------------------


@pytest.mark.parametrize("shut", ["held", "in a grace"])
def test_who_may_not_have_what_is_due_takes_no_turn(
    path: Path, outside: Outside, shut: str
) -> None:
    """He looks, and waits; a claim would need the write lock, which another has all the time."""
    with opening(path, hand_us=REAL) as core, opening(path, hand_us=REAL) as other:
        queue = define(core, "q")
        put(core, queue, b"a")
        later = core.now() + HOUR
        if shut == "held":
            define(core, "q", held_until_us=later)
        else:
            take(core, queue, lease_us=1)
            outside.change(path, f"UPDATE fencepost_meta SET grace_until = {later}")
        begun, core.patience = other.begin(30), 0
        assert take(core, queue, until_us=later) == []
        begun.end(commit=False)


# ---- the end -------------------------------------------------------------------------------------


@pytest.mark.hostile
def test_closing_ends_a_wait_at_once(path: Path) -> None:
    """Who waits learns it, and does not go on looking as fast as it can until its slice is over."""
    with opening(path) as core:
        queue = define(core, "q")
        told: list[bool] = []
        before = lib.fp_steps()

        def wait() -> None:
            with pytest.raises(Closed):
                take(core, queue, until_us=START + HOUR)
            told.append(True)

        with aside(wait):
            until(lambda: lib.fp_steps() > before + 20)
            begun = lib.fp_steps()
            core.close()
        assert told == [True]
        assert lib.fp_steps() - begun < 50


# ---- a wait that was starved ---------------------------------------------------------------------


def grace(outside: Outside, path: Path) -> int:
    ((moment,),) = outside.rows(path, "SELECT grace_until FROM fencepost_meta")
    return int(moment)


def with_a_short_lease(core: Core) -> int:
    """Of which a third is less than the least wait that counts; a grace is an hour long."""
    queue = define(core, "q")
    put(core, queue, b"a", b"b")
    take(core, queue, lease_us=1)
    take(core, queue, lease_us=HOUR)
    return queue


@pytest.mark.hostile
def test_a_wait_for_another_process_counts_too(path: Path, outside: Outside) -> None:
    """Also where the lock came before the slice was over: holders could not renew meanwhile."""
    with opening(path, hand_us=REAL) as core, opening(path, hand_us=REAL) as other:
        queue = with_a_short_lease(core)
        begun = other.begin(30)
        steps = lib.fp_steps()
        with aside(lambda: put(core, queue, b"c")):
            until(lambda: lib.fp_steps() > steps)
            time.sleep(0.3)  # the wait itself is what is tested: there is no fact to look for
            begun.end(commit=False)
        assert grace(outside, path) > core.now()


def test_a_wait_that_was_given_up_is_over(path: Path, outside: Outside) -> None:
    """Whoever comes back later did not wait all the time in between."""
    with opening(path, hand_us=REAL) as core:
        queue = with_a_short_lease(core)
        begun, core.patience = core.begin(30), 0
        with aside(lambda: refused(core, queue)):
            pass
        begun.end(commit=False)
        time.sleep(1.1 * SLICE_S)  # nothing happens, and that is what is tested
        put(core, queue, b"c")
        assert grace(outside, path) == 0
