"""What an operator looks at and does: listings, counts, replay, cancel, purge, pause."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

import fencepost
from fencepost import (
    Gone,
    InvalidArgument,
    Message,
    State,
    Store,
)
from fencepost.testing import Clock


def listed(store: Store, state: State, **filters: object) -> list[int]:
    """All pages of a listing, two rows at a time; what has ended is listed newest first."""
    found: list[int] = []
    after: str | None = None
    while True:
        page = store.messages(state, after=after, limit=2, **filters)  # type: ignore[arg-type]
        found += [message.id for message in page]
        after = page.next
        if after is None:
            return found if state in ("pending", "leased") else found[::-1]


def test_every_state_is_listed_page_by_page(store: Store, clock: Clock) -> None:
    queue = store.queue("q", int, addressed=True, listed=True, keep=3600)
    ids = [answer.id for answer in queue.enqueue_many(range(15))]
    claims = queue.claim(12)
    for claim in claims[:3]:
        claim.ack()
    for claim in claims[3:6]:
        claim.fail("no")
        clock.advance(1)
    assert store.cancel(store.messages("leased", limit=3)) == 3

    assert listed(store, "done") == ids[:3]
    assert listed(store, "dead") == ids[3:6]
    assert listed(store, "cancelled") == ids[6:9]
    assert listed(store, "leased") == ids[9:12]
    assert listed(store, "pending") == ids[12:]
    assert listed(store, "unknown") == []
    assert listed(store, "pending", queue="q") == ids[12:]
    assert listed(store, "pending", queue="other") == []
    assert listed(store, "pending", kind="job") == []


def test_listings_are_cut_by_time_and_lane(store: Store, clock: Clock) -> None:
    queue = store.queue("q", int, listed=True, keep=3600)
    start = clock.now
    for i in range(4):
        queue.enqueue(i, lane=f"lane-{i % 2}")
        queue.claim()[0].fail("no")
        clock.advance(1)
    dead = store.messages("dead")[::-1]
    since, before = start + timedelta(seconds=1), start + timedelta(seconds=3)
    assert store.messages("dead", since=since, before=before) == [dead[2], dead[1]]
    assert store.messages("dead", lane="lane-1") == [dead[3], dead[1]]


def test_a_message_shows_where_it_is(store: Store, clock: Clock) -> None:
    queue = store.queue("q", int, addressed=True, listed=True, keep=3600)
    start = clock.now
    put = queue.enqueue(7, key="k", lane="l", headers={"a": "b"}, delay=5)
    waiting = Message(
        id=put.id,
        queue="q",
        key="k",
        lane="l",
        state="pending",
        attempt=0,
        generation=0,
        enqueued_at=start,
        settled_at=None,
        due=start + timedelta(seconds=5),
        failure=None,
    )
    assert store.message(put.id) == waiting
    assert store.message(put.id + 1000) is None

    clock.advance(5)
    (claim,) = queue.claim()
    leased = store.message(put.id)
    assert leased is not None
    assert (leased.state, leased.attempt) == ("leased", 1)
    claim.fail(ValueError("no"))
    dead = store.message(put.id)
    assert dead is not None
    assert (dead.state, dead.settled_at) == ("dead", clock.now)
    assert dead.failure == ("error", "ValueError", "no")
    assert store.messages("dead") == [dead]
    assert store.content(put.id) == (b"7", {"a": "b"}, None)


def test_content_of_what_is_gone_says_so(store: Store) -> None:
    with pytest.raises(Gone):
        store.content(12345)


@pytest.mark.parametrize("cursor", ["", "x", "AAAA", "é", "=" * 40, "A" * 44])
def test_what_is_no_cursor_is_refused(store: Store, cursor: str) -> None:
    with pytest.raises(InvalidArgument, match="after="):
        store.messages("pending", after=cursor)


def test_a_cursor_belongs_to_its_listing(store: Store) -> None:
    queue = store.queue("q")
    queue.enqueue_many(range(3))
    cursor = store.messages("pending", limit=1).next
    assert cursor is not None
    assert store.messages("pending", limit=2, after=cursor)
    others: list[Callable[[], object]] = [
        lambda: store.messages("leased", after=cursor),
        lambda: store.messages("pending", queue="q", after=cursor),
        lambda: store.messages("pending", lane="q", after=cursor),
    ]
    for other in others:
        with pytest.raises(InvalidArgument, match="cursor of another listing"):
            other()


def test_stats_count_and_age(store: Store, clock: Clock) -> None:
    queue = store.queue("q", int, listed=True, keep=3600)
    queue.enqueue_many(range(5))
    queue.enqueue(9, delay=3600)
    queue.claim(lease=1)[0].ack()
    queue.claim(lease=1)
    store.queue("other").enqueue(1, lane="l")
    store.queue("other").enqueue(2, lane="l")
    store.pause("other")
    clock.advance(7)

    stats = store.stats()
    assert stats["path"] == store.path
    assert stats["schema_version"] == 1
    assert stats["sqlite_version"] == fencepost.sqlite_version
    assert stats["time"] == clock.now
    q, other = stats["queues"]["q"], stats["queues"]["other"]
    assert (q["pending"], q["leased"], q["done"], q["lapsed"]) == (4, 1, 1, 1)
    assert q["oldest_age"] == 7
    assert (other["pending"], other["waiting"], other["paused"]) == (1, 1, True)
    assert other["profile"] == "queue"
    assert stats["totals"]["pending"] == 5


def test_a_healthy_file_has_no_findings(store: Store) -> None:
    store.queue("q").enqueue_many(range(10))
    assert store.check() == []
    assert store.check(full=True) == []


def test_check_finds_counts_that_are_off(path: Path, foreign: Callable[[str], str]) -> None:
    with fencepost.open(path) as store:
        store.queue("q").enqueue_many(range(10))
        foreign("UPDATE fencepost_tally SET pending = 3 WHERE queue = 1;")
        assert store.check()


# ---- operating -----------------------------------------------------------------------------------


def test_replay_puts_the_dead_back_once(store: Store, clock: Clock) -> None:
    queue = store.queue("q", int)
    queue.enqueue_many(range(3))
    for claim in queue.claim(3):
        claim.fail("no")
    dead = store.messages("dead")
    assert [a.outcome for a in store.replay(dead, apply=False)] == ["replayed"] * 3
    assert queue.size() == 0
    assert [a.outcome for a in store.replay(dead, delay=10, rate=0.5)] == ["replayed"] * 3
    assert [a.outcome for a in store.replay(dead)] != ["replayed"] * 3
    ages = []
    for _ in range(8):
        ages.append(len(queue.claim(5)))
        clock.advance(2)
    assert ages == [0, 0, 0, 0, 0, 1, 1, 1]


def test_cancel_takes_it_from_its_holder(store: Store) -> None:
    queue = store.queue("q", int, addressed=True)
    queue.enqueue_many(range(2))
    (claim,) = queue.claim()
    assert store.cancel([*store.messages("leased"), *store.messages("pending")]) == 2
    with pytest.raises(fencepost.LeaseLost):
        claim.ack()
    assert queue.size() == 0


def test_a_moved_message_of_a_bulk_queue_cannot_be_found_by_its_id(
    store: Store, clock: Clock, path: Path
) -> None:
    """In line it is found where it began; this handle also knows what it gave out itself."""
    queue = store.queue("q", int)
    queue.enqueue_many([1, 2])
    (claim,) = queue.claim()
    leased, pending = store.messages("leased"), store.messages("pending")
    with clock.open(path) as other:
        with pytest.raises(InvalidArgument, match=f"message {claim.id} is on a bulk queue"):
            other.cancel(leased)
        assert other.cancel(pending) == 1
    claim.ack()


def test_purge_counts_until_it_is_told_to_apply(store: Store, clock: Clock) -> None:
    queue = store.queue("q", int, listed=True, keep=3600)
    queue.enqueue_many(range(4))
    for claim in queue.claim(4):
        claim.ack()
        clock.advance(1)
    cut = clock.now - timedelta(seconds=2)
    assert store.purge("done", cut) == 2
    assert store.purge("done", cut, queue="q", apply=True, limit=1) == 1
    assert store.purge("done", cut, apply=True) == 1
    assert len(store.messages("done")) == 2
    with pytest.raises(InvalidArgument, match="has no outcome yet"):
        store.purge("pending", cut)


def test_a_paused_queue_hands_nothing_out(store: Store) -> None:
    queue = store.queue("q", int)
    queue.enqueue(1)
    store.pause("q")
    queue.enqueue(2)
    assert queue.claim(5) == []
    store.resume("q")
    assert [c.payload for c in queue.claim(5)] == [1, 2]
    for call in (store.pause, store.resume):
        with pytest.raises(InvalidArgument, match="there is no queue 'other'"):
            call("other")


def test_a_halted_lane_goes_on_when_it_is_released(store: Store) -> None:
    queue = store.queue("q", int, on_dead="halt")
    queue.enqueue_many([1, 2], lane=lambda _: "l")
    queue.claim(5)[0].fail("no")
    assert queue.claim(5) == []
    assert store.release_lane("q", "l")
    assert not store.release_lane("q", "l")
    assert [c.payload for c in queue.claim(5)] == [2]
