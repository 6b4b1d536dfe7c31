"""Several processes on one file: what one of them does the others see, wait for, and survive."""

from __future__ import annotations

import signal
from array import array
from pathlib import Path

import pytest

from fencepost import Busy, Conflict
from harness_core import Verdict, ack, define, lib, put, settle, stats, take
from harness_core import core as opened
from harness_core import tx as transaction
from harness_ladder import findings
from harness_outside import Outside
from harness_processes import all_of, at_once, finish, heard, start

pytestmark = pytest.mark.usefixtures("no_process_left")

REAL = -1
SECOND = 1_000_000


def test_claims_of_many_processes_are_disjoint(path: Path) -> None:
    """Each message goes to one of them, each token is given out once."""
    with opened(path, hand_us=REAL) as core:
        queue = define(core, "q")
        ids = put(core, queue, *[b"x"] * 2000)
    program = """
with opened(path, hand_us=-1) as core:
    say("ready")
    sys.stdin.readline()
    while held := take(core, 1, 7):
        assert ack(core, *held) == [0] * len(held)
        say([[claim.id, claim.token] for claim in held])
"""
    processes = [start(program, path) for _ in range(4)]
    at_once(processes)
    said = [pair for batches in all_of(processes) for batch in batches for pair in batch]
    assert sorted(id_ for id_, _ in said) == ids
    assert len({token for _, token in said}) == len(ids)
    with opened(path, hand_us=REAL) as core:
        assert stats(core, queue).done == len(ids)
        assert findings(core) == ""


def test_one_of_many_gets_the_key(path: Path) -> None:
    """They say the same thing at the same time: one message, and all know its id."""
    program = """
with opened(path, hand_us=-1) as core:
    queue = define(core, "q")
    say("ready")
    sys.stdin.readline()
    for number in range(100):
        say(core.enqueue(None, Put(queue, [b"a"], keys=[b"k%d" % number], life=1))[1][0])
"""
    processes = [start(program, path) for _ in range(3)]
    at_once(processes)
    created = all_of(processes)
    assert [sum(each) for each in zip(*created, strict=True)] == [1] * 100
    with opened(path, hand_us=REAL) as core:
        assert stats(core, 1).pending == 100
        with pytest.raises(Conflict):
            put(core, 1, b"other", keys=[b"k7"], life=1)


def test_queues_and_kinds_of_many_processes_have_one_number_each(path: Path) -> None:
    program = """
with opened(path, hand_us=-1) as core:
    say("ready")
    sys.stdin.readline()
    say([[define(core, f"q{n}"), core.kind(None, b"kind %d" % n)] for n in range(20)])
"""
    processes = [start(program, path) for _ in range(4)]
    at_once(processes)
    ((first,), *others) = all_of(processes)
    assert all(each == [first] for each in others)
    for numbers in zip(*first, strict=True):
        assert len(set(numbers)) == 20


WAITER = """
with opened(path, hand_us=-1) as core:
    say("ready")
    held = []
    until = core.now() + 60 * 1_000_000
    while not held and core.now() < until:
        held = take(core, 1, until_us=until)
    say([claim.body.decode() for claim in held])
"""


def test_a_waiting_claim_is_woken_by_another_process(path: Path) -> None:
    """It waits for a minute, and has the message long before."""
    with opened(path, hand_us=REAL) as core:
        queue = define(core, "q")
        waiter = start(WAITER, path)
        assert heard(waiter) == "ready"
        put(core, queue, b"hello")
        assert finish(waiter) == [["hello"]]


def test_what_is_rolled_back_wakes_nobody(path: Path) -> None:
    """The one that waits gets what was committed after it, and nothing else."""
    with opened(path, hand_us=REAL) as core:
        queue = define(core, "q")
        waiter = start(WAITER, path)
        assert heard(waiter) == "ready"
        for _ in range(20):
            begun = core.begin(30)
            put(core, queue, b"never", tx=begun)
            begun.end(commit=False)
        put(core, queue, b"committed")
        assert finish(waiter) == [["committed"]]


def test_what_is_not_committed_is_not_seen(path: Path) -> None:
    program = """
with opened(path, hand_us=-1, patience=0) as core:
    say([len(take(core, 1, until_us=1)), stats(core, 1).pending])
"""
    with opened(path, hand_us=REAL) as core:
        queue = define(core, "q")
        with transaction(core) as tx:
            put(core, queue, b"a", tx=tx)
            assert finish(start(program, path)) == [[0, 0]]
        assert finish(start(program, path)) == [[1, 0]]


