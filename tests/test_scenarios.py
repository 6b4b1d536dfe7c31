"""
Small cases from real trouble, each with real processes: tests/…scenario_app.py is the worker.

The letters are those of the list of fifteen things that must go right; those about the core alone
are in the rooms they belong to.
"""

from __future__ import annotations

import random
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost import JobFailed
from harness_worker import Notes, Process, ask_to_stop, kill, lease, start, until, workers
from scenario_app import Jobs, declare


@pytest.fixture
def jobs(path: Path, notes: Notes) -> Iterator[Jobs]:
    jobs = declare(path, notes.path)
    lease(jobs.app.store, 1.0)
    yield jobs
    jobs.app.store.close()


def totals(jobs: Jobs) -> dict[str, int]:
    found: dict[str, int] = jobs.app.store.stats()["totals"]
    return found


def supervise(path: Path, notes: Notes, over: threading.Event) -> threading.Thread:
    """Starts a worker again whenever it has died, until it is over."""

    def watch() -> None:
        process = start(path, str(notes.path))
        while not over.wait(0.02):
            if process.poll() is not None:
                process = start(path, str(notes.path))
        kill(process)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


# ---- H1: killed in the middle --------------------------------------------------------------------


def test_h1_a_job_whose_worker_is_killed_runs_again(jobs: Jobs, path: Path, notes: Notes) -> None:
    """
    As soon as it is dead and not before, although its lease is an hour: attempt 2, done, by one
    that was there all the time.
    """
    lease(jobs.app.store, 3600)
    handle = jobs.hang_once.enqueue(1)
    with workers(path, 1, str(notes.path)) as (first,):
        until(lambda: notes.count("began", 1, 1))
        with workers(path, 1, str(notes.path)) as (second,):
            others = jobs.mark.enqueue_many(jobs.mark.call(n) for n in range(100))
            assert [other.result(60) for other in others] == list(range(100))
            assert notes.count("began") == 1
            kill(first)
            assert handle.result(60) == 2
            assert ask_to_stop(second) == 0
    assert notes.count("began") == 2
    assert handle.status().attempt == 2


def test_a_worker_that_slept_past_its_lease_changes_nothing(
    jobs: Jobs, path: Path, notes: Notes
) -> None:
    """
    Stopped in the middle, overtaken, woken again: its rows are rolled back and its result refused,
    and it goes on with other work.
    """
    with jobs.app.transaction() as tx:
        tx.execute("CREATE TABLE paid (attempt INT, token INT)")
    handle = jobs.pay.enqueue()
    with workers(path, 1, str(notes.path)) as (first,):
        until(lambda: notes.count("began", 1))
        first.send_signal(signal.SIGSTOP)
        with workers(path, 1, str(notes.path)) as (second,):
            assert handle.result(60) == 2
            assert ask_to_stop(second) == 0
        notes.write("go")
        first.send_signal(signal.SIGCONT)
        until(lambda: notes.count("writes", 1))
        assert jobs.mark.enqueue(7).result(60) == 7
        assert ask_to_stop(first) == 0
    with jobs.app.transaction() as tx:
        assert [attempt for (attempt,) in tx.execute("SELECT attempt FROM paid")] == [2]
    assert handle.result(0) == 2


def test_a_process_that_hangs_as_a_whole_loses_its_message_at_the_time_out(
    jobs: Jobs, path: Path, notes: Notes
) -> None:
    """
    Its handler never lets go of the interpreter, so nobody in it can say anything: the keeper stops
    renewing, and another worker has the message before the first one has noticed.
    """
    lease(jobs.app.store, 0.5)
    handle = jobs.spin.enqueue()
    with workers(path, 1, str(notes.path)):
        until(lambda: notes.count("spins", 1))
        with workers(path, 1, str(notes.path)):
            assert handle.result(60) == 2
            assert notes.count("spun") == 0


# ---- H3: several processes, ten thousand jobs ----------------------------------------------------


