"""Many calls of one thread: side by side in the line, and each with an answer of its own."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from commands import until
from fencepost._binding.calls import Core, Gathered
from fencepost._binding.pack import Put, Take, Verdict
from fencepost._binding.requests import Cancelling, Enqueuing, Request, Settling, Stepping
from fencepost._binding.results import NOWHERE, Result, results
from fencepost.errors import Busy, Closed, Conflict, InvalidArgument, StorageError
from harness_bell import bell
from harness_core import (
    REAL_CLOCK,
    START,
    ack,
    define,
    die,
    held,
    keyed,
    lib,
    opened,
    put,
    settle,
    take,
    tx,
)
from harness_core import core as opening
from harness_ladder import disarm
from harness_line import aside, counts, since, stand_in_line

pytestmark = pytest.mark.hostile

SECOND = 1_000_000
FOREVER = 2**53 - 1


def enqueuing(queue: int, body: bytes, **columns: Any) -> Enqueuing:
    return Enqueuing(Put(queue, [body], **columns))


def went(core: Core, *requests: Request[Any]) -> list[Any]:
    """The error of each, or its answer."""
    found = core.gather(requests)
    try:
        return [
            request.read() if how.error is None else how.error
            for request, how in zip(requests, found, strict=True)
        ]
    finally:
        for request in requests:
            request.free()


# ---- gathered ------------------------------------------------------------------------------------


def test_they_are_one_commit_in_their_order(core: Core, queue: int) -> None:
    before = counts(core)
    found = went(core, *(enqueuing(queue, b"%d" % n) for n in range(12)))
    assert since(core, before)[:2] == (1, 12)
    ids = [number for (number,), _created in found]
    assert ids == list(range(ids[0], ids[0] + 12))
    assert [claim.body for claim in take(core, queue, 20)] == [b"%d" % n for n in range(12)]


def test_more_than_fit_are_further_commits(core: Core, queue: int) -> None:
    before = counts(core)
    assert len(went(core, *(enqueuing(queue, b"%d" % n) for n in range(30)))) == 30
    assert since(core, before)[:2] == (3, 30)
    assert [claim.body for claim in take(core, queue, 30)] == [b"%d" % n for n in range(30)]


def test_none_are_none(core: Core) -> None:
    before = counts(core)
    assert core.gather([]) == []
    assert since(core, before)[:2] == (0, 0)


def test_they_share_with_other_threads(core: Core, queue: int) -> None:
    """Whoever leads takes them like anybody's: one commit for both threads."""
    before = counts(core)
    begun = core.begin(30)
    with aside(lambda: put(core, queue, b"thread")):
        stand_in_line(core, 1)
        with aside(lambda: went(core, *(enqueuing(queue, b"%d" % n) for n in range(4)))):
            stand_in_line(core, 5)
            begun.end(commit=True)
    assert since(core, before)[:2] == (1, 5)
    assert [claim.body for claim in take(core, queue, 9)] == [b"thread", b"0", b"1", b"2", b"3"]


def test_every_verb_answers_as_it_would_alone(core: Core, queue: int) -> None:
    put(core, queue, b"1", b"2", b"3", b"4")
    one, two, three = take(core, queue, 3)
    (other,) = put(core, queue, b"5")
    acked, renewed, cancelled, (answers, claims) = went(
        core,
        Settling([Verdict(one.id, one.token, lib.FP_ACK), Verdict(two.id, 1, lib.FP_ACK)]),
        Settling([Verdict(two.id, two.token, lib.FP_RENEW, SECOND)]),
        Cancelling([other, 10**6]),
        Stepping([Verdict(three.id, three.token, lib.FP_ACK)], Take([queue], 9)),
    )
    assert acked == [lib.FP_DONE, lib.FP_LOST]
    assert renewed == [lib.FP_DONE]
    assert cancelled == [lib.FP_DONE, lib.FP_GONE]
    assert answers == [lib.FP_DONE]
    assert [claim.body for claim in held(claims)] == [b"4"]


def test_a_refused_one_costs_the_others_nothing(core: Core, queue: int) -> None:
    """At the door, or by what is in the file."""
    owner = keyed(core, queue, b"k")
    before = counts(core)
    found = went(
        core,
        enqueuing(queue, b"1"),
        enqueuing(queue, b"other", keys=[b"k"], life=1, digests=bytes(32)),
        enqueuing(queue, b"2", delay_us=-1),
        Stepping(None, Take([queue], -1)),
        Settling([Verdict(1, 1, 99)]),
        enqueuing(queue, b"3"),
    )
    assert [type(one) for one in found[1:5]] == [Conflict] + [InvalidArgument] * 3
    assert found[1].id == owner
    assert since(core, before)[:2] == (1, 3)
    assert [claim.body for claim in take(core, queue, 9)] == [b"a", b"1", b"3"]


