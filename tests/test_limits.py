"""The limits of a queue over all its workers: places, rates, lanes of a width, and who sleeps."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections import Counter, deque
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fencepost
from fencepost import App, Store
from fencepost.testing import Clock, override
from harness_worker import Notes, lease, until

VM_STEP = 4  # as SQLite numbers what is counted of a statement

# ---- places --------------------------------------------------------------------------------------


def test_no_more_are_leased_than_there_are_places(store: Store, clock: Clock, path: Path) -> None:
    """Over all handles and priorities; who leaves, for whatever reason, makes room for one."""
    queue = store.queue("q", int, concurrency=3, addressed=True)
    for priority in (0, 5, -5):
        queue.enqueue_many(range(4), priority=priority)
    with clock.open(path) as other:
        claims = queue.claim(10)
        assert len(claims) == 3
        assert other.queue("q", int).claim(10) == []
        claims[0].ack()
        (fourth,) = other.queue("q", int).claim(10)
        claims[1].retry(0)
        claims[2].release()
        assert len(queue.claim(10)) == 2
        assert store.cancel([m for m in store.messages("leased") if m.id == fourth.id]) == 1
        assert len(queue.claim(10)) == 1
        assert store.stats()["totals"]["leased"] == 3
    assert store.check(full=True) == []


def test_a_claim_and_the_acks_before_it_share_the_places(store: Store) -> None:
    """What one commit frees, its claim may take."""
    queue = store.queue("q", int, concurrency=2)
    queue.enqueue_many(range(5))
    claims = queue.claim(5)
    from fencepost._binding.pack import Take, Verdict

    verdicts = [Verdict(claim.id, claim.token, 1) for claim in claims]
    number = store._file.find("q")
    _, found = store._file.core.step(verdicts, Take([number], 5))
    assert found.rows == 2


def test_a_place_whose_holder_is_lost_is_taken_over_and_not_doubled(
    store: Store, clock: Clock, path: Path
) -> None:
    """By its own message, although others have been due for longer; and none starts beside it."""
    queue = store.queue("q", int, concurrency=1, lease=30)
    queue.enqueue_many(range(50))
    (lost,) = queue.claim()
    for _ in range(20):
        assert queue.claim(5) == []
        clock.advance(1)
        queue.enqueue(1, priority=1)
    clock.advance(10)
    with clock.open(path) as other:
        (again,) = other.queue("q", int).claim(5)
        assert (again.id, again.attempt) == (lost.id, 2)
        assert queue.claim(5) == []
        again.ack()
    assert len(queue.claim(5)) == 1


def test_limits_hold_as_soon_as_they_are_set_and_end_as_soon(store: Store) -> None:
    queue = store.queue("q", int)
    queue.enqueue_many(range(10))
    assert len(queue.claim(2)) == 2
    store.set_policy("q", concurrency=4)
    assert len(queue.claim(9)) == 2
    store.set_policy("q", concurrency=1)
    assert queue.claim(9) == []
    store.set_policy("q", concurrency=0)
    assert len(queue.claim(9)) == 6
    with pytest.raises(fencepost.InvalidArgument, match="no queue 'nowhere'"):
        store.set_policy("nowhere", concurrency=1)


def test_a_limited_queue_keeps_nobody_from_the_others(store: Store) -> None:
    from fencepost._binding.pack import Take

    for name, places in (("a", 1), ("b", 0)):
        store.queue(name, int, concurrency=places).enqueue_many(range(5))
    numbers = [store._file.find(name) for name in "ab"]
    assert store._file.core.step(None, Take(numbers, 10))[1].rows == 6


@pytest.mark.hostile
def test_places_are_not_for_what_is_read_ahead(path: Path) -> None:
    """What a worker cannot start at once is left to those who can; of other queues it may be."""
    from harness_core import START, core, define, put, take

    with core(path) as one:
        limited, free = define(one, "limited", concurrency=4), define(one, "free")
        for queue in (limited, free):
            put(one, queue, *[b"x"] * 10)
        until = {"until_us": START + 1, "slice_us": 1}
        assert take(one, limited, 5, ahead=5, **until) == []
        found = take(one, [limited, free], 5, ahead=3, **until)
        assert [claim.queue for claim in found] == [limited] * 2 + [free] * 3


# ---- rates ---------------------------------------------------------------------------------------


def test_a_rate_lets_one_go_after_the_other(store: Store, clock: Clock) -> None:
    """What was not used in a while is not saved up."""
    queue = store.queue("q", int, rate=2)
    queue.enqueue_many(range(50))
    assert len(queue.claim(9)) == 1
    clock.advance(0.499)
    assert queue.claim(9) == []
    clock.advance(0.001)
    assert len(queue.claim(9)) == 1
    clock.advance(3600)
    assert len(queue.claim(9)) == 1
    assert queue.claim(9) == []


def test_a_high_rate_may_start_a_tenth_of_a_second_at_once(store: Store, clock: Clock) -> None:
    queue = store.queue("q", int, rate=100)
    queue.enqueue_many(range(50))
    assert len(queue.claim(50)) == 10
    clock.advance(0.05)
    assert len(queue.claim(50)) == 5


@settings(max_examples=25, deadline=None)
@given(
    rate=st.sampled_from([0.5, 3, 20, 1000]),
    steps=st.lists(st.tuples(st.integers(0, 1_500_000), st.integers(1, 40)), max_size=25),
)
def test_no_second_sees_more_than_the_rate(
    tmp_path_factory: pytest.TempPathFactory,
    rate: float,
    steps: list[tuple[int, int]],
) -> None:
    """A tenth above, or one, whatever is asked for when, by two handles in turn."""
    from harness_worker import NOON

    clock, starts = Clock(NOON), deque[int]()
    at = tmp_path_factory.mktemp("rate") / "app.db"
    most = rate + max(1.0, rate / 10)
    with clock.open(at, durability="normal") as one, clock.open(at) as other:
        one.queue("q", int, rate=rate).enqueue_many(range(1000))
        for turn, (microseconds, limit) in enumerate(steps):
            clock.advance(timedelta(microseconds=microseconds))
            now = clock._now_us
            claims = (one, other)[turn % 2].queue("q", int).claim(limit)
            starts.extend([now] * len(claims))
            while starts and starts[0] <= now - 1_000_000:
                starts.popleft()
            assert len(starts) <= most


def test_a_testing_kit_turns_the_clock_to_the_next_start(path: Path) -> None:
    app, ran = App(path), []

    @app.job
    def note(n: int) -> None:
        ran.append(n)

    with override(app) as kit:
        began = kit.now
        note.enqueue_many([note.call(n) for n in range(5)])
        kit.store.set_policy("default", rate=2)
        assert kit.drain(until_idle=True).done == 5
        assert kit.now - began == timedelta(seconds=2)


# ---- who sleeps ----------------------------------------------------------------------------------


@pytest.mark.hostile
def test_nobody_spins_on_what_is_limited(path: Path) -> None:
    """A claim that waits beside a full queue looks a few times a second, and no oftener."""
    from harness_core import lib

    with fencepost.open(path) as store:
        queue = store.queue("q", int, concurrency=1)
        queue.enqueue_many(range(5))
        assert len(queue.claim()) == 1
        slow = store.queue("slow", int, rate=0.1)
        slow.enqueue_many(range(5))
        assert len(slow.claim()) == 1
        for one in (queue, slow):
            before = lib.fp_steps()
            assert one.claim(wait=0.6) == []
            assert lib.fp_steps() - before < 300


def test_a_sleeper_is_woken_when_a_place_is_free_and_when_the_rate_allows(path: Path) -> None:
    with fencepost.open(path) as store:
        queue = store.queue("q", int, concurrency=1)
        queue.enqueue_many(range(2))
        (first,) = queue.claim()
        threading.Timer(0.2, first.ack).start()
        assert len(queue.claim(wait=30)) == 1
        slow = store.queue("slow", int, rate=4)
        slow.enqueue_many(range(2))
        assert len(slow.claim(wait=30)) == 1
        assert len(slow.claim(wait=30)) == 1


@pytest.mark.hostile
def test_a_look_at_a_full_queue_costs_the_same_beside_a_long_line(path: Path) -> None:
    """What has not run out when it was looked at is not looked at again and again."""
    from harness_core import START, core, define, lib, put, take

    with core(path) as one:
        queue = define(one, "q", lib.FP_PROFILE_QUEUE, concurrency=1)
        put(one, queue, *[b"x"] * 3000)
        assert len(take(one, queue)) == 1
        one.hand(START + 5_000_000)
        put(one, queue, b"y")

        def cost() -> int:
            before = lib.fp_sql_status(one._store, VM_STEP)
            assert take(one, queue) == []
            assert take(one, queue, until_us=START + 5_000_001, slice_us=1) == []
            steps: int = lib.fp_sql_status(one._store, VM_STEP) - before
            return steps

        assert cost() > 3000
        assert cost() < 500


# ---- real processes ------------------------------------------------------------------------------

HOLDER = """
import fcntl, os, sys, time
import fencepost