def test_h3_every_job_is_done_exactly_once(jobs: Jobs, path: Path, notes: Notes) -> None:
    """
    Three workers drain while a producer keeps adding: each job once, no error reaches user code,
    and no worker starves.
    """
    count = 10_000
    with workers(path, 3, str(notes.path), "--threads", "4") as processes:
        until(lambda: notes.count("log", "working") == 3)  # or the first could do it all alone
        for first in range(0, count, 500):
            jobs.mark.enqueue_many(jobs.mark.call(n) for n in range(first, first + 500))
        until_done(jobs, count)
        for process in processes:
            assert ask_to_stop(process) == 0
    lines = [line for line in notes.read() if line[0] == "marked"]
    assert sorted(int(line[1]) for line in lines) == list(range(count))
    assert {line[2] for line in lines} == {"1"}
    shares = Counter(line[3] for line in lines)
    assert len(shares) == 3
    assert min(shares.values()) > count / 3 / 10
    assert not [line for line in notes.read() if line[0] == "log" and "raised" in line]


def until_done(jobs: Jobs, count: int) -> None:
    """As long as it moves it may take its time."""
    before = -1
    while (done := totals(jobs)["done"]) < count:
        assert done > before
        before = done
        seen = done
        until(lambda seen=seen: totals(jobs)["done"] > seen)  # type: ignore[misc]


# ---- H4: a delay longer than the lease -----------------------------------------------------------


def test_h4_a_delay_may_be_longer_than_the_lease(jobs: Jobs, path: Path, notes: Notes) -> None:
    """Three workers look; it runs once, not before it is due, in its first attempt."""
    lease(jobs.app.store, 0.3)
    handle = jobs.mark.options(delay=1.5).enqueue(1)
    due = handle.status().due
    with workers(path, 3, str(notes.path)):
        assert handle.result(60) == 1
    message = jobs.app.store.message(handle.id)
    assert message is not None
    assert message.settled_at is not None
    assert due is not None
    assert message.settled_at >= due
    assert notes.count("marked", 1, 1) == notes.count("marked") == 1


# ---- H5: the job that kills its worker -----------------------------------------------------------


def test_h5_a_deadly_job_is_dead_after_its_attempts(jobs: Jobs, path: Path, notes: Notes) -> None:
    """
    Attempts are counted at claim: after three deaths it is a dead letter that says why. The fifty
    behind it end done, for a deadly message costs its neighbours one attempt at the most.
    """
    deadly = jobs.deadly.enqueue()
    healthy = jobs.mark.enqueue_many(jobs.mark.call(n) for n in range(50))
    over = threading.Event()
    supervisor = supervise(path, notes, over)
    try:
        for n, handle in enumerate(healthy):
            assert handle.result(60) == n
        with pytest.raises(JobFailed) as failed:
            deadly.result(60)
    finally:
        over.set()
        supervisor.join()
    assert failed.value.failure.kind == "worker_lost"
    assert [line[1] for line in notes.read() if line[0] == "deadly"] == ["1", "2", "3"]
    assert all(handle.status().attempt <= 2 for handle in healthy)


def test_h5_a_deadly_message_in_a_batch_of_100(jobs: Jobs, path: Path, notes: Notes) -> None:
    """It comes back alone, and costs the ninety-nine beside it one attempt."""
    ids = jobs.numbers.enqueue_many(range(100))
    over = threading.Event()
    supervisor = supervise(path, notes, over)
    try:
        until(lambda: jobs.numbers.size() == 0)
    finally:
        over.set()
        supervisor.join()
    dead = jobs.app.store.messages("dead")
    assert [message.id for message in dead] == [ids[0].id]
    assert dead[0].failure is not None
    assert dead[0].failure.kind == "worker_lost"
    batches = [line[2:] for line in notes.read() if line[0] == "batch"]
    assert Counter(len(batch) for batch in batches if "0" in batch) == {100: 1, 1: 2}
    seen = Counter(n for batch in batches if "0" not in batch for n in batch)
    assert sorted(map(int, seen)) == list(range(1, 100))


