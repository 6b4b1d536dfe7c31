"""Children of runs that end through the door: their parents are told, as by the core."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import pytest

from fencepost import App, Context, Run
from fencepost._binding.codes import FP
from fencepost._binding.flow import ChildOutcome, child_outcome
from harness_core import Held, Verdict, core, define, lib, put, settle, take
from harness_door import FAR, Door, Refused
from harness_flow import Scene, scene
from harness_outside import Outside
from harness_twins import SECOND, Twins
from harness_worker import until

pytestmark = pytest.mark.hostile

T = TypeVar("T")

RUN, CHILD = "lauf-ä".encode(), "kind:ü:1".encode()
ODD = b"\x00\xff\xfe result \x80"


class Families:
    """A run whose pass is on, with a job as its child; in two files."""

    def __init__(self, folder: Path, outside: Outside) -> None:
        self.twins = Twins(folder, outside)
        self.scenes = [scene(one) for one in (self.twins.core, self.twins.other)]
        self.jobs = self.twins.define("jobs", lib.FP_PROFILE_JOB, max_attempts=2)
        self.each(lambda at: at.start(RUN))
        (self.parent,) = self.each(lambda at: at.take())
        self.job = self.each(lambda at: at.start_job(self.jobs, self.parent, CHILD, max_attempts=1))

    def each(self, what: Callable[[Scene], T]) -> T:
        one, two = map(what, self.scenes)
        assert one == two
        return one

    def rest(self, verb: int, **said: Any) -> None:
        self.each(lambda at: at.end(self.parent, verb, **said))

    def taken(self) -> Held:
        (held,) = self.each(lambda at: take(at.core, self.jobs))
        return held

    def settle(self, verb: str, result: bytes | None = None, *failure: str) -> None:
        """By the core in one file, by the door in the other."""
        held = self.taken()
        verdict = Verdict(
            held.id, held.token, getattr(FP, verb.upper()), 0, result, *map(str.encode, failure)
        )
        settle(self.twins.core, verdict)
        words = dict(zip(("failure_kind", "failure_code", "failure_text"), failure, strict=False))
        self.twins.door.settle(held.id, held.token, verb, result=result, **words)

    def told(self) -> ChildOutcome | None:
        """What the parent was told, in both; nothing else differs, either."""
        self.twins.same()

        def look(at: Scene) -> ChildOutcome | None:
            found = [one.value for one in at.flow.records(RUN) if one.key == CHILD]
            return child_outcome(found[0]) if found else None

        return self.each(look)

    def woken(self) -> int:
        """Whether its wake-up is due: it is taken."""
        return len(self.each(lambda at: at.take()))


@pytest.fixture
def families(tmp_path: Path, outside: Outside) -> Iterator[Families]:
    found = Families(tmp_path, outside)
    yield found
    found.twins.close()


ENDS: dict[str, tuple[ChildOutcome, tuple[Any, ...]]] = {
    "a result": (ChildOutcome("done", b'{"a": 1}'), ("ack", b'{"a": 1}')),
    "bytes": (ChildOutcome("done", ODD), ("ack", ODD)),
    "no result": (ChildOutcome("done", b""), ("ack", None)),
    "a failure": (
        ChildOutcome("failed", None, "odd", "went wröng"),
        ("fail", None, "odd", "E", "went wröng"),
    ),
    "its last attempt": (
        ChildOutcome("failed", None, "error", "no"),
        ("retry", None, "error", "", "no"),
    ),
    "its holder cancels": (ChildOutcome("cancelled"), ("cancel", None)),
}


@pytest.mark.parametrize("how", ENDS)
def test_a_child_that_ends_through_the_door_wakes_its_parent(families: Families, how: str) -> None:
    expected, said = ENDS[how]
    families.rest(FP.END_WAIT)
    assert families.woken() == 0
    families.settle(*said)
    assert families.told() == expected
    assert families.woken() == 1
    families.twins.same()


def test_a_child_that_nobody_has_taken_is_cancelled_through_the_door(families: Families) -> None:
    families.rest(FP.END_WAIT)
    families.twins.core.cancel(None, [families.job])
    families.twins.door.settle(families.job, None, "cancel")
    assert families.told() == ChildOutcome("cancelled")
    assert families.woken() == 1


def test_a_child_that_goes_back_into_the_line_tells_nobody(families: Families) -> None:
    families.rest(FP.END_WAIT)
    families.settle("release")
    assert families.told() is None
    assert families.woken() == 0


RESTS: dict[str, tuple[int, dict[str, Any]]] = {
    "sleeps": (FP.END_SLEEP, {"at_us": FAR + 60 * SECOND}),
    "is to be tried again": (FP.END_RETRY, {"at_us": 60 * SECOND}),
    "has failed": (FP.END_FAIL, {"kind": b"error"}),
    "is parked": (FP.END_PARK, {"kind": b"changed"}),
    "is done": (FP.END_DONE, {}),
}


@pytest.mark.parametrize("state", [*RESTS, "has a pass", "is gone"])
def test_a_parent_is_told_whatever_it_does(families: Families, state: str) -> None:
    """One that goes on is due; one that has ended is told nothing, or when it is resumed."""
    if state == "is gone":
        families.each(lambda at: at.flow.delete(None, RUN))
        assert families.each(lambda at: take(at.core, families.jobs)) == []  # nor is its job there
        return
    if state in RESTS:
        verb, said = RESTS[state]
        families.rest(verb, **said)
    families.settle("ack", b"1")
    told = families.told()
    assert told == (None if state == "is done" else ChildOutcome("done", b"1"))
    assert families.woken() == (state in ("sleeps", "is to be tried again"))
    if state == "has a pass":
        families.rest(FP.END_WAIT)
        families.twins.same()
        assert families.woken() == 1


def test_the_first_end_of_a_child_counts(families: Families) -> None:
    """A dead job that is replayed does not tell its parent again."""
    families.rest(FP.END_WAIT)
    families.settle("fail", None, "error", "", "no")
    pair = array("q", [families.job, -1])
    families.twins.both(lambda one: one.replay(pair, 0, 0, apply=True))
    families.settle("ack", b"1")
    assert families.told() == ChildOutcome("failed", None, "error", "no")


@pytest.mark.parametrize(
    "key",
    [
        b"child:7:lauf-\xc3\xa4other",
        b"child:x",
        b"child:",
        b"child:-3:abc",
        b"child:9999999999999999999:a",
    ],
)
def test_a_key_that_only_looks_like_a_childs_tells_nobody(families: Families, key: bytes) -> None:
    twins = families.twins
    families.rest(FP.END_WAIT)
    families.settle("ack", b"1")
    families.woken()
    twins.both(lambda one: put(one, families.jobs, b"{}", keys=[key], life=lib.FP_LIFE_LIVE))
    before = families.each(lambda at: len(list(at.flow.records(RUN))))
    families.settle("ack", b"2")
    twins.same()
    assert families.each(lambda at: len(list(at.flow.records(RUN)))) == before


def test_a_message_of_another_queue_under_a_childs_key_tells_nobody(families: Families) -> None:
    """While the child itself is in line: a key is one of its queue's."""
    twins = families.twins
    other = twins.define("other", lib.FP_PROFILE_JOB)
    key = b"child:%d:%s%s" % (len(RUN), RUN, CHILD)
    families.rest(FP.END_WAIT)
    families.jobs, mine = other, families.jobs
    twins.both(lambda one: put(one, other, b"{}", keys=[key], life=lib.FP_LIFE_LIVE))
    families.settle("ack", b"2")
    assert families.told() is None
    families.jobs = mine
    families.settle("ack", b"1")
    assert families.told() == ChildOutcome("done", b"1")


