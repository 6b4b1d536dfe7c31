"""
The keeper: held leases do not run out, and what is not held any more does.

Beats come in real time, the leases stand in store time, which only the test turns. So "renewed" is
a fact that can be waited for: the end of the lease has moved to the new moment.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from commands import until

pytest.importorskip("fencepost._core_test")

from fencepost import Busy, Closed, StorageError
from fencepost._binding.calls import Core, Keeper
from harness_core import SECOND, START, Held, ack, define, lib, message, put, stats, take, tx
from harness_core import core as opened
from harness_core import opened as open_core

pytestmark = pytest.mark.hostile

BEAT = 2_000
HOUR = 3600 * SECOND
LEASE = 30 * SECOND


@pytest.fixture
def core(path: Path) -> Iterator[Core]:
    with opened(path) as core:
        yield core


@contextmanager
def keeping(core: Core, beat_us: int = BEAT) -> Iterator[Keeper]:
    keeper = core.keeper(beat_us)
    try:
        yield keeper
    finally:
        keeper.stop()


def claims(core: Core, count: int, profile: int = lib.FP_PROFILE_JOB) -> list[Held]:
    queue = define(core, "q", profile, lease_us=LEASE)
    put(core, queue, *[b"body"] * count)
    return take(core, queue, count)


def lease_end(core: Core, claim: Held) -> int:
    found = message(core, claim.id)
    assert found is not None
    return found.due


def ends_at(core: Core, claim: Held, moment: int) -> Callable[[], bool]:
    return lambda: lease_end(core, claim) == moment


@pytest.mark.parametrize("profile", [lib.FP_PROFILE_JOB, lib.FP_PROFILE_QUEUE])
def test_a_held_lease_never_runs_out(core: Core, profile: int) -> None:
    """Each beat gives every held claim the lease it was held with, from the moment of the beat."""
    one, other = claims(core, 2, profile)
    with keeping(core) as keeper:
        keeper.hold([one.id, one.token, LEASE, 0])
        keeper.hold([other.id, other.token, 2 * LEASE, 0])
        for now in range(START, START + 10 * LEASE, LEASE // 2):
            core.hand(now)
            until(ends_at(core, one, now + LEASE))
            until(ends_at(core, other, now + 2 * LEASE))
            assert take(core, one.queue, 2) == []
    assert ack(core, one, other) == [lib.FP_DONE, lib.FP_DONE]


def test_a_dropped_claim_is_not_renewed(core: Core) -> None:
    """The other claim is the witness that beats went on."""
    dropped, witness = claims(core, 2)
    with keeping(core) as keeper:
        for claim in (dropped, witness):
            keeper.hold([claim.id, claim.token, LEASE, 0])
        core.hand(START + 1)
        until(ends_at(core, dropped, START + 1 + LEASE))

        keeper.drop([dropped.id, dropped.token])
        core.hand(START + 2)
        until(ends_at(core, witness, START + 2 + LEASE))
        core.hand(START + 3)
        until(ends_at(core, witness, START + 3 + LEASE))
        assert lease_end(core, dropped) <= START + 2 + LEASE  # a beat under way may have had it
        assert not keeper.lost(dropped.id, dropped.token)


def test_claims_are_held_in_one_call_and_dropped_in_one(core: Core) -> None:
    """Of five, those two that were named are dropped; or all stay away where memory is out."""
    held = claims(core, 5)
    flat = [number for claim in held for number in (claim.id, claim.token, LEASE, 0)]
    with keeping(core, HOUR) as keeper:  # no beat: the next allocation is the hold's own
        lib.fp_fault_memory(0, 1)
        with pytest.raises(StorageError, match="out of memory"):
            keeper.hold(flat)
    with keeping(core) as keeper:
        keeper.hold(flat)
        core.hand(START + 1)
        for claim in held:
            until(ends_at(core, claim, START + 1 + LEASE))
        keeper.drop([number for claim in held[1:3] for number in (claim.id, claim.token)])
        core.hand(START + 2)
        for claim in (held[0], *held[3:]):
            until(ends_at(core, claim, START + 2 + LEASE))
        core.hand(START + 3)
        until(ends_at(core, held[4], START + 3 + LEASE))
        assert all(lease_end(core, claim) <= START + 2 + LEASE for claim in held[1:3])


def test_a_claim_is_renewed_until_its_own_end_only(core: Core) -> None:
    """A handler that hangs is not held for ever: past its end the lease runs out by itself."""
    bounded, witness = claims(core, 2)
    with keeping(core) as keeper:
        keeper.hold([bounded.id, bounded.token, LEASE, START + 10])
        keeper.hold([witness.id, witness.token, LEASE, 0])
        core.hand(START + 9)
        until(ends_at(core, bounded, START + 9 + LEASE))

        core.hand(START + 10)
        until(ends_at(core, witness, START + 10 + LEASE))
        assert lease_end(core, bounded) == START + 9 + LEASE
        core.hand(START + 9 + LEASE)
        until(ends_at(core, witness, START + 9 + 2 * LEASE))
        (again,) = take(core, bounded.queue, 2)
        assert again.id == bounded.id
        assert not keeper.lost(bounded.id, bounded.token)


def test_a_claim_that_somebody_else_has_is_told(core: Core) -> None:
    """Its holder learns it, and the beat does not touch the lease of the new one."""
    (old,) = claims(core, 1)
    core.hand(START + LEASE)
    (new,) = take(core, old.queue)
    assert (new.id, new.token > old.token) == (old.id, True)
    with keeping(core) as keeper:
        keeper.hold([old.id, old.token, HOUR, 0])
        until(lambda: keeper.lost(old.id, old.token))
        assert lease_end(core, new) == START + 2 * LEASE
        assert not keeper.lost(new.id, new.token)
        keeper.drop([old.id, old.token])
        assert not keeper.lost(old.id, old.token)
    assert ack(core, new) == [lib.FP_DONE]


def test_a_cancelled_claim_is_told(core: Core) -> None:
    (claim,) = claims(core, 1)
    with keeping(core) as keeper:
        keeper.hold([claim.id, claim.token, LEASE, 0])
        assert core.cancel(None, [claim.id]) == [lib.FP_DONE]
        until(lambda: keeper.lost(claim.id, claim.token))


def test_a_lost_claim_does_not_stop_the_others(core: Core) -> None:
    lost, kept = claims(core, 2)
    assert core.cancel(None, [lost.id]) == [lib.FP_DONE]
    with keeping(core) as keeper:
        keeper.hold([lost.id, lost.token, LEASE, 0])
        keeper.hold([kept.id, kept.token, LEASE, 0])
        until(lambda: keeper.lost(lost.id, lost.token))
        core.hand(START + 5)
        until(ends_at(core, kept, START + 5 + LEASE))


def test_a_beat_waits_for_an_open_transaction(core: Core, path: Path) -> None:
    """Longer than one slice of waiting; that it waits is not an error, and it comes when it may."""
    (claim,) = claims(core, 1)
    with keeping(core) as keeper, opened(path, patience=0.6) as other:
        with tx(core):
            keeper.hold([claim.id, claim.token, LEASE, 0])
            with pytest.raises(Busy):  # over a slice long somebody else was not let in
                put(other, claim.queue)
            assert not keeper.lost(claim.id, claim.token)
        core.hand(START + 7)
        until(ends_at(core, claim, START + 7 + LEASE))


def test_a_beat_that_fails_is_tried_again(core: Core) -> None:
    """A claim is lost when the file says so, and not when the file cannot be asked."""
    (claim,) = claims(core, 1)
    with keeping(core) as keeper:
        lib.fp_fault_step(0, 3)
        keeper.hold([claim.id, claim.token, LEASE, 0])  # from here on, only the keeper steps
        until(lambda: lib.fp_fault_hits() == 3)
        assert not keeper.lost(claim.id, claim.token)
        core.hand(START + 7)
        until(ends_at(core, claim, START + 7 + LEASE))


def test_stopping_does_not_wait_for_the_next_beat(core: Core) -> None:
    """The test's time-out is shorter than an hour; of so many threads, most are asleep by then."""
    keepers = [core.keeper(HOUR) for _ in range(30)]
    for keeper in keepers:
        keeper.stop()


