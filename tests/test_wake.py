"""The doorbell: no wake-up is lost, nobody is woken for nothing that can be helped."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from commands import until
from fencepost._binding.calls import FP, Core
from fencepost.errors import Closed
from harness_bell import ANY, DEAF, FOREVER, LOCK, Bell, Waiter, bell, bit, door, volley, without
from harness_core import REAL_CLOCK, SECOND, ack, define, lib, one, put, said, settle, take, tx
from harness_core import core as opening
from harness_processes import finish, heard, start

pytestmark = pytest.mark.hostile

HOUR = 3600 * SECOND


# ---- no wake-up is lost --------------------------------------------------------------------------

PARTNER = """
from harness_bell import bell, volley
lib.fp_fault_bell(4)
with opened(path, hand_us=-1, normal=True) as core:
    there, back, rounds = map(int, sys.argv[2:])
    say("ready")
    volley(core, back, there, rounds, first=False)
    say(bell(core))
"""


def test_ten_thousand_wake_ups_of_two_processes_and_none_is_lost(
    path: Path, no_process_left: None
) -> None:
    """
    Each throws the ball as soon as it has it, and nothing but the ring of the other can wake it:
    nobody listens, and a sleep that the time had to end is counted as late.
    """
    rounds = 5_000
    with without(DEAF), opening(path, hand_us=REAL_CLOCK, normal=True) as core:
        there, back = define(core, "there"), define(core, "back")
        partner = start(PARTNER, path, there, back, rounds)
        assert heard(partner) == "ready"
        volley(core, there, back, rounds, first=True)
        (theirs,) = finish(partner)
        assert bell(core).late == Bell(*theirs).late == 0
        assert bell(core).moved + Bell(*theirs).moved > rounds, "they did sleep"


@pytest.mark.parametrize("event", ["ring", "nudge", "close"])
def test_what_comes_between_the_last_look_and_the_sleep_is_not_slept_through(
    path: Path, event: str
) -> None:
    """The waiter has looked, and is held before it sleeps; meanwhile it happens."""
    with (
        without(DEAF),
        opening(path, hand_us=REAL_CLOCK) as core,
        opening(path, hand_us=REAL_CLOCK) as other,
    ):
        queue = define(core, "q")
        got: list[object] = []

        def wait() -> None:
            nudges = core.nudges()
            with suppress(Closed):
                got.append(take(core, queue, until_us=FOREVER, nudges=nudges))

        waiter = threading.Thread(target=wait)
        with door():
            waiter.start()
            until(lambda: bool(lib.fp_fault_at_door()))
            caller = threading.Thread(target=core.close if event == "close" else core.nudge)
            if event == "ring":
                put(other, queue)
            else:
                caller.start()
        waiter.join()
        if event != "ring":
            caller.join()
        ends = bell(core)
        assert (ends.moved, ends.nudged) == ((1, 0) if event == "ring" else (0, 1))
        assert ends.late == 0


# ---- who is rung for -----------------------------------------------------------------------------


def rung(core: Core, work: Callable[[], object]) -> int:
    """Which queues' bits it rang; every commit rings for who waits for any, and for the lock."""
    put(core, define(core, "another"))
    work()
    bits = int(lib.fp_fault_rung())
    assert bits & (ANY | LOCK) == ANY | LOCK
    return bits & ~(ANY | LOCK)


@pytest.fixture
def queue(core: Core) -> int:
    return define(core, "q", keep_us=0)


def test_what_can_be_claimed_rings_for_its_queue(core: Core, queue: int) -> None:
    """Enqueued at once or for later, given back, tried again, replayed, let in by its lane."""
    jobs = define(core, "jobs")
    assert rung(core, lambda: put(core, queue)) == bit(queue)
    assert rung(core, lambda: put(core, queue, delay_us=HOUR)) == bit(queue)
    for verb in (FP.RETRY, FP.RELEASE, FP.LATER):
        verdict = said(one(core, jobs), verb, HOUR)
        assert rung(core, partial(settle, core, verdict)) == bit(jobs)
    claim = one(core, jobs)
    settle(core, said(claim, FP.FAIL))
    pair = array("q", [claim.id, -1])
    assert rung(core, lambda: core.replay(pair, 0, 0, apply=True)) == bit(jobs)