path, notes, name = sys.argv[1:4]
store = fencepost.open(path)
queue = store.queue(name, int)

def note(*words):
    at = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(at, (" ".join(map(str, words)) + "\\n").encode())
    os.close(at)

while True:
    for claim in queue.claim(wait=60):
        alone = os.open(notes + ".lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            note("overlap", claim.id)
            raise
        note("began", claim.id, os.getpid())
        time.sleep(0.03)
        fcntl.flock(alone, fcntl.LOCK_UN)
        os.close(alone)
        claim.ack()
        note("ended", claim.id, os.getpid())
"""


@pytest.mark.parametrize("limit", ["lane", "places"])
def test_h8_limit_one_per_key_holder_killed(path: Path, tmp_path: Path, limit: str) -> None:
    """
    Ten jobs of one key, one at a time, whose holder is killed twice while two others are ready:
    never two at once, the place comes back by itself, all ten end, and nothing is left counted.
    """
    notes = Notes(tmp_path / "notes")
    with fencepost.open(path) as store:
        places = 1 if limit == "places" else 0
        lane = "tenant-7" if limit == "lane" else None
        queue = store.queue("q", int, lease=5, concurrency=places)
        if lane:
            queue.enqueue_many(range(10), lane=lambda _: "tenant-7")
        else:
            queue.enqueue_many(range(10))
        command = [sys.executable, "-c", HOLDER, str(path), str(notes.path), "q"]
        running = [subprocess.Popen(command) for _ in range(3)]
        try:
            for kills in (1, 2):

                def holder(least: int = 3 * kills) -> int:
                    said = notes.read()
                    last = said[-1] if said else ["none", "", "0"]
                    lives = int(last[2]) in {process.pid for process in running}
                    return int(last[2]) if len(said) > least and lives and last[0] == "began" else 0

                pid = until(holder)
                (victim,) = [process for process in running if process.pid == pid]
                victim.send_signal(signal.SIGKILL)
                victim.wait()
                running.remove(victim)
            until(lambda: queue.size() == 0)
        finally:
            for process in running:
                process.kill()
                process.wait()
        said = Counter(words[0] for words in notes.read())
        assert said["overlap"] == 0
        assert said["began"] >= 10
        assert store.stats()["totals"]["leased"] == 0
        assert store.check(full=True) == []


def test_a_worker_runs_no_more_at_once_than_there_are_places(path: Path) -> None:
    app = App(path)
    now, most, lock = [0], [0], threading.Lock()

    @app.job
    def work(n: int) -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        threading.Event().wait(0.01)
        with lock:
            now[0] -= 1

    lease(app.store, 30)
    app.store.set_policy("default", concurrency=2)
    handles = work.enqueue_many([work.call(n) for n in range(20)])
    with app.worker(threads=8):
        for handle in handles:
            handle.result(timeout=60)
    assert most[0] == 2
    app.store.close()


# ---- lanes of a width ----------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(
    width=st.integers(1, 3),
    steps=st.lists(
        st.tuples(st.sampled_from(["put", "claim", "ack", "retry", "lapse"]), st.integers(0, 9)),
        max_size=40,
    ),
)
def test_no_lane_has_more_out_than_it_is_wide(
    tmp_path_factory: pytest.TempPathFactory, width: int, steps: list[tuple[str, int]]
) -> None:
    """Whatever happens to whom; and they are handed out first in the order in which they came."""
    from harness_worker import NOON

    clock = Clock(NOON)
    at = tmp_path_factory.mktemp("lanes") / "app.db"
    out: dict[int, fencepost.Claim[int]] = {}
    first: dict[str, list[int]] = {"a": [], "b": []}
    with clock.open(at, durability="normal") as store:
        queue = store.queue("q", int, lane_width=width, lease=10, max_attempts=0)
        for what, number in steps:
            held = sorted(out)
            if what == "put":
                queue.enqueue(number, lane="ab"[number % 2])
            elif what == "claim":
                for claim in queue.claim(number + 1):
                    out[claim.id] = claim
                    assert claim.lane is not None
                    if claim.attempt == 1:
                        first[claim.lane].append(claim.id)
            elif what == "lapse":
                clock.advance(11)
                out.clear()
            elif held:
                claim = out.pop(held[number % len(held)])
                if what == "ack":
                    claim.ack()
                else:
                    claim.retry(0)
            lanes = Counter(claim.lane for claim in out.values())
            assert all(count <= width for count in lanes.values())
        assert all(ids == sorted(ids) for ids in first.values())
        assert store.check() == []


def test_the_command_line_sets_limits(path: Path, tmp_path: Path) -> None:
    with fencepost.open(path) as store:
        queue = store.queue("q", int)
        queue.enqueue_many(range(5))
        command = [sys.executable, "-m", "fencepost", "--database", str(path), "limit", "q"]
        told = subprocess.run(
            [*command, "--concurrency", "2", "--json"], check=True, capture_output=True, text=True
        ).stdout
        assert json.loads(told) == {"queue": "q", "concurrency": 2}
        assert len(queue.claim(5)) == 2
        assert subprocess.run(command, check=False, capture_output=True).returncode == 2
