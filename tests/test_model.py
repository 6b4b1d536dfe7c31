"""
Random histories against an obvious model: two handles on one file, a clock turned by hand.

What each claim returned, in which order; what each verdict was answered; where every message is
after every step. Hypothesis prints the story that went wrong, at its shortest.
"""

from __future__ import annotations

import shutil
import tempfile
from array import array
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from fencepost import Conflict, InvalidArgument
from fencepost._binding.calls import Core
from fencepost._binding.pack import Take
from harness_core import (
    START,
    Held,
    define,
    die,
    held,
    lib,
    look_after,
    message,
    opened,
    put,
    stats,
)
from harness_ladder import findings
from harness_model import (
    CANCELLED,
    DEAD,
    DONE,
    LASTING,
    LIVE,
    OUT,
    PENDING,
    UNKNOWN,
    WAITING,
    Claim,
    Claiming,
    Message,
    Model,
    Put,
    Queue,
    Saying,
)

NAMES = {
    "bulk": lib.FP_PROFILE_QUEUE,
    "jobs": lib.FP_PROFILE_JOB,
    "halts": lib.FP_PROFILE_OUTBOX,
    "strict": lib.FP_PROFILE_INBOX,
}
MANY = len(NAMES)
VERBS = ["ACK", "ACK", "RETRY", "RELEASE", "LATER", "FAIL", "CANCEL", "RENEW"]
VERBS += ["BEGIN", "BEGIN", "BEGIN", "UNKNOWN"]

