"""
Store time: one clock for the file, which never falls, whatever the wall clock, a suspend, a reboot
or another process does to it.

What a machine does to its clocks is done here to what the file remembers of them.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from fencepost._binding.calls import Core
from harness_core import START, Held, Verdict, ack, define, lib, message, put, settle, take
from harness_core import core as opened
from harness_outside import Outside

SECOND = 1_000_000
HOUR = 3600 * SECOND
REAL = -1
NEAR = 5 * SECOND  # how far two readings of a clock in one test may lie apart on a slow machine


def wall_us() -> int:
    return time.time_ns() // 1000


def meta(outside: Outside, path: Path, column: str) -> int:
    ((value,),) = outside.rows(path, f"SELECT {column} FROM fencepost_meta")
    return int(value)


def set_meta(outside: Outside, path: Path, assignment: str) -> None:
    outside.change(path, f"UPDATE fencepost_meta SET {assignment}")


def forward_step(outside: Outside, path: Path, by_us: int) -> None:
    """The wall clock jumped ahead since the file's offset was taken."""
    set_meta(outside, path, f"clock_offset = clock_offset - {by_us}")


def step_back(outside: Outside, path: Path, by_us: int) -> None:
    """The wall clock was set back since then."""
    set_meta(outside, path, f"clock_offset = clock_offset + {by_us}")


def suspend(outside: Outside, path: Path, for_us: int) -> None:
    set_meta(outside, path, f"asleep = asleep - {for_us}")


def reboot(outside: Outside, path: Path) -> None:
    """Another boot: its clock counts from zero again, and the offset means nothing any more."""
    set_meta(outside, path, "boot_id = 'another boot', clock_offset = clock_offset / 2, asleep = 7")


# ---- by hand -------------------------------------------------------------------------------------


def test_the_lease_ends_at_its_end(path: Path) -> None:
    """Of a claim and of a renewal: one microsecond before it is held, at the end it is free."""
    with opened(path) as core:
        queue = define(core, "q")
        put(core, queue, b"a")
        (held,) = take(core, queue, lease_us=5)
        core.hand(START + 4)
        assert take(core, queue) == []
        settle(core, Verdict(held.id, held.token, lib.FP_RENEW, 5))
        core.hand(START + 8)
        assert take(core, queue) == []
        core.hand(START + 9)
        assert [claim.id for claim in take(core, queue)] == [held.id]


def test_due_comes_at_its_moment(path: Path) -> None:
    with opened(path) as core:
        queue = define(core, "q")
        put(core, queue, b"by delay", delay_us=5)
        put(core, queue, b"by moment", delay_us=START + 7, absolute=True)
        for moment, body in ((4, None), (5, b"by delay"), (6, None), (7, b"by moment")):
            core.hand(START + moment)
            assert [claim.body for claim in take(core, queue, 5)] == ([body] if body else [])


def test_the_hand_cannot_be_turned_back(path: Path) -> None:
    """Whoever reopens the file with an earlier moment goes on from the last one given."""
    with opened(path) as core:
        queue = define(core, "q")
        core.hand(START + HOUR)
        put(core, queue, b"a")
    with opened(path, hand_us=START) as core:
        assert core.now() == START + HOUR
        assert take(core, queue)[0].lease_end > START + HOUR
        core.hand(START)
        assert core.now() == START + HOUR


@pytest.mark.parametrize("verb", [lib.FP_ACK, lib.FP_RETRY, lib.FP_RENEW, lib.FP_RELEASE])
def test_the_file_is_at_most_a_second_behind(path: Path, verb: int) -> None:
    """Whatever is written: time that a settlement or a renewal was given is not given again."""
    with opened(path) as core:
        queue = define(core, "q", max_age_us=0)
        put(core, queue, b"a")
        (held,) = take(core, queue, lease_us=HOUR)
        core.hand(START + 10 * SECOND)
        settle(core, Verdict(held.id, held.token, verb, HOUR))
    with opened(path, hand_us=START) as core:
        assert core.now() >= START + 9 * SECOND


def test_two_handles_share_one_time(path: Path) -> None:
    """What one was given the other goes on from."""
    with opened(path) as core, opened(path, hand_us=START - HOUR) as other:
        queue = define(core, "q")
        core.hand(START + HOUR)
        put(core, queue, b"a")
        assert other.now() == START + HOUR
        assert take(other, queue, lease_us=5)[0].lease_end == START + HOUR + 5


# ---- the real clock ------------------------------------------------------------------------------


