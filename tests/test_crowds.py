"""Many threads and many processes at once: all get through, and what they are told is true."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from commands import until
from fencepost._binding.pack import Put
from fencepost.errors import Busy, Conflict
from harness_core import Held, Verdict, ack, define, lib, put, settle, stats, take
from harness_core import core as opened
from harness_ladder import findings
from harness_line import aside, counts, since
from harness_outside import Outside
from harness_processes import all_of, at_once, start

pytestmark = [pytest.mark.hostile, pytest.mark.usefixtures("no_process_left")]

REAL = -1
HOUR = 3_600_000_000


def crowd(threads: int, work: Callable[[int], None]) -> None:
    """Each with its number; what one of them raises, the test raises."""
    raised: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            raised.append(error)

    all_ = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in all_:
        thread.start()
    for thread in all_:
        thread.join()
    if raised:
        raise raised[0]


# ---- threads -------------------------------------------------------------------------------------


def test_many_threads_take_fewer_commits_than_calls(path: Path) -> None:
    """Sixteen that enqueue one by one: nobody waits for a commit of his own."""
    with opened(path) as core:
        queue = define(core, "q")
        before = counts(core)
        ids: list[list[int]] = [[] for _ in range(16)]

        def work(number: int) -> None:
            for _ in range(50):
                ids[number] += put(core, queue, b"%d" % number)

        crowd(16, work)
        after = since(core, before)
        assert after.members == 16 * 50
        assert after.commits < 16 * 50 / 2
        assert all(own == sorted(own) for own in ids)  # each thread's own come in its order
        assert len({one for own in ids for one in own}) == 16 * 50


@pytest.mark.parametrize("spoilt", [False, True], ids=["", "each transaction is made twice"])
@pytest.mark.parametrize("seed", [1, 2])
def test_what_threads_are_told_adds_up(path: Path, seed: int, spoilt: bool) -> None:
    """
    Eight threads put, claim, ack, release, cancel and meet conflicts, as a seed says: in the end
    each message is where the answers say, and was settled once.
    """
    with opened(path) as core:
        queue = define(core, "q", lib.FP_PROFILE_JOB)
        bulk = define(core, "bulk", lib.FP_PROFILE_QUEUE)
        told: Counter[str] = Counter()
        lock = threading.Lock()
        lib.fp_fault_spoil(spoilt)

        def say(word: str, count: int = 1) -> None:
            with lock:
                told[word] += count

        def settled(held: list[Held], word: str) -> None:
            say(word, ack(core, *held).count(lib.FP_DONE))

        def step(chance: random.Random, number: int) -> None:
            where, word = (queue, "job") if chance.random() < 0.5 else (bulk, "bulk")
            kind = chance.randrange(6)
            if kind <= 1:
                say(f"{word} put", len(put(core, where, *[b"x"] * chance.randrange(1, 4))))
            elif kind == 2:
                settled(take(core, where, chance.randrange(1, 4), lease_us=HOUR), f"{word} acked")
            elif kind == 3:
                for held in take(core, where, 2, lease_us=HOUR):
                    said = Verdict(held.id, held.token, chance.choice([lib.FP_RELEASE, lib.FP_ACK]))
                    done = settle(core, said) == [lib.FP_DONE]  # or cancelled meanwhile
                    say(f"{word} acked", done and said.verb == lib.FP_ACK)
            elif kind == 4:
                (one,) = put(core, queue, b"x")
                say("job put")
                say("cancelled", core.cancel(None, [one]).count(lib.FP_DONE))
            else:
                key, body = b"k%d" % chance.randrange(5), b"%d" % number
                try:
                    _, created = core.enqueue(None, Put(queue, [body], keys=[key], life=1))
                    say("job put", created[0])
                except Conflict:
                    say("conflict")

        def work(number: int) -> None:
            chance = random.Random(seed * 100 + number)
            for _ in range(40):
                step(chance, number)

        try:
            crowd(8, work)
        finally:
            lib.fp_fault_spoil(0)
        jobs, data = stats(core, queue), stats(core, bulk)
        assert told["job put"] == jobs.pending + jobs.leased + jobs.done + jobs.cancelled
        assert (jobs.done, jobs.cancelled) == (told["job acked"], told["cancelled"])
        assert told["bulk put"] == data.pending + data.leased + told["bulk acked"]
        assert jobs.leased == data.leased == 0
        assert told["conflict"] > 0
        assert findings(core) == ""


def test_transactions_among_groups(path: Path) -> None:
    """Some threads hold the turn for several calls; all get theirs, and nobody sees them."""
    with opened(path) as core:
        queue = define(core, "q")

        def work(number: int) -> None:
            for _ in range(25):
                if number % 2:
                    put(core, queue)
                    continue
                begun = core.begin(30)
                size = core.size(begun, queue)
                put(core, queue, b"a", b"b", tx=begun)
                assert core.size(begun, queue) == size + 2
                begun.end(commit=True)

        crowd(8, work)
        assert stats(core, queue).pending == 25 * (4 + 2 * 4)


# ---- kills ---------------------------------------------------------------------------------------

CROWD = """
import threading
opening = opened(path, hand_us=-1)
core = opening.__enter__()
queue = define(core, "q")
say("ready")
sys.stdin.readline()
lib.fp_fault_kill(int(sys.argv[2]))

