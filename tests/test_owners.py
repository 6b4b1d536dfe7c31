"""Whose transaction it is, and how long the others wait for it."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest

import fencepost
from fencepost import Busy, InvalidArgument, Store, Transaction
from fencepost.testing import Clock
from harness_queue import notes

pytestmark = pytest.mark.usefixtures("orders")

# ---- owners --------------------------------------------------------------------------------------


def test_using_the_store_beside_ones_own_transaction_is_refused(store: Store) -> None:
    """Writing would wait for oneself, reading would miss one's own rows: never a deadlock."""
    queue = store.queue("q", int)
    queue.enqueue(1)
    (claim,) = queue.claim()
    calls: list[Callable[[], object]] = [
        lambda: queue.enqueue(2),
        lambda: queue.enqueue_many([2]),
        queue.claim,
        lambda: queue.claim(wait=3600),
        lambda: queue.ack([claim]),
        queue.size,
        claim.ack,
        claim.renew,
        lambda: store.message(claim.id),
        lambda: store.messages("pending"),
        lambda: store.content(claim.id),
        store.stats,
        store.check,
        lambda: store.cancel([]),
        lambda: store.replay([]),
        lambda: store.pause("q"),
        lambda: store.purge("done", datetime.now(timezone.utc)),
        lambda: store.transaction().__enter__(),
        store.close,
    ]
    with store.transaction() as tx:
        for call in calls:
            with pytest.raises(InvalidArgument, match="pass it as tx="):
                call()
        claim.ack(tx=tx)
    assert queue.size() == 0


def test_a_transaction_of_another_store_is_refused(
    store: Store, clock: Clock, tmp_path: Path
) -> None:
    with (
        clock.open(tmp_path / "other.db") as other,
        other.transaction() as tx,
        pytest.raises(InvalidArgument, match=r"another store: .*other\.db"),
    ):
        store.queue("q").enqueue(1, tx=tx)


def test_what_is_no_transaction_is_refused(store: Store) -> None:
    with pytest.raises(InvalidArgument, match=r"takes a Transaction of Store\.transaction\(\)"):
        store.queue("q").enqueue(1, tx=object())  # type: ignore[arg-type]


def test_a_finished_transaction_is_over(store: Store) -> None:
    with store.transaction() as tx:
        pass
    with pytest.raises(InvalidArgument, match="the transaction is over"):
        tx.execute("SELECT 1")
    with pytest.raises(InvalidArgument, match="the transaction is over"):
        store.queue("q").enqueue(1, tx=tx)


def test_another_thread_may_not_use_it(store: Store) -> None:
    caught: list[BaseException] = []

    def use(tx: fencepost.Transaction) -> None:
        try:
            tx.execute("SELECT 1")
        except InvalidArgument as error:
            caught.append(error)

    with store.transaction() as tx:
        thread = threading.Thread(target=use, args=[tx])
        thread.start()
        thread.join()
        tx.execute("INSERT INTO orders (note) VALUES ('a')")
    assert "belongs to the thread and task that began it" in str(caught[0])
    assert notes(store) == ["a"]


def test_another_task_may_not_use_it(store: Store) -> None:
    """
    Between two awaits other tasks run in the same thread: neither in the transaction, nor
    beside it, where the thread would wait for itself.
    """
    queue = store.queue("q")

    async def meanwhile(tx: fencepost.Transaction) -> None:
        with pytest.raises(InvalidArgument, match="belongs to the thread and task"):
            tx.execute("SELECT 1")
        with pytest.raises(InvalidArgument, match="this thread has a transaction open"):
            queue.enqueue(1)

    async def main() -> None:
        with store.transaction() as tx:
            tx.execute("INSERT INTO orders (note) VALUES ('a')")
            await asyncio.create_task(meanwhile(tx))
            tx.execute("INSERT INTO orders (note) VALUES ('b')")

    asyncio.run(main())
    assert notes(store) == ["a", "b"]


def test_an_abandoned_transaction_is_rolled_back(store: Store) -> None:
    """An interrupt may tear it off before its block has begun: nothing holds it, so it is over."""
    tx = Transaction(store._file, 0)
    tx.execute("INSERT INTO orders (note) VALUES ('a')")
    del tx
    gc.collect()
    assert notes(store) == []


def test_it_is_rolled_back_also_where_another_thread_finds_it(store: Store) -> None:
    """Its own thread is gone, and the collector runs in whichever thread it likes."""
    left: list[Transaction] = []

    def begin() -> None:
        left.append(Transaction(store._file, 0))
        left[0].execute("INSERT INTO orders (note) VALUES ('a')")

    thread = threading.Thread(target=begin)
    thread.start()
    thread.join()
    left.clear()
    gc.collect()
    assert notes(store) == []


def test_a_block_that_ends_in_another_thread_is_rolled_back(store: Store) -> None:
    """A generator may be ended anywhere: it is told, and nobody waits for it for ever."""
    block = store.transaction()
    tx: list[Transaction] = []
    thread = threading.Thread(target=lambda: tx.append(block.__enter__()))
    thread.start()
    thread.join()
    with pytest.raises(InvalidArgument, match="another thread: it was rolled back"):
        block.__exit__(None, None, None)
    store.queue("q").enqueue(1)
    with pytest.raises(InvalidArgument, match="the transaction is over"):
        tx[0].execute("SELECT 1")


# ---- waiting in line -----------------------------------------------------------------------------


def held_elsewhere(store: Store) -> tuple[threading.Event, threading.Thread]:
    """A thread that holds a transaction until it is told to let go."""
    holds, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with store.transaction():
            holds.set()
            let_go.wait()

    thread = threading.Thread(target=hold, name="the holder")
    thread.start()
    holds.wait()
    return let_go, thread


def test_waiting_in_line_is_bounded_and_names_the_holder(store: Store) -> None:
    let_go, thread = held_elsewhere(store)
    with pytest.raises(Busy, match="a transaction has had its turn"), store.transaction(timeout=0):
        pass
    let_go.set()
    thread.join()
    assert notes(store) == []


def test_another_process_that_holds_the_file_is_named_too(
    path: Path, store: Store, elsewhere: Callable[[str], str]
) -> None:
    program = """
with fencepost.open(path, busy_timeout=0) as store:
    try:
        store.queue("q").enqueue(1)
    except fencepost.Busy as error:
        print(error)
"""
    with store.transaction():
        assert "another process" in elsewhere(program)


def test_who_waits_gets_the_turn_when_it_is_free(store: Store) -> None:
    let_go, thread = held_elsewhere(store)
    asked: list[bool] = []
    queue = store.queue("q")
    waiter = threading.Thread(target=lambda: asked.append(queue.enqueue(1).created))
    waiter.start()
    let_go.set()
    thread.join()
    waiter.join()
    assert asked == [True]


def test_a_long_transaction_is_logged_with_its_holder(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "fencepost"), store.transaction(timeout=0):
        pass
    assert "thread MainThread held a transaction for" in caplog.text
    caplog.clear()
    with store.transaction():
        pass
    assert caplog.text == ""
