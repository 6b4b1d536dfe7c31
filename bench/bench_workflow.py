"""
Durable workflows of three steps: records a second, workflows a second alone and 20 at a time, how
many commits each costs, how soon an idle worker starts one, and what it takes to be idle.

    python bench/bench_workflow.py        the real sizes, two minutes
    pytest bench                          the smoke sizes, once

Beside `App.workflow` stands what one writes by hand on the standard library; and, where Python has
it (`make compat` makes such an environment), `without-durability` over its own store and over ours.
All are durable to the disk at each record. A workflow by hand and one of that package is over when
its last record is durable; one of `App.workflow`, when its result is there for every process.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pytest

from _durable_sides import SIDES, Side
from _rounds import file_system, refuse_test_core, rotated

SMOKE = {"records": 20, "alone": 2, "together": 20, "starts": 1, "idle_ms": 5, "rounds": 1}
REAL = {"records": 200, "alone": 20, "together": 200, "starts": 10, "idle_ms": 1000, "rounds": 5}
TOGETHER = 20


class Round(NamedTuple):
    """Seconds a piece; `commits` of one workflow."""

    record: float
    record_together: float
    alone: float
    alone_commits: float
    together: float
    together_commits: float
    start: list[float]
    idle: float  # the share of a core that a worker takes which has nothing to do


def span(work: Any, *arguments: Any) -> float:
    began = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - began


def counted(side: Side, numbers: range, at_a_time: int) -> tuple[float, float]:
    """Seconds and commits of each."""
    before = side.commits()
    with side.working():
        took = span(side.run, numbers, at_a_time)
    return took / len(numbers), (side.commits() - before) / len(numbers)


def starts(side: Side, numbers: range) -> list[float]:
    """From the commit that starts it to its first step, by an idle worker."""
    took = []
    with side.working():
        for number in numbers:
            time.sleep(0.12)  # it is idle, and between two polls of whoever polls
            side.start(number)
            committed = time.perf_counter()
            side.wait(number)
            took.append(max(0.0, side.starts[number] - committed))
    return took


def idle(side: Side, seconds: float) -> float:
    with side.working():
        time.sleep(seconds / 5)  # it has begun
        cpu, wall = time.process_time(), time.perf_counter()
        time.sleep(seconds)
        return (time.process_time() - cpu) / (time.perf_counter() - wall)


def one(name: str, folder: Path, sizes: dict[str, int]) -> Round:
    side = SIDES[name](folder / "w.db")
    try:
        records = sizes["records"]
        record = span(side.record, records, 1) / records
        alone, together, some = sizes["alone"], sizes["together"], sizes["starts"]
        first, second, third = alone, alone + together, alone + together + some
        return Round(
            record,
            recorded_together(name, folder, records),
            *counted(side, range(first), 1),
            *counted(side, range(first, second), TOGETHER),
            starts(side, range(second, third)),
            idle(side, sizes["idle_ms"] / 1000),
        )
    finally:
        side.close()


def recorded_together(name: str, folder: Path, records: int) -> float:
    side = SIDES[name](folder / "together.db")
    try:
        return span(side.record, records, TOGETHER) / records
    finally:
        side.close()


def rounds(folder: Path, sizes: dict[str, int]) -> dict[str, list[Round]]:
    found: dict[str, list[Round]] = {name: [] for name in SIDES}
    for number in range(sizes["rounds"]):
        for name in rotated([*SIDES], number):
            with tempfile.TemporaryDirectory(dir=folder) as inside:
                found[name].append(one(name, Path(inside), sizes))
    return found


@pytest.mark.timeout(120)
def test_each_side_runs_its_workflows(benchmark: Any, tmp_path: Path) -> None:
    """How fast is for the real sizes to say; by hand it is eight commits at the least."""
    found = benchmark.pedantic(rounds, args=(tmp_path, SMOKE), rounds=1)
    assert found.keys() == SIDES.keys()
    assert found["by hand"][0].alone_commits >= 8


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f}ms"


def said(name: str, found: list[Round], hand: list[Round]) -> str:
    def middle(of: list[Round], field: str) -> float:
        return median(getattr(round_, field) for round_ in of)

    def rate(field: str) -> str:
        pairs = zip(found, hand, strict=True)
        times = median(getattr(its, field) / getattr(mine, field) for mine, its in pairs)
        return f"{1 / middle(found, field):.0f}/s ({times:.1f}x)"

    begun = sorted(took for round_ in found for took in round_.start)
    return (
        f"  {name:<24} records {rate('record')}, {TOGETHER} at a time {rate('record_together')};"
        f" workflows alone {rate('alone')}, {middle(found, 'alone_commits'):.1f} commits each;"
        f" {TOGETHER} at a time {rate('together')}, {middle(found, 'together_commits'):.1f} commits"
        f" each; start p50={ms(median(begun))} p99={ms(begun[len(begun) * 99 // 100])};"
        f" idle {middle(found, 'idle'):.2%} of a core"
    )


def main() -> None:
    refuse_test_core()
    with tempfile.TemporaryDirectory(dir=".") as name:
        found = rounds(Path(name), REAL)
        system = file_system(Path(name))
    print(
        f"workflow steps=3 sync=FULL fs={system} rounds={REAL['rounds']}"
        f" python={sys.version_info.major}.{sys.version_info.minor}; in parentheses, times by hand"
    )
    for name, some in found.items():
        print(said(name, some, found["by hand"]))


if __name__ == "__main__":
    main()