def work(number):
    for at in range(1000):
        body = b"%d %d" % (number, at)
        say([put(core, queue, body)[0], body.decode()])

threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
"""


@pytest.mark.parametrize("at", [700, 1101, 1502])
def test_a_process_that_is_killed_among_commits(path: Path, outside: Outside, at: int) -> None:
    """At some step of some group: what was acknowledged is there, and the file is whole."""
    process = start(CROWD, path, at)
    at_once([process])
    said, _ = process.communicate(timeout=120)
    assert process.returncode == -9
    lines = [line for line in said.splitlines(keepends=True) if line.endswith("\n")]
    acknowledged = dict(map(json.loads, lines))
    assert len(acknowledged) > 10
    with opened(path, hand_us=REAL) as core:
        assert findings(core) == ""
        there = {claim.id: (claim.body or b"").decode() for claim in take(core, 1, 9000)}
    assert acknowledged.items() <= there.items()
    assert len(there) - len(acknowledged) <= 8  # at most one of each thread was not told any more


# ---- processes -----------------------------------------------------------------------------------

HAMMER = """
import threading
with opened(path, hand_us=-1, patience=20) as core:
    queue = define(core, "q")
    say("ready")
    sys.stdin.readline()

    def work():
        for _ in range(int(sys.argv[3])):
            put(core, queue, b"x" * 100)

    threads = [threading.Thread(target=work) for _ in range(int(sys.argv[2]))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    say("done")
"""


@pytest.mark.parametrize(("processes", "threads", "each"), [(6, 1, 100), (3, 4, 50)])
def test_processes_that_hammer_all_get_through(
    path: Path, processes: int, threads: int, each: int
) -> None:
    """None is told that the file is busy: each has its turn, as long as any of them has."""
    with opened(path, hand_us=REAL) as core:
        define(core, "q")
    crowd = [start(HAMMER, path, threads, each) for _ in range(processes)]
    at_once(crowd)
    assert all_of(crowd) == [["done"]] * processes
    with opened(path, hand_us=REAL) as core:
        assert stats(core, 1).pending == processes * threads * each
        assert findings(core) == ""


WAITER = """
with opened(path, hand_us=-1, patience=20) as core:
    say("ready")
    sys.stdin.readline()
    put(core, 1)
    say("done")
"""


def test_who_writes_without_a_pause_lets_others_in(path: Path) -> None:
    """A process that never stops by itself goes on only until the other one has had its turn."""
    with opened(path, hand_us=REAL) as core:
        queue = define(core, "q")
        process = start(WAITER, path)
        at_once([process])
        while process.poll() is None:
            put(core, queue, b"mine")
        assert all_of([process]) == [["done"]]


def test_one_that_is_stopped_while_it_waits_is_waited_for_less_and_less(path: Path) -> None:
    """Its turn is left to it a few times; then the others go on nearly as if it were not there."""
    with opened(path, hand_us=REAL) as core:
        queue = define(core, "q")
        begun = core.begin(30)
        process = start(WAITER, path)
        at_once([process])
        until(lambda: lib.fp_locks_byte(os.fsencode(path), 0, lib.FP_LOCKS_PROBE) == 1)
        process.send_signal(signal.SIGSTOP)
        begun.end(commit=False)
        before = counts(core)
        for _ in range(300):
            put(core, queue)
        left = since(core, before).left
        process.send_signal(signal.SIGCONT)
        assert all_of([process]) == [["done"]]
        assert stats(core, queue).pending == 301
        assert 1 <= left <= 10


def test_a_transaction_is_waited_for_only_so_long(path: Path) -> None:
    """Patience is the caller's, and ends while another process holds the file, which is said."""
    holder = """
with opened(path, hand_us=-1) as core:
    begun = core.begin(30)
    say("ready")
    sys.stdin.readline()
    sys.stdin.readline()
    begun.end(commit=True)
"""
    with opened(path, hand_us=REAL) as core:
        queue = define(core, "q")
        process = start(holder, path)
        at_once([process])
        core.patience = 0.6
        with pytest.raises(Busy, match="another process"):
            put(core, queue)
        core.patience = 30
        with aside(lambda: put(core, queue)):
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        assert all_of([process]) == [[]]
        assert stats(core, queue).pending == 1
