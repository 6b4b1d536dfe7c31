"""What a check of the file finds: every way in which its tables can disagree is a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("fencepost._core_test")

from fencepost import StorageError
from fencepost._binding.calls import Core
from harness_core import Verdict, ack, define, lib, message, put, settle, take
from harness_core import core as opened
from harness_core import rows as cut

pytestmark = pytest.mark.hostile


@pytest.fixture
def core(path: Path) -> Iterator[Core]:
    with opened(path) as core:
        yield core


DAMAGES = {
    "DELETE FROM fencepost_message WHERE id = (SELECT min(id) FROM fencepost_due)":
        "Message 1 is in line, but is itself missing.",
    "DELETE FROM fencepost_due WHERE id = 2":
        "Message 2 is neither in line nor has it ended.",
    "INSERT INTO fencepost_due SELECT turn, due_at + 1, id, token, attempts, stage, addressed,"
    " generation, again, placed_at, worker FROM fencepost_due WHERE id = 2":
        "Message 2 stands in line 2 times.",
    "INSERT INTO fencepost_outcome (id, queue, kind, state, settled_at, attempts, token,"
    " generation) VALUES (2, 1, 0, 4, 0, 0, 0, 0)":
        "Message 2 has ended, and is in line, too.",
    "DELETE FROM fencepost_message WHERE id = (SELECT max(id) FROM fencepost_outcome)":
        "has an outcome, but is itself missing.",
    "UPDATE fencepost_due SET turn = turn + 1 WHERE id = 2":
        "Message 2 stands at another turn than its queue's and its priority's.",
    "PRAGMA ignore_check_constraints = 1; UPDATE fencepost_message SET priority = 400 WHERE id = 2":
        "Message 2 stands at another turn than its queue's and its priority's.",
    "UPDATE fencepost_message SET queue = 77 WHERE id = 2":
        "Message 2 is of queue 77, which does not exist.",
    "UPDATE fencepost_message SET enqueued_at = 'yesterday' WHERE id = 2":
        "Message 2 was enqueued at a moment that cannot be.",
    "UPDATE fencepost_outcome SET settled_at = 9223372036854775807":
        "ended at a moment that cannot be.",
    "UPDATE fencepost_tally SET leased = 8 WHERE queue = 1":
        "The tally of queue 'q' says 8 leased, but there are 0.",
    "UPDATE fencepost_tally SET last = 3 WHERE queue = 0":
        "behind the number",
    "UPDATE fencepost_lane SET out = 3":
        "The lane 'l' of queue 'q' says 3 of it are in line, but there are 1.",
    "UPDATE fencepost_lane SET out = 0":
        "In the lane 'l' of queue 'q' 1 wait although a slot is free.",
    "DELETE FROM fencepost_lane":
        "The lane of message 4, which is in line, has no row.",
    "UPDATE fencepost_due SET turn = turn - 1 WHERE turn < 0":
        "waits in a lane that is not its own.",
    "UPDATE fencepost_key SET id = 1 WHERE key = 'k'":
        "The key 'k' points to message 1, which does not have it.",
    "DELETE FROM fencepost_key":
        "Message 3 is in line, but its key 'k' is not its own.",
}  # fmt: skip


def findings(core: Core) -> list[str]:
    return [row[0].decode() for row in cut(core.check(full=True), 1)]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_check_finds_what_does_not_fit(
    core: Core, damage: str, foreign: Callable[[str], str]
) -> None:
    """Each kind of damage is a sentence of its own; an undamaged file has none."""
    queue = define(core, "q")
    put(core, queue, b"1", b"2")
    put(core, queue, b"3", keys=[b"k"], life=lib.FP_LIFE_LASTING)
    put(core, queue, b"4", b"5", lanes=[b"l", b"l"])
    put(core, queue, b"ended", priority=1)
    (claim,) = take(core, queue)
    assert settle(core, Verdict(claim.id, claim.token, lib.FP_ACK)) == [lib.FP_DONE]
    assert findings(core) == []
    foreign(damage)
    assert any(DAMAGES[damage] in words for words in findings(core))


def test_a_check_ends_where_it_has_said_enough(core: Core, foreign: Callable[[str], str]) -> None:
    put(core, define(core, "q"), *[b""] * 500)
    foreign("DELETE FROM fencepost_due")
    found = findings(core)
    assert len(found) == 201
    assert found[-1] == "There is more than these 200 findings."


@pytest.mark.parametrize("priority", [-129, 128, -(2**63), 2**63 - 1])
def test_a_priority_that_cannot_be_is_damage_and_no_place_in_line(
    core: Core, foreign: Callable[[str], str], priority: int
) -> None:
    """Or the message would be looked for, and put, among those of another queue."""
    queue = define(core, "q")
    one, _ = put(core, queue, b"1", b"2", lanes=[b"l", b"l"])
    foreign(
        "PRAGMA ignore_check_constraints = 1;"
        f"UPDATE fencepost_message SET priority = {priority} WHERE id > {one}"
    )
    (held,) = take(core, queue)
    assert ack(core, held) == [lib.FP_DONE]
    assert message(core, one + 1) is not None
    assert [claim.body for claim in take(core, queue)] == [b"2"]
    assert any("Message" in one for one in findings(core))


@pytest.mark.parametrize("name", ["x'0001'", "x''", "'" + "l" * 300 + "'"])
def test_a_lane_whose_name_is_damaged_ends_the_widening(
    core: Core, foreign: Callable[[str], str], name: str
) -> None:
    """A BLOB sorts behind every text, and would come up for ever."""
    queue = define(core, "q")
    put(core, queue, b"1", b"2", lanes=[b"l", b"l"])
    foreign(f"UPDATE fencepost_lane SET name = {name}")
    with pytest.raises(StorageError, match="name of lane 3 is damaged"):
        define(core, "q", lane_width=2)
