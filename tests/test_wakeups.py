"""Who waits in Python: a worker, a result, room in a queue. A ring or a nudge wakes them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fencepost
from fencepost import App, Context
from fencepost._binding.calls import Core
from harness_bell import DEAF, bell, without
from harness_core import ack, lib, take
from harness_worker import until

pytestmark = pytest.mark.hostile

ROUNDS = 20


@pytest.fixture
def app(path: Path) -> Iterator[App]:
    """Its listener is deaf: a wake-up that is missing costs a slice."""
    with without(DEAF):
        app = App(path, durability="normal")
        yield app
        app.store.close()


@pytest.fixture
def elsewhere(path: Path, app: App) -> Iterator[fencepost.Store]:
    """Another handle on the file."""
    app.store  # noqa: B018 - the file is made by the App
    with fencepost.open(path, durability="normal") as store:
        yield store


def core_of(app: App) -> Core:
    return app.store._file.core


def asleep(app: App) -> bool:
    return bell(core_of(app)).asleep == 1


def assert_rung(app: App) -> None:
    """Somebody was woken; a claim, which rings for nobody, may also be met at a slice's end."""
    ends = bell(core_of(app))
    assert ends.moved > ends.late


def test_an_idle_worker_is_called_out_of_its_sleep_to_stop(app: App) -> None:
    """A stop is not noticed at the end of a slice, but at once."""

    @app.job
    def work() -> None: ...

    with app.worker() as worker:
        until(lambda: asleep(app))
        worker.stop()
    assert bell(core_of(app)).nudged == 1


def test_an_idle_worker_does_nothing_but_look_once_a_slice(app: App) -> None:
    """Also with messages that it cannot have: neither statements nor turns go round."""

    @app.job
    def work() -> None: ...

    work.options(delay=3600).enqueue()
    app.store.queue("closed").enqueue(1)
    with app.worker():
        until(lambda: asleep(app))
        slices, steps = bell(core_of(app)).time, lib.fp_steps()
        until(lambda: bell(core_of(app)).time >= slices + 3)
        assert lib.fp_steps() - steps < 100


def test_a_message_wakes_a_worker_that_is_at_work(app: App, elsewhere: fencepost.Store) -> None:
    """One handler runs and another slot is free: the worker sleeps for messages, not for a tick."""
    gate = threading.Event()

    @app.job
    def long() -> None:
        assert gate.wait(60)

    @app.job
    def short(n: int) -> int:
        return n

    with app.worker(threads=2):
        running = long.enqueue()
        until(lambda: running.status().state == "leased")
        for n in range(ROUNDS):
            until(lambda: asleep(app))
            assert short.at(elsewhere).enqueue(n).result(30) == n
        gate.set()
        running.result(30)
    assert_rung(app)


def test_the_end_of_a_handler_wakes_its_worker(app: App) -> None:
    """It sleeps for messages meanwhile, since it has room for one."""
    gate: list[threading.Event] = []

    @app.job
    def long(n: int) -> None:
        assert gate[n].wait(60)

    with app.worker(threads=2):
        for n in range(ROUNDS):
            gate.append(threading.Event())
            handle = long.enqueue(n)
            until(lambda: asleep(app))
            gate[n].set()
            handle.result(30)
    assert bell(core_of(app)).nudged > 1, "the last one is the stop"


def waiting(work: Any) -> tuple[threading.Thread, list[Any]]:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    return thread, found


def test_a_result_wakes_who_waits_for_it(app: App, elsewhere: fencepost.Store) -> None:
    """Its end, and nothing else of all that is done in the file: not its claim, no neighbour."""

    @app.job
    def work() -> None: ...

    handle = work.enqueue()
    thread, found = waiting(lambda: handle.result(3600))
    until(lambda: asleep(app))
    elsewhere.queue("another").enqueue(1)
    core = elsewhere._file.core
    (claim,) = take(core, core.queue_find(None, b"default")[0])
    ack(core, claim)
    thread.join(30)
    assert found == [None]
    assert_rung(app)


def test_room_wakes_who_waits_for_it(app: App, elsewhere: fencepost.Store) -> None:
    queue = app.store.queue("full", max_size=1)
    queue.enqueue(1)
    thread, found = waiting(lambda: queue.enqueue(2, wait=3600))
    until(lambda: asleep(app))
    (claim,) = elsewhere.queue("full").claim()
    claim.ack()
    thread.join(30)
    assert found[0].created
    assert_rung(app)


def test_who_watches_sees_every_step(app: App, elsewhere: fencepost.Store) -> None:
    """A claim and a word of progress ring for those who watch, and for nobody else."""
    said = threading.Semaphore(0)
    seen: list[tuple[str, object]] = []

    @app.job(context=True)
    def work(ctx: Context) -> None:
        for n in (1, 2):
            ctx.progress(n)
            assert said.acquire(timeout=60)

    handle = work.at(elsewhere).enqueue()
    with app.worker():
        for status in handle.watch():
            seen.append((status.state, status.progress))
            if status.progress:
                said.release()
    assert {("leased", 1), ("leased", 2)} < set(seen)
    assert seen[-1][0] == "done"
    assert bell(elsewhere._file.core).late == 0
