"""
Reading ahead: a worker claims what it can start in a moment, and settles with its next claim.

How far it reads is forced here, so that there is something to be read ahead; how it finds the
measure by itself is in test_prefetch.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fencepost
from fencepost import App, Context, RetryLater
from fencepost._binding.pack import Take
from fencepost._worker import executor, groups, launcher, loop, prefetch
from fencepost._worker.channel import Channel
from fencepost._worker.loop import Loop
from fencepost._worker.prefetch import Prefetch
from fencepost._worker.runs import Run
from fencepost.worker import Worker
from harness_worker import AT_ONCE, lease, until

FOR_EVER = 3600.0
AHEAD = 20


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that think from the start that all handlers are short."""

    class Eager(Prefetch):
        def __init__(self, most: int) -> None:
            super().__init__(min(most, AHEAD))
            self.ahead = min(most, AHEAD)

    monkeypatch.setattr(groups, "Prefetch", Eager)


@pytest.fixture
def trusting(eager: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """And who never find out that one is not."""
    monkeypatch.setattr(prefetch, "PATIENCE", FOR_EVER)


def leased(app: App) -> int:
    found: int = app.store.stats()["totals"]["leased"]
    return found


def done(app: App) -> int:
    found: int = app.store.stats()["totals"]["done"]
    return found


class Gate:
    """A job that stays until it is let go, plain or a coroutine, and one that is short."""

    def __init__(self, app: App, *, coroutine: bool) -> None:
        self.inside, self.open = threading.Event(), threading.Event()
        self.ran: list[tuple[int, int]] = []
        self.coroutine = coroutine
        if coroutine:

            @app.job(context=True)
            async def stay(ctx: Context) -> None:
                import asyncio

                self.inside.set()
                while not self.open.is_set():
                    await asyncio.sleep(0.001)

            @app.job(context=True)
            async def short(ctx: Context, n: int) -> int:
                self.ran.append((n, ctx.attempt))
                return n

        else:

            @app.job(context=True)
            def stay(ctx: Context) -> None:
                self.inside.set()
                assert self.open.wait(30)

            @app.job(context=True)
            def short(ctx: Context, n: int) -> int:
                self.ran.append((n, ctx.attempt))
                return n

        self.stay: Any = stay
        self.short: Any = short


@pytest.fixture(params=[False, True], ids=["threads", "coroutines"])
def gate(
    app: App, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Gate]:
    """With one slot of either sort."""
    monkeypatch.setattr(executor, "COROUTINES", 1)
    gate = Gate(app, coroutine=request.param)
    yield gate
    gate.open.set()


# ---- what waits behind a handler that proves long ------------------------------------------------


@pytest.mark.usefixtures("eager")
def test_a_long_handler_holds_nothing_back(app: App, gate: Gate) -> None:
    """What was read ahead behind it is given back as new, and another worker has it."""
    gate.stay.enqueue()
    handles = gate.short.enqueue_many(gate.short.call(n) for n in range(10))
    with app.worker(threads=1):
        assert gate.inside.wait(30)
        until(lambda: leased(app) == 1)
        assert gate.ran == []
        with app.worker(threads=1):
            assert [handle.result(30) for handle in handles] == list(range(10))
        assert sorted(gate.ran) == [(n, 1) for n in range(10)]
        gate.open.set()


@pytest.mark.usefixtures("trusting")
def test_a_slot_goes_to_who_asked_for_it(
    app: App, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backlog that is not worked off yet is left for another store, and taken up again."""
    monkeypatch.setattr(executor, "TURN", 0.0)
    monkeypatch.setattr(executor, "ASKED", FOR_EVER)
    gate.stay.enqueue()
    handles = gate.short.enqueue_many(gate.short.call(n) for n in range(5))
    other = object()
    with app.worker(threads=1) as worker:
        running = worker._executor
        assert running is not None
        assert gate.inside.wait(30)
        until(lambda: leased(app) == 6)
        assert running.reserve(1, coroutine=gate.coroutine, asker=other) == 0
        gate.open.set()
        until(lambda: running.free(coroutine=gate.coroutine) == 1)
        assert gate.ran == []
        assert running.reserve(1, coroutine=gate.coroutine, asker=other) == 1
        running.give_back(1, coroutine=gate.coroutine)
        assert [handle.result(30) for handle in handles] == list(range(5))


# ---- stopping ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("trusting")
def test_what_was_read_ahead_is_as_new_after_a_stop(app: App, gate: Gate) -> None:
    """What has begun may finish; the rest was never begun, so nothing was given back unfinished."""
    first = gate.stay.enqueue()
    handles = gate.short.enqueue_many(gate.short.call(n) for n in range(10))
    with app.worker(threads=1) as worker:
        assert gate.inside.wait(30)
        until(lambda: leased(app) == 11)
        (loop,) = worker._loops.values()
        loop.stop(30)
        until(lambda: leased(app) == 1)
        gate.open.set()
        assert worker.stop() is True
    assert first.status().state == "done"
    assert {(h.status().state, h.status().attempt) for h in handles} == {("pending", 0)}
    assert gate.ran == []


@pytest.mark.usefixtures("trusting")
def test_a_worker_whose_store_is_gone_begins_nothing_more(app: App, gate: Gate) -> None:
    """What was read ahead is left to its lease: nobody could settle what it does."""
    gate.stay.enqueue()
    gate.short.enqueue_many(gate.short.call(n) for n in range(5))
    with app.worker(threads=1) as worker:
        assert gate.inside.wait(30)
        until(lambda: leased(app) == 6)
        app.store.close()
        until(lambda: not worker.running)
        gate.open.set()
        running = worker._executor
        assert running is not None
        until(lambda: running.free(coroutine=False) == running.free(coroutine=True) == 1)
    assert gate.ran == []


# ---- results that are held -----------------------------------------------------------------------


@pytest.fixture
def turned(monkeypatch: pytest.MonkeyPatch) -> Callable[[Worker, int], None]:
    """Wake the loop so many times, and wait until it has turned each time."""
    counted: Counter[Loop] = Counter()
    turn = Loop._turn

    def counting(loop: Loop) -> None:
        counted[loop] += 1
        turn(loop)

    def turned(worker: Worker, times: int) -> None:
        (loop,) = worker._loops.values()
        for _ in range(times):
            before = counted[loop]
            with loop._executor.changed:
                loop._told()
                loop._executor.changed.notify_all()
            until(lambda before=before: counted[loop] > before)  # type: ignore[misc]

    monkeypatch.setattr(Loop, "_turn", counting)
    return turned


Turned = Callable[[Worker, int], None]


@pytest.mark.usefixtures("trusting")
def test_a_result_is_not_held_behind_a_long_handler(app: App, gate: Gate) -> None:
    """Half of the backlog is still there, but what has ended waits for no more than a moment."""
    short = gate.short.enqueue_many(gate.short.call(n) for n in range(5))
    gate.stay.enqueue()
    gate.short.enqueue_many(gate.short.call(n) for n in range(5, 20))
    with app.worker(threads=1):
        assert gate.inside.wait(30)
        assert [handle.result(30) for handle in short] == list(range(5))
        until(lambda: leased(app) == 16)
        gate.open.set()
        until(lambda: done(app) == 21)


@pytest.mark.usefixtures("trusting")
def test_results_go_with_the_next_claim(
    app: App, gate: Gate, turned: Turned, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever wakes the loop: as long as there is a backlog to be worked off they wait for it."""
    monkeypatch.setattr(loop, "BUDGET", FOR_EVER)
    gate.short.enqueue_many(gate.short.call(n) for n in range(5))
    gate.stay.enqueue()
    gate.short.enqueue_many(gate.short.call(n) for n in range(5, 25))
    said: list[tuple[int, int]] = []
    exchange = Channel.exchange

    def noted(channel: Channel, take: Take | None) -> list[fencepost.Claim[Any]]:
        waiting = len(channel._waiting)
        claims = exchange(channel, take)
        if waiting or claims:
            said.append((waiting, len(claims)))
        return claims

    monkeypatch.setattr(Channel, "exchange", noted)
    with app.worker(threads=1) as worker:
        assert gate.inside.wait(30)
        turned(worker, 3)
        assert said == [(0, 21)]
        gate.open.set()
        until(lambda: done(app) == 26)
    assert said[1][0] > 5
    assert said[1][1] > 0


# ---- what may be deadly --------------------------------------------------------------------------


def left_by_its_holder(app: App, handle: Any, lease_us: int) -> Any:
    """Claim it, the only one there is, for somebody who never answers."""
    core = app.store._file.core
    number = core.queue_find(None, b"default")[0]
    assert core.step(None, Take([number], 1, lease_us))[1].rows == 1
    return handle


def lapsed(app: App) -> bool:
    return bool(app.store.stats()["queues"]["default"]["lapsed"])


@pytest.mark.usefixtures("trusting")
def test_nothing_is_out_while_what_may_be_deadly_runs(
    app: App, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it begins, nothing else is claimed, held or waiting in the backlog."""
    monkeypatch.setattr(launcher, "WARY", FOR_EVER)
    deadly = left_by_its_holder(app, gate.stay.enqueue(), 300_000)
    handles = gate.short.enqueue_many(gate.short.call(n) for n in range(10))
    until(lambda: lapsed(app))
    with app.worker(threads=1):
        assert gate.inside.wait(30)
        until(lambda: leased(app) == 1)
        assert done(app) == len(gate.ran)
        gate.open.set()
        assert [handle.result(30) for handle in handles] == list(range(10))
    assert {attempt for _, attempt in gate.ran} == {1}
    assert deadly.status().attempt == 2


@pytest.mark.usefixtures("trusting")
def test_what_may_be_deadly_is_not_read_ahead(app: App, gate: Gate, turned: Turned) -> None:
    """It comes due while another one runs: it stays in line, as suspect as it was."""
    deadly = left_by_its_holder(app, gate.short.enqueue(-1), 500_000)
    gate.stay.enqueue()
    handles = gate.short.enqueue_many(gate.short.call(n) for n in range(5))
    with app.worker(threads=1) as worker:
        assert gate.inside.wait(30)
        until(lambda: lapsed(app))
        turned(worker, 10)
        assert lapsed(app)
        assert gate.ran == []
        gate.open.set()
        assert deadly.result(30) == -1
        assert [handle.result(30) for handle in handles] == list(range(5))
    assert sorted(gate.ran) == [(-1, 2), *((n, 1) for n in range(5))]


# ---- other reasons not to begin what was read ahead ----------------------------------------------


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("coroutine", [False, True])
def test_later_for_the_whole_queue_is_for_what_was_read_ahead_too(
    app: App, coroutine: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one says it, and none of those that were claimed with it begins."""
    monkeypatch.setattr(executor, "COROUTINES", 1)
    ran: list[int] = []

    def plain(n: int) -> None:
        ran.append(n)
        raise RetryLater(delay=3600, whole_queue=True)

    async def awaited(n: int) -> None:
        plain(n)

    job: Any = app.job(awaited if coroutine else plain)
    handles = job.enqueue_many(job.call(n) for n in range(10))
    with app.worker(threads=1):
        until(lambda: handles[0].status().failure)
        until(lambda: leased(app) == 0)
    assert ran == [0]
    assert [handle.status().attempt for handle in handles] == [0] * 10


def test_what_could_not_begin_in_time_is_given_back(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was stopped must not begin what others may have by then; as new, that is."""
    late: list[Run] = []
    give_back = Run.give_back

    def counted(run: Run) -> Any:
        late.append(run)
        return give_back(run)

    @app.job(context=True)
    def plain(ctx: Context) -> int:
        return ctx.attempt

    @app.job(context=True)
    async def awaited(ctx: Context) -> int:
        return ctx.attempt

    monkeypatch.setattr(Run, "give_back", counted)
    monkeypatch.setattr(launcher, "BEGUN", -1.0)
    handles = [plain.enqueue(), awaited.enqueue()]
    with app.worker(threads=1):
        until(lambda: {run.name for run in late} == {plain.name, awaited.name})
        monkeypatch.setattr(launcher, "BEGUN", 0.5)
        assert [handle.result(30) for handle in handles] == [1, 1]


@pytest.mark.usefixtures("eager")
def test_where_leases_are_short_nothing_is_read_ahead(app: App, gate: Gate) -> None:
    """What waits would lose too much of its own."""
    lease(app.store, 0.5)
    gate.stay.enqueue()
    gate.short.enqueue_many(gate.short.call(n) for n in range(5))
    with app.worker(threads=1):
        assert gate.inside.wait(30)
        assert leased(app) == 1
        gate.open.set()
        until(lambda: done(app) == 6)


def test_handlers_that_raise_are_read_ahead_like_others(app: App) -> None:
    """A thousand, of which each third fails once: each ends done, in its second attempt at most."""
    attempts: Counter[int] = Counter()

    @app.job(context=True, backoff=AT_ONCE)
    def work(ctx: Context, n: int) -> int:
        attempts[n] += 1
        if n % 3 == 0 and ctx.attempt == 1:
            raise ValueError(n)
        return n

    handles = work.enqueue_many(work.call(n) for n in range(600))
    with app.worker(threads=2):
        assert [handle.result(60) for handle in handles] == list(range(600))
    assert attempts == {n: 2 if n % 3 == 0 else 1 for n in range(600)}