def test_what_has_ended_rings_for_its_queue(core: Core, queue: int) -> None:
    """For who waits for its result, and for who waits for room; also where nothing of it stays."""
    jobs = define(core, "jobs")
    for number in (queue, jobs):
        for end in (FP.ACK, FP.FAIL, FP.CANCEL):
            verdict = said(one(core, number), end)
            assert rung(core, partial(settle, core, verdict)) == bit(number)
        pending = put(core, number)
        assert rung(core, partial(core.cancel, None, pending)) == bit(number)
    put(core, queue, *[b"many"] * 20)
    many = take(core, queue, 20)  # what came together is settled together
    assert rung(core, lambda: ack(core, *many)) == bit(queue)


def test_what_opens_a_queue_rings_for_it(core: Core, queue: int) -> None:
    """Paused and resumed, held, made wider, given room."""
    assert rung(core, lambda: core.queue_pause(None, queue, True)) == bit(queue)
    assert rung(core, lambda: core.queue_pause(None, queue, False)) == bit(queue)
    assert rung(core, lambda: define(core, "q", keep_us=0, max_size=5)) == bit(queue)


def test_a_wake_up_that_moves_forward_rings(core: Core) -> None:
    """It stays the same message, and its alarm has to be set anew."""
    queue = define(core, "w", lib.FP_PROFILE_WAKEUP)
    keyed = {"keys": [b"k"], "digests": bytes(32), "life": lib.FP_LIFE_LIVE}
    put(core, queue, b"a", delay_us=HOUR, **keyed)
    assert rung(core, lambda: put(core, queue, b"a", delay_us=SECOND, **keyed)) == bit(queue)
    assert rung(core, lambda: put(core, queue, b"a", delay_us=HOUR, **keyed)) == 0


def test_claims_renewals_and_progress_ring_for_nobody(core: Core, queue: int) -> None:
    """Unless the lease is shorter than a slice: its end comes before the sleepers' next look."""
    put(core, queue, b"a", b"b")
    held = []
    assert rung(core, lambda: held.extend(take(core, queue))) == 0
    assert rung(core, lambda: settle(core, said(held[0], FP.RENEW, HOUR))) == 0
    assert rung(core, lambda: core.progress(None, held[0].id, b"half")) == 0
    assert rung(core, lambda: settle(core, said(held[0], FP.RENEW, 1000))) == bit(queue)
    assert rung(core, lambda: take(core, queue, lease_us=1000)) == bit(queue)


def test_a_transaction_rings_once_for_all_it_did_and_only_when_it_is_committed(
    core: Core, queue: int
) -> None:
    other = define(core, "other")

    def work(queue: int, *, commit: bool) -> None:
        begun = core.begin(1)
        put(core, queue, tx=begun)
        begun.end(commit=commit)

    assert rung(core, lambda: work(queue, commit=True)) == bit(queue)
    put(core, other)
    work(queue, commit=False)
    assert lib.fp_fault_rung() == bit(other) | ANY | LOCK


def test_only_those_wake_whose_queue_it_is(path: Path) -> None:
    """Four wait, on four queues; the ring for one of them wakes this one."""
    with (
        without(DEAF),
        opening(path, hand_us=REAL_CLOCK) as core,
        opening(path, hand_us=REAL_CLOCK) as other,
    ):
        queues = [define(core, f"q{n}") for n in range(4)]
        waiters = [Waiter(core, queue) for queue in queues]
        put(other, queues[2])
        waiters[2].join()
        core.close()
        for waiter in waiters:
            waiter.join()
        assert waiters[2].error is None
        assert (bell(core).moved, bell(core).late) == (1, 0)


# ---- due times -----------------------------------------------------------------------------------


