"""What the worker's loop says to the core, when one of many things cannot be said."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import fencepost
from fencepost import App
from fencepost._binding.pack import Take, Verdict
from fencepost._file import File
from fencepost._verdicts import acked
from fencepost._worker.channel import Channel
from fencepost.policies import declared
from harness_worker import lease


def test_a_verdict_that_is_refused_fails_only_its_own_message(app: App) -> None:
    """A result that is too long, for example: that one is a dead letter, the others are settled."""
    queue = app.store.queue("q", addressed=True, listed=True, keep=3600)
    queue.enqueue_many(range(3))
    first, second, third = queue.claim(3)
    channel = Channel(app.store._file, {})
    channel.add("q", [acked(first._key), Verdict(*second._key, 99), acked(third._key, b"7")])
    assert channel.exchange(None) == []
    assert not channel
    assert {message.id for message in app.store.messages("done")} == {first.id, third.id}
    (dead,) = app.store.messages("dead")
    assert dead.id == second.id
    assert dead.failure is not None
    assert dead.failure.kind == "unencodable"


def test_a_claim_of_which_nothing_can_be_said_keeps_nobody_waiting(
    app: App, foreign: Callable[[str], str]
) -> None:
    """Its queue is gone from a damaged file: that one is left to its lease, the others are said."""
    lost, queue = app.store.queue("lost"), app.store.queue("q")
    lost.enqueue(1)
    queue.enqueue(2)
    claims = [*lost.claim(), *queue.claim()]
    foreign("DELETE FROM fencepost_queue WHERE name = 'lost'")
    channel = Channel(app.store._file, {})
    channel.add("q", [acked(claim._key) for claim in claims])
    assert channel.exchange(None) == []
    assert not channel
    assert queue.size() == 0


@pytest.mark.hostile
def test_verdicts_behind_a_fault_are_said_again(app: App) -> None:
    """Whichever step fails while they are said one by one: none is dropped, and none said twice."""
    lib = pytest.importorskip("fencepost._core_test").lib
    queue = app.store.queue("q", addressed=True, listed=True, keep=3600)
    channel = Channel(app.store._file, {})
    rung, hits = 0, 1
    while hits:
        queue.enqueue_many(range(3))
        first, second, third = queue.claim(3)
        verdicts = [acked(first._key), Verdict(*second._key, 99), acked(third._key)]
        channel.add("q", verdicts)
        lib.fp_fault_step(rung, 1)
        with suppress(fencepost.StorageError):
            channel.exchange(None)
        hits = lib.fp_fault_hits()
        lib.fp_fault_step(-1, 0)
        while channel:
            channel.exchange(None)
        rung += 1
        totals = app.store.stats()["totals"]
        assert (totals["done"], totals["dead"], totals["leased"]) == (2 * rung, rung, 0)
    assert rung > 10


def test_verdicts_wait_while_the_store_is_busy(app: App, path: Path) -> None:
    """Nothing is dropped: they are said when the writer is free again."""
    queue = app.store.queue("q")
    queue.enqueue(1)
    (claim,) = queue.claim()
    channel = Channel(app.store._file, {})
    channel._core.patience = 0.0
    channel.add("q", [acked(claim._key)])
    with fencepost.open(path) as other, other.transaction(), pytest.raises(fencepost.Busy):
        channel.exchange(None)
    assert channel
    channel.exchange(None)
    assert queue.size() == 0


def test_what_was_claimed_is_given_back_when_its_name_cannot_be_read(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look at the names fails once: the message runs all the same, in its first attempt."""
    failures = [fencepost.StorageError("disk I/O error")]
    kinds = File.kinds

    def failing(file: File) -> Any:
        if failures:
            raise failures.pop()
        return kinds(file)

    @app.job(context=True)
    def work(ctx: fencepost.Context) -> int:
        return ctx.attempt

    lease(app.store, 3600)
    handle = work.enqueue()
    monkeypatch.setattr(File, "kinds", failing)
    with app.worker(threads=1):
        assert handle.result(30) == 1
    assert failures == []


def test_a_look_for_nothing_takes_no_turn(app: App, path: Path) -> None:
    """Nothing is due: the core sees it on the reader, also while somebody else is writing."""
    app.store.queue("q").enqueue(1, delay=60)
    number = app.store._file.find("q")
    channel = Channel(app.store._file, {})
    channel._core.patience = 0.0
    with fencepost.open(path) as other, other.transaction():
        assert channel.exchange(Take([number], 1)) == []


def test_a_queue_is_held_for_its_max_age_at_the_most(app: App) -> None:
    """A handler's slip of the pen must not shut a queue for years."""
    app.store.queue("q", max_age=60).enqueue(1)
    channel = Channel(app.store._file, {})
    channel.hold(declared("q", {}), 10**15)
    now = app.store._file.core.now()
    held = app.store._file.core.queue_find(None, b"q")[1]["held_until_us"]
    assert now < held <= now + 60_000_000
