"""
Every operation fails at each of its steps in turn, and leaves nothing behind.

The world fails in two ways here: a statement's step answers with an I/O error, or an allocation
with nothing; once, or from there on until the operation has given up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import harness_scenes as scene
from fencepost import InvalidArgument
from fencepost._binding.calls import Core, OpenTx
from fencepost._binding.guest import Guest
from fencepost.errors import StorageError
from harness_cases import CASES, DONE, Case
from harness_core import Held, ack, lib, opened, put, settle, take
from harness_core import core as core_of
from harness_ladder import FOR_EVER, Arm, Ladder, disarm, findings, memory, memory_live, steps, told
from harness_looks import LOOKS
from harness_outside import Outside

pytestmark = pytest.mark.hostile

# An operation that opens a connection of its own on its way reads the schema: thousands of
# allocations of SQLite's, one much like the other.
RUNGS = 400


@pytest.fixture(autouse=True)
def peace_afterwards() -> Iterator[None]:
    yield
    disarm()


def ladder(case: Case, folder: Path, outside: Outside) -> Ladder:
    return Ladder(case, folder / "ladder", outside)


@pytest.mark.parametrize("case", [*CASES, *LOOKS], ids=str)
def test_a_failed_step_leaves_nothing_behind(case: Case, tmp_path: Path, outside: Outside) -> None:
    """I/O error at one step; then the same handle does it all, claims it gave out included."""
    one = ladder(case, tmp_path, outside)
    assert one.climb(steps(1)) > 0
    one.end()


@pytest.mark.parametrize("case", [*CASES, *LOOKS], ids=str)
def test_failing_steps_leave_nothing_behind(case: Case, tmp_path: Path, outside: Outside) -> None:
    """From that step on each one fails, also those of the way back."""
    one = ladder(case, tmp_path, outside)
    assert one.climb(steps(FOR_EVER)) > 0
    one.end()


@pytest.mark.parametrize("case", [*CASES, *LOOKS], ids=str)
def test_a_failed_allocation_leaves_nothing_behind(
    case: Case, tmp_path: Path, outside: Outside
) -> None:
    """And nothing of ours is left in memory once the handle is gone."""
    live = memory_live()
    one = ladder(case, tmp_path, outside)
    one.climb(memory(1), RUNGS)
    one.end()
    assert memory_live() == live


@pytest.mark.parametrize("case", [*CASES, *LOOKS], ids=str)
def test_no_memory_at_all_leaves_nothing_behind(
    case: Case, tmp_path: Path, outside: Outside
) -> None:
    """No allocation succeeds from there on, not even those of the rollback."""
    one = ladder(case, tmp_path, outside)
    one.climb(memory(FOR_EVER), RUNGS)
    one.end()


InTx = Callable[[Core, OpenTx, list[Held]], object]
IN_TX: dict[str, InTx] = {
    "enqueue": lambda core, tx, held: put(
        core, held[0].queue, b"a", b"b", keys=[b"k", None], life=1, lanes=[b"x"] * 2, tx=tx
    ),
    "ack": lambda core, tx, held: ack(core, *held, tx=tx),
    "fail": lambda core, tx, held: settle(core, *map(scene.fail, held), tx=tx),
    "retry": lambda core, tx, held: settle(
        core, *(scene.say(claim, lib.FP_RETRY, 5) for claim in held), tx=tx
    ),
    "cancel": lambda core, tx, held: core.cancel(tx, [claim.id for claim in held]),
    "define": lambda core, tx, held: core.queue_define(
        tx, b"jobs", lib.FP_PROFILE_JOB, {"lane_width": 2}
    ),
    "progress": lambda core, tx, held: core.progress(tx, held[0].id, b"1"),
}


@pytest.mark.parametrize("operate", IN_TX.values(), ids=IN_TX)
def test_what_fails_in_the_callers_transaction_does_nothing_or_ends_it(
    operate: InTx, path: Path, outside: Outside
) -> None:
    """
    A caller who takes the error and commits all the same gets none of the failed call: what had
    written nothing may be followed by the commit of the rest, anything else is rolled back whole.
    """
    with core_of(path) as core:
        held = scene.all_sorts_held(core)
        in_transaction(core, "CREATE TABLE mine (x)")
        before = outside.dump(path)
        rung, hits, went_on = 0, 1, 0
        while hits:
            tx = core.begin(30)
            guest(tx, "INSERT INTO mine VALUES (7)")
            lib.fp_fault_step(rung, 1)
            failed = not succeeds(partial(operate, core, tx, held))
            hits = lib.fp_fault_hits()
            disarm()
            ended = succeeds(partial(tx.end, commit=failed))
            if failed and ended:
                went_on += 1
                in_transaction(core, "DELETE FROM mine")
            assert outside.dump(path) == before, f"rung {rung} left something behind"
            rung += 1
        assert rung > went_on > 0
        assert findings(core) == ""
        assert ack(core, *held) == [lib.FP_DONE] * len(held)


def succeeds(use: Callable[[], object]) -> bool:
    try:
        use()
    except (StorageError, InvalidArgument):
        return False
    return True


def in_transaction(core: Core, sql: str) -> None:
    tx = core.begin(30)
    guest(tx, sql)
    tx.end(commit=True)


def guest(tx: OpenTx, sql: str) -> None:
    with Guest(tx, sql) as statement:
        statement.run(1, b"")


MINE = """
    PRAGMA journal_mode = WAL;
    CREATE TABLE mine (x);
    INSERT INTO mine VALUES (7);