TAKES_NO_SIGNAL = """
import signal, os
from harness_core import core as opened
with opened({path!r}) as core:
    keeper = core.keeper(3_600_000_000)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    os.kill(os.getpid(), signal.SIGUSR1)  # kills the process, if any thread of it takes it
    assert signal.sigpending() == {{signal.SIGUSR1}}
    keeper.stop()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_signals_are_left_to_the_other_threads(path: Path) -> None:
    program = TAKES_NO_SIGNAL.format(path=str(path))
    command = [sys.executable, "-c", program]
    folder = Path(__file__).parent
    done = subprocess.run(command, check=False, cwd=folder, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()


def test_a_keeper_that_stops_renews_no_more(core: Core) -> None:
    (claim,) = claims(core, 1)
    with keeping(core) as keeper:
        keeper.hold([claim.id, claim.token, LEASE, 0])
        core.hand(START + 1)
        until(ends_at(core, claim, START + 1 + LEASE))
    core.hand(START + 1 + LEASE)
    assert [again.id for again in take(core, claim.queue)] == [claim.id]


def test_a_closed_store_makes_its_keeper_idle(path: Path) -> None:
    """Closing does not wait for the keeper to stop, and stopping afterwards is clean."""
    with opened(path) as core:
        (claim,) = claims(core, 1)
        with keeping(core) as keeper:
            keeper.hold([claim.id, claim.token, LEASE, 0])
            core.hand(START + 1)
            until(ends_at(core, claim, START + 1 + LEASE))
            core.close()
            with pytest.raises(Closed):
                core.now()
            assert not keeper.lost(claim.id, claim.token)
            keeper.drop([claim.id, claim.token])


def test_many_claims_are_renewed_in_one_beat(core: Core) -> None:
    """One transaction a beat, however many: one lease end for all of them."""
    held = claims(core, 300)
    with keeping(core) as keeper:
        for claim in held:
            keeper.hold([claim.id, claim.token, LEASE, 0])
        core.hand(START + 5)
        until(ends_at(core, held[-1], START + 5 + LEASE))
        assert {lease_end(core, claim) for claim in held} == {START + 5 + LEASE}
        for claim in held[::2]:
            keeper.drop([claim.id, claim.token])
        core.hand(START + 2 * LEASE)
        until(ends_at(core, held[1], START + 3 * LEASE))
        assert stats(core, held[0].queue).lapsed == 150


def test_nothing_is_left_behind(path: Path) -> None:
    """All memory of a keeper's goes with it."""
    with opened(path) as core:
        (claim,) = claims(core, 1)
        before = lib.fp_memory_live()
        with keeping(core) as keeper:
            for token in range(1, 100):
                keeper.hold([claim.id, token, LEASE, 0])
            until(lambda: keeper.lost(claim.id, 1))
        assert lib.fp_memory_live() == before


