"""
Small cases from real trouble that users of such systems reported, as far as the core carries them.

Those that need a worker are in other rooms; each is named after the scenario it stands for.
"""

from __future__ import annotations

import json
import random
import signal
import time
from array import array
from collections.abc import Callable
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fencepost import Conflict, Store
from fencepost._binding.calls import Core
from fencepost._binding.pack import Put
from harness_core import ack, define, keyed, lib, put, stats, take
from harness_core import core as opened
from harness_ladder import findings
from harness_outside import Outside
from harness_processes import all_of, at_once, heard, start

pytestmark = pytest.mark.usefixtures("no_process_left")

REAL = -1
SECOND = 1_000_000
VM_STEP = 4


# ---- H2 ------------------------------------------------------------------------------------------


def test_h2_roll_back_means_nothing_happened(store: Store, elsewhere: Callable[[str], str]) -> None:
    """No row, no message, no queue even; then the same with a commit: both."""
    with store.transaction() as tx:
        tx.execute("CREATE TABLE orders (id INTEGER)")

    def order(number: int) -> None:
        with store.transaction() as tx:
            tx.execute("INSERT INTO orders VALUES (?)", (number,))
            store.queue("mail", str).enqueue(f"order {number}", tx=tx)
            assert elsewhere(LOOK) == before
            if number == 1:
                raise ZeroDivisionError

    before = elsewhere(LOOK)
    with pytest.raises(ZeroDivisionError):
        order(1)
    assert elsewhere(LOOK) == before == "[] {}\n"
    order(2)
    assert elsewhere(LOOK) == "[(2,)] {'mail': 1}\n"
    assert [claim.payload for claim in store.queue("mail", str).claim(10)] == ["order 2"]


LOOK = """
import sqlite3
connection = sqlite3.connect(path)
rows = connection.execute("SELECT * FROM orders").fetchall()
sizes = connection.execute(
    "SELECT q.name, y.pending FROM fencepost_queue q JOIN fencepost_tally y ON y.queue = q.id"
).fetchall()
print(rows, dict(sizes))
connection.close()
"""


# ---- H3 ------------------------------------------------------------------------------------------

DRAIN = """
from fencepost._binding.guest import Guest

with opened(path, hand_us=-1) as core:
    say("ready")
    sys.stdin.readline()
    done = 0
    while (held := take(core, 1, 10, until_us=core.now() + 300_000)) or not Path("stop").exists():
        with transaction(core) as tx:
            for claim in held:
                with Guest(tx, f"INSERT INTO ended VALUES ({claim.id})") as guest:
                    guest.run(1, b"")
            assert ack(core, *held, tx=tx) == [0] * len(held)
        done += len(held)
    say(done)
"""
PRODUCE = """
with opened(path, hand_us=-1) as core:
    say("ready")
    sys.stdin.readline()
    for number in range(int(sys.argv[2]) // 50):
        put(core, 1, *[b"x"] * 50)
"""


