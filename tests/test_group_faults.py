"""
One of those that commit together fails, and the others do not: what the leader makes of it.

A request that fails before it has written has done nothing. After that all is rolled back, and
each of them runs alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from fencepost._binding.calls import Core
from fencepost.errors import StorageError
from harness_cases import CASES, Case
from harness_core import ack, define, keyed, lib, put, stats, take
from harness_core import core as opening
from harness_ladder import FOR_EVER, Arm, Ladder, disarm, findings, memory, memory_live, steps
from harness_line import counts, since, together
from harness_outside import Outside
from harness_processes import finish, start

pytestmark = pytest.mark.hostile

BULK = lib.FP_PROFILE_QUEUE


def putting(core: Core, queue: int, *bodies: bytes) -> Callable[[], Any]:
    return partial(put, core, queue, *bodies)


def bodies(core: Core, queue: int) -> list[bytes | None]:
    return [claim.body for claim in take(core, queue, 100)]


# ---- one fails in the middle of writing ----------------------------------------------------------


@pytest.mark.parametrize("raising", ["ABORT", "FAIL", "ROLLBACK"])
@pytest.mark.parametrize("at", [0, 2, 4])
def test_only_the_guilty_one_fails(
    core: Core, queue: int, path: Path, outside: Outside, raising: str, at: int
) -> None:
    """A trigger of the application's refuses one message, whatever becomes of the transaction."""
    outside.change(
        path,
        "CREATE TRIGGER no BEFORE INSERT ON fencepost_message WHEN NEW.body = x'62'"
        f" BEGIN SELECT RAISE({raising}, 'not this one'); END",
    )
    sent = [b"%d" % n for n in range(5)]
    sent[at] = b"b"
    before = counts(core)
    answers = together(core, *(putting(core, queue, body) for body in sent))
    assert isinstance(answers.pop(at), StorageError)
    assert since(core, before)[:3] == (4, 4, 1)
    assert [one for (one,) in answers] == list(range(answers[0][0], answers[0][0] + 4))
    del sent[at]
    assert bodies(core, queue) == sent


def test_counts_that_cannot_be_written_are_the_guilty_ones_own(
    core: Core, queue: int, path: Path, outside: Outside
) -> None:
    """What is written once for all at the end fails for all, and then for one."""
    other = define(core, "other")
    outside.change(path, f"DELETE FROM fencepost_tally WHERE queue = {other}")
    answers = together(core, putting(core, queue, b"a"), putting(core, other), putting(core, queue))
    assert [type(answer) for answer in answers] == [list, StorageError, list]
    assert stats(core, queue).pending == 2
    outside.change(path, f"INSERT INTO fencepost_tally (queue) VALUES ({other})")


def test_what_it_said_in_vain_is_not_said_again(
    core: Core, queue: int, path: Path, outside: Outside
) -> None:
    """A conflict with one that has failed in the end is none."""
    outside.change(path, f"DELETE FROM fencepost_tally WHERE queue = {queue}")
    answers = together(
        core, *(partial(keyed, core, queue, b"k", body) for body in (b"first", b"second"))
    )
    assert ["no row for queue" in str(answer) for answer in answers] == [True, True]
    outside.change(path, f"INSERT INTO fencepost_tally (queue) VALUES ({queue})")


def test_claims_of_a_spoilt_transaction_are_claims_all_the_same(
    core: Core, path: Path, outside: Outside
) -> None:
    """On a bulk queue, whose places only the handle knows: those of the first try are undone."""
    bulk = define(core, "bulk", BULK)
    put(core, bulk, b"0", b"1", b"2", b"3")
    (held,) = take(core, bulk)
    outside.change(
        path,
        f"CREATE TRIGGER no BEFORE DELETE ON fencepost_message WHEN OLD.id = {held.id}"
        " BEGIN SELECT RAISE(ABORT, 'not this one'); END",
    )
    before = counts(core)
    first, refused, second = together(
        core, partial(take, core, bulk, 2), partial(ack, core, held), partial(take, core, bulk)
    )
    assert isinstance(refused, StorageError)
    assert since(core, before).remade == 1
    assert [claim.body for claim in first + second] == [b"1", b"2", b"3"]
    outside.change(path, "DROP TRIGGER no")
    assert ack(core, *first, *second, held) == [lib.FP_DONE] * 4
    assert lib.fp_places(core._store) == 0


