"""Inboxes in a worker that runs: what is completed elsewhere is held, and for how long."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost import App, Context, Delivery
from harness_worker import AT_ONCE, until

LONG = 120.0


def totals(app: App) -> dict[str, int]:
    return {name: count for name, count in app.store.stats()["totals"].items() if count}


class Work:
    """What a handler has begun elsewhere."""

    def __init__(
        self, app: App, *, timeout: float = LONG, coroutine: bool = False, max_attempts: int = 5
    ) -> None:
        self.inbox = app.inbox("work", int, backoff=AT_ONCE, lease=2, max_attempts=max_attempts)
        self.tokens: list[int] = []
        begun = threading.Semaphore(0)
        self._begun = begun

        def begin(ctx: Context, n: int) -> None:
            self.tokens.append(ctx.token)
            begun.release()

        async def begin_beside(ctx: Context, n: int) -> None:
            begin(ctx, n)

        self.inbox.handler(settle="completed", timeout=timeout)(
            begin_beside if coroutine else begin
        )

    def token(self) -> int:
        """Of the handler that has begun."""
        assert self._begun.acquire(timeout=60)
        return self.tokens[-1]


@pytest.mark.parametrize("coroutine", [False, True])
def test_it_is_held_until_another_process_completes_it(
    app: App, path: Path, elsewhere: Callable[[str], str], coroutine: bool
) -> None:
    """For longer than its lease, which the worker renews meanwhile; and it runs once."""
    work = Work(app, coroutine=coroutine)
    work.inbox.accept("1", 7)
    with app.worker(threads=1):
        token = work.token()
        began_us = app.store._file.core.now()
        until(lambda: app.store._file.core.now() > began_us + 2_500_000)
        assert totals(app) == {"leased": 1}
        said = elsewhere(f"print(fencepost.App(path).inbox('work', int).complete('1', {token}))")
        assert said == "True\n"
        assert totals(app) == {"done": 1}
        work.inbox.accept("2", 8)
        assert work.inbox.complete("2", work.token())
    assert totals(app) == {"done": 2}
    assert len(work.tokens) == 2


def test_who_is_not_told_in_time_tries_again(app: App) -> None:
    """An attempt like any other: the last one makes it a dead letter."""
    work = Work(app, timeout=0.05, max_attempts=2)
    work.inbox.accept("1", 7)
    with app.worker(threads=1):
        first = work.token()
        work.token()
        assert not work.inbox.complete("1", first)
        until(lambda: totals(app) == {"dead": 1})
    (message,) = app.store.messages("dead")
    assert message.failure is not None
    assert message.failure.kind == "completion_timeout"


def test_an_error_of_the_host_is_tried_again_at_once(app: App) -> None:
    work = Work(app)
    work.inbox.accept("1", 7)
    with app.worker(threads=1):
        assert work.inbox.complete("1", work.token(), error="no")
        assert work.inbox.complete("1", work.token())
        until(lambda: totals(app) == {"done": 1})
    assert len(work.tokens) == 2


def test_a_worker_that_stops_leaves_it_to_its_lease(app: App) -> None:
    """The work goes on elsewhere, and may still be completed; the worker stops at once."""
    work = Work(app)
    work.inbox.accept("1", 7)
    worker = app.worker(threads=1).start()
    token = work.token()
    until(lambda: totals(app) == {"leased": 1})
    worker.stop(0)
    assert totals(app) == {"leased": 1}
    assert work.inbox.complete("1", token)
    assert totals(app) == {"done": 1}


def test_rows_of_a_beginning_are_there_when_the_handler_has_returned(app: App) -> None:
    """One commit, in which the lease is renewed: not if it was lost by then."""
    inbox = app.inbox("work", int)
    with app.transaction() as tx:
        tx.execute("CREATE TABLE begun (key TEXT)")

    @inbox.handler(settle="completed")
    def begin(ctx: Context, n: int) -> None:
        ctx.tx.execute("INSERT INTO begun VALUES (?)", [ctx.key])

    def begun() -> list[tuple[object, ...]]:
        with app.transaction() as tx:
            return list(tx.execute("SELECT key FROM begun"))

    inbox.accept("1", 7)
    with app.worker(threads=1, grace=0):
        until(lambda: begun() == [("1",)])


def test_many_that_are_held_by_coroutines_keep_nobody_waiting(app: App) -> None:
    """
    More than there are threads beside an event loop: each is still seen to end, and what is sent by
    other coroutines begins meanwhile.
    """
    work = Work(app, coroutine=True)
    outbox = app.outbox("events", int)
    sent = threading.Event()

    @outbox.handler
    async def deliver(d: Delivery[int]) -> None:
        sent.set()

    held = 40
    with app.worker():
        for n in range(held):
            work.inbox.accept(str(n), n)
        for _ in range(held):
            work.token()
        outbox.send("d", 1)
        assert sent.wait(60)
        until(lambda: totals(app) == {"leased": held, "done": 1})
        for message in app.store.messages("leased", limit=held):
            assert message.key is not None
            assert any(work.inbox.complete(message.key, token) for token in work.tokens)
        until(lambda: totals(app) == {"done": held + 1})