puts = st.builds(
    Put,
    body=st.sampled_from([b"a", b"b"]),
    due=st.sampled_from([0, 0, 0, 3, 10]),
    priority=st.sampled_from([0, 0, 0, 1, -1]),
    lane=st.sampled_from([None, None, b"x", b"y"]),
    key=st.sampled_from([None, None, b"k", b"l"]),
    life=st.sampled_from([LASTING, LIVE]),
)
which = st.integers(0, 10**6)
handles = st.integers(0, 1)
spans = st.sampled_from([0, 1, 5, 20])


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "app.db"
        self.model = Model(START)
        self.cores: list[Core] = [opened(self.path), opened(self.path)]
        self.lives = [0, 0]
        self.claims: list[Claim] = []
        self.registered: set[tuple[int, int]] = set()
        self.numbers = [0]  # every id and token, in the order in which they were drawn

    @initialize()
    def define_the_queues(self) -> None:
        policy = {"max_attempts": 2, "max_age_us": 0, "base_us": 7, "factor_milli": 1000}
        for name, profile in NAMES.items():
            halts, resends = name == "halts", name == "jobs"
            policy.update(on_dead=int(halts), on_unknown=int(resends))
            number = define(self.cores[0], name, profile, **policy)
            queue = Queue(number, bulk=name == "bulk", halts=halts, resends=resends)
            queue.strict = name == "strict"
            self.model.queues[number] = queue
            for lane in (None, b"x", b"x"):
                said = Put(b"a", START, lane=lane)
                (one,) = put(self.cores[0], number, b"a", lanes=[lane])
                self.model.enqueue(queue, said, one)
                self.numbers.append(one)

    def queue(self, pick: int) -> Queue:
        queues = list(self.model.queues.values())
        return queues[pick % len(queues)]

    def handle(self, which: int) -> tuple[int, int]:
        return which, self.lives[which]

    # ---- rules

    @rule(handle=handles, pick=which, batch=st.lists(puts, min_size=1, max_size=4))
    def enqueue(self, handle: int, pick: int, batch: list[Put]) -> None:
        queue = self.queue(pick)
        said = [one._replace(life=one.life if one.key else 0) for one in batch]
        answers = self.model.answers(queue, said)
        columns: dict[str, Any] = {
            "delays_us": array("q", [one.due for one in said]),
            "priorities": array("b", [one.priority for one in said]),
            "lanes": [one.lane for one in said],
            "keys": [one.key for one in said],
            "lives": bytes(one.life for one in said),
            "digests": b"".join(sha256(one.body).digest() for one in said),
        }
        bodies = [one.body for one in said]
        if answers is None:
            with pytest.raises(Conflict):
                put(self.cores[handle], queue.number, *bodies, **columns)
            return
        ids = put(self.cores[handle], queue.number, *bodies, **columns)
        for one, answer, id_ in zip(said, answers, ids, strict=True):
            if answer is None:
                assert id_ > self.numbers[-1]
                self.numbers.append(id_)
                self.model.enqueue(queue, one._replace(due=self.model.now + one.due), id_)
            else:
                assert id_ == (answer if answer > 0 else ids[-answer - 1])

    @rule(
        handle=handles,
        picks=st.lists(which, min_size=1, max_size=3, unique_by=lambda pick: pick % MANY),
        limit=st.integers(1, 4),
        lease=st.sampled_from([1, 5, 20]),
    )
    def claim(self, handle: int, picks: list[int], limit: int, lease: int) -> None:
        self.step(handle, [], Claiming([self.queue(pick) for pick in picks], limit, lease))

    @rule(
        handle=handles,
        order=st.permutations(range(MANY)),
        limit=st.integers(1, 6),
        verdicts=st.lists(st.tuples(st.sampled_from(VERBS), spans), max_size=6),
        later=st.sampled_from([0, 0, 1, 5, 20]),
        fused=st.booleans(),
    )
    def work(
        self,
        handle: int,
        order: list[int],
        limit: int,
        verdicts: list[tuple[str, int]],
        later: int,
        fused: bool,
    ) -> None:
        """What workers do all day: claim, and then say at once what became of most of it."""
        self.advance(later)
        before = len(self.claims)
        claiming = Claiming([self.queue(pick) for pick in order], limit, 5)
        self.step(handle, [], claiming)
        said = [Saying(one, *how) for one, how in zip(self.claims[before:], verdicts, strict=False)]
        self.step(handle, said, claiming if fused else None)

    @precondition(lambda self: self.claims)
    @rule(
        handle=handles,
        sayings=st.lists(st.tuples(which, st.sampled_from(VERBS), spans), min_size=1, max_size=3),
    )
    def settle(self, handle: int, sayings: list[tuple[int, str, int]]) -> None:
        """Mostly of the newest claims, sometimes of one long lost, or twice of the same."""
        newest = self.claims[-8:]
        said = [Saying(newest[pick % len(newest)], verb, span) for pick, verb, span in sayings]
        self.step(handle, said, None)

    def step(self, handle: int, said: list[Saying], claiming: Claiming | None) -> None:
        """Settle, claim, or both in one commit."""
        verdicts: Any = [saying.verdict() for saying in said]
        if all(saying.verb == "ACK" for saying in said):
            verdicts = array("q", [number for saying in said for number in saying.claim.held[:2]])
        core = self.cores[handle]
        if claiming is None:
            answers, found = core.settle(None, verdicts), []
        else:
            take = Take([one.number for one in claiming.queues], claiming.limit, claiming.lease)
            answers, rows = core.step(verdicts if said else None, take)
            found = held(rows)
        mine = self.handle(handle)
        worker = mine if mine in self.registered else None
        assert answers == [self.model.answer(saying, mine, worker) for saying in said]
        if claiming is not None:
            self.claimed(handle, found, claiming)

    def claimed(self, handle: int, found: list[Held], claiming: Claiming) -> None:
        expected = self.model.claim(*claiming)
        assert [(one.id, one.attempt) for one in found] == [
            (one.id, one.attempts) for one in expected
        ]
        for one, told in zip(found, expected, strict=True):
            assert one.token > self.numbers[-1]
            assert one.lease_end == self.model.now + claiming.lease
            self.numbers.append(one.token)
            told.token = one.token
            told.holder = told.worker = self.handle(handle)
            self.registered.add(self.handle(handle))
            self.claims.append(Claim(one, self.handle(handle)))

    @precondition(lambda self: self.numbers[1:])
    @rule(handle=handles, pick=which)
    def cancel(self, handle: int, pick: int) -> None:
        """By id, whatever stands there; numbers that were tokens are no message's."""
        id_ = self.numbers[1 + pick % (len(self.numbers) - 1)]
        (answer,) = self.cores[handle].cancel(None, [id_])
        one = self.model.messages.get(id_)
        if one is None:
            assert answer == lib.FP_GONE
        elif one.state not in (PENDING, WAITING, *OUT):
            assert answer == lib.FP_ALREADY
        elif not self.can_be_found(one, self.handle(handle)):
            assert answer == lib.FP_INVALID
        else:
            assert answer == lib.FP_DONE
            self.model.end(one, CANCELLED, 0)

    def can_be_found(self, one: Message, handle: tuple[int, int]) -> bool:
        """By its id alone: in a bulk queue only where it was put first, or by who holds it."""
        at_first = one.state != WAITING and one.place == one.said.due
        return not one.queue.bulk or one.state == WAITING or at_first or one.holder == handle

    @precondition(lambda self: self.model.messages)
    @rule(handle=handles, pick=which)
    def replay(self, handle: int, pick: int) -> None:
        one = list(self.model.messages.values())[pick % len(self.model.messages)]
        (answer,) = self.cores[handle].replay(array("q", [one.id, -1]), 0, 0, apply=True)
        said = one.said
        if one.state not in (DEAD, UNKNOWN):
            assert answer == lib.FP_NOT_DEAD
        elif said.life == LIVE and (one.queue.number, LIVE, said.key) in self.model.keys:
            assert answer == lib.FP_LIVE_KEY
        else:
            assert answer == lib.FP_DONE
            again = min(one.attempts, one.queue.max_attempts - 1)
            resumes = one.state == UNKNOWN
            one.attempts = again if resumes else 0
            self.model.back(one, self.model.now)
            if said.key is not None and said.life == LIVE:
                self.model.keys[one.queue.number, LIVE, said.key] = one.id
            (self.model.resume if resumes else self.model.enter)(one)

    @precondition(lambda self: self.model.messages)
    @rule(handle=handles, pick=which)
    def confirm(self, handle: int, pick: int) -> None:
        one = list(self.model.messages.values())[pick % len(self.model.messages)]
        (answer,) = self.cores[handle].confirm(array("q", [one.id, -1]), b"")
        assert answer == (lib.FP_DONE if one.state == UNKNOWN else lib.FP_NOT_DEAD)
        if one.state == UNKNOWN:
            self.model.confirm(one)

    @rule(handle=handles, pick=which, paused=st.booleans())
    def pause(self, handle: int, pick: int, paused: bool) -> None:
        self.queue(pick).paused = paused
        self.cores[handle].queue_pause(None, self.queue(pick).number, paused=paused)

    @rule(handle=handles, pick=which, lane=st.sampled_from([b"x", b"y"]))
    def release_lane(self, handle: int, pick: int, lane: bytes) -> None:
        queue = self.queue(pick)
        expected = self.model.release_lane(queue, lane)
        assert self.cores[handle].release_lane(queue.number, lane) == expected

    @rule(handle=handles, pick=which, width=st.integers(1, 3))
    def widen(self, handle: int, pick: int, width: int) -> None:
        name, profile = list(NAMES.items())[pick % len(NAMES)]
        number = define(self.cores[handle], name, profile, lane_width=width)
        self.model.widen(self.model.queues[number], width)

    @rule(span=st.sampled_from([1, 3, 10, 30]))
    def advance(self, span: int) -> None:
        self.model.now += span
        for core in self.cores:
            core.hand(self.model.now)

    @rule(handle=handles)
    def reopen(self, handle: int) -> None:
        """A new handle: claims of bulk queues are nobody's then, until their leases end."""
        self.cores[handle].close()
        self.open_anew(handle)

    @rule(handle=handles)
    def die(self, handle: int) -> None:
        """As `reopen`, but by a kill; the other one takes over all that it held, in slices."""
        dead = self.handle(handle)
        die(self.cores[handle])
        self.cores[handle].close()
        while look_after(self.cores[1 - handle]):
            pass
        self.model.died(dead)
        self.open_anew(handle)

    def open_anew(self, handle: int) -> None:
        self.cores[handle] = opened(self.path, hand_us=self.model.now)
        self.lives[handle] += 1

    # ---- what must be true after each of them

    @invariant()
    def counts_are_the_models(self) -> None:
        for queue in self.model.queues.values():
            found = stats(self.cores[0], queue.number)
            states = [one.state for one in self.model.messages.values() if one.queue is queue]
            assert found.pending == states.count(PENDING)
            assert found.waiting == states.count(WAITING)
            assert found.leased == sum(state in OUT for state in states)
            assert (found.dead, found.unknown) == (states.count(DEAD), states.count(UNKNOWN))
            assert found.cancelled == states.count(CANCELLED)
            assert found.done == sum(state in (lib.FP_DONE_UNLISTED, DONE) for state in states)

    @invariant()
    def every_message_is_where_the_model_has_it(self) -> None:
        for one in self.model.messages.values():
            try:
                found = message(self.cores[1], one.id)
            except InvalidArgument:
                assert not self.can_be_found(one, self.handle(1))
                continue
            assert found is not None
            assert found.state == one.state
            assert (found.attempt, found.generation) == (one.attempts, one.generation)
            if one.state in (PENDING, *OUT):
                assert found.due == one.place

    def teardown(self) -> None:
        try:
            assert findings(self.cores[0]) == ""
        finally:
            for core in self.cores:
                core.close()
            shutil.rmtree(self.folder)


MODERATE = settings(
    max_examples=120,
    stateful_step_count=50,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
LONG = settings(MODERATE, max_examples=1500, stateful_step_count=80, derandomize=False)


@pytest.mark.hostile
def test_the_core_is_the_model() -> None:
    """The same stories each time, so that a red build is red for everybody."""
    run_state_machine_as_test(Machine, settings=MODERATE)


@pytest.mark.long
def test_the_core_is_the_model_for_a_long_time() -> None:
    """Other stories each time; hypothesis prints how to repeat the one that fails."""
    run_state_machine_as_test(Machine, settings=LONG)