def test_what_is_no_call_is_refused(core: Core, queue: int) -> None:
    class Nonsense(Enqueuing):
        def lay(self, call: Any) -> None:
            super().lay(call)
            call.verb = 99

    (one,) = went(core, Nonsense(Put(queue, [b"x"])))
    assert isinstance(one, InvalidArgument)
    many = went(core, *(enqueuing(queue, b"x") for _ in range(1001)))
    assert {type(one) for one in many} == {InvalidArgument}
    assert core.size(None, queue) == 0


def test_one_that_spoils_the_transaction_fails_alone(core: Core, queue: int) -> None:
    """Whichever step it is that fails, the others are there, and who was told so is not."""
    for rung in range(0, 60, 3):
        bodies = [b"%d-%d" % (rung, n) for n in range(4)]
        lib.fp_fault_step(rung, 1)
        found = went(core, *(enqueuing(queue, body) for body in bodies))
        disarm()
        expected = {
            body for body, one in zip(bodies, found, strict=True) if not isinstance(one, Exception)
        }
        assert len(expected) >= 3
        there = take(core, queue, 9)
        assert {claim.body for claim in there} == expected
        ack(core, *there)


@pytest.mark.parametrize("times", [1, 1 << 30])
def test_memory_that_is_not_there_loses_nothing(core: Core, queue: int, times: int) -> None:
    """Told for all of them, or for one: what was told as done is there, and nothing else."""
    for rung in range(40):
        lib.fp_fault_memory(rung, times)
        found = went(core, enqueuing(queue, b"a"), enqueuing(queue, b"b"))
        disarm()
        done = [body for body, one in zip(b"ab", found, strict=True) if isinstance(one, tuple)]
        assert all(isinstance(one, (tuple, StorageError)) for one in found)
        there = take(core, queue, 9)
        assert [claim.body for claim in there] == [bytes([body]) for body in done]
        ack(core, *there)
    assert core.size(None, queue) == 0


def test_whose_turn_does_not_come_is_told_who_has_it(core: Core, queue: int) -> None:
    """None was run, and all may come again."""
    begun = core.begin(30)
    answers: list[Sequence[Gathered]] = []
    with aside(
        lambda: answers.append(core.gather([enqueuing(queue, b"%d" % n) for n in range(2)]))
    ):
        pass
    begun.end(commit=True)
    ((first, second),) = answers
    assert (first.again, second.again) == (True, True)
    assert isinstance(first.error, Busy)
    assert "a transaction has had its turn" in str(first.error)
    assert core.size(None, queue) == 0


def test_a_file_that_another_has_locked_is_waited_for_a_slice(
    core: Core, queue: int, path: Path
) -> None:
    with opening(path) as other, tx(other):
        found = core.gather([enqueuing(queue, b"a"), enqueuing(queue, b"b")])
    assert [one.again for one in found] == [True, True]
    assert core.size(None, queue) == 0
    assert len(went(core, enqueuing(queue, b"a"))) == 1


def test_in_a_thread_with_a_transaction_none_is_run(core: Core, queue: int) -> None:
    with tx(core):
        found = core.gather([enqueuing(queue, b"a"), enqueuing(queue, b"b")])
    assert [type(one.error) for one in found] == [InvalidArgument] * 2
    assert not any(one.again for one in found)
    assert core.size(None, queue) == 0


def test_a_closed_store_says_so_to_each(path: Path) -> None:
    one = opened(path)
    queue = define(one, "q")
    one.close()
    found = one.gather([enqueuing(queue, b"a"), enqueuing(queue, b"b")])
    assert [type(how.error) for how in found] == [Closed] * 2


def test_a_claim_looks_after_the_dead(core: Core, queue: int, path: Path) -> None:
    """Whose lease is an hour: as one that is made alone does."""
    put(core, queue, b"a")
    with opening(path) as other:
        take(other, queue, lease_us=3600 * SECOND)
        die(other)
        ((_answers, claims),) = went(core, Stepping(None, Take([queue], 1)))
        assert [claim.attempt for claim in held(claims)] == [2]


# ---- watched -------------------------------------------------------------------------------------


def told(core: Core, **asked: Any) -> list[Result]:
    return list(results(core.watch(until_us=FOREVER, **asked).ended))