def test_a_sleeper_wakes_at_the_moment_it_sleeps_for(path: Path) -> None:
    """One call, one sleep, ended by its time: the moment is the alarm, and no slice is needed."""
    with without(DEAF), opening(path, hand_us=REAL_CLOCK) as core:
        queue = define(core, "q")
        put(core, queue, delay_us=300_000)
        (claim,) = take(core, queue, until_us=FOREVER)
        assert core.now() >= claim.due
        assert bell(core)[:4] == (0, 1, 0, 0)


def test_the_earliest_of_several_is_the_alarm(path: Path) -> None:
    """
    What is due later, in another queue or behind it in the same one, puts nothing off. Who is kept
    from the processor for long sleeps through both moments: then once more.
    """
    with without(DEAF), opening(path, hand_us=REAL_CLOCK) as core:
        queues = [define(core, "a"), define(core, "b")]

        def one_after_the_other() -> bool:
            before = bell(core).time
            put(core, queues[0], delay_us=20_000)
            put(core, queues[0], delay_us=490_000, priority=-1)
            put(core, queues[1], delay_us=490_000)
            ack(core, *take(core, queues, until_us=FOREVER))
            slept = bell(core).time - before
            while any(core.size(None, queue) for queue in queues):
                ack(core, *take(core, queues, 3, until_us=FOREVER))
            return slept == 1 and bell(core).time - before >= 2

        until(one_after_the_other)


def test_an_earlier_one_moves_the_alarm(path: Path) -> None:
    """What was to be slept for an hour is slept until the newer one is due."""
    with (
        without(DEAF),
        opening(path, hand_us=REAL_CLOCK) as core,
        opening(path, hand_us=REAL_CLOCK) as other,
    ):
        queue = define(core, "q")
        put(core, queue, b"late", delay_us=HOUR)
        waiter = Waiter(core, queue)
        put(other, queue, b"soon", delay_us=1000)
        waiter.join()
        (claim,) = take(core, queue, until_us=FOREVER)
        assert claim.body == b"soon"


def test_a_short_lease_is_taken_over_at_its_end(path: Path) -> None:
    """Who sleeps while it is given out learns of its end, though a claim rings for nobody."""
    with (
        without(DEAF),
        opening(path, hand_us=REAL_CLOCK) as core,
        opening(path, hand_us=REAL_CLOCK) as other,
    ):
        queue = define(core, "q")
        put(other, queue)
        begun = core.version()
        (lost,) = take(other, queue, lease_us=100_000)
        assert core.version() != begun
        (claim,) = take(core, queue, until_us=FOREVER)
        assert (claim.id, claim.attempt) == (lost.id, 2)
        assert bell(core)[:2] == (0, 1)


@pytest.mark.parametrize("shut", ["paused", "held"])
def test_who_waits_for_what_it_cannot_have_does_not_turn_in_circles(path: Path, shut: str) -> None:
    """The queue is full of what is due, and shut: a whole slice is one look and one sleep."""
    with without(DEAF), opening(path, hand_us=REAL_CLOCK) as core:
        queue = define(core, "q")
        put(core, queue, *[b"due"] * 50)
        if shut == "paused":
            core.queue_pause(None, queue, True)
        else:
            define(core, "q", held_until_us=core.now() + HOUR)
        steps = lib.fp_steps()
        assert take(core, queue, until_us=FOREVER) == []
        assert lib.fp_steps() - steps < 20
        assert bell(core)[:4] == (0, 1, 0, 0)


def test_thousands_of_empty_queues_cost_one_look(path: Path) -> None:
    """What a waiter pays for is the queues that have something in line."""
    with opening(path, hand_us=REAL_CLOCK) as core:
        with tx(core) as begun:
            queues = [
                core.queue_define(begun, f"q{n}".encode(), lib.FP_PROFILE_QUEUE, {})
                for n in range(300)
            ]
        put(core, queues[100], delay_us=HOUR)
        put(core, queues[200])
        steps = lib.fp_steps()
        assert take(core, queues, until_us=1)[0].queue == queues[200]
        assert lib.fp_steps() - steps < 40
