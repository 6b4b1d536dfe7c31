"""
The power goes: at every sync of every operation, in checkpoints, and while a file is being made.

What no sync had promised is then on the disk, lost or in pieces (csrc/crash.h). What was
acknowledged is there all the same, what was under way is there whole or not at all, and whoever
opens the file next finds it healthy.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import harness_crash as crash
from harness_cases import CASES, Case
from harness_crash import DONE, FOR_EVER, NEVER, PREPARED, Cut, Machine, Plan, numbers
from harness_kill import Fate, Killer
from harness_ladder import fingerprint
from harness_looks import LOOKS
from harness_outside import Outside

pytestmark = pytest.mark.hostile


@pytest.fixture(scope="module")
def killer() -> Iterator[Killer]:
    with Killer(crash.__file__) as one:
        yield one


@pytest.fixture
def machine(killer: Killer, tmp_path: Path, outside: Outside) -> Machine:
    return Machine(killer, tmp_path / "disk", outside)


def syncs(fate: Fate) -> int:
    """How many there were, of a life that went to its end."""
    assert fate.killed
    assert fate.said[-2] == DONE, fate.said
    return int(fate.said[-1])


def cuts(count: int, seeds: range) -> Iterator[Cut]:
    """Before each sync, with some dice; after each, when there is less left to chance."""
    for at in range(count):
        yield from (Cut(at, after=False, seed=seed) for seed in seeds)
        yield Cut(at, after=True, seed=seeds[0])


def at_the_end(seed: int) -> Cut:
    return Cut(NEVER, after=False, seed=seed)


# ---- every operation -----------------------------------------------------------------------------


def every_cut(machine: Machine, case: Case, seeds: range) -> None:
    def state() -> str:
        assert machine.complaints() == []
        return fingerprint(machine.dump())

    assert machine.cut(crash.a_case, case.name, None).said == [PREPARED]
    before = state()
    count = syncs(machine.cut(crash.a_case, case.name, at_the_end(seeds[0])))
    after = state()
    assert count > 0
    for seed in seeds[1:]:
        machine.cut(crash.a_case, case.name, at_the_end(seed))
        assert state() == after, f"what was acknowledged is not there: seed {seed}"
    for cut in cuts(count, seeds):
        fate = machine.cut(crash.a_case, case.name, cut)
        assert fate == Fate([PREPARED], killed=True)
        found = state()
        assert found in (before, after), f"half of it is there: {cut}"
        if cut.after and cut.at == count - 1:
            assert found == after, f"what was synced is not there: {cut}"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_power_cut_at_any_sync_leaves_all_or_nothing(case: Case, machine: Machine) -> None:
    """And nothing is missing of what was answered before the power went."""
    first = CASES.index(case)  # other dice for each
    every_cut(machine, case, range(first, first + 1))


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=str)
def test_many_power_cuts_at_any_sync_do_so(case: Case, machine: Machine) -> None:
    every_cut(machine, case, range(50))


# ---- the file as a whole -------------------------------------------------------------------------


def test_a_power_cut_in_a_checkpoint_costs_nothing(machine: Machine) -> None:
    """
    A WAL of a thousand frames goes into the file, begins anew and is removed at the end: what was
    answered is there at every sync of it, and after each one.
    """
    count = syncs(machine.cut(crash.fill, at_the_end(0)))
    assert count >= 6
    for cut in cuts(count, range(3)):
        said = machine.cut(crash.fill, cut).said
        assert said[0] == PREPARED
        assert machine.complaints() == [], cut
        bodies = machine.rows("SELECT substr(body, 1, 5) FROM fencepost_message ORDER BY id")
        there = [bytes.fromhex(body).decode() for (body,) in bodies]
        told = [word for word in said[1:] if word != DONE]
        assert there[: len(told) + 1] == ["old", *told], cut
        assert there == ["old", "xxxxx", "young"][: len(there)], cut


APPLICATION = "CREATE TABLE mine (x); INSERT INTO mine VALUES (7)"


@pytest.mark.parametrize("mine", [False, True], ids=["a new file", "an application's file"])
def test_a_power_cut_while_a_store_is_made_leaves_one_that_can_be_made(
    mine: bool, killer: Killer, tmp_path: Path, outside: Outside
) -> None:
    """
    Anywhere from the first byte to the first answer: whoever opens it next makes it, or finds it
    made; and the application's rows, in a file that was none of SQLite's WAL files before, stay.
    """
    machine = Machine(killer, tmp_path / "new", outside)

    def cut_at(cut: Cut) -> Fate:
        machine.path.parent.mkdir(exist_ok=True)
        for suffix in ("", "-wal", "-journal"):
            machine.side(suffix).unlink(missing_ok=True)
        if mine:
            machine.path.touch()
            outside.change(machine.path, APPLICATION)
        return machine.cut(crash.begin, cut, keep=True)

    count = syncs(cut_at(at_the_end(0)))
    for cut in cuts(count, range(6)):
        said = cut_at(cut).said
        assert machine.complaints() == [], cut
        if mine:
            assert machine.rows("SELECT x FROM mine") == [[7]], cut
        messages = machine.rows("SELECT count(*) FROM fencepost_message")[0][0]
        assert messages == 1 or DONE not in said


def test_a_power_cut_does_not_take_folders_away_that_were_made(
    killer: Killer, tmp_path: Path, outside: Outside
) -> None:
    """A folder's name is a write, too: it is synced before anything is put into it."""
    for seed in range(12):
        machine = Machine(killer, tmp_path / f"{seed}" / "of" / "folders", outside)
        fate = machine.cut(crash.begin, at_the_end(seed), keep=True)
        assert syncs(fate) > 0
        assert machine.path.exists()
        assert machine.rows("SELECT count(*) FROM fencepost_message") == [[1]]


