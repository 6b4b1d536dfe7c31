"""
Death is noticed at once: what a killed worker held is handed out again, whatever its lease.

The leases here are an hour. Nothing but a death can make them due while a test runs, so a claim
that comes is the proof.
"""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("fencepost._core_test")

from commands import until
from fencepost._binding.calls import Core
from harness_bell import bell
from harness_core import (
    REAL_CLOCK,
    Verdict,
    define,
    lib,
    message,
    put,
    said,
    settle,
    take,
)
from harness_core import core as opened
from harness_death import HOUR, Holder, claimed, due, kill, look_after_all
from harness_outside import Outside
from harness_processes import heard, start

pytestmark = [pytest.mark.hostile, pytest.mark.usefixtures("no_process_left")]


@pytest.fixture
def hand_us() -> int:
    return REAL_CLOCK


def is_held(core: Core, id_: int) -> bool:
    """Has its lease still long to run, once we have looked after its holder?"""
    look_after_all(core)
    return due(core, id_) > core.now() + HOUR // 2


# ---- a death -------------------------------------------------------------------------------------


def test_what_a_killed_worker_held_is_handed_out_again(
    core: Core, queue: int, path: Path, outside: Outside
) -> None:
    """To one that waits: second attempt, marked as lapsed, and the old token opens nothing."""
    put(core, queue, b"a")
    holder = Holder(path)
    ((id_, token, _),) = holder.claims
    holder.kill()
    (again,) = claimed(core, queue)
    assert (again.id, again.attempt, again.lapsed) == (id_, 2, 1)
    assert again.token > token
    late = again._replace(token=token)
    assert settle(core, said(late, lib.FP_ACK)) == [lib.FP_LOST]
    assert settle(core, said(again, lib.FP_ACK)) == [lib.FP_DONE]
    look_after_all(core)
    assert outside.rows(path, "SELECT count(*) FROM fencepost_worker") == [[1]]


def test_a_death_is_noticed_in_the_middle_of_a_wait(core: Core, queue: int, path: Path) -> None:
    """By the call that was asleep at the kill, which wakes up now and then, and no more often."""
    put(core, queue, b"a")
    holder = Holder(path)
    before = bell(core).time
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(claimed, core, queue)
        until(lambda: bell(core).asleep > 0)
        holder.kill()
        assert waiting.result()[0].attempt == 2
    assert bell(core).time - before < 20


def test_a_worker_that_exits_without_closing_is_dead(core: Core, queue: int, path: Path) -> None:
    put(core, queue, b"a")
    Holder(path).end()
    assert claimed(core, queue)[0].attempt == 2


def test_a_worker_that_lives_keeps_what_it_holds(core: Core, queue: int, path: Path) -> None:
    """Also while it is stopped: a hung worker is the lease's business."""
    put(core, queue, b"a")
    holder = Holder(path)
    assert is_held(core, holder.claims[0][0])
    os.kill(holder.pid, signal.SIGSTOP)
    assert is_held(core, holder.claims[0][0])
    os.kill(holder.pid, signal.SIGCONT)
    assert take(core, queue) == []


def test_a_message_that_kills_its_worker_is_dead_after_its_attempts(
    core: Core, queue: int, path: Path
) -> None:
    """Although its lease is an hour each time: worker after worker takes it, and then none."""
    (id_,) = put(core, queue, b"deadly", max_attempts=3)
    for attempt in (1, 2, 3):
        holder = Holder(path)
        assert [claim[::2] for claim in holder.claims] == [[id_, attempt]]
        holder.kill()
        look_after_all(core)
    put(core, queue, b"healthy")
    assert claimed(core, queue)[0].body == b"healthy"
    found = message(core, id_)
    assert found is not None
    assert (found.state, found.failure_kind) == (lib.FP_STATE_DEAD, b"worker_lost")


def test_an_orderly_close_is_no_death(core: Core, queue: int, path: Path, outside: Outside) -> None:
    """The worker is not registered any more, and what it held runs out with its lease."""
    put(core, queue, b"a")
    holder = Holder(path, close=True)
    holder.end()
    assert is_held(core, holder.claims[0][0])
    assert take(core, queue) == []
    assert outside.rows(path, "SELECT * FROM fencepost_worker") == []
    assert outside.rows(path, "SELECT worker > 0 FROM fencepost_due") == [[1]]


def test_a_claim_that_finds_nothing_registers_nobody(
    core: Core, queue: int, path: Path, outside: Outside
) -> None:
    assert take(core, queue) == []
    assert outside.rows(path, "SELECT count(*) FROM fencepost_worker") == [[0]]
    put(core, queue, b"a", b"b")
    take(core, queue)
    take(core, queue)
    rows = outside.rows(path, "SELECT pid FROM fencepost_worker")
    assert rows == [[os.getpid()]]


def test_without_trusted_locks_nobody_registers(path: Path, outside: Outside) -> None:
    """Where another machine may have the file, a byte that nobody here holds says nothing."""
    with opened(path, hand_us=REAL_CLOCK, network=True) as core:
        queue = define(core, "q")
        put(core, queue, b"a")
        (held,) = take(core, queue, lease_us=HOUR)
        assert outside.rows(path, "SELECT count(*) FROM fencepost_worker") == [[0]]
        assert outside.rows(path, "SELECT worker FROM fencepost_due") == [[0]]
        assert settle(core, said(held, lib.FP_RENEW, HOUR)) == [lib.FP_DONE]


# ---- who is who ----------------------------------------------------------------------------------


