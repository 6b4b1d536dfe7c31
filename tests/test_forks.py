"""A child of a fork that opens the file itself: a process like any other, whatever it inherited."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness_core import core as opened
from harness_ladder import findings
from harness_outside import Outside
from harness_processes import finish, start

pytestmark = pytest.mark.hostile

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