def test_a_power_cut_in_another_programs_commit_leaves_all_or_nothing(machine: Machine) -> None:
    """Its row, what it put in and what it settled through the door."""
    mine = "SELECT (SELECT count(*) FROM mine), (SELECT count(*) FROM fencepost_message)"
    mine += ", (SELECT count(*) FROM fencepost_outcome)"
    count = syncs(machine.cut(crash.door, at_the_end(0)))
    assert count > 0
    for cut in [*cuts(count, range(8)), at_the_end(1), at_the_end(2)]:
        said = machine.cut(crash.door, cut).said
        assert machine.complaints() == [], cut
        found = machine.rows(mine)
        assert found in ([[0, 3, 0]], [[1, 4, 1]]), cut
        assert found == [[1, 4, 1]] or DONE not in said, cut


@pytest.mark.parametrize("what", ["backup", "restore"])
def test_a_power_cut_leaves_a_whole_copy_or_none(
    what: str, machine: Machine, killer: Killer, outside: Outside
) -> None:
    """Under its name; what was made under another one may lie there in any state."""
    dest = Machine(killer, machine.path.parent, outside, "dest.db")
    there = set()
    count = syncs(machine.cut(crash.copy, what, at_the_end(0)))
    assert count >= 1
    for cut in [*cuts(count, range(6)), at_the_end(1), at_the_end(2)]:
        said = machine.cut(crash.copy, what, cut).said
        assert said[0] == PREPARED
        assert machine.complaints() == [], cut
        there.add(dest.path.exists())
        assert dest.path.exists() or DONE not in said, cut
        if dest.path.exists():
            assert dest.complaints() == [], cut
            assert dest.rows("SELECT count(*) FROM fencepost_due") == [[3]]
    assert there == {True, False}


# ---- histories -----------------------------------------------------------------------------------


def told_of(machine: Machine, plan: Plan, *, full: bool) -> list[str]:
    """What is wrong after that weather."""
    said, killed = machine.cut(crash.weather, plan)
    assert killed, said
    assert said[0] == PREPARED
    return machine.complaints() or list(machine.history_is_wrong(said, full=full))


# Not "normal" with syncs that fail: what such a checkpoint left unwritten, SQLite believes to be
# written after the next one, and a power cut in that one damages the file.
STORMS = {
    "full": Plan(0, 25),
    "normal": Plan(0, 25, normal=True),
    "full, failing": Plan(0, 25, fails=True),
}


@pytest.mark.parametrize("plan", STORMS.values(), ids=STORMS)
def test_a_history_ends_where_the_power_went(plan: Plan, machine: Machine) -> None:
    """
    What was answered is there, and no token is given out twice, also when syncs had failed before.
    With durability "normal" it may be missing from the end, in order, and from nowhere else.
    """
    for seed in range(5):
        wrong = told_of(machine, plan._replace(seed=seed), full=not plan.normal)
        assert wrong == [], f"seed {seed}"


def test_what_threads_did_together_is_there(machine: Machine) -> None:
    """Nobody is answered before the commit that his call is part of was synced."""
    for seed in range(5):
        said, killed = machine.cut(crash.crowd, Cut(3 + 4 * seed, after=False, seed=seed))
        did = numbers(said, "did")
        assert killed
        assert len(did) == len(said), said
        assert machine.complaints() == []
        there = machine.rows("SELECT id FROM fencepost_message")
        assert set(did) <= {number for (number,) in there}


