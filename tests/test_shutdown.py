"""Stopping: what runs may finish, the rest is given back, and nothing keeps the process."""

from __future__ import annotations

import asyncio
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import fencepost
from fencepost import App, Claim, Context, InvalidArgument
from fencepost._binding.pack import Take
from fencepost._worker.channel import Channel
from harness_worker import Notes, ask_to_stop, errors_of, until, workers


def test_what_runs_may_finish(app: App) -> None:
    """stop() waits for it, claims nothing more, and says that nothing was given back."""
    started, gate = threading.Event(), threading.Event()

    @app.job
    def work(n: int) -> int:
        started.set()
        assert gate.wait(30)
        return n

    with app.worker(threads=1) as worker:
        first, second = work.enqueue(1), work.enqueue(2)
        assert started.wait(30)
        threading.Timer(0.1, gate.set).start()
        assert worker.stop() is True
        assert not worker.running
    assert first.result(0) == 1
    assert second.status().state == "pending"
    assert second.status().attempt == 0


def test_what_does_not_finish_is_given_back_with_its_attempt(app: App) -> None:
    """A plain handler that does not look and a coroutine that is cancelled: both as new."""
    started = threading.Semaphore(0)
    gate = threading.Event()
    cleaned = threading.Event()

    @app.job(max_attempts=1)
    def deaf() -> None:
        started.release()
        assert gate.wait(30)

    @app.job(max_attempts=1)
    async def long() -> None:
        started.release()
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.set()

    handles = [deaf.enqueue(), long.enqueue()]
    with app.worker() as worker:
        for _ in handles:
            assert started.acquire(timeout=30)
        assert worker.stop(grace=0) is False
    assert cleaned.is_set()
    assert [(h.status().state, h.status().attempt) for h in handles] == [("pending", 0)] * 2
    gate.set()


def test_a_handler_is_told_at_the_end_of_the_grace(app: App) -> None:
    """One that looks at ctx.cancelled stops by itself, and its message is given back."""
    running, told = threading.Event(), threading.Event()

    @app.job(context=True)
    def listen(ctx: Context) -> None:
        running.set()
        while True:
            try:
                ctx.check()
            except fencepost.Cancelled:
                told.set()
                raise

    handle = listen.enqueue()
    with app.worker() as worker:
        assert running.wait(30)
        assert worker.stop(grace=0.05) is False
        assert told.is_set()
    assert (handle.status().state, handle.status().attempt) == ("pending", 0)


def test_a_result_in_the_last_moment_counts(app: App) -> None:
    """A handler that, being told, returns what it has, is done."""
    running = threading.Event()

    @app.job(context=True)
    def yield_(ctx: Context) -> str:
        running.set()
        until(lambda: ctx.cancelled)
        return "half"

    handle = yield_.enqueue()
    with app.worker() as worker:
        assert running.wait(30)
        assert worker.stop(grace=0) is True
    assert handle.result(0) == "half"


def test_a_worker_can_be_started_again(app: App) -> None:
    """Once at a time; stopping what does not run is nothing."""

    @app.job
    def work() -> int:
        return 7

    worker = app.worker()
    assert worker.stop() is True
    for _ in range(2):
        with worker:
            assert worker.running
            with pytest.raises(InvalidArgument, match="runs already"):
                worker.start()
            assert work.enqueue().result(30) == 7
        assert not worker.running


def test_embedding_touches_no_signal_handler_and_works_off_the_main_thread(app: App) -> None:
    """start() and stop() from any thread; run() belongs to the main one."""
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    results: list[object] = []

    @app.job
    def work() -> int:
        results.append((signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)))
        return 7

    def embed() -> None:
        with app.worker():
            results.append(work.enqueue().result(30))
        with pytest.raises(InvalidArgument, match="main thread"):
            app.run()
        results.append("refused")

    thread = threading.Thread(target=embed)
    thread.start()
    thread.join()
    assert results == [before, 7, "refused"]


async def test_a_worker_in_an_event_loop(app: App) -> None:
    """With `async with`, neither start nor stop holds the loop."""

    @app.job
    async def work() -> int:
        await asyncio.sleep(0)
        return 7

    async with app.worker() as worker:
        assert await asyncio.to_thread(work.enqueue().result, 30) == 7
    assert not worker.running


def test_a_coroutine_that_never_began_is_given_back(app: App) -> None:
    """Cancelled before its first step: also then its attempt is not used."""
    blocked, gate = threading.Event(), threading.Event()

    @app.job
    async def block() -> None:
        blocked.set()
        assert gate.wait(30)  # it holds the loop on purpose

    @app.job
    async def late() -> None: ...

    with app.worker() as worker:
        first = block.enqueue()
        assert blocked.wait(30)
        second = late.enqueue()
        until(lambda: second.status().state == "leased")
        threading.Timer(0.2, gate.set).start()
        assert worker.stop(grace=0) is False
    assert second.status() == second.status()._replace(state="pending", attempt=0)
    assert first.status().state in ("pending", "done")


# ---- processes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_worker_ends_with_exit_code_0(path: Path, tmp_path: Path, number: int) -> None:
    """At either signal."""
    notes = Notes(tmp_path / "notes")
    with workers(path, 1, str(notes.path)) as (process,):
        until(lambda: notes.count("log", "working"))
        process.send_signal(number)
        assert process.wait(30) == 0


def test_a_second_signal_ends_the_grace_at_once(path: Path, tmp_path: Path) -> None:
    """A hung handler costs no more of the ten minutes, and its attempt is given back."""
    import scenario_app

    notes = Notes(tmp_path / "notes")
    jobs = scenario_app.declare(path, notes.path)
    handle = jobs.sleep.enqueue(60, looks=False)
    with workers(path, 1, str(notes.path), "--grace", "600") as (process,):
        until(lambda: notes.count("sleeps"))
        process.send_signal(signal.SIGTERM)
        until(lambda: notes.count("log", "stopping"))
        assert ask_to_stop(process) == 0
    assert (handle.status().state, handle.status().attempt) == ("pending", 0)
    jobs.app.store.close()


def test_a_worker_that_finds_a_newer_schema_ends_with_a_clear_word(
    path: Path, tmp_path: Path
) -> None:
    """The file is left as it is; the process ends with the error, not with 0."""
    import scenario_app
    from harness_outside import Outside

    notes = Notes(tmp_path / "notes")
    with Outside() as outside, workers(path, 1, str(notes.path)) as (process,):
        until(lambda: notes.count("log", "working"))
        outside.change(path, "UPDATE fencepost_meta SET version = version + 1")
        assert process.wait(60) == 1
    assert "NewerSchema" in errors_of(path)
    with pytest.raises(fencepost.NewerSchema):
        _ = scenario_app.declare(path, notes.path).app.store


def test_a_second_stop_does_not_try_again_and_again_to_settle(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handler hangs in a transaction of its own, so nothing can be given back: one try."""
    running, gate = threading.Event(), threading.Event()

    @app.job(context=True)
    def hang(ctx: Context) -> None:
        ctx.tx.execute("SELECT 1")
        running.set()
        assert gate.wait(60)

    tries: list[int] = []
    exchange = Channel.exchange

    def counted(channel: Channel, take: Take | None) -> list[Claim[Any]]:
        if channel and take is None:
            tries.append(1)
        return exchange(channel, take)

    monkeypatch.setattr(Channel, "exchange", counted)
    hang.enqueue()
    worker = app.worker(threads=1).start()
    assert running.wait(30)
    (loop,) = worker._loops.values()
    loop.stop(30)
    loop.stop(0)
    loop.join()
    assert len(tries) == 1
    gate.set()
    worker.stop(0)
