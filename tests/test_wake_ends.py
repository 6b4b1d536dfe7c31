"""The listener, what stands in for it, and how a wait ends otherwise than by a ring."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from commands import until
from fencepost.errors import Closed
from harness_bell import DEAF, FOREVER, NO_FUTEX, NO_LISTENER, Waiter, bell, without
from harness_core import REAL_CLOCK, define, lib, opened, put, take
from harness_core import core as opening
from harness_outside import Outside
from harness_processes import finish, heard, start

pytestmark = pytest.mark.hostile

# ---- commits of other programs -------------------------------------------------------------------

ENQUEUE = "INSERT INTO fencepost_enqueue (queue, body) VALUES ('q', 'x')"
RESUME = "UPDATE fencepost_queue SET paused = 0"
ANYTHING = "UPDATE fencepost_queue SET rate_at = rate_at + 1"  # each time another value


def test_a_commit_of_another_program_wakes(path: Path, outside: Outside) -> None:
    """Plain SQL rings for nobody; the listener hears it, again and again."""
    with opening(path, hand_us=REAL_CLOCK) as core:
        queue = define(core, "q")
        for _ in range(20):
            waiter = Waiter(core, queue)
            outside.change(path, ANYTHING)
            waiter.join()
        ends = bell(core)
        assert ends.late == 0
        assert 0 < ends.alarms <= ends.looks


@pytest.mark.parametrize("how", ["door", "resume"])
def test_what_another_program_makes_claimable_is_claimed(
    path: Path, outside: Outside, how: str
) -> None:
    """A message that it puts through the door, and one that was there behind a pause."""
    with opening(path, hand_us=REAL_CLOCK) as core:
        queue = define(core, "q", lib.FP_PROFILE_QUEUE)
        if how == "resume":
            put(core, queue)
            core.queue_pause(None, queue, True)
        found: list[object] = []

        def claim() -> None:
            while not found:
                found.extend(take(core, queue, until_us=FOREVER))

        claimer = threading.Thread(target=claim)
        claimer.start()
        until(lambda: bell(core).asleep == 1)
        outside.change(path, RESUME if how == "resume" else ENQUEUE)
        claimer.join()
        assert bell(core).late == 0


@pytest.mark.parametrize("missing", [NO_FUTEX, NO_LISTENER, NO_FUTEX | NO_LISTENER])
def test_where_the_system_has_no_bell_the_sleepers_look_by_themselves(
    path: Path, outside: Outside, missing: int
) -> None:
    """Own commits, those of other handles, those of other programs; and a close ends the wait."""
    with without(missing):
        core, other = opened(path, hand_us=REAL_CLOCK), opened(path, hand_us=REAL_CLOCK)
        queue = define(core, "q")
        for commit in (
            lambda: put(core, queue),
            lambda: put(other, queue),
            lambda: outside.change(path, ANYTHING),
        ):
            waiter = Waiter(core, queue)
            commit()
            waiter.join()
            assert waiter.error is None
        waiter = Waiter(core, queue)
        core.nudge()
        core.close()
        waiter.join()
        assert isinstance(waiter.error, Closed)
        assert bell(core).looks == 0, "there is no listener"
        other.close()


NEIGHBOUR = """
with opened(path, hand_us=-1, normal=True) as core:
    queue = define(core, "busy")
    say("ready")
    sys.stdin.readline()
    began = core.now()
    for _ in range(1500):
        put(core, queue)
    say((core.now() - began) // 1000)
"""


def test_a_busy_neighbour_wakes_nobody_more_often_than_now_and_then(
    path: Path, no_process_left: None
) -> None:
    """
    Each of its commits is a sign to the listener, which cannot tell whose it was: the looks that
    lead to nothing stand further and further apart.
    """
    with opening(path, hand_us=REAL_CLOCK) as core:
        queue = define(core, "idle")
        neighbour = start(NEIGHBOUR, path)
        assert heard(neighbour) == "ready"

        def wait() -> None:
            with suppress(Closed):
                while True:
                    take(core, queue, until_us=FOREVER)

        waiter = threading.Thread(target=wait)
        waiter.start()
        until(lambda: bell(core).asleep == 1)
        assert neighbour.stdin is not None
        neighbour.stdin.write("go\n")
        neighbour.stdin.flush()
        span_ms = heard(neighbour)
        alarms, looks = bell(core).alarms, bell(core).looks
        finish(neighbour)
        assert alarms <= looks
        assert alarms <= 20 + span_ms / 8
        core.close()
        waiter.join()


def watched() -> set[int]:
    """The inodes that this process listens to, as the kernel says."""
    found = set()
    for info in Path("/proc/self/fdinfo").iterdir():
        with suppress(OSError):
            words = (line.split() for line in info.read_text().splitlines())
            found |= {int(word[2][4:], 16) for word in words if word[:1] == ["inotify"]}
    return found


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there is no inotify elsewhere")
def test_the_listener_follows_the_name_of_the_wal(path: Path) -> None:
    """Another file in its place, none at all, one again: it listens to the one that is there."""
    wal, other = Path(f"{path}-wal"), path.with_name("other")
    with opening(path, hand_us=REAL_CLOCK) as core:
        queue = define(core, "q")
        waiter = Waiter(core, queue)
        assert wal.stat().st_ino in watched()
        other.write_bytes(b"")
        inode = other.stat().st_ino
        other.rename(wal)
        until(lambda: inode in watched())
        wal.unlink()
        until(lambda: not watched())
        wal.write_bytes(b"")
        until(lambda: wal.stat().st_ino in watched())
        put(core, queue)
        waiter.join()


# ---- ends ----------------------------------------------------------------------------------------


def test_close_lets_every_sleeper_go(path: Path) -> None:
    """And waits for them: the header they look at goes with the connection."""
    with without(DEAF):
        core = opened(path, hand_us=REAL_CLOCK)
        queue = define(core, "q")
        waiters = [Waiter(core, queue) for _ in range(8)]
        core.close()
        for waiter in waiters:
            waiter.join()
            assert isinstance(waiter.error, Closed)
        assert bell(core).nudged >= 1
        assert bell(core).asleep == 0


def test_a_nudge_lets_go_who_has_not_heard_of_it(path: Path) -> None:
    """One that was there before the wait began counts, too; who named none sleeps on."""
    with without(DEAF), opening(path, hand_us=REAL_CLOCK) as core:
        queue = define(core, "q")
        nudges = core.nudges()
        core.nudge()
        assert take(core, queue, until_us=FOREVER, nudges=nudges) == []
        assert bell(core)[:4] == (0, 0, 1, 0)
        assert take(core, queue, until_us=FOREVER, nudges=nudges + 1) == []
        assert bell(core)[:4] == (0, 1, 1, 0)


INTERRUPTED = """
import fencepost, signal, threading
from harness_bell import bell
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
store = fencepost.open(path)
core = store._file.core

def tell():
    while not bell(core).asleep:
        pass
    say("asleep")

threading.Thread(target=tell).start()
try:
    store.queue("q").claim(wait=3600)
except KeyboardInterrupt:
    say(bell(core).signal)
store.close()
"""


def test_an_interrupt_ends_a_wait_at_once(path: Path, no_process_left: None) -> None:
    """Ctrl-C in a script that waits for an hour: the signal itself ends the sleep in C."""
    program = start(INTERRUPTED, path)
    assert heard(program) == "asleep"
    program.send_signal(signal.SIGINT)
    assert finish(program) == [1]


FORK = """
import os
from harness_bell import Waiter, bell
from fencepost.errors import ForkedHandle
with opened(path, hand_us=-1) as core:
    queue = define(core, "q")
    waiter = Waiter(core, queue)
    child = os.fork()
    if child == 0:
        try:
            core.nudge()
            core.version()
        except ForkedHandle:
            pass
        else:
            os._exit(1)
        with opened(path, hand_us=-1) as mine:
            put(mine, queue)
        os._exit(0)
    waiter.join()
    say([os.waitpid(child, 0)[1], bell(core).late, bell(core).moved])
"""


def test_a_forked_child_leaves_the_bell_to_its_parent(path: Path, no_process_left: None) -> None:
    """It has no listener and no sleepers, and what it commits wakes the parent as ever."""
    (answer,) = finish(start(FORK, path))
    assert answer == [0, 0, 1]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts its threads by /proc")
def test_the_listener_is_there_when_somebody_sleeps_and_gone_with_the_store(path: Path) -> None:
    """A store that nobody waits on starts no thread."""
    tasks = Path("/proc/self/task")
    before = len(list(tasks.iterdir()))
    core = opened(path, hand_us=REAL_CLOCK)
    queue = define(core, "q")
    assert len(list(tasks.iterdir())) == before
    take(core, queue, until_us=core.now() + 1000)
    assert len(list(tasks.iterdir())) == before + 1
    core.close()
    until(lambda: len(list(tasks.iterdir())) == before)