@pytest.mark.long
@pytest.mark.parametrize("plan", STORMS.values(), ids=STORMS)
def test_two_hundred_histories_do(plan: Plan, machine: Machine) -> None:
    for seed in range(1000, 1200):
        wrong = told_of(machine, plan._replace(seed=seed, steps=60), full=not plan.normal)
        assert wrong == [], f"seed {seed}"


def test_these_tests_notice_what_is_not_synced(machine: Machine) -> None:
    """The same weather without the syncs of FULL loses something that was answered."""
    found = (told_of(machine, Plan(seed, 25, normal=True), full=True) for seed in range(40))
    assert any(wrong and wrong[0].startswith("lost") for wrong in found)


def test_these_tests_notice_a_disk_that_lies(machine: Machine) -> None:
    """A disk that answers a sync and does nothing loses what was answered, and more."""
    assert any(told_of(machine, Plan(seed, 25, lies=True), full=True) for seed in range(40))


# ---- a disk that fails ---------------------------------------------------------------------------


def climb(machine: Machine, case: Case, what: str, times: int) -> int:
    said, _ = machine.cut(crash.failing, case.name, what, times)
    assert said[-1].endswith("rungs"), said
    return int(said[-1].split()[0])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_sync_that_fails_leaves_nothing_behind(case: Case, machine: Machine) -> None:
    """The error reaches the caller; nobody sees anything of it, and the same handle goes on."""
    assert climb(machine, case, "unsynced", 1) > 0


ALL_SORTS = [case for case in CASES if case.name in ("enqueue many", "a transaction of everything")]


@pytest.mark.parametrize("times", [1, FOR_EVER])
@pytest.mark.parametrize("what", ["full", "broken"])
@pytest.mark.parametrize("case", ALL_SORTS, ids=str)
def test_a_full_disk_leaves_nothing_behind(
    case: Case, what: str, times: int, machine: Machine
) -> None:
    """At any write, half of which was made; once, or until somebody makes room."""
    assert climb(machine, case, what, times) > 3


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_disk_that_cannot_be_read_changes_nothing(case: Case, machine: Machine) -> None:
    """
    At any read, open, lock, mapping or size of a file. SQLite may take the transaction back of
    itself then, so that whoever went on would commit each further statement alone.
    """
    assert climb(machine, case, "unreadable", 1) > 2


@pytest.mark.parametrize("times", [1, FOR_EVER])
@pytest.mark.parametrize("disk", ["full", "unsynced", "unreadable"])
def test_a_store_that_cannot_be_made_is_made_later(disk: str, times: int, machine: Machine) -> None:
    """At any call of the disk on the way there; what it has left is in nobody's way."""
    said, _ = machine.cut(crash.failing_open, disk, times)
    assert said[-1].endswith("rungs"), said
    assert int(said[-1].split()[0]) > 2


@pytest.mark.parametrize("times", [1, FOR_EVER])
@pytest.mark.parametrize("disk", ["full", "broken", "unreadable"])
@pytest.mark.parametrize("what", ["backup", "restore"])
def test_a_copy_on_a_failing_disk_leaves_nothing_behind(
    what: str, disk: str, times: int, machine: Machine
) -> None:
    said, _ = machine.cut(crash.failing_copy, what, disk, times)
    assert said[-1].endswith("rungs"), said
    assert int(said[-1].split()[0]) > 5


@pytest.mark.long
@pytest.mark.parametrize("times", [1, FOR_EVER])
@pytest.mark.parametrize("what", ["full", "broken", "unsynced", "unreadable"])
@pytest.mark.parametrize("case", [*CASES, *LOOKS], ids=str)
def test_no_failing_disk_leaves_anything_behind(
    case: Case, what: str, times: int, machine: Machine
) -> None:
    climb(machine, case, what, times)


def test_a_commit_that_failed_is_open_until_the_file_is_read_again(machine: Machine) -> None:
    """
    Its error says that it failed, and as long as anybody has the file open it did not happen. But
    it stands in the WAL: to whoever opens the file after a kill or a power cut it may have.
    """

    def messages(cut: Cut | None) -> int:
        said = machine.cut(crash.refused, "enqueue one", cut).said
        assert said == [PREPARED, "disk I/O error [COMMIT, sqlite 1034]"]
        assert machine.complaints() == []
        found: int = machine.rows("SELECT count(*) FROM fencepost_message")[0][0]
        return found

    assert messages(None) == 1
    assert {messages(at_the_end(seed)) for seed in range(30)} == {0, 1}
