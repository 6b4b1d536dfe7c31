"""A child of a fork that opens the file itself: a process like any other, whatever it inherited."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from harness_core import core as opened
from harness_ladder import findings
from harness_outside import Outside
from harness_processes import finish, forks_beside_threads, start

pytestmark = pytest.mark.hostile

WAITS_FOR_A_WRITER = {"wait_for_partner", "fifo_open"}  # where the kernel says that a thread is

HEAD = """
from harness_core import opened as open_core
from fencepost.errors import Busy

class Post:
    '''A word from one process to the other.'''
    def __init__(self):
        self.out, self.into = os.pipe()
    def send(self):
        os.write(self.into, b"x")
    def wait(self):
        assert os.read(self.out, 1) == b"x"

def child_of(body):
    number = os.fork()
    if number == 0:
        try:
            body()
        except BaseException as error:
            os.write(2, repr(error).encode())
            os._exit(1)
        os._exit(0)
    return number

def joined(number):
    assert os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]) == 0

parent = open_core(path)
queue = define(parent, "q")
first, second = Post(), Post()
"""

CLOSES_FIRST = """
put(parent, queue, b"parent's")

def work():
    own = open_core(path)
    put(own, queue, b"child's")
    first.send()
    second.wait()
    for _ in range(50):
        put(own, queue, b"child's")
    say(stats(own, queue).pending)
    os._exit(0)

child = child_of(work)
first.wait()
assert stats(parent, queue).pending == 2
parent.close()
second.send()
joined(child)
"""


def test_what_a_child_was_acknowledged_outlives_its_parents_handle(
    path: Path, outside: Outside
) -> None:
    """The parent closes first, and must not take the WAL from under its child."""
    assert finish(start(HEAD + CLOSES_FIRST, path)) == [52]
    assert outside.rows(path, "SELECT count(*) FROM fencepost_due") == [[52]]
    with opened(path) as core:
        assert findings(core) == ""


IN_THE_MIDDLE = """
begun = parent.begin(30)
put(parent, queue, b"parent's", tx=begun)

def work():
    own = open_core(path, patience=0)
    try:
        put(own, queue, b"child's")
    except Busy:
        say("busy")
    first.send()
    own.patience = 30
    put(own, queue, b"child's")
    say(stats(own, queue).pending)
    own.close()

child = child_of(work)
first.wait()
begun.end(commit=True)
joined(child)
say(stats(parent, queue).pending)
parent.close()
"""


def test_a_lock_that_was_held_at_the_fork_is_the_parents(path: Path) -> None:
    """The child waits for it as for anybody's, and gets it when the parent is through."""
    assert finish(start(HEAD + IN_THE_MIDDLE, path)) == ["busy", 2, 2]


GRANDCHILD = """
put(parent, queue, b"a")

def grand():
    own = open_core(path)
    put(own, queue, b"c")
    own.close()

def work():
    own = open_core(path)
    put(own, queue, b"b")
    joined(child_of(grand))
    put(own, queue, b"d")
    own.close()

joined(child_of(work))
say(sorted(claim.body.decode() for claim in take(parent, queue, 10)))
parent.close()
"""


def test_a_childs_child_is_one_more_process(path: Path) -> None:
    assert finish(start(HEAD + GRANDCHILD, path)) == [["a", "b", "c", "d"]]
    with opened(path) as core:
        assert findings(core) == ""


KILLED = """
import signal
parent.close()

def middle():
    own = open_core(path)
    begun = own.begin(30)
    put(own, queue, b"never committed", tx=begun)
    def lives_on():
        first.send()
        second.wait()
    child_of(lives_on)
    first.wait()
    os.kill(os.getpid(), signal.SIGKILL)

dead = child_of(middle)
os.waitpid(dead, 0)
with opened(path, patience=0) as mine:
    put(mine, queue, b"at once")
    say(stats(mine, queue).pending)
second.send()
"""


def test_a_child_keeps_no_lock_of_a_parent_that_was_killed(path: Path) -> None:
    """Its transaction is gone with it, and others write at once, while the child lives on."""
    assert finish(start(HEAD + KILLED, path)) == [1]