# ---- the ladder ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arm", "stride"),
    [
        pytest.param(steps, 1, id="a step"),
        pytest.param(memory, 7, id="every seventh allocation"),
        pytest.param(memory, 1, id="an allocation", marks=pytest.mark.long),
    ],
)
def test_a_fault_anywhere_in_a_group(
    tmp_path: Path, arm: Callable[[int], Arm], stride: int
) -> None:
    """
    At each step in turn. Where it is a write's, all run alone and do well; where it is a read's,
    or comes before all, one fails; where it is COMMIT's, all do. And each is in the file who was
    told so, and nobody else.
    """
    seen = set()
    for rung in count(0, stride):
        with opening(tmp_path / f"{rung}.db") as core:
            queue = define(core, "q")
            put(core, queue, b"held")
            (held,) = take(core, queue)
            works: list[Callable[[], Any]] = [putting(core, queue, b"%d" % n) for n in range(3)]
            works.insert(1, partial(ack, core, held))
            answers = together(core, *works, meanwhile=partial(arm(1), rung))
            hits = lib.fp_fault_hits()
            disarm()
            acked = isinstance(answers.pop(1), list)
            ids = [answer[0] for answer in answers if isinstance(answer, list)]
            assert ids == list(range(held.token + 1, held.token + 1 + len(ids)))  # none is lost
            told = [b"%d" % n for n, answer in enumerate(answers) if isinstance(answer, list)]
            assert stats(core, queue).done == acked
            assert bodies(core, queue) == told
            assert findings(core) == ""
            seen.add(tuple(map(type, answers)))
        if hits == 0:
            break
    assert (list, list, list) in seen
    assert any(StorageError in kinds for kinds in seen)


def test_a_commit_that_fails_fails_for_all(core: Core, queue: int) -> None:
    """Nobody knows what became of it, so that nobody is told that it did well, nor runs again."""
    before = lib.fp_steps()
    together(core, *(putting(core, queue) for _ in range(3)))
    commit = lib.fp_steps() - before - 1  # the last step there is
    begun = counts(core)
    answers = together(
        core, *(putting(core, queue) for _ in range(3)), meanwhile=partial(steps(1), commit - 1)
    )
    disarm()
    assert [str(answer) for answer in answers] == ["disk I/O error [COMMIT, sqlite 10]"] * 3
    assert since(core, begun)[:3] == (0, 0, 0)
    assert stats(core, queue).pending == 3


DISKS = """
from harness_line import counts, since, together
lib.fp_crash_install()
with opened(path) as core:
    queue = define(core, "q")
    put(core, queue)
    for arm in (
        lambda: lib.fp_fault_write(0, 1, 1),
        lambda: lib.fp_fault_write(0, 1, 0),
        lambda: lib.fp_fault_sync(0, 1),
    ):
        before = counts(core)
        answers = together(core, *[lambda: put(core, queue)] * 3, meanwhile=arm)
        said = [str(one) if isinstance(one, Exception) else "ok" for one in answers]
        say([said, since(core, before)[:3], stats(core, queue).pending])
"""


@pytest.mark.usefixtures("no_process_left")
def test_a_commit_that_found_no_room_is_made_again(path: Path) -> None:
    """For each alone, since it has certainly not happened; a broken disk says nothing so sure."""
    full, broken, unsynced = finish(start(DISKS, path))
    assert full == [["ok"] * 3, [3, 3, 1], 4]
    assert broken == [["disk I/O error [COMMIT, sqlite 778]"] * 3, [0, 0, 0], 4]
    assert unsynced == [["disk I/O error [COMMIT, sqlite 1034]"] * 3, [0, 0, 0], 4]


def test_a_disk_that_fails_for_good_fails_everybody(core: Core, queue: int) -> None:
    answers = together(
        core,
        *(putting(core, queue, b"%d" % n) for n in range(3)),
        meanwhile=partial(steps(FOR_EVER), 3),
    )
    disarm()
    assert [type(answer) for answer in answers] == [StorageError] * 3
    assert bodies(core, queue) == []


# ---- every request can run twice -----------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_operation_can_be_made_again(case: Case, tmp_path: Path, outside: Outside) -> None:
    """
    Each transaction is rolled back when it is through, and made once more: the answers are those
    that the case expects, and the file is what it would have been.
    """
    ladder = Ladder(case, tmp_path / "case", outside)
    try:
        after = ladder.without_faults()
        ladder.fresh()
        live = memory_live()
        lib.fp_fault_spoil(1)
        ladder.operate()
        lib.fp_fault_spoil(0)
        assert ladder.dump() == after
        assert findings(ladder.core) == ""
        assert memory_live() - live <= 8  # the handle's own tables may have grown
    finally:
        lib.fp_fault_spoil(0)
        ladder.end()
