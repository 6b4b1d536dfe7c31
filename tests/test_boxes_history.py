"""
Histories over inbox, jobs and outbox together, against what must be true of any: whatever comes in
which order, whatever fails, dies, lapses, and whatever an operator does meanwhile, no message is
lost and none is settled twice.

What an inbox's handler asks for is part of its message: a row, a job and a delivery, or none of
them. What left the file is counted outside, where nothing can be rolled back.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, suppress
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from fencepost import (
    App,
    Backoff,
    Context,
    Delivery,
    DeliveryUnknown,
    Message,
    PermanentError,
    RetryLater,
    State,
)
from fencepost.testing import override

SOON = Backoff(1, 1, 1, 0)
LEASE = 10
FEW = st.integers(0, 3)

# What a handler does when it is called; the last one stays.
MOODS = ("well", "well", "well", "fails", "for good", "later", "all later")
SENDING = ("in doubt", "arrived, and in doubt")
moods = st.lists(st.sampled_from(MOODS + SENDING), min_size=1, max_size=4)
POINTS = ("claimed", "begun", "handled", "sent", "committed")


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.moods: list[str] = []
        self.sent: Counter[int] = Counter()  # outside, by the message's id
        self.again: Counter[int] = Counter()  # how often an operator had one sent again
        self.confirmed: set[int] = set()
        self.told: dict[str, int] = {}  # what was accepted, by the sender's id
        self.known: set[int] = set()
        self.gone: set[int] = set()
        self.app = App(durability="normal")
        self.declare()
        self.closing = ExitStack()
        self.kit = self.closing.enter_context(override(self.app))
        self.store = self.kit.store
        with self.app.transaction() as tx:
            tx.execute("CREATE TABLE did (what TEXT, id TEXT)")

    def declare(self) -> None:
        app = self.app
        self.outbox = app.outbox("out", int, backoff=SOON, max_attempts=3, lease=LEASE)
        self.inbox = app.inbox("in", int, backoff=SOON, max_attempts=3, lease=LEASE)

        @app.job(context=True, backoff=SOON, max_attempts=3)
        def work(ctx: Context, n: int) -> None:
            ctx.tx.execute("INSERT INTO did VALUES ('work', ?)", (str(ctx.id),))
            self.behave()

        @self.inbox.handler
        def came(ctx: Context, n: int) -> None:
            ctx.tx.execute("INSERT INTO did VALUES ('in', ?)", (ctx.key,))
            work.options(key=f"for {ctx.key}", tx=ctx.tx).enqueue(n)
            self.outbox.send("d", n, key=f"for {ctx.key}", lane=f"{n}", tx=ctx.tx)
            self.behave()

        @self.outbox.handler
        def deliver(d: Delivery[int]) -> None:
            mood = self.behave()
            if mood == "in doubt":
                raise DeliveryUnknown
            self.sent[d.id] += 1
            if mood == "arrived, and in doubt":
                raise DeliveryUnknown

        self.work = work

    def behave(self) -> str:
        mood = self.moods.pop(0) if len(self.moods) > 1 else "".join(self.moods)
        if mood == "fails":
            raise OSError
        if mood == "for good":
            raise PermanentError
        if mood.endswith("later"):
            raise RetryLater(delay=1, whole_queue=mood == "all later")
        return mood

    # ---- what happens

    @rule(came=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1)), min_size=1, max_size=4))
    def accept(self, came: list[tuple[int, int]]) -> None:
        for id_, n in came:
            first = self.told.setdefault(f"{id_}", n)
            new = self.inbox.message(f"{id_}") is None
            said = self.inbox.accept(f"{id_}", n)
            assert said == ("accepted" if new else "duplicate" if first == n else "conflict")

    @rule(lanes=st.lists(st.sampled_from([None, "a", "b"]), min_size=1, max_size=4))
    def send(self, lanes: list[str | None]) -> None:
        for n, lane in enumerate(lanes):
            if lane is None:
                self.outbox.send("d", n)
            else:
                self.outbox.send("d", n, lane=lane)

    @rule(delays=st.lists(st.sampled_from([0, 0, 5]), min_size=1, max_size=4))
    def enqueue(self, delays: list[int]) -> None:
        for n, delay in enumerate(delays):
            self.work.options(delay=delay).enqueue(n)

    @rule(n=FEW)
    def roll_back(self, n: int) -> None:
        with suppress(ZeroDivisionError), self.app.transaction() as tx:
            self.inbox.accept("never", n, tx=tx)
            self.outbox.send("d", n, tx=tx)
            self.work.options(tx=tx).enqueue(n)
            raise ZeroDivisionError
        assert self.inbox.message("never") is None

    @rule(moods=moods, limit=st.integers(1, 12))
    def drain(self, moods: list[str], limit: int) -> None:
        self.moods = moods
        self.kit.drain(limit=limit)

    @rule(
        moods=moods,
        point=st.sampled_from(POINTS),
        name=st.sampled_from(["", "in", "out", "work"]),
        limit=st.integers(1, 8),
    )
    def die(self, moods: list[str], point: Any, name: str, limit: int) -> None:
        """Where the worker comes by; if it does not, it goes on."""
        self.moods = moods
        with suppress(AssertionError), self.kit.crash_at(point, name):
            self.kit.drain(limit=limit)

    @rule(
        ends=st.lists(st.tuples(st.sampled_from(POINTS), st.sampled_from(SENDING)), max_size=4),
        picks=st.lists(st.tuples(st.integers(0, 99), st.booleans()), max_size=3),
    )
    def a_bad_day(self, ends: list[tuple[Any, str]], picks: list[tuple[int, bool]]) -> None:
        """Deliveries that nobody can answer for, and what operators make of them."""
        for point, mood in ends:
            self.send([None, "a", "b"])
            self.die([mood, "well"], point, "out", 3)
            self.advance(LEASE + 1)
            self.drain(["well", mood, "well"], 8)
        for pick, careful in picks:
            self.decide(pick, careful)

    @rule(span=st.sampled_from([1, 2, LEASE + 1]))
    def advance(self, span: int) -> None:
        self.kit.advance(span)

    # ---- what operators do

    @rule(delay=st.sampled_from([0, 1]), stale=st.booleans())
    def replay(self, delay: int, stale: bool) -> None:
        """And once more, from the same listing: somebody else has done it."""
        dead = self.store.messages("dead")
        answers = self.store.replay(dead, delay=delay)
        assert [one.outcome for one in answers] == ["replayed"] * len(dead)
        if stale:
            assert {one.outcome for one in self.store.replay(dead)} <= {"not dead"}

    @rule(pick=st.integers(0, 99), careful=st.booleans())
    def decide(self, pick: int, careful: bool) -> None:
        """Who is careful looks outside first."""
        unknown = self.store.messages("unknown")
        if not unknown:
            return
        one = unknown[pick % len(unknown)]
        if careful and self.sent[one.id]:
            assert self.store.confirm([one], note="seen there") == 1
            self.confirmed.add(one.id)
            return
        (answer,) = self.store.replay([one], note="not there")
        assert answer.outcome == "replayed"
        self.again[one.id] += 1

    @rule(pick=st.integers(0, 99))
    def cancel(self, pick: int) -> None:
        """Never one of the inbox: its sender was told that it is in good hands."""
        pending = [one for one in self.store.messages("pending", limit=200) if one.queue != "in"]
        if pending:
            assert self.store.cancel([pending[pick % len(pending)]]) == 1

    @rule()
    def purge(self) -> None:
        """What was cancelled: nothing answers for it any more."""
        cancelled = self.store.messages("cancelled", limit=200)
        count = self.store.purge("cancelled", self.kit.now, apply=True)
        left = {one.id for one in self.store.messages("cancelled", limit=200)}
        self.gone |= {one.id for one in cancelled} - left
        assert count == len(cancelled) - len(left)

    # ---- what must be true after each of them

    def all(self) -> dict[int, Message]:
        found: dict[int, Message] = {}
        for state in get_args(State):
            after: str | None = None
            while True:
                page = self.store.messages(state, limit=200, after=after)
                assert not found.keys() & {one.id for one in page}, "in two states at once"
                found.update((one.id, one) for one in page)
                after = page.next
                if after is None:
                    break
        return found

    def rows_of(self, what: str) -> Counter[str]:
        with self.app.transaction() as tx:
            return Counter(
                str(id_) for (id_,) in tx.execute("SELECT id FROM did WHERE what = ?", (what,))
            )

    @invariant()
    def nothing_is_lost_and_nothing_settled_twice(self) -> None:
        there = self.all()
        assert self.known - self.gone <= there.keys(), "lost"
        self.known |= there.keys()
        done = {one.id for one in there.values() if one.state == "done"}
        jobs = {one.id for one in there.values() if one.queue == "default"}
        assert self.rows_of("work") == Counter(str(id_) for id_ in done & jobs)
        came = {str(one.key) for one in there.values() if one.queue == "in"}
        handled = {str(one.key) for one in there.values() if one.queue == "in" and one.id in done}
        assert came == self.told.keys()
        assert self.rows_of("in") == Counter(handled)
        self.follow_ups(there, handled)
        self.outside(there)

    def follow_ups(self, there: dict[int, Message], handled: set[str]) -> None:
        """Each once, of what was handled and of nothing else; a purged one was cancelled before."""
        for queue in ("default", "out"):
            asked = Counter(
                str(one.key)[4:] for one in there.values() if one.queue == queue and one.key
            )
            assert asked.keys() <= handled
            assert set(asked.values()) <= {1}
            if not self.gone:
                assert asked.keys() == handled

    def outside(self, there: dict[int, Message]) -> None:
        for id_, count in self.sent.items():
            assert count <= 1 + self.again[id_], "sent again by itself"
        for one in there.values():
            if one.queue == "out" and one.state == "done":
                assert self.sent[one.id] > 0

    def teardown(self) -> None:
        """In the end an operator sees to it that all of it is done, and the file is sound."""
        try:
            for _ in range(20):
                self.moods = ["well"]
                self.kit.drain(until_idle=True)
                unknown = self.store.messages("unknown", limit=200)
                self.store.confirm([one for one in unknown if self.sent[one.id]])
                self.store.replay([one for one in unknown if not self.sent[one.id]])
                self.store.replay(self.store.messages("dead", limit=200))
                if not any(self.store.messages(state) for state in IN_LINE):
                    break
            self.nothing_is_lost_and_nothing_settled_twice()
            assert {one.state for one in self.all().values()} <= {"done", "cancelled"}
            assert self.store.check(full=True) == []
        finally:
            self.closing.close()


IN_LINE: tuple[State, ...] = ("pending", "leased", "dead", "unknown")
MODERATE = settings(
    max_examples=50,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
LONG = settings(MODERATE, max_examples=300, stateful_step_count=60, derandomize=False)


def test_no_history_loses_a_message_or_settles_it_twice() -> None:
    """The same stories each time, so that a red build is red for everybody."""
    run_state_machine_as_test(Machine, settings=MODERATE)


@pytest.mark.long
def test_no_long_history_does() -> None:
    """Other stories each time; hypothesis prints how to repeat the one that fails."""
    run_state_machine_as_test(Machine, settings=LONG)
