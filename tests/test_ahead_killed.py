"""Workers that are killed while they read ahead: real processes, jobs as short as they get."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost import JobFailed
from fencepost._worker.groups import AHEAD_MAX
from harness_worker import Notes, ask_to_stop, kill, lease, start, until, workers
from scenario_app import Jobs, declare


@pytest.fixture
def jobs(path: Path, tmp_path: Path) -> Iterator[Jobs]:
    jobs = declare(path, tmp_path / "notes")
    lease(jobs.app.store, 1.0)
    yield jobs
    jobs.app.store.close()


def test_a_kill_repeats_at_most_what_was_out(jobs: Jobs, path: Path, tmp_path: Path) -> None:
    """Every job is done; those that ran twice are no more than were claimed and not yet settled."""
    count, threads = 3000, 2
    notes = Notes(tmp_path / "notes")
    jobs.mark.enqueue_many(jobs.mark.call(n) for n in range(count))
    with workers(path, 1, str(notes.path), "--threads", str(threads)) as (process,):
        until(lambda: notes.count("marked") > count // 3)
        process.send_signal(signal.SIGKILL)
        process.wait()
    out = jobs.app.store.stats()["totals"]["leased"]
    assert out <= AHEAD_MAX + threads
    with workers(path, 1, str(notes.path)) as (process,):
        until(lambda: jobs.app.store.stats()["totals"]["done"] == count)
        assert ask_to_stop(process) == 0
    lines = [line for line in notes.read() if line[0] == "marked"]
    runs = Counter(int(line[1]) for line in lines)
    assert set(runs) == set(range(count))
    assert sum(runs.values()) - count <= out
    assert jobs.app.store.check(full=True) == []


def test_a_deadly_job_costs_short_neighbours_one_attempt(
    jobs: Jobs, path: Path, tmp_path: Path
) -> None:
    """In the middle of a stream that is read ahead: it is dead after three, they are all done."""
    notes = Notes(tmp_path / "notes")
    before = jobs.mark.enqueue_many(jobs.mark.call(n) for n in range(150))
    deadly = jobs.deadly.enqueue()
    behind = jobs.mark.enqueue_many(jobs.mark.call(n) for n in range(150, 300))
    process = start(path, str(notes.path), "--threads", "2")
    try:
        while (status := deadly.status()).state in ("pending", "leased"):
            if process.poll() is not None:
                process = start(path, str(notes.path), "--threads", "2")
            assert status.attempt <= 3
        with pytest.raises(JobFailed) as failed:
            deadly.result(30)
        for n, handle in enumerate([*before, *behind]):
            assert handle.result(60) == n
            assert handle.status().attempt <= 2
    finally:
        kill(process)
    assert failed.value.failure.kind == "worker_lost"