# ---- H7: unique while it runs --------------------------------------------------------------------


def test_h7_unique_while_it_is_pending_or_running(jobs: Jobs, path: Path, notes: Notes) -> None:
    """
    Equal ones are answered with it, alone and inside a bulk of which the other 98 are put in;
    when it has ended the next one is accepted.
    """
    lease(jobs.app.store, 30)
    once = jobs.hang_once.options(unique="K")
    first = once.enqueue(1)
    assert once.enqueue(1).created is False
    with workers(path, 1, str(notes.path), "--grace", "0") as (process,):
        until(lambda: notes.count("began"))
        assert once.enqueue(1).id == first.id
        calls = [once.call(1), once.call(1)]
        calls += [jobs.hang_once.options(unique=f"K{n}", delay=3600).call(n) for n in range(98)]
        random.Random(7).shuffle(calls)
        answers = jobs.hang_once.enqueue_many(calls)
        assert sum(answer.created for answer in answers) == 98
        assert [answer.id for answer in answers if not answer.created] == [first.id] * 2
        assert ask_to_stop(process) == 0
    assert first.cancel()
    again = once.enqueue(1)
    assert again.created
    assert again.id != first.id


# ---- H8: one at a time for each key, the holder killed -------------------------------------------


def test_h8_one_at_a_time_although_the_holder_is_killed(
    jobs: Jobs, path: Path, notes: Notes
) -> None:
    """
    Ten jobs in one lane, two workers, whoever runs one is killed twice at random points: never two
    at the same time, the lane goes on by itself, all ten end, and nothing is left held.
    """
    chance = random.Random(8)
    calls = [jobs.guarded.options(lane="tenant-7").call(n) for n in range(10)]
    handles = jobs.guarded.enqueue_many(calls)
    living: dict[str, Process] = {}

    def begin() -> None:
        process = start(path, str(notes.path))
        living[str(process.pid)] = process

    begin()
    begin()
    try:
        for _ in range(2):
            seen = notes.count("enter") + chance.randrange(3)
            until(lambda seen=seen: notes.count("enter") > seen)  # type: ignore[misc]
            holder = [line for line in notes.read() if line[0] == "enter"][-1][3]
            if holder in living:
                kill(living.pop(holder))
                begin()
        assert [handle.result(60) for handle in handles] == list(range(10))
    finally:
        for process in living.values():
            kill(process)
    inside: list[str] | None = None
    for word, n, attempt, pid in (line for line in notes.read() if line[0] in ("enter", "leave")):
        if word == "leave":
            assert inside == [n, attempt, pid]
            inside = None
        else:
            # Only one whose holder was killed may still stand inside.
            assert inside is None or inside[2] not in living
            inside = [n, attempt, pid]
    left = totals(jobs)
    assert (left["pending"], left["waiting"], left["leased"], left["done"]) == (0, 0, 0, 10)
    assert jobs.app.store.check() == []


# ---- H9: please stop -----------------------------------------------------------------------------


def test_h9_please_stop(jobs: Jobs, path: Path, notes: Notes) -> None:
    """
    SIGTERM while three run: the two that can finish do, the third is given back without using up an
    attempt, nothing new is claimed, and the exit code is 0.
    """
    lease(jobs.app.store, 30)
    short = jobs.sleep.enqueue(0.2, looks=False)
    looking = jobs.sleep.enqueue(1.5)
    deaf = jobs.sleep.enqueue(30, looks=False)
    with workers(path, 1, str(notes.path), "--grace", "2.5", "--threads", "4") as (process,):
        until(lambda: notes.count("sleeps") == 3)
        process.terminate()
        until(lambda: notes.count("log", "stopping"))
        late = jobs.mark.enqueue(1)
        assert process.wait(60) == 0
    assert short.result(0) == "slept 0.2"
    assert looking.result(0) == "slept 1.5"
    assert (deaf.status().state, deaf.status().attempt) == ("pending", 0)
    assert (late.status().state, late.status().attempt) == ("pending", 0)
