"""
No statement of the door walks a table or sorts, and what it costs does not grow with the file.

By the planner of the interpreter's own SQLite: the door is opened by other libraries than ours.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("fencepost._core_test")

from harness_core import Held, core, define, ffi, lib, put, take

pytestmark = pytest.mark.hostile

SCHEMA = ffi.string(lib.fp_schema_text()).decode()
TRIGGER = re.compile(r"CREATE TRIGGER (\w+) .*? BEGIN (.*?) END;\n", re.DOTALL)
# One row, by its nature; and the newest row of a table, which is one step from its end.
FEW = re.compile(r"SCAN (CONSTANT ROW|grown|\(subquery-\d+\)|[rt]$|3 CONSTANT ROWS)|LIMIT 1$")


def statements() -> Iterator[tuple[str, str]]:
    """Each statement of each trigger, as one can be asked about outside of it."""
    for name, body in TRIGGER.findall(SCHEMA):
        for statement in body.split(";"):
            if statement.strip():
                sql = re.sub(r"\bNEW\.(\w+)", r":\1", statement.strip())
                yield name, re.sub(r"RAISE\(ABORT, '(?:[^']|'')*'\)", "1", sql)


@pytest.fixture(scope="module")
def empty() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as one:
        one.executescript(SCHEMA)
        yield one


def test_every_trigger_was_read() -> None:
    assert len({name for name, _ in statements()}) == SCHEMA.count("CREATE TRIGGER") == 14


@pytest.mark.parametrize(("name", "sql"), list(statements()))
def test_no_statement_of_the_door_walks_a_table_or_sorts(
    empty: sqlite3.Connection, name: str, sql: str
) -> None:
    names = dict.fromkeys(re.findall(r":(\w+)", sql), None)
    plan = [row[3] for row in empty.execute(f"EXPLAIN QUERY PLAN {sql}", names)]
    assert not any("TEMP B-TREE" in line or "AUTOMATIC" in line for line in plan), plan
    newest = "ORDER BY id DESC LIMIT 1" in sql
    walks = [line for line in plan if line.startswith("SCAN") and not FEW.search(line)]
    assert walks == (["SCAN fencepost_queue"] if newest else []), sql


# ---- costs ---------------------------------------------------------------------------------------


def filled(path: Path, messages: int) -> tuple[sqlite3.Connection, list[Held], list[Held]]:
    """Ready, future, laned and keyed jobs; claims of jobs and of a bulk queue."""
    with core(path, normal=True) as one:
        jobs, bulk = define(one, "jobs"), define(one, "bulk", lib.FP_PROFILE_QUEUE)
        kind = one.kind(None, b"job")
        bodies = [b"x"] * messages
        numbered = [b"%d" % number for number in range(messages)]
        put(one, jobs, *bodies, kind=kind, keys=numbered, life=lib.FP_LIFE_LASTING)
        put(one, jobs, *bodies, kind=kind, delay_us=3_600_000_000)
        put(one, jobs, *bodies, kind=kind, lanes=[name[:-1] or b"0" for name in numbered])
        put(one, bulk, *bodies)
        held = take(one, jobs, 20), take(one, bulk, 20)
    return sqlite3.connect(path, isolation_level=None), *held


def steps(connection: sqlite3.Connection, sql: str) -> int:
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 1
        return 0

    connection.execute(f"EXPLAIN {sql}")  # what is prepared before is not counted
    connection.set_progress_handler(count, 1)
    connection.execute(sql)
    connection.set_progress_handler(None, 1)
    return counted


def put_sql(columns: str, values: str) -> str:
    return (
        f"INSERT INTO fencepost_enqueue (queue, kind, body{columns})"
        f" VALUES ('jobs', 'job', 'x'{values})"
    )


PUTS = {
    "plain": put_sql("", ""),
    "a new key": put_sql(", key", ", 'new ' || random()"),
    "a known key": put_sql(", key", ", '7'"),
    "a new lane": put_sql(", lane", ", 'new ' || random()"),
    "behind others in a lane": put_sql(", lane", ", '2'"),
}


def settled(held: Held, verb: str) -> str:
    return (
        "INSERT INTO fencepost_settle (id, token, verb, lease_end)"
        f" VALUES ({held.id}, {held.token}, '{verb}', {held.lease_end})"
    )


def test_the_door_costs_the_same_in_a_big_file(tmp_path: Path) -> None:
    costs: list[dict[str, int]] = []
    for messages in (300, 20_000):
        connection, jobs, bulk = filled(tmp_path / f"{messages}.db", messages)
        with closing(connection):
            for sql in PUTS.values():
                connection.execute(sql)
            cost = {name: steps(connection, sql) for name, sql in PUTS.items()}
            for verb in ("ack", "retry", "release", "fail", "cancel"):
                cost[verb] = steps(connection, settled(jobs.pop(), verb))
                cost[f"{verb}, bulk"] = steps(connection, settled(bulk.pop(), verb))
            costs.append(cost)
    small, big = costs
    for name, steps_of_it in big.items():
        assert steps_of_it <= small[name] + small[name] // 20, name