def test_the_door_ends_no_run(families: Families, outside: Outside) -> None:
    """More would have to follow than it can write."""
    before = outside.dump(families.twins.paths[1])
    held = families.parent
    for verb, token in (("ack", held.token), ("fail", held.token), ("cancel", None)):
        with pytest.raises(Refused, match="a run is ended by Fencepost itself"):
            families.twins.door.settle(held.id, token, verb)
    assert outside.dump(families.twins.paths[1]) == before


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
def test_in_a_utf_16_file_the_door_ends_no_child(
    path: Path, outside: Outside, encoding: str
) -> None:
    """Its key has numbers of bytes in UTF-8, which are not those that are in the file."""
    path.touch()
    outside.change(path, f"PRAGMA encoding = '{encoding}'; CREATE TABLE mine (a)")
    with core(path, wal=True, hand_us=FAR) as one, Door(path) as door:
        at, jobs = scene(one), define(one, "jobs")
        at.start()
        at.start_job(jobs, at.take()[0])
        (job,) = take(one, jobs)
        before = outside.dump(path)
        with pytest.raises(Refused, match="not in UTF-8"):
            door.settle(job.id, job.token, "ack")
        assert outside.dump(path) == before


def test_a_child_acks_in_a_transaction_of_its_own_and_its_parent_goes_on(app: App) -> None:
    @app.job(context=True)
    def pay(ctx: Context, amount: int) -> int:
        with closing(sqlite3.connect(app.store.path, isolation_level="IMMEDIATE")) as bank, bank:
            bank.execute("CREATE TABLE IF NOT EXISTS paid (amount INTEGER)")
            bank.execute("INSERT INTO paid VALUES (?)", (amount,))
            ctx.ack(amount + 1, tx=bank)
        return amount

    @app.workflow
    async def buy(run: Run) -> int:
        return await run.child("pay", pay, 7)

    handle = buy.start()
    with app.worker(queues=["workflows"]):
        until(lambda: handle.status().waiting_for)
    with app.worker():
        assert handle.result(60) == 8
    with app.transaction() as tx:
        assert tx.execute("SELECT amount FROM paid") == [(7,)]
    assert app.store.check(full=True) == []
