"""The shop, tested with the kit: time is turned by hand, and the worker dies where it is told."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import pytest
import shop

from fencepost import InvalidArgument, JobFailed
from fencepost.testing import Kit, Point

EVENING = datetime(2026, 3, 1, 20, tzinfo=timezone.utc)


class Post:
    """Stands for the receiver of receipts. It fails as often as it is told to."""

    def __init__(self) -> None:
        self.failures = 0
        self.keys: list[str] = []

    def __call__(self, url: str, body: dict[str, int], *, idempotency_key: str) -> None:
        if self.failures:
            self.failures -= 1
            raise ConnectionRefusedError(url)
        self.keys.append(idempotency_key)


@pytest.fixture
def post(monkeypatch: pytest.MonkeyPatch) -> Post:
    post = Post()
    monkeypatch.setattr(shop, "post", post)
    return post


@pytest.fixture
def kit(fencepost: Callable[..., Kit], post: Post) -> Kit:
    """The shop in a file of its own, with one order that is not paid."""
    kit = fencepost(shop.app, now=EVENING)
    shop.make_tables()
    shop.order(42)
    return kit


def paid() -> list[int]:
    with shop.app.transaction() as tx:
        return [times for (times,) in tx.execute("SELECT paid FROM orders ORDER BY id")]


def test_a_payment_has_the_order_packed_and_a_receipt_sent(kit: Kit, post: Post) -> None:
    shop.payments.accept("evt-1", {"order": 42})
    assert kit.drain(limit=1).done == 1  # the payment, and what follows is in line
    kit.assert_enqueued(shop.pack, 42)
    assert len(kit.enqueued("receipt")) == 1
    assert kit.drain() == (2, 0, 0, 0)
    assert (paid(), len(post.keys)) == ([1], 1)


def test_an_event_that_comes_twice_pays_once(kit: Kit) -> None:
    assert shop.payments.accept("evt-1", {"order": 42}) == "accepted"
    assert shop.payments.accept("evt-1", {"order": 42}) == "duplicate"
    assert shop.payments.accept("evt-1", {"order": 43}) == "conflict"
    kit.drain()
    assert paid() == [1]


@pytest.mark.parametrize("point", ["claimed", "handled", "committed"])
def test_a_worker_that_is_killed_pays_once(kit: Kit, post: Post, point: Point) -> None:
    shop.payments.accept("evt-1", {"order": 42})
    with kit.crash_at(point, "payments"):
        assert kit.drain(until_idle=True).crashed == 1
    assert (paid(), len(post.keys)) == ([1], 1)
    assert [message.state for message in kit.store.messages("done", kind="pack")] == ["done"]


def test_a_receiver_that_is_down_is_tried_again(kit: Kit, post: Post) -> None:
    post.failures = 3
    shop.payments.accept("evt-1", {"order": 42})
    assert kit.drain(until_idle=True) == (3, 3, 0, 0)
    assert len(post.keys) == 1
    assert kit.now > EVENING


def test_a_receipt_of_which_nobody_knows_is_an_operators(kit: Kit, post: Post) -> None:
    """It went out, and the worker died before it could say so: it is not sent twice by itself."""
    shop.payments.accept("evt-1", {"order": 42})
    with kit.crash_at("sent", "receipt"):
        kit.drain(until_idle=True)
    (receipt,) = kit.store.messages("unknown")
    assert len(post.keys) == 1
    kit.store.replay([receipt])  # the operator has asked the receiver: it knows nothing of it
    kit.drain()
    assert len(set(post.keys)) == 1  # the same key, so that who does know can tell


def test_orders_that_nobody_paid_are_forgotten_at_three_in_paris(kit: Kit) -> None:
    kit.drain()  # a worker has seen the schedule
    kit.advance(datetime(2026, 3, 2, 1, 59, tzinfo=timezone.utc))
    assert kit.drain().done == 0
    kit.advance(timedelta(minutes=1))
    assert kit.drain().done == 1
    assert paid() == []


def test_a_refund_waits_for_an_hour_and_for_somebody(kit: Kit) -> None:
    handle = shop.refund.options(id="refund-42").start(42)
    kit.drain()
    assert handle.status().waiting_for == ("cool off",)
    kit.advance(3600)
    kit.drain()
    assert handle.status().waiting_for == ("approved by",)
    assert handle.signal("approved by", "ann")
    assert not handle.signal("approved by", "bob")  # the first one wins
    assert kit.drain().done == 1
    assert handle.result() == "order 42 paid back, approved by ann"


def test_a_refund_that_nobody_approves_has_failed_after_three_days(kit: Kit) -> None:
    handle = shop.refund.start(42)
    assert kit.drain(until_idle=True).dead == 1
    with pytest.raises(JobFailed, match="'approved by' did not come in time"):
        handle.result()


@pytest.mark.parametrize(
    ("point", "name"),
    [
        ("sleep recorded", "cool off"),
        ("step done", "take back"),
        ("step recorded", "take back"),
        ("step done", "pay back"),
        ("handled", "refund"),
        ("committed", "refund"),
    ],
)
def test_wherever_a_refund_dies_it_takes_back_once(kit: Kit, point: Point, name: str) -> None:
    handle = shop.refund.start(42)
    handle.signal("approved by", "ann")
    with kit.crash_at(point, name):
        kit.drain(until_idle=True)
    assert handle.result().endswith("ann")
    assert paid() == [-1]


def test_a_handler_is_called_by_hand(kit: Kit) -> None:
    ctx = kit.context()
    assert shop.forget_old_orders.fn(ctx) == 1
    assert ctx.tx.execute("SELECT count(*) FROM orders") == [(0,)]
    assert shop.pack.fn(7) == "packed 7"


def test_a_call_that_does_not_fit_is_refused_where_it_is_made(kit: Kit) -> None:
    with pytest.raises(InvalidArgument, match="pack"):
        shop.pack.enqueue()  # type: ignore[call-arg]
    assert kit.enqueued(shop.pack) == []