def test_a_process_that_dies_in_a_transaction_leaves_nothing(path: Path) -> None:
    """Its lock goes with it: the next one writes at once, and no number was used up."""
    program = """
with opened(path, hand_us=-1) as core, transaction(core) as tx:
    say(put(core, 1, b"never", tx=tx))
    sys.stdin.readline()
"""
    with opened(path, hand_us=REAL, patience=0) as core:
        queue = define(core, "q")
        process = start(program, path)
        (never,) = heard(process)
        with pytest.raises(Busy, match="another process"):
            put(core, queue, b"a")
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert put(core, queue, b"a") == [never]
        assert findings(core) == ""


def test_a_policy_that_another_process_wrote_holds_at_once(path: Path) -> None:
    """Paused, resumed, another lease: without a word between the two."""
    program = """
with opened(path, hand_us=-1) as core:
    for line in sys.stdin:
        exec(line)
        say("done")
"""
    with opened(path, hand_us=REAL) as core:
        queue = define(core, "q", lease_us=10 * SECOND)
        put(core, queue, b"a", b"b", b"c")
        process = start(program, path)

        def there(line: str) -> None:
            assert process.stdin is not None
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            assert heard(process) == "done"

        assert len(take(core, queue)) == 1
        there("core.queue_pause(None, 1, paused=True)")
        assert take(core, queue) == []
        there("core.queue_pause(None, 1, paused=False)")
        assert len(take(core, queue)) == 1
        there("define(core, 'q', lease_us=77 * 1_000_000)")
        (held,) = take(core, queue)
        assert held.lease_end > core.now() + 60 * SECOND
        assert core.queue_find(None, b"q")[1]["lease_us"] == 77 * SECOND
        finish(process)


def test_a_claim_can_be_settled_by_another_process(path: Path) -> None:
    """In a queue whose messages are found by their ids: the token is the proof."""
    program = """
id, token = map(int, sys.argv[2:])
with opened(path, hand_us=-1) as core:
    say(settle(core, Verdict(id, token, lib.FP_RENEW, 5_000_000), Verdict(id, token, lib.FP_ACK)))
"""
    with opened(path, hand_us=REAL) as core:
        queue = define(core, "q")
        put(core, queue, b"a", b"b")
        held = take(core, queue, 2)
        done, lost = [lib.FP_DONE] * 2, [lib.FP_LOST] * 2
        assert finish(start(program, path, held[0].id, held[0].token)) == [done]
        assert finish(start(program, path, held[1].id, held[1].token - 1)) == [lost]
        assert settle(core, Verdict(held[0].id, held[0].token, lib.FP_RENEW)) == [lib.FP_ALREADY]
        assert ack(core, held[1]) == [lib.FP_DONE]


def test_an_application_writes_its_own_rows_from_its_own_process(
    path: Path, outside: Outside
) -> None:
    """With its own, older SQLite, at the same time: nothing of either is lost."""
    with opened(path, hand_us=REAL) as core:
        queue = define(core, "q")
        outside.change(path, "CREATE TABLE mine (x INTEGER PRIMARY KEY)")
        program = """
import sqlite3
connection = sqlite3.connect(path, timeout=60)
for number in range(100):
    with connection:
        connection.execute("INSERT INTO mine VALUES (?)", (number,))
say(connection.execute("SELECT count(*) FROM mine").fetchone()[0])
"""
        process = start(program, path)
        ids = []
        while process.poll() is None:
            ids += put(core, queue, b"x")
            ack(core, *take(core, queue))
        assert finish(process) == [100]
        assert stats(core, queue).done == len(ids)
        assert outside.rows(path, "SELECT count(*) FROM mine") == [[100]]
        assert findings(core) == ""


def test_a_dead_letter_is_replayed_by_one_of_many(path: Path) -> None:
    """Each names the death it saw: one of them wins, the others are told."""
    with opened(path, hand_us=REAL) as core:
        queue = define(core, "q")
        ids = put(core, queue, *[b"x"] * 50)
        held = take(core, queue, 50)
        settle(core, *(Verdict(claim.id, claim.token, lib.FP_FAIL) for claim in held))
    program = """
from array import array
with opened(path, hand_us=-1) as core:
    say("ready")
    sys.stdin.readline()
    for id in range(1, 51):
        say(core.replay(array("q", [id, 1]), 0, 0, apply=True)[0])
"""
    processes = [start(program, path) for _ in range(3)]
    at_once(processes)
    answers = list(zip(*all_of(processes), strict=True))
    assert ids == list(range(1, 51))
    assert [each.count(lib.FP_DONE) for each in answers] == [1] * 50
    assert {one for each in answers for one in each} == {lib.FP_DONE, lib.FP_NOT_DEAD}
    with opened(path, hand_us=REAL) as core:
        assert len(take(core, queue, 100)) == 50
        stale = array("q", [ids[0], 1])
        assert core.replay(stale, 0, 0, apply=True) == [lib.FP_NOT_DEAD]
