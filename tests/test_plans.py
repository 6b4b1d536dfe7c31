"""
Plans: no statement walks a table or sorts, and what is done all the time costs the same in a file
of a thousand messages and in one of a hundred thousand.

Costs are steps of SQLite's virtual machine, which a busy machine cannot change.
"""

from __future__ import annotations

import re
import subprocess
import sys
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("fencepost._core_test")

from fencepost._binding.calls import Core
from fencepost._binding.pack import Filter
from harness_core import (
    START,
    Held,
    Verdict,
    ack,
    define,
    die,
    ffi,
    lib,
    look_after,
    message,
    put,
    rows,
    settle,
    stats,
    take,
)
from harness_core import core as opened

pytestmark = pytest.mark.hostile

FULLSCAN_STEP, SORT, AUTOINDEX, VM_STEP, REPREPARE = 1, 2, 3, 4, 5

NAMES = [ffi.string(lib.fp_sql_name(index)).decode() for index in range(lib.fp_sql_count())]

# What walks on purpose.
FIRST_ROW_ALONE = {
    "QUEUE_LAST": "the newest queue: one step from the end of the table",
    "TROUBLE_ANY": "is there any row: the first one answers",
    "PROGRESS_ANY": "the same",
}
RECOUNTS = re.compile(r"CHECK_|RESTORED_")  # all of a table, and once


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Core]:
    with opened(tmp_path_factory.mktemp("plans") / "empty.db") as one:
        yield one


@pytest.mark.parametrize("name", NAMES)
def test_no_statement_walks_a_table_or_sorts(empty: Core, name: str) -> None:
    """By the plan of the library that will run it."""
    plan = [line.decode() for (line,) in rows(empty._rows(lib.fp_explain, NAMES.index(name)), 1)]
    # What C gives a statement is gone through from end to end, and is no table of the file.
    walks = [line for line in plan if re.match(r"SCAN (?!fencepost_given )", line)]
    assert not any("TEMP B-TREE" in line or "AUTOMATIC" in line for line in plan), plan
    if name in FIRST_ROW_ALONE:
        assert len(walks) == 1
        assert "LIMIT 1" in ffi.string(lib.fp_sql_text(NAMES.index(name))).decode()
    elif not RECOUNTS.match(name):
        assert walks == []


def test_every_statement_has_one_name(empty: Core) -> None:
    assert len(set(NAMES)) == len(NAMES)
    texts = [ffi.string(lib.fp_sql_text(index)) for index in range(len(NAMES))]
    assert len(set(texts)) == len(texts)


def test_the_schema_needs_no_newer_sqlite_than_3_26() -> None:
    """The application's own SQLite, which may be old, has to read it, too."""
    schema = ffi.string(lib.fp_schema_text()).decode()
    program = "import sqlite3, sys; sqlite3.connect(':memory:').executescript(sys.stdin.read())"
    subprocess.run([sys.executable, "-c", program], input=schema, encoding="utf-8", check=True)
    newer = r"\b(STRICT|RETURNING|GENERATED|MATERIALIZED|IIF)\b|->|\bNULLS (FIRST|LAST)\b"
    assert re.search(newer, schema, re.IGNORECASE) is None
    assert re.search(r"\bRAISE\((?!ABORT, ')", schema) is None  # of an expression
    assert re.search(r"CHECK \([^)]*\bIN\b", schema) is None  # it would double an insert's cost
    assert schema.rstrip().endswith("END;")


# ---- turns ---------------------------------------------------------------------------------------


def test_priorities_come_out_in_order_and_neighbours_never_mix(empty: Core) -> None:
    """A queue's lowest turn lies beside the next queue's highest."""
    queues = [define(empty, f"neighbour {number}", lib.FP_PROFILE_QUEUE) for number in range(3)]
    assert queues[1] == queues[0] + 1
    priorities = array("b", [0, 127, -128, -1])
    for queue in queues:
        put(empty, queue, b"0", b"127", b"-128", b"-1", priorities=priorities)
    for queue in (queues[1], queues[0], queues[2]):
        held = take(empty, queue, 10)
        assert [claim.body for claim in held] == [b"127", b"0", b"-1", b"-128"]
        assert {claim.queue for claim in held} == {queue}


def test_a_level_that_is_not_due_hides_no_lower_one(empty: Core) -> None:
    queue = define(empty, "levels")
    put(empty, queue, b"high", priority=5, delay_us=100)
    put(empty, queue, b"low", priority=-5)
    assert [claim.body for claim in take(empty, queue, 10)] == [b"low"]