MAPPED = """
def targets():
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            pass
    return sum(str(path) in target for target in found)

def work():
    say([targets(), str(path) in Path("/proc/self/maps").read_text()])
    for _ in range(20):
        with opened(path) as own:
            put(own, queue, b"child's")
    say(targets() <= 3)
    first.send()
    second.wait()
    with opened(path) as own:
        say(stats(own, queue).pending)
    say([targets(), lib.fp_locks_held()])

before = targets()
lib.fp_locks_close(lib.fp_locks_open(str(path).encode(), 1))
assert targets() == before + 1  # it is kept, as long as the file is open
child = child_of(work)
first.wait()
say([targets() > 0, str(path) in Path("/proc/self/maps").read_text()])
parent.close()
say([targets(), lib.fp_locks_held()])
second.send()
joined(child)
"""


def test_a_child_has_nothing_of_its_parents_open(path: Path) -> None:
    """
    No descriptor and no mapping of the file. What it opens itself it keeps as long as another
    process has the file locked, but no more than it once used; then it closes it.
    """
    said = finish(start(HEAD + MAPPED, path))
    assert said[:2] == [[0, False], True]
    assert said[2:] == [[True, True], [0, 0], 20, [0, 0]]


BYTES = """
name = str(path).encode()
assert lib.fp_locks_byte(name, 9, lib.FP_LOCKS_TAKE) == 0

def work():
    say(lib.fp_locks_held())
    with opened(path) as own:
        say([lib.fp_locks_byte(name, 9, verb) for verb in (lib.FP_LOCKS_PROBE, lib.FP_LOCKS_SHARE)])
    first.send()
    second.wait()
    with opened(path) as own:
        say([lib.fp_locks_byte(name, 9, verb) for verb in (lib.FP_LOCKS_PROBE, lib.FP_LOCKS_TAKE)])
        lib.fp_locks_byte(name, 9, lib.FP_LOCKS_DROP)

child = child_of(work)
first.wait()
lib.fp_locks_byte(name, 9, lib.FP_LOCKS_DROP)
second.send()
joined(child)
parent.close()
"""


def test_a_byte_of_the_parents_is_somebody_elses_to_its_child(path: Path) -> None:
    """Which knows nothing of having taken it, and gets it when it is dropped."""
    assert finish(start(HEAD + BYTES, path)) == [0, [1, -errno.EAGAIN], [0, 0]]


IN_A_CALL = """
import signal, subprocess, threading, time
fifo = path.with_name("fifo")
os.mkfifo(fifo)
thread = threading.Thread(target=lambda: lib.fp_locks_open(str(fifo).encode(), 0))
thread.start()
at = Path(f"/proc/self/task/{thread.native_id}/wchan")
end = time.monotonic() + 3  # some kernels do not tell
while at.read_text() not in WAITS_FOR_A_WRITER and time.monotonic() < end:
    pass
writer = subprocess.Popen(["sh", "-c", f"sleep 0.5; echo > '{fifo}'"])

def work():
    signal.alarm(30)
    own = open_core(path)
    put(own, queue, b"child's")
    own.close()

joined(child_of(work))
thread.join()
writer.wait()
say(stats(parent, queue).pending)
parent.close()
"""


def test_a_fork_waits_for_a_call_that_is_under_way(path: Path) -> None:
    """Another thread is in an open that hangs: its child would find the lock held for ever."""
    head = HEAD + f"WAITS_FOR_A_WRITER = {WAITS_FOR_A_WRITER}\n"
    assert finish(start(head + IN_A_CALL, path)) == [1]


AGAIN_AND_AGAIN = """
import threading
stop = threading.Event()

def others():
    while not stop.is_set():
        with opened(path) as own:
            stats(own, queue)

threads = [threading.Thread(target=others) for _ in range(3)]
for thread in threads:
    thread.start()

def work():
    own = open_core(path)
    put(own, queue, b"child's")
    own.close()

for _ in range(40):
    joined(child_of(work))
stop.set()
for thread in threads:
    thread.join()
say(stats(parent, queue).pending)
parent.close()
say(lib.fp_locks_held())
"""


@forks_beside_threads
def test_a_fork_finds_no_lock_held_by_a_thread_it_does_not_have(path: Path) -> None:
    assert finish(start(HEAD + AGAIN_AND_AGAIN, path)) == [40, 0]