THREADS = Path("/proc/self/task")


@pytest.mark.skipif(not THREADS.exists(), reason="threads that are not Python's are not listed")
def test_a_keeper_that_nobody_stopped_goes_with_its_owner(path: Path) -> None:
    """And before the handle it works on."""
    before = {one.name for one in THREADS.iterdir()}
    handle = open_core(path)
    keeper = handle.keeper(1000)
    (thread,) = {one.name for one in THREADS.iterdir()} - before
    keeper.hold([1, 1, LEASE, 0])
    del handle, keeper
    gc.collect()
    assert thread not in {one.name for one in THREADS.iterdir()}


FORKED = """
import os, sys
from fencepost import ForkedHandle
from harness_core import core as opened
with opened({path!r}) as core:
    keeper = core.keeper(1000)
    keeper.hold([1, 1, 1000000, 0])
    child = os.fork()
    if child == 0:
        try:
            keeper.hold([2, 2, 1000000, 0])
        except ForkedHandle:
            told = keeper.lost(1, 1)
            keeper.drop([1, 1])
            keeper.stop()
            os._exit(0 if told else 1)
        os._exit(2)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    keeper.stop()
sys.exit(code)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="fork")
def test_a_forked_child_has_no_keeper(path: Path) -> None:
    """It holds nothing there, says so, and can be put away; the parent's goes on."""
    program = FORKED.format(path=str(path))
    command = [sys.executable, "-W", "ignore", "-c", program]
    folder = Path(__file__).parent
    done = subprocess.run(command, check=False, cwd=folder, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()


HOLDS_THE_INTERPRETER = """
import ctypes, sys
from harness_core import REAL_CLOCK, ack, define, put, take
from harness_core import core as opened
from commands import until
with opened({path!r}, hand_us=REAL_CLOCK) as core:
    queue = define(core, "q")
    put(core, queue)
    (claim,) = take(core, queue, lease_us=1_000_000)
    keeper = core.keeper(30_000)
    keeper.hold([claim.id, claim.token, 1_000_000, 0])
    print("held", flush=True)
    ctypes.PyDLL(None).sleep(3)  # PyDLL keeps the interpreter to itself meanwhile
    keeper.stop()
    print(ack(core, claim))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sleep")
def test_a_handler_that_holds_the_interpreter_keeps_its_lease(path: Path) -> None:
    """All the while another process tries to take the message over, and never gets it."""
    program = HOLDS_THE_INTERPRETER.format(path=str(path))
    command = [sys.executable, "-c", program]
    folder = Path(__file__).parent
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with opened(path, hand_us=-1) as core:
            queue = define(core, "q")
            while holder.poll() is None:
                assert take(core, queue) == []
                time.sleep(0.01)
        assert holder.stdout.read() == "[0]\n"


def test_threads_may_share_a_keeper(core: Core) -> None:
    """Holding, dropping and asking from several threads at once loses no claim."""
    held = claims(core, 80)
    with keeping(core) as keeper:

        def churn(mine: list[Held]) -> None:
            for _ in range(20):
                for claim in mine:
                    keeper.hold([claim.id, claim.token, LEASE, 0])
                for claim in mine[1:]:
                    keeper.drop([claim.id, claim.token])
                    assert not keeper.lost(claim.id, claim.token)

        threads = [threading.Thread(target=churn, args=(held[i::4],)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        core.hand(START + 2 * LEASE)
        for claim in held[:4]:
            until(ends_at(core, claim, START + 3 * LEASE))
        assert stats(core, held[0].queue).lapsed == 76
