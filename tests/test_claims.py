"""Claims: one holder at a time, who proves it by the newest token."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import fencepost
from fencepost import Backoff, Batch, LeaseLost, PayloadError, Store
from fencepost.testing import Clock
from harness_queue import Mail, microseconds

# ---- leases and tokens ---------------------------------------------------------------------------


def test_the_lease_ends_at_its_end(store: Store, clock: Clock) -> None:
    """One microsecond before the end the message is still held; at the end it is free."""
    queue = store.queue("q")
    queue.enqueue("work")
    queue.claim(lease=microseconds(5))

    clock.advance(microseconds(4))
    assert queue.claim() == []
    clock.advance(microseconds(1))
    assert len(queue.claim()) == 1


def test_the_older_token_opens_nothing(store: Store, clock: Clock) -> None:
    """Who slept past the lease can neither settle nor renew, by any verb."""
    queue = store.queue("q")
    queue.enqueue("work")
    (old,) = queue.claim(lease=1)
    clock.advance(1)
    (new,) = queue.claim()
    assert new.token > old.token
    assert new.attempt == 2

    verbs: list[Callable[[], object]] = [
        old.ack,
        old.retry,
        old.release,
        old.renew,
        lambda: old.fail("no"),
    ]
    for verb in verbs:
        with pytest.raises(LeaseLost, match=f"message {old.id}"):
            verb()
    assert queue.ack([old]) == [old]
    assert queue.ack([new]) == []


def test_a_lapsed_lease_that_nobody_took_may_still_be_settled(store: Store, clock: Clock) -> None:
    queue = store.queue("q")
    queue.enqueue("work")
    (claim,) = queue.claim(lease=1)
    clock.advance(5)
    claim.ack()
    assert queue.size() == 0


def test_a_repeated_ack_is_no_error(path: Path, clock: Clock) -> None:
    """Where outcomes are kept the file knows who settled it."""
    with clock.open(path) as store:
        queue = store.queue("q", keep=60)
        queue.enqueue("work")
        (claim,) = queue.claim()
        claim.ack("first")
        claim.ack("second")
        assert queue.ack([claim]) == []
        assert store.content(claim.id).result == b'"first"'


def test_renewing_holds_it_from_now_on(store: Store, clock: Clock) -> None:
    queue = store.queue("q", lease=10)
    queue.enqueue("work")
    (claim,) = queue.claim(lease=2)
    clock.advance(1)
    claim.renew(3)
    clock.advance(2)
    assert queue.claim() == []
    claim.renew()
    clock.advance(9)
    assert queue.claim() == [], "the queue's own lease"
    clock.advance(1)
    assert len(queue.claim()) == 1


def test_retry_uses_the_attempt_and_release_gives_it_back(store: Store, clock: Clock) -> None:
    queue = store.queue("q", max_attempts=2)
    queue.enqueue("work")
    (claim,) = queue.claim()
    claim.release()
    (claim,) = queue.claim()
    assert claim.attempt == 1
    claim.retry(3, error=ValueError("not now"))
    assert queue.claim() == []
    clock.advance(3)
    (claim,) = queue.claim()
    assert claim.attempt == 2
    claim.retry(0)
    assert queue.claim() == []
    (dead,) = store.messages("dead")
    assert dead.failure is not None


def test_the_back_off_is_the_policys(store: Store, clock: Clock) -> None:
    queue = store.queue("q", backoff=Backoff(base=2, factor=3, cap=5, jitter=0))
    queue.enqueue("work")
    for seconds in (2, 5, 5):
        (claim,) = queue.claim()
        claim.retry()
        clock.advance(timedelta(seconds=seconds) - microseconds(1))
        assert queue.claim() == []
        clock.advance(microseconds(1))
    assert len(queue.claim()) == 1


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        ("no such order", None, "no such order"),
        (ValueError("bad"), "ValueError", "bad"),
        (fencepost.PermanentError("gone", code="410"), "410", "gone"),
        ("é" * 900, None, "é" * 500),
        (RuntimeError("\ud800"), "RuntimeError", "\\ud800"),
    ],
)
def test_a_dead_letter_says_why(
    store: Store, error: BaseException | str, code: str | None, text: str
) -> None:
    queue = store.queue("q")
    queue.enqueue("work")
    queue.claim()[0].fail(error)
    (dead,) = store.messages("dead")
    assert dead.failure == ("error", code, text)


def test_attempts_are_counted_at_claim(store: Store, clock: Clock) -> None:
    """A message whose holders all die is a dead letter when its attempts are used up."""
    queue = store.queue("q", max_attempts=3, lease=1)
    queue.enqueue("deadly")
    for attempt in (1, 2, 3):
        assert [c.attempt for c in queue.claim()] == [attempt]
        clock.advance(1)
    assert queue.claim() == []
    (dead,) = store.messages("dead")
    assert dead.failure is not None
    assert dead.failure.kind == "worker_lost"


# ---- payloads that are none ----------------------------------------------------------------------


def test_an_undecodable_payload_spares_its_neighbours(store: Store) -> None:
    """It raises where it is looked at, its bytes are there, and it can be put aside by itself."""
    loose = store.queue("q")
    loose.enqueue_many([{"to": "ann"}, {"to": 7}, {"to": "bob"}])
    ann, bad, bob = store.queue("q", Mail).claim(3)
    assert (ann.payload, bob.payload) == (Mail("ann"), Mail("bob"))
    with pytest.raises(PayloadError, match=r"Expected `str`, got `int` - at `\$\.to`"):
        bad.payload  # noqa: B018
    bad.fail("cannot be read")
    (dead,) = store.messages("dead")
    assert store.content(dead.id).body == b'{"to":7}'


def test_a_batch_has_its_payloads_and_its_holders_transaction(store: Store) -> None:
    queue = store.queue("q", int)
    queue.enqueue_many([1, 2])

    class Worker:
        tx: Any = "the worker's"
        cancelled = False

    batch = Batch(queue.claim(2), Worker())
    assert batch.payloads == [1, 2]
    assert batch.tx is Worker.tx
    assert not batch.cancelled