def test_h3_processes_drain_ten_thousand_jobs(path: Path, outside: Outside) -> None:
    """
    Two producers keep adding while three workers drain: each job ends exactly once, nobody meets
    a busy file, and nobody starves.
    """
    jobs, producers, workers = 10_000, 2, 3
    stop = path.with_name("stop")
    with opened(path, hand_us=REAL) as core:
        queue = define(core, "jobs")
        outside.change(path, "CREATE TABLE ended (id INTEGER)")
        drains = DRAIN.replace('"stop"', repr(str(stop)))
        working = [start(drains, path) for _ in range(workers)]
        producing = [start(PRODUCE, path, jobs // producers) for _ in range(producers)]
        at_once(working + producing)
        all_of(producing)
        stop.touch()
        shares = [done for (done,) in all_of(working)]
        assert sum(shares) == jobs
        assert min(shares) > jobs // workers // 4
        counted = "SELECT count(*), count(DISTINCT id) FROM ended"
        assert outside.rows(path, counted) == [[jobs, jobs]]
        assert stats(core, queue).done == jobs
        assert findings(core) == ""


# ---- H7 ------------------------------------------------------------------------------------------


@pytest.fixture
def core(path: Path) -> Any:
    with opened(path) as one:
        yield one
        assert findings(one) == ""


def test_h7_unique_while_running(core: Core) -> None:
    """While it is pending or leased it is answered with; then the next one is a new one."""
    queue = define(core, "q")
    live = {"life": lib.FP_LIFE_LIVE}
    first = keyed(core, queue, b"K", **live)
    assert keyed(core, queue, b"K", **live) == first
    (held,) = take(core, queue)
    assert keyed(core, queue, b"K", **live) == first

    keys = [b"bulk-%d" % number for number in range(100)]
    keys[10] = keys[90] = b"K"
    said = Put(queue, [b"a"] * 100, keys=keys, life=2, digests=sha256(b"a").digest() * 100)
    ids, created = core.enqueue(None, said)
    assert sum(created) == 98
    assert [ids[10], ids[90], created[10], created[90]] == [first, first, 0, 0]

    ack(core, held)
    again = keyed(core, queue, b"K", **live)
    assert again > first
    with pytest.raises(Conflict) as refused:
        keyed(core, queue, b"K", b"another", **live)
    assert refused.value.id == again


# ---- H8 ------------------------------------------------------------------------------------------

TENANT = """
import time

holds, pauses = map(float, sys.argv[2:])
with opened(path, hand_us=-1) as core:
    while True:
        for claim in take(core, 1, 5, lease_us=300_000, until_us=core.now() + 500_000):
            say(["claimed", claim.id, claim.token])
            time.sleep(holds)
            if ack(core, claim) == [0]:
                say(["ended", claim.id, claim.token])
            time.sleep(pauses)
"""


def test_h8_one_at_a_time_though_the_holder_is_killed(path: Path) -> None:
    """Its slot comes back by itself; the next one is claimed after the one before has ended."""
    dice = random.Random(8)
    said: list[Any] = []
    with opened(path, hand_us=REAL) as core:
        queue = define(core, "q", lib.FP_PROFILE_QUEUE)
        ids = put(core, queue, *[b"x"] * 20, lanes=[b"tenant-7"] * 20)
        victim = start(TENANT, path, 30, 0)
        said.append(heard(victim))
        steady = start(TENANT, path, 0.01, 0.1)  # it leaves the other one time to come in between
        for kill in (1, 2):
            time.sleep(dice.uniform(0, 0.02))
            victim.send_signal(signal.SIGKILL)
            victim.communicate()
            if kill == 1:
                victim = start(TENANT, path, 30, 0)
                said.append(heard(victim))
        while any(stats(core, queue)[3:6]):  # pending, waiting, leased
            time.sleep(0.05)
        steady.send_signal(signal.SIGKILL)
        said += map(json.loads, steady.communicate()[0].splitlines())
        assert stats(core, queue)[3:10] == (0,) * 7
        assert findings(core) == ""
    claimed = [(one, token) for word, one, token in said if word == "claimed"]
    tokens = {id_: [token for one, token in claimed if one == id_] for id_ in ids}
    for before, after in pairwise(ids):
        assert max(tokens[before]) < min(tokens[after])
    assert len(claimed) == len(ids) + 2  # what the killed had was claimed again


# ---- H10 -----------------------------------------------------------------------------------------


def claims_cost(core: Core, queue: int, messages: int) -> list[int]:
    """VM steps of each of so many claims of one message, settled in between."""
    put(core, queue, *[b"x"] * messages)
    costs = []
    for _ in range(messages):
        before = lib.fp_sql_status(core._store, VM_STEP)
        (held,) = take(core, queue)
        costs.append(lib.fp_sql_status(core._store, VM_STEP) - before)
        ack(core, held)
    return costs


def neighbours(core: Core, ready: int) -> tuple[int, int]:
    """A queue with so many ready messages and half as many future ones, and an empty one."""
    crowded, quiet = define(core, "X"), define(core, "Y")
    priorities = array("b", [number % 5 - 2 for number in range(min(ready, 100_000))])
    for _ in range(max(1, ready // 100_000)):
        chunk = len(priorities)
        put(core, crowded, *[b"x"] * chunk, priorities=priorities)
        put(core, crowded, *[b"x"] * (chunk // 2), delay_us=3600 * SECOND)
    return crowded, quiet


@pytest.mark.hostile
@pytest.mark.parametrize(
    "ready", [100_000, pytest.param(1_000_000, marks=pytest.mark.long)], ids=str
)
def test_h10_a_crowd_next_door(tmp_path: Path, ready: int) -> None:
    """A claim takes as many steps as in an empty file, from the quiet queue and from the crowd."""
    with opened(tmp_path / "empty.db") as empty, opened(tmp_path / "crowded.db") as full:
        _, quiet = neighbours(empty, 10)
        crowd, quiet_beside = neighbours(full, ready)
        alone = claims_cost(empty, quiet, 100)
        beside = claims_cost(full, quiet_beside, 100)
        assert max(beside) <= max(alone)
        # Now and then a claim looks after the other workers, too: how often is a matter of time.
        assert sum(sorted(beside)[:90]) <= sum(sorted(alone)[:90])
        within = claims_cost(full, crowd, 100)
        assert max(within) <= max(alone) + 100
        assert lib.fp_sql_status(full._store, 2) == 0  # sorts