def test_time_is_the_wall_clocks_where_nothing_happened(path: Path) -> None:
    with opened(path, hand_us=REAL) as core:
        assert abs(core.now() - wall_us()) < NEAR


def test_a_wall_clock_set_back_frees_and_freezes_nothing(path: Path, outside: Outside) -> None:
    """The file's own time goes on as if nothing had happened; leases end when they end."""
    with opened(path, hand_us=REAL) as core:
        queue = define(core, "q")
        put(core, queue, b"a", b"b")
        take(core, queue, lease_us=HOUR)
        take(core, queue, lease_us=1)
        step_back(outside, path, 6 * HOUR)
        assert abs(core.now() - wall_us() - 6 * HOUR) < NEAR
    with opened(path, hand_us=REAL) as core:
        assert abs(core.now() - wall_us() - 6 * HOUR) < NEAR
        assert meta(outside, path, "grace_until") == 0
        assert [claim.body for claim in take(core, queue, 5)] == [b"b"]


def test_moments_off_a_wall_clock_that_was_set_back_are_converted(
    path: Path, outside: Outside
) -> None:
    """`due` in ten seconds is ten seconds from now, also where store time is hours ahead."""
    with opened(path, hand_us=REAL) as core:
        queue = define(core, "q")
        step_back(outside, path, 6 * HOUR)
        (one,) = put(core, queue, b"a", delay_us=wall_us() + 600 * SECOND, absolute=True)
        found = message(core, one)
        assert found is not None
        assert abs(found.due - core.now() - 600 * SECOND) < NEAR
        assert take(core, queue) == []


def test_equal_moments_of_a_batch_stay_in_order(path: Path, outside: Outside) -> None:
    """All of a batch are converted alike, so that what is due at once comes as it was put."""
    with opened(path, hand_us=REAL) as core:
        queue = define(core, "q")
        step_back(outside, path, 6 * HOUR)
        bodies = [b"%d" % number for number in range(500)]
        put(core, queue, *bodies, delay_us=wall_us() - SECOND, absolute=True)
        assert [claim.body for claim in take(core, queue, 500)] == bodies


def test_after_a_reboot_time_goes_on(path: Path, outside: Outside) -> None:
    """With the wall clock, if that is ahead of the last time given."""
    with opened(path, hand_us=REAL) as core:
        queue = define(core, "q")
        put(core, queue, b"a")
        before = core.now()
    reboot(outside, path)
    with opened(path, hand_us=REAL) as core:
        assert core.now() >= before
        assert abs(core.now() - wall_us()) < NEAR
        take(core, queue)
        assert meta(outside, path, "boot_id = 'another boot'") == 0
        assert meta(outside, path, "grace_until") == 0


