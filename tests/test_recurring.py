"""Recurring work: that it fires once, never beside itself, and what becomes of what was missed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import fencepost
from fencepost import App, Context, InvalidArgument
from fencepost._binding.calls import OpenTx
from fencepost._binding.pack import Take
from fencepost._file import File
from fencepost._worker import loop
from fencepost._worker.scheduler import Scheduler
from fencepost.spans import MOMENT_MAX, moment_us
from fencepost.testing import Drained, Kit, override
from harness_worker import Notes, until

BERLIN = ZoneInfo("Europe/Berlin")


# ---- what is declared ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda app: app.cron("* * * *", tz="UTC"), "five fields"),
        (lambda app: app.cron("* * * * * *", tz="UTC"), "five fields"),
        (lambda app: app.cron("61 * * * *", tz="UTC"), "Bad minute"),
        (lambda app: app.cron("0 0 30 2 *", tz="UTC"), "Bad day|never due"),
        (lambda app: app.cron("0 0 * * *", tz="Mars/Olympus"), "no time zone"),
        (lambda app: app.cron("0 0 * * *", tz="../etc/passwd"), "no time zone"),
        (lambda app: app.cron("0 0 * * *", tz=None), "name of a zone"),
        (lambda app: app.cron("0 0 * * *", tz="UTC", missed="some"), "missed is"),
        (lambda app: app.every(0), "at least 0.1 s"),
        (lambda app: app.every(-1), "negative"),
        (lambda app: app.every(1)(print), "above @app.job"),
    ],
)
def test_what_is_no_schedule_is_refused_where_it_is_declared(
    path: Path, call: Callable[[Any], object], words: str
) -> None:
    app = App(path)
    with pytest.raises((InvalidArgument, TypeError), match=words):
        call(app)


def test_a_job_with_arguments_cannot_recur(path: Path) -> None:
    app = App(path)

    @app.job
    def greet(name: str) -> None: ...

    with pytest.raises(InvalidArgument):
        app.every(1)(greet)  # type: ignore[arg-type]

    @app.every(60)
    @app.job
    def tick() -> None: ...

    assert isinstance(tick, fencepost.Job)
    with pytest.raises(InvalidArgument, match="already"):
        app.every(60)(tick)


# ---- by the hand-turned clock --------------------------------------------------------------------

DAY = timedelta(days=1)
NOON = datetime(2026, 6, 1, 12, tzinfo=timezone.utc)


@contextmanager
def nightly(
    path: Path, *, fails: Sequence[object] = (), **options: Any
) -> Iterator[tuple[Kit, list[datetime]]]:
    """A job at half past two in Berlin; the moments it ran for, and its kit."""
    app, ran = App(path), []

    @app.cron("30 2 * * *", tz="Europe/Berlin", **options)
    @app.job(context=True, max_attempts=2, backoff=fencepost.Backoff(60, 1, 60, 0))
    def report(ctx: Context) -> None:
        ran.append(ctx.due)
        if fails:
            raise RuntimeError("not now")

    with override(app, now=NOON) as kit:
        yield kit, ran


def night(day: int) -> datetime:
    return datetime(2026, 6, day, 2, 30, tzinfo=BERLIN).astimezone(timezone.utc)


def test_it_fires_for_the_moment_of_its_schedule(path: Path) -> None:
    """Not for those before it was first seen, and once for each."""
    with nightly(path) as (kit, ran):
        assert kit.drain().done == 0
        kit.advance(night(2) - timedelta(seconds=1))
        assert kit.drain().done == 0
        kit.advance(timedelta(seconds=5))
        assert kit.drain().done == 1
        assert kit.drain().done == 0
        kit.advance(DAY)
        assert kit.drain().done == 1
        assert ran == [night(2), night(3)]
        assert kit.store.check(full=True) == []


def test_after_a_downtime_the_latest_is_made_up_by_one_run(path: Path) -> None:
    with nightly(path) as (kit, ran):
        kit.advance(10 * DAY)
        assert kit.drain().done == 1
        assert kit.drain().done == 0
        assert ran == [night(11)]
        kit.advance(DAY)
        assert kit.drain().done == 1


def test_after_a_downtime_all_are_made_up_one_after_the_other(path: Path) -> None:
    with nightly(path, missed="all") as (kit, ran):
        kit.advance(4 * DAY)
        assert len(kit.enqueued("default")) == 0
        assert kit.drain().done == 4
        assert ran == [night(day) for day in (2, 3, 4, 5)]


def test_after_a_downtime_what_was_missed_is_skipped(path: Path) -> None:
    """A minute late is on time."""
    with nightly(path, missed="skip") as (kit, ran):
        kit.advance(4 * DAY)
        assert kit.drain().done == 0
        kit.advance(night(6) + timedelta(seconds=59))
        assert kit.drain().done == 1
        kit.advance(night(7) + timedelta(seconds=61))
        assert kit.drain().done == 0
        assert ran == [night(6)]


@pytest.mark.parametrize("missed", ["latest", "all", "skip"])
def test_it_never_fires_while_its_last_run_has_not_ended(path: Path, missed: str) -> None:
    """Pending, leased or waiting for a retry; when that has ended, it goes on by `missed`."""
    with nightly(path, missed=missed) as (kit, ran):
        kit.advance(night(2))
        kit.drain(limit=0)
        kit._fire()
        assert len(kit.enqueued("default")) == 1
        kit.advance(2 * DAY)
        kit._fire()
        assert len(kit.enqueued("default")) == 1
        done = kit.drain().done
        assert ran[0] == night(2)
        assert (done, ran[1:]) == {
            "latest": (2, [night(4)]),
            "all": (3, [night(3), night(4)]),
            "skip": (2, [night(4)]),
        }[missed]


def test_a_run_that_is_retried_is_not_overtaken(path: Path) -> None:
    fails = [True]
    with nightly(path, fails=fails) as (kit, ran):
        kit.advance(night(2))
        assert kit.drain().retried == 1
        kit.advance(timedelta(seconds=59))
        kit._fire()
        assert [m.attempt for m in kit.enqueued("default")] == [1]
        kit.advance(1)
        assert kit.drain().dead == 1
        kit.advance(DAY)
        fails.clear()
        assert kit.drain().done == 1
        assert ran == [night(2), night(2), night(3)]


def test_an_interval_does_not_drift(path: Path) -> None:
    app, ran = App(path), []

    @app.every(10)
    @app.job(context=True)
    def tick(ctx: Context) -> None:
        ran.append(ctx.due - NOON)

    with override(app, now=NOON) as kit:
        for seconds in (13, 9, 7, 60, 3):
            kit.advance(seconds)
            kit.drain()
    assert [span.total_seconds() for span in ran] == [10, 20, 80, 90]


def test_a_rule_that_was_changed_begins_anew(path: Path) -> None:
    """It does not fire for what the new rule would have meant in the past."""
    for tz in ("Europe/Berlin", "America/New_York"):
        app, ran = App(path), []

        @app.cron("30 2 * * *", tz=tz)
        @app.job(name="report")
        def report() -> None:
            ran.append(1)  # noqa: B023

        with override(app, path, now=NOON + (0 if tz == "Europe/Berlin" else 20) * DAY) as kit:
            kit.drain()
            kit.advance(timedelta(hours=1))
            assert kit.drain().done == 0
            assert ran == []


def test_who_comes_second_looks_once_more(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look and the turn another process has fired, and that run has ended already."""
    with nightly(path) as (kit, ran):
        kit.advance(DAY)
        schedules = kit._app._registry.schedules
        number_of = File.kind
        drained: list[Drained] = []

        def late(file: File, name: str, tx: OpenTx | None) -> int:
            if not drained and tx is None:
                drained.append(Drained(0, 0, 0, 0))
                drained[0] = kit.drain()
            return number_of(file, name, tx)

        monkeypatch.setattr(File, "kind", late)
        Scheduler(kit.store._file, schedules).turn()
        assert drained[0].done == 1
        assert kit.drain().done == 0
        assert ran == [night(2)]


