"""Queues: what goes in comes out, in order; once under a key; within what the policy says."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import fencepost
from fencepost import (
    Backoff,
    Batch,
    Conflict,
    InvalidArgument,
    QueueFull,
    Store,
)
from fencepost._binding.pack import UNSET
from fencepost.policies import declared
from fencepost.testing import Clock
from harness_queue import Mail, microseconds

# ---- in and out ----------------------------------------------------------------------------------


def test_a_payload_comes_out_as_its_type(store: Store) -> None:
    queue = store.queue("mail", Mail)
    put = queue.enqueue(Mail("ann", "hi"), headers={"trace": "7"}, lane="ann", key="welcome:ann")
    assert put.created

    (claim,) = queue.claim()
    assert claim.payload == Mail("ann", "hi")
    assert claim.body == b'{"to":"ann","text":"hi"}'
    assert (claim.id, claim.key, claim.lane, claim.attempt) == (put.id, "welcome:ann", "ann", 1)
    assert claim.headers == {"trace": "7"}
    assert claim.enqueued_at == datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
    claim.ack()
    assert queue.claim() == []


def test_what_is_not_given_is_not_there(store: Store) -> None:
    queue = store.queue("q")
    queue.enqueue(None)
    (claim,) = queue.claim()
    assert (claim.payload, claim.key, claim.lane, claim.headers) == (None, None, None, {})


def test_many_come_out_in_the_order_they_went_in(store: Store) -> None:
    """Each with its own parts, cut from the one answer they came in."""
    queue = store.queue("mail", Mail)
    mails = [Mail(f"to-{i}", "x" * i) for i in range(50)]
    answers = queue.enqueue_many(mails, key=lambda m: m.to, lane=lambda m: f"lane-{m.to}")
    assert all(answer.created for answer in answers)

    claims = queue.claim(100)
    assert [c.payload for c in claims] == mails
    assert [c.id for c in claims] == [a.id for a in answers]
    assert [c.key for c in claims] == [m.to for m in mails]
    assert [c.lane for c in claims] == [f"lane-{m.to}" for m in mails]
    assert queue.ack(claims) == []
    assert queue.size() == 0


def test_order_is_priority_then_due_then_enqueueing(store: Store, clock: Clock) -> None:
    queue = store.queue("q", str)
    queue.enqueue("late", delay=2)
    queue.enqueue("first")
    queue.enqueue("second")
    queue.enqueue("low", priority=-128)
    queue.enqueue("high", priority=127)
    queue.enqueue("moment", due=clock.now + timedelta(seconds=1))
    clock.advance(2)
    found = [claim.payload for claim in queue.claim(10)]
    assert found == ["high", "first", "second", "moment", "late", "low"]


def test_delay_and_due_are_exact(store: Store, clock: Clock) -> None:
    """One microsecond before it is due a message is not there."""
    queue = store.queue("q", str)
    queue.enqueue("a", delay=timedelta(microseconds=5))
    queue.enqueue("b", due=clock.now + microseconds(6))
    clock.advance(microseconds(4))
    assert queue.claim() == []
    clock.advance(microseconds(1))
    assert [c.payload for c in queue.claim(2)] == ["a"]
    clock.advance(microseconds(1))
    assert [c.payload for c in queue.claim(2)] == ["b"]


def test_an_empty_batch_is_an_empty_answer(store: Store) -> None:
    queue = store.queue("q")
    assert queue.enqueue_many([]) == []
    assert queue.ack([]) == []


# ---- keys ----------------------------------------------------------------------------------------


def test_an_equal_message_is_answered_with_the_first_one(store: Store) -> None:
    queue = store.queue("mail", Mail)
    first = queue.enqueue(Mail("ann"), key="k")
    again = queue.enqueue(Mail("ann"), key="k")
    assert (again.id, again.created) == (first.id, False)
    queue.ack(queue.claim())
    assert queue.enqueue(Mail("ann"), key="k") == (first.id, False)
    assert queue.size() == 0


def test_a_different_message_under_a_key_is_a_conflict(store: Store) -> None:
    queue = store.queue("mail", Mail)
    first = queue.enqueue(Mail("ann"), key="k")
    with pytest.raises(Conflict) as caught:
        queue.enqueue(Mail("bob"), key="k")
    assert caught.value.id == first.id
    with pytest.raises(Conflict):
        queue.enqueue_many([Mail("new"), Mail("bob")], key=lambda m: "k" if m.to == "bob" else m.to)
    assert queue.size() == 1, "a batch is all or none"


def test_unique_is_once_while_it_is_in_line(store: Store) -> None:
    queue = store.queue("q", str)
    first = queue.enqueue("x", unique="u")
    assert queue.enqueue("x", unique="u") == (first.id, False)
    (claim,) = queue.claim()
    assert not queue.enqueue("x", unique="u").created, "leased"
    claim.ack()
    assert queue.enqueue("x", unique="u").created


def test_a_batch_with_keys_answers_for_each(store: Store) -> None:
    queue = store.queue("q", int)
    queue.enqueue_many([1, 2], key=str)
    answers = queue.enqueue_many([2, 3, 3, 1], key=str)
    assert [a.created for a in answers] == [False, True, False, False]
    assert answers[1].id == answers[2].id


# ---- policies ------------------------------------------------------------------------------------


def test_a_queue_without_a_policy_is_what_the_file_says(path: Path, clock: Clock) -> None:
    with clock.open(path) as store:
        store.queue("q", max_attempts=1, lease=7).enqueue("x")
    with clock.open(path) as store:
        queue = store.queue("q")
        queue.claim()
        _, policy = store._file.core.queue_find(None, b"q")
        assert (policy["max_attempts"], policy["lease_us"]) == (1, 7_000_000)


def test_a_declared_policy_is_written_where_it_differs(path: Path, clock: Clock) -> None:
    with clock.open(path) as store:
        store.queue("q", max_attempts=1, lease=7).enqueue("x")
        store.queue("q", max_attempts=2, backoff=Backoff(1, 1.5, 10, 0.25)).enqueue("x")
        _, policy = store._file.core.queue_find(None, b"q")
        assert (policy["max_attempts"], policy["lease_us"]) == (2, 7_000_000)
        assert [policy[f] for f in ("base_us", "factor_milli", "cap_us", "jitter_milli")] == [
            1_000_000,
            1500,
            10_000_000,
            250,
        ]


def test_a_queue_that_was_never_used_is_not_in_the_file(
    store: Store, path: Path, dump: Callable[[Path], str]
) -> None:
    """Declaring and looking write nothing."""
    before = dump(path)
    queue = store.queue("q", max_attempts=3)
    assert queue.size() == 0
    assert store.messages("pending", queue="q") == []
    assert store.stats()["queues"] == {}
    assert dump(path) == before


def test_a_policy_is_only_what_was_said() -> None:
    fields = dict(declared("q", {"lease": 1, "on_dead": "halt", "listed": True}).fields)
    assert fields == {"lease_us": 1_000_000, "on_dead": 1, "listed": 1}
    assert UNSET not in fields.values()


# ---- full queues and waiting ---------------------------------------------------------------------


def test_a_full_queue_refuses_the_whole_batch(store: Store) -> None:
    queue = store.queue("q", int, max_size=3)
    queue.enqueue_many([1, 2])
    with pytest.raises(QueueFull):
        queue.enqueue_many([3, 4])
    assert queue.size() == 2
    queue.enqueue(3)
    with pytest.raises(QueueFull):
        queue.enqueue(4)


def test_a_producer_waits_for_room(path: Path) -> None:
    """An ack in another thread lets it go on."""
    with fencepost.open(path) as store:
        queue = store.queue("q", int, max_size=1)
        queue.enqueue(1)
        answers: list[fencepost.Enqueued] = []
        producer = threading.Thread(target=lambda: answers.append(queue.enqueue(2, wait=60)))
        producer.start()
        (claim,) = queue.claim(wait=60)
        claim.ack()
        producer.join()
        assert [a.created for a in answers] == [True]
        assert [c.payload for c in queue.claim()] == [2]


def test_waiting_for_room_ends_at_its_end(path: Path) -> None:
    with fencepost.open(path) as store:
        queue = store.queue("q", int, max_size=1)
        queue.enqueue(1)
        with pytest.raises(QueueFull):
            queue.enqueue(2, wait=0.01)
        with pytest.raises(QueueFull), store.transaction() as tx:
            queue.enqueue(2, wait=3600, tx=tx)


def test_a_claim_waits_for_the_first_message(path: Path) -> None:
    with fencepost.open(path) as store:
        queue = store.queue("q", str)
        queue.claim()
        found: list[str] = []
        consumer = threading.Thread(
            target=lambda: found.extend(c.payload for c in queue.claim(wait=60))
        )
        consumer.start()
        queue.enqueue("late")
        consumer.join()
        assert found == ["late"]
        assert queue.claim(wait=0.01) == []


def test_waiting_answers_to_the_hand(store: Store, clock: Clock) -> None:
    """With a clock that stands still, the wait is over when it was turned far enough."""
    queue = store.queue("q", str)
    queue.enqueue("later", delay=3600)
    found: list[str] = []
    consumer = threading.Thread(
        target=lambda: found.extend(c.payload for c in queue.claim(wait=7200))
    )
    consumer.start()
    clock.advance(3600)
    consumer.join()
    assert found == ["later"]


# ---- which store ---------------------------------------------------------------------------------


def test_a_queue_at_another_store_is_that_stores(
    store: Store, clock: Clock, tmp_path: Path
) -> None:
    with clock.open(tmp_path / "other.db") as other:
        queue = store.queue("q", int, max_attempts=1)
        queue.at(other).enqueue(1)
        assert (queue.size(), queue.at(other).size()) == (0, 1)
        (claim,) = queue.at(other).claim()
        with pytest.raises(InvalidArgument, match="another store"):
            queue.ack([claim])
        claim.ack()


def test_a_queue_that_is_in_no_store_says_so() -> None:
    queue: fencepost.Queue[Any] = fencepost.Queue(declared("q", {}), Any)
    with pytest.raises(InvalidArgument, match=r"use \.at\(store\)"):
        queue.claim()


def test_one_handler_a_queue(store: Store) -> None:
    queue = store.queue("q", int)

    @queue.handler(batch=10, linger=0.2)
    def handle(batch: Batch[int]) -> None: ...

    assert (queue._handler, queue._batch, queue._linger_us) == (handle, 10, 200_000)
    with pytest.raises(InvalidArgument, match="has a handler already"):
        queue.handler()(handle)
