"""Webhooks over a receiver that fails at random, and through senders that are killed."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import relay_app
from harness_hooks import Post, Raw, Reply, receiver
from harness_kill import Killer
from harness_worker import until
from relay_app import NEVER, declare, idle

pytest.importorskip("httpx")

LANES, EACH = 8, 8
FAILURES: list[Reply | Raw] = [
    Reply(500),
    Reply(408),
    Reply(429),
    Reply(504),
    Raw(),
    Raw(b"\0garbage\r\n\r\n"),
    Raw(b"HTTP/1.1 200 OK\r\ncontent-le"),
]


@pytest.fixture(scope="module")
def senders() -> Iterator[Killer]:
    with Killer(relay_app.__file__) as one:
        yield one


class Flaky:
    """Fails at random, before or after it has kept the event; as its seed says."""

    def __init__(self, seed: int, share: float) -> None:
        self.kept: dict[str, int] = {}  # what receivers keep: each event once, in their order
        self._random = random.Random(seed)
        self._share = share
        self._one = threading.Lock()

    def __call__(self, post: Post) -> Reply | Raw:
        with self._one:
            fails = self._random.random() < self._share
            failure = self._random.choice(FAILURES)
            if not fails or self._random.random() < 0.5:
                self.kept.setdefault(post.headers["webhook-id"], int(post.body))
            return failure if fails else Reply(200)


@pytest.mark.parametrize("seed", [1])
def test_each_event_is_received_and_lanes_keep_their_order(path: Path, seed: int) -> None:
    """
    Half of all requests fail, before or after the receiver has kept the event. In the end it has
    each one that was sent, and those of a lane in their order.
    """
    flaky = Flaky(seed, 0.5)
    app, outbox = declare(path, "webhook", "", on_unknown="retry")
    with app.store, receiver(flaky) as server:
        with app.transaction() as tx:
            for number in range(LANES * EACH):
                outbox.send(server.url, number, lane=str(number % LANES), tx=tx)
        with app.worker():
            until(lambda: idle(app))
        assert app.store.stats()["totals"]["done"] == LANES * EACH
        assert app.store.check(full=True) == []
    received = list(flaky.kept.values())
    assert sorted(received) == list(range(LANES * EACH))
    for lane in range(LANES):
        of_it = [number for number in received if number % LANES == lane]
        assert of_it == sorted(of_it)
    assert len(server.posts) > LANES * EACH


@pytest.mark.parametrize("seed", [3])
def test_what_is_held_as_unknown_is_all_that_may_be_missing(path: Path, seed: int) -> None:
    """Without the receiver's promise nothing is sent twice unless it said no the first time."""
    flaky = Flaky(seed, 0.3)
    app, outbox = declare(path, "webhook", "", on_unknown="hold")
    with app.store, receiver(flaky) as server:
        sent = [outbox.send(server.url, number).id for number in range(60)]
        with app.worker():
            until(lambda: idle(app))
        totals = app.store.stats()["totals"]
        unknown = {message.id for message in app.store.messages("unknown", limit=200)}
    kept = {int(event.rpartition("-")[2]) for event in flaky.kept}
    assert totals["done"] + totals["unknown"] == len(sent)
    assert set(sent) - kept <= unknown
    assert unknown


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("on_unknown", "ends", "posts"), [("hold", "unknown", 1), ("retry", "done", 2)]
)
def test_a_sender_killed_between_send_and_mark(
    path: Path, senders: Killer, on_unknown: str, ends: str, posts: int
) -> None:
    """It has arrived, and nobody here knows: never again by itself, or again as the same event."""
    app, outbox = declare(path, "webhook", "", on_unknown=on_unknown)
    with receiver() as server:
        outbox.send(server.url, 1)
        app.store.close()
        assert senders.run(path, "webhook", "", "sent", on_unknown).killed
        assert senders.run(path, "webhook", "", NEVER, on_unknown).said == ["done"]
    assert len(server.posts) == posts
    assert len(set(server.events())) == 1
    app, _ = declare(path, "webhook", "", on_unknown=on_unknown)
    with app.store as store:
        assert store.stats()["totals"][ends] == 1