"""


@pytest.mark.parametrize("times", [1, FOR_EVER])
@pytest.mark.parametrize("faults", [steps, memory])
def test_an_open_that_fails_leaves_the_file_alone(
    faults: Callable[[int], Arm], times: int, path: Path, outside: Outside
) -> None:
    """None of our tables, or all of them; the application's own are not touched."""
    live = memory_live()
    arm, rung, hits = faults(times), 0, 1
    whole = tables_of_a_new_file(path.with_name("other.db"), outside)
    begin_anew(path, outside)
    while hits:
        arm(rung)
        core = opened_if_possible(path)
        hits = lib.fp_fault_hits()
        disarm()
        dumped = outside.dump(path)
        assert 'INSERT INTO "mine" VALUES(7)' in dumped
        assert dumped.count("CREATE TABLE fencepost_") in (0, whole)
        assert core is not None or hits
        if "fencepost_meta" in dumped:
            assert dumped.count('INSERT INTO "fencepost_meta"') == 1
            core = core or opened(path)
            assert findings(core) == ""
            core.close()
            begin_anew(path, outside)
        rung += 1 if faults is steps else 53  # there are over 20,000 allocations
    del core
    assert memory_live() == live


@pytest.mark.parametrize("times", [1, FOR_EVER])
@pytest.mark.parametrize("faults", [steps, memory])
def test_a_close_that_fails_leaves_a_whole_file(
    faults: Callable[[int], Arm], times: int, path: Path, outside: Outside
) -> None:
    """It has answered all there was before: what it still does is only for those who come next."""
    live = memory_live()
    arm, rung, hits = faults(times), 0, 1
    while hits:
        core = opened(path)
        (held,) = take(core, scene.some(core))
        before = without_workers(outside.dump(path))
        arm(rung)
        succeeds(core.close)
        hits = lib.fp_fault_hits()
        disarm()
        after = without_workers(outside.dump(path))
        assert after == before, f"rung {rung} left something behind"
        core.close()
        with core_of(path) as core:
            assert findings(core) == ""
            assert ack(core, held) == DONE
        for file in path.parent.iterdir():
            file.unlink()
        rung += 1
    assert rung > 1
    del core
    assert memory_live() == live


def without_workers(dump: str) -> str:
    """It takes its own name off their list, if it can."""
    lines = dump.splitlines()
    return "\n".join(
        line for line in lines if not line.startswith('INSERT INTO "fencepost_worker"')
    )


def opened_if_possible(path: Path) -> Core | None:
    try:
        return opened(path)
    except StorageError as error:
        if not told(error):
            raise
        return None


def begin_anew(path: Path, outside: Outside) -> None:
    """An application's own file; SQLite takes the side files of the last one away with it."""
    path.unlink(missing_ok=True)
    path.touch()
    outside.change(path, MINE)


def tables_of_a_new_file(path: Path, outside: Outside) -> int:
    with core_of(path):
        return outside.dump(path).count("CREATE TABLE fencepost_")
