"""
What is done with runs all the time costs the same among thousands of them as among a few, and in a
long history as in a short one. Costs are steps of SQLite's virtual machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from fencepost._binding.codes import FP
from fencepost._binding.flow import RecordPut
from harness_core import Held, ffi, lib
from harness_core import core as opened
from harness_flow import Scene, scene, wake

pytestmark = pytest.mark.hostile

FULLSCAN_STEP, SORT, AUTOINDEX, VM_STEP, REPREPARE = 1, 2, 3, 4, 5
FEW, MANY = 30, 3_000


def filled(at: Scene, runs: int) -> Scene:
    """A sixth each of done, failed, sleeping, waiting, due ones, and one with a long history."""
    for number in range(runs):
        at.start(b"r%d" % number)
    ends = [FP.END_DONE, FP.END_FAIL, FP.END_SLEEP, FP.END_WAIT]
    for number, held in enumerate(at.take(runs * 4 // 5)):
        at.record(held, b"step")
        verb = ends[number % len(ends)]
        at.end(held, verb, at_us=held.due + 10**12 if verb == FP.END_SLEEP else -1, kind=b"error")
    at.start(b"long")
    token = at.flow.claim(b"long", 10**12, 10**12)
    for first in range(0, runs, 1000):
        some = range(first, min(first + 1000, runs))
        at.flow.record(None, [RecordPut(b"long", token, b"%d" % n, 0, b"v") for n in some])
    lib.fp_look_no_more(at.core._store)
    return at


@pytest.fixture(scope="module")
def sizes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Scene]]:
    folder = tmp_path_factory.mktemp("costs")
    with opened(folder / "a.db", normal=True) as few, opened(folder / "b.db", normal=True) as many:
        yield [filled(scene(few), FEW), filled(scene(many), MANY)]


def new(at: Scene) -> Held:
    """The pass of a further run, which goes before all others."""
    at.start(b"new", priority=9)
    (held,) = at.take()
    assert held.key == b"new"
    return held


def start_take_record_and_end(at: Scene) -> None:
    held = new(at)
    assert at.record(held, b"step") == FP.DONE
    assert at.end(held, FP.END_DONE, result=b"r") == FP.DONE


def wait_and_be_told(at: Scene) -> None:
    assert at.end(new(at), FP.END_WAIT) == FP.DONE
    assert wake(at, b"new")


def fail_and_be_resumed(at: Scene) -> None:
    assert at.end(new(at), FP.END_FAIL, kind=b"error") == FP.DONE
    assert at.flow.resume(None, b"new") == FP.DONE


def cancel_with_a_child(at: Scene) -> None:
    held = new(at)
    at.start(b"kid", parent=at.parent(held))
    assert at.flow.cancel(None, b"new") == FP.DONE


def write_at_the_end_of_a_long_history(at: Scene) -> None:
    assert at.flow.supply(None, b"long", b"new", b"v")[1]
    assert at.flow.append(None, b"long", b"v")


def read_from_the_middle_of_a_long_history(at: Scene) -> None:
    last = at.flow.page(b"long", limit=5)[0][-1]
    assert len(at.flow.page(b"long", after_seq=last.seq, limit=2)[0]) == 2


def list_a_page(at: Scene) -> None:
    for state in (FP.RUN_WAITING, FP.RUN_DONE):
        page, after = at.flow.runs(state, limit=3)
        assert len(page) == 3
        assert len(at.flow.runs(state, limit=3, after=after)[0]) == 3


def purge_one(at: Scene) -> None:
    assert at.flow.purge(FP.RUN_DONE, 2**53 - 1, 1, apply=True) == (1, True)


@pytest.mark.parametrize(
    "operation",
    [
        start_take_record_and_end,
        wait_and_be_told,
        fail_and_be_resumed,
        cancel_with_a_child,
        write_at_the_end_of_a_long_history,
        read_from_the_middle_of_a_long_history,
        list_a_page,
        purge_one,
    ],
)
def test_what_is_done_all_the_time_costs_the_same_among_many(
    sizes: list[Scene], operation: Callable[[Scene], None]
) -> None:
    costs: list[int] = []
    for at in sizes:
        before = lib.fp_sql_status(at.core._store, VM_STEP)
        operation(at)
        costs.append(lib.fp_sql_status(at.core._store, VM_STEP) - before)
        for name in (b"new", b"kid"):
            at.flow.delete(None, name)
    few, many = costs
    assert 0 < many <= few + few // 10 + 20


def test_nothing_was_sorted_scanned_or_prepared_twice(sizes: list[Scene]) -> None:
    """By the statements of workflows, in all that was done above."""
    for at in sizes:
        for index in range(lib.fp_sql_count()):
            name = ffi.string(lib.fp_sql_name(index)).decode()
            if name.startswith(("RECORD_", "RUN", "PASS_")):
                for counter in (FULLSCAN_STEP, SORT, AUTOINDEX, REPREPARE):
                    assert lib.fp_sql_status_of(at.core._store, index, counter) == 0, name