def test_an_end_is_told_with_what_came_of_it(core: Core, queue: int) -> None:
    """As it is in the file: done with a result, dead with its failure, cancelled, or not there."""
    done, dead, away, waits = put(core, queue, b"1", b"2", b"3", b"4")
    one, two = take(core, queue, 2)
    settle(core, Verdict(done, one.token, lib.FP_ACK, result=b"result"))
    settle(core, Verdict(dead, two.token, lib.FP_FAIL, kind=b"error", code=b"E", text=b"no"))
    core.cancel(None, [away])
    assert told(core, ids=[done, dead, away, waits, 10**6]) == [
        Result(done, lib.FP_DONE_LISTED, (None, None, None), b"result"),
        Result(dead, lib.FP_STATE_DEAD, (b"error", b"E", b"no"), None),
        Result(away, lib.FP_CANCELLED, (None, None, None), None),
        Result(10**6, NOWHERE, (None, None, None), None),
    ]


def test_what_is_in_line_again_has_not_ended(core: Core, queue: int) -> None:
    (dead,) = put(core, queue, b"1")
    (one,) = take(core, queue)
    settle(core, Verdict(dead, one.token, lib.FP_FAIL))
    assert len(told(core, ids=[dead])) == 1
    core.replay(array("q", [dead, -1]), 0, 0, apply=True)
    assert list(results(core.watch(ids=[dead], until_us=START).ended)) == []


def test_an_end_wakes_who_waits_for_it(core: Core, queue: int) -> None:
    """By whom ever, in whichever queue."""
    other = define(core, "other")
    put(core, queue, b"0")
    (message,) = put(core, other, b"1")
    found: list[list[Result]] = []
    with aside(lambda: found.append(told(core, ids=[message]))):
        (claim,) = take(core, other)
        ack(core, claim)
    assert [one.id for one in found[0]] == [message]


def test_a_queue_is_due_when_there_is_something_to_claim(core: Core, queue: int) -> None:
    """Not before its moment, and not while it is paused."""
    empty = define(core, "empty")
    put(core, queue, b"later", delay_us=SECOND)
    seen = core.watch(queues=[queue, empty], until_us=START)
    assert (seen.due, seen.now_us) == (b"\0\0", START)
    core.hand(START + SECOND)
    assert core.watch(queues=[queue, empty], until_us=FOREVER).due == b"\1\0"
    core.queue_pause(None, queue, paused=True)
    assert core.watch(queues=[queue, empty], until_us=START).due == b"\0\0"


def test_the_hand_ends_a_wait(core: Core, queue: int) -> None:
    put(core, queue, b"later", delay_us=SECOND)
    found: list[bytes] = []
    with aside(lambda: found.append(core.watch(queues=[queue], until_us=FOREVER).due)):
        core.hand(START + SECOND)
    assert found == [b"\1"]


def test_a_change_is_told_by_the_version(core: Core, queue: int) -> None:
    """One from before the wait does not let it begin; a nudge ends it, and so does its time."""
    version = core.version()
    put(core, queue, b"1")
    seen = core.watch(heard=[0], version=version, until_us=FOREVER)
    assert seen.version == core.version() != version
    assert core.watch(heard=[queue], version=version, until_us=FOREVER).version != version
    nudges = core.nudges()
    core.nudge()
    assert core.watch(ids=[1], until_us=FOREVER, nudges=nudges).now_us == START
    assert core.watch(heard=[0], version=core.version(), until_us=START).now_us == START


def test_an_end_is_not_slept_through(path: Path) -> None:
    """In whichever queue it is: nobody sleeps to the end of the slice."""
    with opening(path, hand_us=REAL_CLOCK) as one:
        (message,) = put(one, define(one, "q"), b"1")
        before = bell(one)
        with aside(lambda: told(one, ids=[message])):
            until(lambda: bell(one).asleep > 0)
            one.cancel(None, [message])
        assert (bell(one).late, bell(one).time) == (before.late, before.time)


def test_a_version_that_has_moved_lets_nobody_sleep(path: Path) -> None:
    with opening(path, hand_us=REAL_CLOCK) as one:
        queue, version = define(one, "q"), one.version()
        put(one, queue, b"1")
        before = bell(one)
        one.watch(heard=[queue], version=version, until_us=FOREVER)
        assert bell(one) == before


def test_closing_ends_a_watch(path: Path) -> None:
    one = opened(path)
    (message,) = put(one, define(one, "q"), b"1")
    found: list[BaseException] = []

    def watch() -> None:
        try:
            while True:
                one.watch(ids=[message], until_us=FOREVER)
        except Closed as error:
            found.append(error)

    with aside(watch):
        one.close()
    assert len(found) == 1
