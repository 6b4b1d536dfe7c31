"""
A storm: producers, workers and senders on one file, each killed at a random moment and replaced at
once.

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
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from fencepost._binding.calls import Core, OpenTx
from fencepost._binding.guest import Guest
from fencepost.errors import LeaseLost
from harness_core import Held, Put, Verdict, define, lib, settle, take
from harness_core import core as opened
from harness_core import tx as transaction

LEASE_US = 400_000
LANES = 3
SECOND = 1_000_000

Log = Callable[[str], object]


class Queues(NamedTuple):
    """One that keeps nothing, one in lanes, what comes in twice, what leaves the file."""

    bulk: int
    jobs: int
    inbox: int
    outbox: int


PROFILES = (
    lib.FP_PROFILE_QUEUE,
    lib.FP_PROFILE_JOB,
    lib.FP_PROFILE_INBOX,
    lib.FP_PROFILE_OUTBOX,
)


def queues(core: Core) -> Queues:
    """Nothing in them dies of being killed."""
    policy = {"max_attempts": 0, "max_age_us": 0}
    named = zip(Queues._fields, PROFILES, strict=True)
    return Queues(*(define(core, name, profile, **policy) for name, profile in named))


def tables(path: Path) -> None:
    """What the application itself writes, in the same transactions."""
    with opened(path, hand_us=-1) as core, transaction(core) as tx:
        for sql in (
            "CREATE TABLE sent (id INTEGER, body TEXT)",
            "CREATE TABLE ended (id INTEGER, token INTEGER, queue INTEGER, lane TEXT)",
        ):
            run(tx, sql)


def run(tx: OpenTx, sql: str) -> None:
    with Guest(tx, sql) as guest:
        guest.run(1, b"")


def produce(path: Path, log: Log) -> None:
    """
    One message at a time, and with each that is new a row of its own. What comes in, every producer
    brings.
    """
    with opened(path, hand_us=-1) as core:
        all_ = queues(core)
        for number in range(10**9):
            queue = all_[number % len(all_)]
            said = Put(queue, [f"{os.getpid()}-{number}".encode()])
            if queue == all_.jobs:
                said.lanes = [b"lane-%d" % (number % LANES)]
            if queue == all_.inbox:
                key = b"%d" % (number // 8)
                said = Put(queue, [key], keys=[key], lives=bytes([lib.FP_LIFE_LASTING]))
                said.digests = sha256(key).digest()
            with transaction(core) as tx:
                (id_,), (new,) = core.enqueue(tx, said)
                if new:
                    run(tx, f"INSERT INTO sent VALUES ({id_}, '{said.bodies[0].decode()}')")
            if new:
                log(f"sent {id_}")
            time.sleep(0.002)  # so that the workers keep up


def finish(core: Core, claim: Held) -> None:
    """The application's row and the end of the message: both or none."""
    lane = (claim.lane or b"").decode()
    with transaction(core) as tx:
        row = f"{claim.id}, {claim.token}, {claim.queue}, '{lane}'"
        run(tx, f"INSERT INTO ended VALUES ({row})")
        if settle(core, Verdict(claim.id, claim.token, lib.FP_ACK), tx=tx) != [lib.FP_DONE]:
            raise LeaseLost


def deliver(core: Core, claim: Held, log: Log) -> None:
    """Begun, then outside, which nobody takes back, then marked."""
    begun = Verdict(claim.id, claim.token, lib.FP_BEGIN, LEASE_US)
    if settle(core, begun) != [lib.FP_DONE]:
        raise LeaseLost
    log(f"went {claim.id}")
    time.sleep(0.003)  # the network, in the middle of which some die
    finish(core, claim)


def handle(core: Core, queues: Sequence[int], limit: int, log: Log) -> None:
    """Whatever is due there, once."""
    outbox = core.queue_find(None, b"outbox")[0]
    until = core.now() + SECOND
    for claim in take(core, queues, limit, lease_us=LEASE_US, until_us=until):
        log(f"claimed {claim.id} {claim.token}")
        try:
            deliver(core, claim, log) if claim.queue == outbox else finish(core, claim)
            log(f"ended {claim.id}")
        except LeaseLost:
            log(f"lost {claim.id}")


def work(path: Path, log: Log) -> None:
    with opened(path, hand_us=-1) as core:
        all_ = queues(core)
        while True:
            handle(core, (all_.bulk, all_.jobs, all_.inbox), 4, log)


def send(path: Path, log: Log) -> None:
    with opened(path, hand_us=-1) as core:
        outbox = queues(core).outbox
        while True:
            handle(core, (outbox,), 1, log)


def drain(core: Core, log: Log) -> None:
    """What the storm left behind, as the leases of the dead run out."""
    all_ = queues(core)
    while any(left(core, queue) for queue in all_):
        handle(core, all_, 100, log)


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
    lives = [produce, produce, work, work, send, send]
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
