"""
A storm: producers and workers on one file, each killed at a random moment and replaced at once.

Run as a program, which forks all of them and opens nothing itself:

    harness_storm.py PATH LOGS SECONDS SEED

Each process writes what it was told by the store to a file of its own in LOGS, a line before the
next thing is done: what stands there was acknowledged.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from fencepost._calls import Core, OpenTx
from fencepost._guest import Guest
from fencepost.errors import LeaseLost
from harness_core import Held, Verdict, define, lib, put, settle, take
from harness_core import core as opened
from harness_core import tx as transaction

LEASE_US = 400_000
LANES = 3
SECOND = 1_000_000

Log = Callable[[str], object]


def queues(core: Core) -> list[int]:
    """A bulk queue and one that keeps and finds everything; nothing dies of being killed."""
    policy = {"max_attempts": 0, "max_age_us": 0}
    bulk = define(core, "bulk", lib.FP_PROFILE_QUEUE, **policy)
    return [bulk, define(core, "jobs", lib.FP_PROFILE_JOB, **policy)]


def tables(path: Path) -> None:
    """What the application itself writes, in the same transactions."""
    with opened(path, hand_us=-1) as core, transaction(core) as tx:
        for sql in (
            "CREATE TABLE sent (id INTEGER, body TEXT)",
            "CREATE TABLE ended (id INTEGER, token INTEGER, lane TEXT)",
        ):
            run(tx, sql)


def run(tx: OpenTx, sql: str) -> None:
    with Guest(tx, sql) as guest:
        guest.run(1, b"")


def produce(path: Path, log: Log) -> None:
    """One message at a time, and with each a row of its own."""
    with opened(path, hand_us=-1) as core:
        bulk, jobs = queues(core)
        for number in range(10**9):
            body = f"{os.getpid()}-{number}"
            lanes = [b"lane-%d" % (number % LANES)]
            with transaction(core) as tx:
                if number % 2:
                    ids = put(core, bulk, body.encode(), tx=tx)
                else:
                    ids = put(core, jobs, body.encode(), tx=tx, lanes=lanes)
                run(tx, f"INSERT INTO sent VALUES ({ids[0]}, '{body}')")
            log(f"sent {ids[0]}")
            time.sleep(0.002)  # so that the workers keep up


def finish(core: Core, claim: Held) -> None:
    """The application's row and the end of the message: both or none."""
    lane = (claim.lane or b"").decode()
    with transaction(core) as tx:
        run(tx, f"INSERT INTO ended VALUES ({claim.id}, {claim.token}, '{lane}')")
        if settle(core, Verdict(claim.id, claim.token, lib.FP_ACK), tx=tx) != [lib.FP_DONE]:
            raise LeaseLost


def work(path: Path, log: Log) -> None:
    with opened(path, hand_us=-1) as core:
        both = queues(core)
        while True:
            until = core.now() + SECOND
            for claim in take(core, both, 4, lease_us=LEASE_US, until_us=until):
                log(f"claimed {claim.id} {claim.token}")
                try:
                    finish(core, claim)
                    log(f"ended {claim.id}")
                except LeaseLost:
                    log(f"lost {claim.id}")


def drain(core: Core) -> None:
    """What the storm left behind, as the leases of the dead run out."""
    both = queues(core)
    while any(left(core, queue) for queue in both):
        for claim in take(core, both, 100, until_us=core.now() + SECOND):
            finish(core, claim)


def left(core: Core, queue: int) -> int:
    from harness_core import stats

    found = stats(core, queue)
    return found.pending + found.waiting + found.leased


def spawn(life: Callable[[Path, Log], None], path: Path, logs: Path) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            file = os.open(logs / str(os.getpid()), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            life(path, lambda line: os.write(file, f"{line}\n".encode()))
        except BaseException as error:
            os.write(file, f"broke {type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(1)
    return pid


def storm(path: Path, logs: Path, seconds: float, seed: int) -> None:
    dice = random.Random(seed)
    lives = [produce, produce, work, work, work]
    pids = [spawn(life, path, logs) for life in lives]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(dice.uniform(0, 0.12))
        one = dice.randrange(len(lives))
        os.kill(pids[one], signal.SIGKILL)
        os.waitpid(pids[one], 0)
        pids[one] = spawn(lives[one], path, logs)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    storm(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