# ---- costs ---------------------------------------------------------------------------------------


class File(NamedTuple):
    core: Core
    jobs: int
    plain: int  # one message at a time


def filled(core: Core, messages: int) -> File:
    """A fifth each of done, dead, future, ready and laned ones; those that are done have keys."""
    jobs, plain = define(core, "jobs"), define(core, "plain")
    fifth = messages // 5
    keys = [b"old-%d" % number for number in range(fifth)]
    put(core, jobs, *[b"x" * 50] * fifth, keys=keys, life=lib.FP_LIFE_LASTING)
    for end in (lib.FP_ACK, lib.FP_FAIL):
        left = fifth
        if end == lib.FP_FAIL:
            put(core, jobs, *[b"x" * 50] * fifth)
        while left:
            held = take(core, jobs, 10_000)
            settle(core, *(Verdict(claim.id, claim.token, end) for claim in held))
            left -= len(held)
    put(core, jobs, *[b"x" * 50] * fifth, delay_us=3600 * 1_000_000)
    lanes = [b"lane-%d" % (number // 4) for number in range(fifth)]
    put(core, jobs, *[b"x" * 50] * fifth)
    put(core, jobs, *[b"x" * 50] * fifth, lanes=lanes)
    core.progress(None, put(core, plain, b"x")[0], b"1")
    take(core, plain)
    lib.fp_look_no_more(core._store)  # a look now and then would be counted with something else
    return File(core, jobs, plain)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[File]]:
    """Alike but for their size."""
    folder = tmp_path_factory.mktemp("costs")
    with opened(folder / "small.db") as small, opened(folder / "big.db") as big:
        yield [filled(small, 1_000), filled(big, 100_000)]


def steps(core: Core) -> int:
    found: int = lib.fp_sql_status(core._store, VM_STEP)
    return found


Operation = Callable[[File], object]
OPERATIONS: dict[str, Operation] = {}


def hot(operation: Operation) -> Operation:
    OPERATIONS[operation.__name__.replace("_", " ")] = operation
    return operation


def one(file: File) -> Held:
    """A claim of a message of its own; what it costs is asked in other tests."""
    put(file.core, file.plain, b"x")
    return take(file.core, file.plain)[0]


@hot
def enqueue(file: File) -> None:
    put(file.core, file.jobs, b"x", b"y")


@hot
def enqueue_under_a_new_key(file: File) -> None:
    put(file.core, file.jobs, b"x", keys=[b"old-7-and-more"], life=lib.FP_LIFE_LIVE)


@hot
def enqueue_under_a_known_key(file: File) -> None:
    put(file.core, file.jobs, b"x" * 50, keys=[b"old-77"], life=lib.FP_LIFE_LASTING)


@hot
def enqueue_behind_the_head_of_a_lane(file: File) -> None:
    put(file.core, file.jobs, b"x", lanes=[b"lane-7"])


@hot
def enqueue_into_a_new_lane(file: File) -> None:
    put(file.core, file.jobs, b"x", lanes=[b"lane-7-and-more"])


@hot
def claim(file: File) -> None:
    assert len(take(file.core, file.jobs)) == 1


@hot
def claim_many(file: File) -> None:
    assert len(take(file.core, file.jobs, 10)) == 10


@hot
def claim_from_a_queue_without_work(file: File) -> None:
    assert take(file.core, file.plain) == []


@hot
def look_for_work_and_find_it(file: File) -> None:
    assert len(take(file.core, [file.plain, file.jobs], until_us=START)) == 1


@hot
def settle_and_claim_the_next(file: File) -> None:
    (held,) = take(file.core, file.jobs)
    ack(file.core, held)


@hot
def look_after_the_living(file: File) -> None:
    assert not look_after(file.core)


for verb in ("ACK", "RETRY", "RELEASE", "LATER", "FAIL", "CANCEL", "RENEW"):

    def settle_one(file: File, verb: int = getattr(lib, f"FP_{verb}")) -> None:
        held = one(file)
        assert settle(file.core, Verdict(held.id, held.token, verb, 1000)) == [lib.FP_DONE]

    settle_one.__name__ = f"settle by {verb.lower()}"
    hot(settle_one)


@hot
def cancel_a_pending_one(file: File) -> None:
    assert file.core.cancel(None, put(file.core, file.jobs, b"x")) == [lib.FP_DONE]


@hot
def cancel_a_leased_one(file: File) -> None:
    (held,) = take(file.core, file.jobs)
    assert file.core.cancel(None, [held.id]) == [lib.FP_DONE]


@hot
def cancel_a_waiting_one(file: File) -> None:
    ids = put(file.core, file.jobs, b"x", lanes=[b"lane-9"])
    assert file.core.cancel(None, ids) == [lib.FP_DONE]


@hot
def find_by_id(file: File) -> None:
    for id_ in (1, *put(file.core, file.jobs, b"x"), take(file.core, file.jobs)[0].id, 10**9):
        message(file.core, id_)


@hot
def find_by_key(file: File) -> None:
    assert file.core.get_by_key(file.jobs, 0, lib.FP_LIFE_LASTING, b"old-77").rows == 1


@hot
def replay_a_dead_one(file: File) -> None:
    dead = file.core.list(Filter(lib.FP_STATE_DEAD, 1))[0]
    (row,) = [record[0] for record in rows(dead, 1)]
    assert file.core.replay(array("q", [row, -1]), 0, 0, apply=True) == [lib.FP_DONE]


@hot
def purge_a_slice(file: File) -> None:
    assert file.core.purge(file.jobs, lib.FP_STATE_DEAD, START + 1, 10, apply=True) == 10


@hot
def record_progress(file: File) -> None:
    file.core.progress(None, 1, b"50 %")


# Those that are leased stand behind all that are due: a page of them ends after 10,000 looks.
STATES = ("PENDING", "WAITING", "DONE_LISTED", "STATE_DEAD")
for state in STATES:

    def page(file: File, state: int = getattr(lib, f"FP_{state}")) -> None:
        """The first and the second."""
        found, after = file.core.list(Filter(state, 5))
        assert found.rows > 0
        if after is not None:
            file.core.list(Filter(state, 5, after=after))

    page.__name__ = f"a page of what is {state.lower()}"
    hot(page)


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_what_is_done_all_the_time_costs_the_same_in_a_big_file(
    files: list[File], operation: Operation
) -> None:
    """Each a few times, so that what the first one leaves behind is counted as well."""
    costs = []
    for file in files:
        operation(file)
        before = steps(file.core)
        for _ in range(3):
            operation(file)
        costs.append(steps(file.core) - before)
    small, big = costs
    assert big <= small + small // 20, f"{small} steps among 1,000, {big} among 100,000"


def test_nothing_was_sorted_scanned_or_prepared_twice(files: list[File]) -> None:
    """All that was done to these files by the tests above; each statement is prepared once."""
    for file in files:
        for name, index in zip(NAMES, range(len(NAMES)), strict=True):
            for counter in (SORT, AUTOINDEX, REPREPARE):
                assert lib.fp_sql_status_of(file.core._store, index, counter) == 0, name
            if name not in FIRST_ROW_ALONE:
                scanned = lib.fp_sql_status_of(file.core._store, index, FULLSCAN_STEP)
                assert scanned == 0, name


@pytest.mark.parametrize("far", [0, 5000])
def test_a_walk_past_what_others_hold_costs_a_few_steps_a_row(path: Path, far: int) -> None:
    """There is no index on who holds what; what is due behind the longest lease costs nothing."""
    costs = []
    with opened(path) as living, opened(path) as dying:
        lib.fp_look_no_more(living._store)
        queue = define(living, "q")
        for others in (500, 1000):
            put(living, queue, *[b"x"] * 500)
            assert len(take(living, queue, 500)) == 500
            put(living, queue, *[b"far"] * far, delay_us=3600 * 1_000_000)
            put(living, queue, b"orphan")
            assert len(take(dying, queue)) == 1
            die(dying)
            before = steps(living)
            while look_after(living):
                pass
            costs.append(steps(living) - before)
            (again,) = take(living, queue)
            assert ack(living, again) == [lib.FP_DONE]
            assert others == stats(living, queue).leased
    assert costs[1] - costs[0] < 500 * 40  # of which the slices are most: here they are tiny


def test_levels_that_are_all_leased_are_stepped_over(empty: Core) -> None:
    """Sixteen levels, of which fifteen hold nothing but claims: a step or two for each."""
    few, many = define(empty, "few levels"), define(empty, "many levels")
    for queue, levels in ((few, 1), (many, 16)):
        for level in range(levels):
            put(empty, queue, *[b"x"] * 200, priority=level)
        assert len(take(empty, queue, 200 * levels - 200)) == 200 * levels - 200
    costs = []
    for queue in (few, many):
        before = steps(empty)
        assert len(take(empty, queue)) == 1
        costs.append(steps(empty) - before)
    assert costs[1] - costs[0] < 16 * 40
