"""
Files damaged at random, each in a process of its own: whatever stands in our tables, a call answers
or raises one of our errors. It does not crash, hang, or trip over an assert.

    harness_damage.py FOLDER FIRST COUNT     one JSON line for each seed that went wrong
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import sys
import traceback
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import fencepost
from fencepost._binding.calls import Core
from fencepost._binding.pack import Filter
from harness_core import START, Verdict, define, lib, put, settle, take
from harness_core import core as opened
from harness_damage_flow import flow_calls, furnish_flow

SECONDS_MAX = 20
DAY = 86_400_000_000
JOBS = 2  # the number of that queue
TABLES = ["tally", "queue", "kind", "message", "key", "due", "trouble", "outcome", "lane", "meta"]
TABLES += ["run", "record", "claim"]
VALUES: list[Any] = [
    *(-(2**63), -(2**40), -256, -1, 0, 1, 2, 3, 5, 7, 8, 99, 255, 256, 2**31, 2**40, 2**63 - 1),
    *(None, "", "x", "lane", "\ud7ff" * 300, b"", b"\xff" * 40, 1.5, START, START + DAY),
]


def furnish(core: Core) -> None:
    """Some of everything: each state, lanes, keys, failures, progress."""
    for name, profile in (("bulk", 0), ("jobs", 1), ("inbox", 3), ("wake", 4)):
        queue = define(core, name, profile, on_dead=1, lane_width=1)
        lanes = [None, b"lane", b"lane", b"x", None, None]
        keys = [b"a", None, b"b", None, b"c", None]
        lives = bytes([1, 1, 2, 1, 1, 1])
        put(core, queue, *[b"body"] * 6, lanes=lanes, keys=keys, lives=lives)
        put(core, queue, b"later", delay_us=DAY, kind=core.kind(None, b"kind"))
        held = take(core, queue, 4)
        verbs = (lib.FP_ACK, lib.FP_FAIL, lib.FP_RETRY)
        for claim, verb in zip(held, verbs, strict=False):
            why = (b"error", None, b"broke")
            settle(core, Verdict(claim.id, claim.token, verb, 0, None, *why))
        core.progress(None, held[-1].id, b"1")
    furnish_flow(core, JOBS)


def damage(path: Path, dice: random.Random) -> list[str]:
    """A few values changed, rows removed or doubled; what was done."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA ignore_check_constraints = 1")
    done = []
    for _ in range(dice.choice((1, 2, 4, 8))):
        table = f"fencepost_{dice.choice(TABLES)}"
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        column, value = dice.choice(columns), dice.choice(VALUES)
        some = f"abs(random()) % {dice.choice((1, 1, 2, 5))} = 0"
        sql = dice.choice([f"UPDATE OR REPLACE {table} SET {column} = ? WHERE {some}"] * 9 + [""])
        try:
            if sql:
                connection.execute(sql, (value,))
            else:
                connection.execute(f"DELETE FROM {table} WHERE {some}")
        except sqlite3.Error:
            continue
        done.append(f"{sql or 'DELETE'} {table}.{column} = {value!r:.40}")
    connection.close()
    return done


def calls(core: Core) -> Iterator[Callable[[], object]]:
    """Everything that can be asked."""
    ids = list(range(1, 50))
    keys, lanes = [b"a", b"new", b"b"], [b"lane", b"x", b"y"]
    for queue in (1, 2, 3, 4):
        for equal in (lib.FP_EQUAL_POLICY, lib.FP_EQUAL_RETURN, lib.FP_EQUAL_REPLACE):
            for life in (1, 2):
                yield lambda q=queue, e=equal, f=life: put(  # type: ignore[misc]
                    core, q, b"body", b"n", b"m", keys=keys, lanes=lanes, life=f, equal=e
                )
        yield lambda q=queue: put(core, q, *[b"x"] * 5, priority=1)  # type: ignore[misc]
        yield lambda q=queue: core.release_lane(q, b"lane")  # type: ignore[misc]
        yield lambda q=queue: core.queue_pause(None, q, paused=False)  # type: ignore[misc]
        yield lambda q=queue: core.get_by_key(q, 0, 1, b"a")  # type: ignore[misc]
    for name, profile in (("bulk", 0), ("jobs", 1), ("inbox", 3), ("wake", 4)):
        yield lambda n=name, p=profile: define(core, n, p, lane_width=3)  # type: ignore[misc]
        yield lambda n=name: core.queue_find(None, n.encode())  # type: ignore[misc]
    for state in range(9):
        yield lambda s=state: core.list(Filter(s, 50))  # type: ignore[misc]
    for verb in range(1, 8):
        yield lambda v=verb: settle_all(core, v)  # type: ignore[misc]
    for id_ in ids[::3]:
        yield lambda i=id_: core.get(None, i)  # type: ignore[misc]
        yield lambda i=id_: core.content(i)  # type: ignore[misc]
        yield lambda i=id_: core.progress(None, i, b"2")  # type: ignore[misc]
    yield lambda: core.cancel(None, ids[::2])
    yield lambda: core.replay(array("q", [n for i in ids for n in (i, -1)]), 5, 1, apply=True)
    yield core.stats
    yield core.kinds
    yield lambda: core.check(full=True)
    yield core.now
    yield lambda: core.retain(50)
    yield from flow_calls(core, JOBS)
    for state in range(3, 8):
        yield partial(core.purge, 0, state, START + 9 * DAY, 50, apply=True)


def settle_all(core: Core, verb: int) -> None:
    for queues in ([1], [2, 3, 4]):
        held = take(core, queues, 3, lease_us=5)
        settle(core, *(Verdict(claim.id, claim.token, verb, 1) for claim in held))


def live(path: Path, seed: int) -> None:
    dice = random.Random(seed)
    with opened(path, normal=True) as core:
        furnish(core)
    print(json.dumps([seed, damage(path, dice)]), file=sys.stderr)
    hand_us = START + dice.choice((0, 1, 2 * DAY))
    with suppress(fencepost.Error), opened(path, hand_us=hand_us, normal=True) as core:
        for round_ in range(2):
            everything = list(calls(core))
            dice.shuffle(everything)
            for call in everything:
                with suppress(fencepost.Error):
                    call()
            core.hand(START + (3 + round_) * DAY)


def attempt(folder: Path, seed: int) -> str:
    """How the child ended that lived through this seed; empty: well."""
    path = folder / f"{seed}.db"
    said = folder / f"{seed}.txt"
    pid = os.fork()
    if pid == 0:
        signal.alarm(SECONDS_MAX)
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT), 2)
        try:
            live(path, seed)
        except BaseException as error:
            traceback.print_exception(error)
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    for one in folder.glob(f"{seed}.db*"):
        one.unlink()
    return "" if status == 0 else f"status {status}: {said.read_text()}"


if __name__ == "__main__":
    for seed in range(int(sys.argv[2]), int(sys.argv[2]) + int(sys.argv[3])):
        if how := attempt(Path(sys.argv[1]), seed):
            print(json.dumps([seed, how]), flush=True)