def test_after_a_reboot_with_a_wall_clock_far_behind_time_does_not_fall(
    path: Path, outside: Outside
) -> None:
    """A machine without a battery comes up in 1970: its time goes on from the last one given."""
    with opened(path, hand_us=REAL) as core:
        queue = define(core, "q")
        put(core, queue, b"a")
        take(core, queue, lease_us=HOUR)
    ahead = wall_us() + 1000 * HOUR
    outside.change(path, f"UPDATE fencepost_tally SET time = {ahead} WHERE queue = 0")
    for _ in range(2):
        reboot(outside, path)
        with opened(path, hand_us=REAL) as core:
            assert 0 <= core.now() - ahead < NEAR
            put(core, queue, b"b")
    with opened(path, hand_us=REAL) as core:
        assert [claim.body for claim in take(core, queue)] == [b"a"]
        put(core, queue, b"soon", delay_us=SECOND // 20, priority=1)
        until = core.now() + 60 * SECOND
        while not (held := take(core, queue, until_us=until)) or held[0].body != b"soon":
            assert held or core.now() < until  # time does not stand still, either


# ---- the grace -----------------------------------------------------------------------------------


def lapsed_and_ready(core: Core) -> tuple[int, Held]:
    """A lease that has run out, a long one elsewhere that says how long a grace is, a fresh one."""
    queue, other = define(core, "q"), define(core, "other")
    put(core, other, b"long")
    take(core, other, lease_us=HOUR)
    put(core, queue, b"lapsed")
    (held,) = take(core, queue, lease_us=1)
    put(core, queue, b"ready")
    return queue, held


def taken(core: Core, queue: int) -> list[bytes | None]:
    found = []
    while held := take(core, queue, lease_us=HOUR):
        found += [claim.body for claim in held]
    return found


@pytest.mark.parametrize("event", [forward_step, suspend])
def test_what_was_asleep_is_not_taken_over_for_one_longest_lease(
    path: Path, outside: Outside, event: object
) -> None:
    """Its holder had no chance to renew; fresh messages go on, and after the grace it is free."""
    with opened(path, hand_us=REAL) as core:
        queue, held = lapsed_and_ready(core)
        event(outside, path, 2 * SECOND)  # type: ignore[operator]
        assert taken(core, queue) == [b"ready"]
        grace = meta(outside, path, "grace_until") - core.now()
        assert HOUR - NEAR < grace <= HOUR
        with opened(path, hand_us=REAL) as other:
            assert taken(other, queue) == []
        assert take(core, queue, until_us=core.now() + 1) == []
        assert settle(core, Verdict(held.id, held.token, lib.FP_RENEW, 1)) == [lib.FP_DONE]

        set_meta(outside, path, "grace_until = 1")
        assert taken(core, queue) == [b"lapsed"]


@pytest.mark.parametrize("event", [forward_step, suspend])
def test_a_step_of_less_than_a_second_opens_no_grace(
    path: Path, outside: Outside, event: object
) -> None:
    with opened(path, hand_us=REAL) as core:
        queue, _ = lapsed_and_ready(core)
        event(outside, path, SECOND // 2)  # type: ignore[operator]
        assert sorted(taken(core, queue), key=str) == [b"lapsed", b"ready"]
        assert meta(outside, path, "grace_until") == 0


def test_a_forward_step_is_followed(path: Path, outside: Outside) -> None:
    """A file that was an hour behind: what is due by the wall clock is due."""
    with opened(path, hand_us=REAL) as core:
        queue = define(core, "q")
        put(core, queue, b"a", delay_us=HOUR)
        assert take(core, queue) == []
        forward_step(outside, path, HOUR)
        outside.change(path, f"UPDATE fencepost_due SET due_at = due_at - {HOUR}")
        outside.change(path, f"UPDATE fencepost_tally SET time = time - {HOUR}")
        assert abs(core.now() - wall_us()) < NEAR
        assert len(take(core, queue)) == 1


def test_within_a_grace_used_up_messages_are_not_buried(path: Path, outside: Outside) -> None:
    with opened(path, hand_us=REAL) as core:
        queue = define(core, "q", max_attempts=1)
        put(core, queue, b"a")
        (held,) = take(core, queue, lease_us=HOUR)
        settle(core, Verdict(held.id, held.token, lib.FP_RENEW, 1))
        suspend(outside, path, 2 * SECOND)
        assert take(core, queue) == []
        assert ack(core, held) == [lib.FP_DONE]


def starve(core: Core, queue: int, for_s: float) -> list[Held]:
    """Claims while another thread has the turn for that long."""
    found: list[Held] = []
    about_to = threading.Event()

    def claim() -> None:
        about_to.set()
        found.extend(take(core, queue))

    begun = core.begin(30)
    waiter = threading.Thread(target=claim)
    waiter.start()
    about_to.wait()
    time.sleep(for_s)  # the wait itself is what is tested: there is no fact to look for
    begun.end(commit=False)
    waiter.join()
    return found


def test_a_long_wait_for_the_turn_opens_a_grace(path: Path, outside: Outside) -> None:
    """Longer than a third of the shortest lease and 100 ms: others may have waited as long."""
    with opened(path, hand_us=REAL) as core:
        queue = define(core, "q")
        put(core, queue, b"a", b"b")
        take(core, queue, lease_us=SECOND // 10)
        take(core, queue, lease_us=HOUR)
        assert starve(core, queue, 0.3) == []
        assert meta(outside, path, "grace_until") > core.now()


def test_a_wait_opens_no_second_grace_soon_after_the_first(path: Path, outside: Outside) -> None:
    """Or a crowded file would put off the take-over of dead workers' messages for ever."""
    with opened(path, hand_us=REAL) as core:
        queue = define(core, "q")
        put(core, queue, b"a", b"b")
        take(core, queue, lease_us=SECOND // 10)
        take(core, queue, lease_us=HOUR)
        over = core.now() - SECOND
        set_meta(outside, path, f"grace_until = {over}")
        assert [claim.body for claim in starve(core, queue, 0.3)] == [b"a"]
        assert meta(outside, path, "grace_until") == over


def test_a_short_wait_opens_none(path: Path, outside: Outside) -> None:
    with opened(path, hand_us=REAL) as core:
        queue = define(core, "q")
        put(core, queue, b"a", b"b")
        take(core, queue, lease_us=HOUR)
        assert [claim.body for claim in starve(core, queue, 0.3)] == [b"b"]
        assert meta(outside, path, "grace_until") == 0