@pytest.mark.hostile
def test_a_schedule_that_cannot_be_written_fires_nothing(path: Path) -> None:
    """What it enqueues and how far it has come are one commit: at each step that fails, neither."""
    from harness_core import lib
    from harness_ladder import disarm

    with nightly(path) as (kit, ran):
        kit.advance(DAY)
        rung = 0
        while True:
            lib.fp_fault_step(rung, 1)
            try:
                kit._fire()
            except fencepost.StorageError:
                rung += 1
            else:
                break
            finally:
                disarm()
        assert rung > 5
        assert len(kit.enqueued("default")) == 1
        assert kit.drain().done == 1
        assert ran == [night(2)]
        assert kit.store.check(full=True) == []


# ---- real workers --------------------------------------------------------------------------------

TICKING = """
import os, sys
from pathlib import Path
import fencepost
from harness_worker import Notes

app = fencepost.App(sys.argv[1])
notes = Notes(Path(sys.argv[2]))

@app.every(0.25)
@app.job(context=True)
def tick(ctx: fencepost.Context) -> None:
    notes.write("ran", ctx.due.isoformat(), os.getpid(), ctx.attempt)

app.run()
"""


def test_three_processes_fire_each_moment_once(path: Path, tmp_path: Path) -> None:
    """One of them is killed on the way; no moment is fired for twice, and the others go on."""
    notes = Notes(tmp_path / "notes")
    command = [sys.executable, "-c", TICKING, str(path), str(notes.path)]
    folders = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": folders}
    running = [subprocess.Popen(command, env=environment) for _ in range(3)]
    try:
        until(lambda: len(notes.read()) >= 4)
        running[0].kill()
        running[0].wait()
        so_far = len(notes.read())
        until(lambda: len(notes.read()) >= so_far + 4)
    finally:
        for process in running:
            process.kill()
            process.wait()
    first = [words[1] for words in notes.read() if words[3] == "1"]
    assert len(first) == len(set(first))
    since = [datetime.fromisoformat(at) - datetime.fromisoformat(first[0]) for at in first]
    assert all(gap % timedelta(seconds=0.25) == timedelta(0) for gap in since)


def test_a_worker_is_on_time_and_takes_only_its_own_queues(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sleeps until the moment; a job of a queue that nobody works on is not even enqueued."""
    app, ran = App(path), []
    untils: set[int] = set()

    def take(*arguments: Any, **named: Any) -> Take:
        one = Take(*arguments, **named)
        untils.add(one.until_us)
        return one

    monkeypatch.setattr(loop, "Take", take)

    @app.every(0.3)
    @app.job(context=True, queue="mine")
    def mine(ctx: Context) -> None:
        ran.append(ctx.due)

    @app.every(0.1)
    @app.job(queue="others")
    def others() -> None:
        raise AssertionError

    with app.worker(queues=["mine"]):
        until(lambda: len(ran) >= 3)
    assert MOMENT_MAX not in untils
    assert {moment_us(due, "due") for due in ran[1:]} <= untils
    assert "others" not in app.store.stats()["queues"]
    app.store.close()