def test_neither_pid_nor_name_tells_who_lives(
    core: Core, queue: int, path: Path, outside: Outside
) -> None:
    """
    A dead worker whose pid and name a living one has now, as after a restart in a container, is
    dead; and one whose pid no process has any more is alive, if its process is.
    """
    put(core, queue, b"dead's", b"alive's")
    dead, alive = Holder(path), Holder(path)
    dead.kill()
    outside.change(
        path,
        "UPDATE fencepost_worker SET (pid, name, boot_id, started) ="
        " (SELECT pid, name, boot_id, started FROM fencepost_worker ORDER BY id DESC LIMIT 1);"
        f"UPDATE fencepost_worker SET pid = {dead.pid} WHERE id = (SELECT max(id) FROM"
        " fencepost_worker)",
    )
    assert is_held(core, alive.claims[0][0])
    (again,) = claimed(core, queue)
    assert again.body == b"dead's"
    assert take(core, queue) == []


def test_handles_of_one_process_live_and_die_together(core: Core, queue: int, path: Path) -> None:
    """Neither takes the other for dead, though its own locks never meet it."""
    put(core, queue, b"a", b"b")
    two = start(TWO, path)
    ids = heard(two)
    assert is_held(core, ids[0])
    assert is_held(core, ids[1])
    kill(two)
    assert sorted(claim.id for claim in claimed(core, queue, 2)) == sorted(ids)


TWO = """
from harness_core import opened as open_core
from harness_death import look_after_all
first, second = (open_core(path, hand_us=-1) for _ in range(2))
queue = define(first, "q")
ids = [take(one, queue, lease_us=3600 * 1_000_000)[0].id for one in (first, second)]
look_after_all(first)
look_after_all(second)
say(ids)
sys.stdin.read()
"""


def test_a_handle_that_is_closed_leaves_its_neighbour_alive(
    core: Core, queue: int, path: Path
) -> None:
    """Closing one gives up its own byte, and not the process's."""
    put(core, queue, b"a")
    with opened(path, hand_us=REAL_CLOCK) as other:
        (held,) = take(other, queue, lease_us=HOUR)
        with opened(path, hand_us=REAL_CLOCK) as third:
            put(third, queue, b"b")
            take(third, queue, lease_us=HOUR)
        put(core, queue, b"c")
        holder = Holder(path)
        look_after_all(core)
        assert is_held(core, held.id)
        assert is_held(core, holder.claims[0][0])


def test_whoever_renews_a_claim_holds_it(core: Core, queue: int, path: Path) -> None:
    """A claim that was passed on by its numbers outlives the process that it was given to first."""
    put(core, queue, b"a", b"b", b"mine")
    holder = Holder(path, 2)
    assert len(take(core, queue)) == 1
    (first, token, _), (second, _, _) = holder.claims
    assert settle(core, Verdict(first, token, lib.FP_RENEW, HOUR)) == [lib.FP_DONE]
    holder.kill()
    assert [claim.id for claim in claimed(core, queue)] == [second]
    assert is_held(core, first)


# ---- forks and children --------------------------------------------------------------------------


def test_a_child_that_outlives_its_parent_holds_nothing_of_it(
    core: Core, queue: int, path: Path
) -> None:
    """Of a fork, which inherits every descriptor, and of programs that were started."""
    put(core, queue, b"a")
    parent = start(PARENT, path)
    words = [heard(parent) for _ in range(4)]
    assert words.count(-1) == 3
    assert is_held(core, max(words))
    kill(parent)
    assert claimed(core, queue)[0].attempt == 2
    assert parent.stdin is not None
    parent.stdin.close()  # only now do the children end, and say so
    assert [heard(parent) for _ in range(3)] == [-2] * 3


# Each child reads on from the pipe that was its parent's.
PARENT = """
import subprocess
CHILD = "import os; os.write(1, b'-1' + bytes([10])); os.read(0, 1); " \\
    "os.write(1, b'-2' + bytes([10]))"
with opened(path, hand_us=-1) as core:
    queue = define(core, "q")
    (held,) = take(core, queue, lease_us=3600 * 1_000_000)
    if os.fork() == 0:
        exec(CHILD)
        os._exit(0)
    command = [sys.executable, "-S", "-c", CHILD]
    children = subprocess.Popen(command, close_fds=False)
    os.posix_spawn(command[0], command, os.environ)
    say(held.id)
    os.read(0, 1)
"""


def test_a_forked_child_that_claims_registers_itself(core: Core, queue: int, path: Path) -> None:
    """Its parent's death is not its own."""
    put(core, queue, b"parent's", b"child's")
    parent = start(FAMILY, path)
    child, child_id = heard(parent)
    parent_id = heard(parent)
    kill(parent)
    assert [claim.id for claim in claimed(core, queue)] == [parent_id]
    assert is_held(core, child_id)
    os.kill(child, signal.SIGKILL)
    assert [claim.id for claim in claimed(core, queue)] == [child_id]


FAMILY = """
import signal
reading, writing = os.pipe()
with opened(path, hand_us=-1) as core:
    queue = define(core, "q")
    (held,) = take(core, queue, lease_us=3600 * 1_000_000)
    if os.fork() == 0:
        with opened(path, hand_us=-1) as own:
            (held,) = take(own, queue, lease_us=3600 * 1_000_000)
            say([os.getpid(), held.id])
            os.write(writing, b"x")
            signal.pause()
    os.read(reading, 1)
    say(held.id)
    os.read(0, 1)
"""
