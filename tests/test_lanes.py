"""
Lanes: strictly one after the other, first in, first out; nobody overtakes, and no slot is lost.

    out < width  implies  nobody waits, unless the lane is held.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost._binding.calls import Core
from fencepost._binding.pack import Take
from harness_core import START, Held, Verdict, ack, define, lib, put, settle, state_of, stats, take
from harness_core import held as read
from harness_core import tx as transaction
from harness_outside import Outside


def laned(core: Core, queue: int, *bodies: bytes, lane: bytes = b"x") -> list[int]:
    return [int(one) for one in put(core, queue, *bodies, lanes=[lane] * len(bodies))]


def bodies(held: list[Held]) -> list[bytes | None]:
    return [claim.body for claim in held]


def said(held: Held, verb: int, delay_us: int = 0) -> Verdict:
    return Verdict(held.id, held.token, verb, delay_us)


def in_line(core: Core, queue: int) -> tuple[int, int, int]:
    """Pending, waiting, leased."""
    found = stats(core, queue)
    return found.pending, found.waiting, found.leased


def lanes_left(path: Path, outside: Outside) -> list[list[object]]:
    return outside.rows(path, "SELECT name, out, held FROM fencepost_lane ORDER BY name")


@pytest.mark.parametrize("profile", [lib.FP_PROFILE_QUEUE, lib.FP_PROFILE_JOB])
def test_one_after_the_other(core: Core, path: Path, outside: Outside, profile: int) -> None:
    """Never two of a lane at once, in the order of enqueueing; no row is left of an empty lane."""
    queue = define(core, "q", profile)
    laned(core, queue, b"1", b"2", b"3")
    assert in_line(core, queue) == (1, 2, 0)
    for body in (b"1", b"2", b"3"):
        held = take(core, queue, 10)
        assert bodies(held) == [body]
        assert take(core, queue, 10) == []
        ack(core, *held)
    assert in_line(core, queue) == (0, 0, 0)
    assert lanes_left(path, outside) == []


def test_the_next_one_comes_with_the_step_that_ended_the_one_before(core: Core) -> None:
    queue = define(core, "q")
    laned(core, queue, b"1", b"2")
    (first,) = take(core, queue, 10)
    found = core.step(array("q", [first.id, first.token]), Take([queue], 10))[1]
    assert bodies(read(found)) == [b"2"]


def test_others_pass_a_lane_that_waits(core: Core) -> None:
    """Another lane, the same lane of another queue, and what has no lane."""
    queue, other = define(core, "q"), define(core, "other")
    laned(core, queue, b"x1", b"x2")
    laned(core, queue, b"y1", b"y2", lane=b"y")
    laned(core, other, b"o1", b"o2")
    put(core, queue, b"free")
    assert bodies(take(core, [queue, other], 10)) == [b"x1", b"y1", b"free", b"o1"]


@pytest.mark.parametrize("verb", [lib.FP_RETRY, lib.FP_RELEASE, lib.FP_LATER])
def test_a_head_that_comes_back_keeps_its_place(core: Core, verb: int) -> None:
    """Also while it is put off: nobody overtakes it."""
    queue = define(core, "q")
    laned(core, queue, b"1", b"2")
    (head,) = take(core, queue)
    settle(core, said(head, verb, 100))
    core.hand(START + 99)
    assert take(core, queue, 10) == []
    core.hand(START + 100)
    assert bodies(take(core, queue, 10)) == [b"1"]


def test_a_head_that_is_not_due_holds_its_lane(core: Core) -> None:
    queue = define(core, "q")
    put(core, queue, b"1", lanes=[b"x"], delay_us=100)
    laned(core, queue, b"2")
    assert take(core, queue, 10) == []
    core.hand(START + 100)
    assert bodies(take(core, queue, 10)) == [b"1"]


def test_a_lapsed_head_is_still_the_head(core: Core) -> None:
    queue = define(core, "q")
    laned(core, queue, b"1", b"2")
    (head,) = take(core, queue)
    core.hand(head.lease_end)
    assert bodies(take(core, queue, 10)) == [b"1"]


def buried(core: Core, head: Held) -> object:
    core.hand(head.lease_end)
    return None


ENDS: dict[str, Callable[[Core, Held], object]] = {
    "ack": ack,
    "fail": lambda core, held: settle(core, said(held, lib.FP_FAIL)),
    "last retry": lambda core, held: settle(core, said(held, lib.FP_RETRY)),
    "holder's cancel": lambda core, held: settle(core, said(held, lib.FP_CANCEL)),
    "cancel": lambda core, held: core.cancel(None, [held.id]),
    "burial": buried,
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_every_end_of_the_head_lets_the_next_one_in(
    core: Core, end: Callable[[Core, Held], object]
) -> None:
    queue = define(core, "q", max_attempts=1)
    laned(core, queue, b"1", b"2", b"3")
    (head,) = take(core, queue)
    end(core, head)
    assert bodies(take(core, queue, 10)) == [b"2"]
    assert in_line(core, queue) == (0, 1, 1)


def test_a_head_cancelled_before_it_ran_lets_the_next_one_in(core: Core) -> None:
    queue = define(core, "q")
    ids = laned(core, queue, b"1", b"2")
    assert core.cancel(None, ids[:1]) == [lib.FP_DONE]
    assert bodies(take(core, queue, 10)) == [b"2"]


def test_cancelling_one_that_waits_frees_no_slot(core: Core) -> None:
    queue = define(core, "q")
    ids = laned(core, queue, b"1", b"2", b"3")
    assert core.cancel(None, ids[1:2]) == [lib.FP_DONE]
    assert in_line(core, queue) == (1, 1, 0)
    (head,) = take(core, queue, 10)
    ack(core, head)
    assert bodies(take(core, queue, 10)) == [b"3"]


def test_several_heads_buried_by_one_claim_let_their_lanes_go_on(core: Core) -> None:
    """What steps into a buried one's place must not fall out of the line with it."""
    queue = define(core, "q", max_attempts=1)
    for lane in (b"x", b"y", b"z"):
        laned(core, queue, b"1" + lane, b"2" + lane, b"3" + lane, lane=lane)
    heads = take(core, queue, 10)
    core.hand(heads[0].lease_end)
    assert bodies(take(core, queue, 10)) == [b"2x", b"2y", b"2z"]
    core.hand(2 * heads[0].lease_end - START)
    assert bodies(take(core, queue, 10)) == [b"3x", b"3y", b"3z"]
    assert stats(core, queue).dead == 6


# ---- widths --------------------------------------------------------------------------------------


def test_a_width_of_two_is_two_at_once(core: Core) -> None:
    queue = define(core, "q", lane_width=2)
    laned(core, queue, b"1", b"2", b"3", b"4")
    held = take(core, queue, 10)
    assert bodies(held) == [b"1", b"2"]
    ack(core, held[1])
    assert bodies(take(core, queue, 10)) == [b"3"]
    assert take(core, queue, 10) == []


def test_raising_the_width_lets_in_who_waits_and_lowering_it_throws_nobody_out(
    core: Core,
) -> None:
    queue = define(core, "q")
    for lane in (b"x", b"y"):
        laned(core, queue, b"1", b"2", b"3", b"4", lane=lane)
    define(core, "q", lane_width=3)
    held = take(core, queue, 10)
    assert sorted(bodies(held), key=str) == [b"1", b"1", b"2", b"2", b"3", b"3"]

    define(core, "q", lane_width=1)
    of_x = [claim for claim in held if claim.lane == b"x"]
    ack(core, *of_x[:2])
    assert take(core, queue, 10) == []
    ack(core, of_x[2])
    assert bodies(take(core, queue, 10)) == [b"4"]


# ---- halted --------------------------------------------------------------------------------------


@pytest.fixture
def halting(core: Core) -> int:
    return define(core, "q", on_dead=1, max_attempts=1)


@pytest.mark.parametrize("end", ["fail", "last retry", "burial"])
def test_a_dead_head_halts_its_lane_until_it_is_released(
    core: Core, halting: int, end: str
) -> None:
    """Those that come later wait, too; other lanes go on."""
    laned(core, halting, b"1", b"2")
    (head,) = take(core, halting)
    ENDS[end](core, head)
    assert take(core, halting, 10) == []
    assert state_of(core, head.id) == lib.FP_STATE_DEAD
    laned(core, halting, b"3")
    laned(core, halting, b"other", lane=b"y")
    assert bodies(take(core, halting, 10)) == [b"other"]

    assert core.release_lane(halting, b"x")
    assert not core.release_lane(halting, b"x")
    (second,) = take(core, halting, 10)
    assert second.body == b"2"
    ack(core, second)
    assert bodies(take(core, halting, 10)) == [b"3"]


@pytest.mark.parametrize("end", ["ack", "cancel", "holder's cancel"])
def test_what_did_not_die_halts_nothing(core: Core, halting: int, end: str) -> None:
    laned(core, halting, b"1", b"2")
    ENDS[end](core, take(core, halting)[0])
    assert bodies(take(core, halting, 10)) == [b"2"]


def test_a_halted_lane_that_is_empty_remembers_it(core: Core, halting: int) -> None:
    laned(core, halting, b"1")
    settle(core, said(take(core, halting)[0], lib.FP_FAIL))
    laned(core, halting, b"2")
    assert take(core, halting, 10) == []
    assert core.release_lane(halting, b"x")
    assert bodies(take(core, halting, 10)) == [b"2"]


def test_a_replayed_head_goes_first_when_its_lane_is_released(core: Core, halting: int) -> None:
    ids = laned(core, halting, b"1", b"2")
    settle(core, said(take(core, halting)[0], lib.FP_FAIL))
    assert core.replay(array("q", [ids[0], 1]), 0, 0, apply=True) == [lib.FP_DONE]
    assert take(core, halting, 10) == []
    assert core.release_lane(halting, b"x")
    (again,) = take(core, halting, 10)
    assert (again.body, again.attempt, again.generation) == (b"1", 1, 1)
    ack(core, again)
    assert bodies(take(core, halting, 10)) == [b"2"]


def test_the_second_of_a_wide_lane_ends_while_the_lane_is_halted(core: Core) -> None:
    queue = define(core, "q", on_dead=1, lane_width=2)
    laned(core, queue, b"1", b"2", b"3", b"4")
    first, second = take(core, queue, 10)
    settle(core, said(first, lib.FP_FAIL))
    ack(core, second)
    assert take(core, queue, 10) == []
    assert core.release_lane(queue, b"x")
    assert bodies(take(core, queue, 10)) == [b"3", b"4"]


# ---- and the rest of the world -------------------------------------------------------------------


def test_a_promoted_message_has_its_own_priority(core: Core) -> None:
    queue = define(core, "q")
    laned(core, queue, b"head")
    put(core, queue, b"urgent", lanes=[b"x"], priority=100)
    (head,) = take(core, queue, 10)
    put(core, queue, b"plain")
    ack(core, head)
    assert bodies(take(core, queue, 10)) == [b"urgent", b"plain"]


def test_a_waiting_one_is_found_by_its_id(core: Core) -> None:
    """In bulk queues, too: nobody else can stand at its turn."""
    for profile in (lib.FP_PROFILE_QUEUE, lib.FP_PROFILE_JOB):
        queue = define(core, f"q{profile}", profile)
        ids = laned(core, queue, b"1", b"2")
        assert state_of(core, ids[1]) == lib.FP_WAITING
        ack(core, *take(core, queue))
        assert state_of(core, ids[1]) == lib.FP_PENDING


def test_a_rollback_undoes_the_whole_of_a_lane(core: Core) -> None:
    queue = define(core, "q")
    laned(core, queue, b"1", b"2")
    (head,) = take(core, queue)
    with pytest.raises(ZeroDivisionError), transaction(core) as tx:
        ack(core, head, tx=tx)
        put(core, queue, b"3", lanes=[b"x"], tx=tx)
        raise ZeroDivisionError
    assert take(core, queue, 10) == []
    assert ack(core, head) == [lib.FP_DONE]
    assert bodies(take(core, queue, 10)) == [b"2"]


@pytest.mark.hostile
def test_ten_thousand_behind_one_head_cost_the_claim_nothing(core: Core) -> None:
    """The steps of SQLite's machine for a claim are those of a lane of two."""
    vm_step = 4
    counts = []
    for name, behind in (("short", 1), ("long", 10_000)):
        queue = define(core, name)
        laned(core, queue, *[b"x"] * (1 + behind))
        put(core, queue, b"free")
        before = lib.fp_sql_status(core._store, vm_step)
        assert bodies(take(core, queue, 10)) == [b"x", b"free"]
        counts.append(lib.fp_sql_status(core._store, vm_step) - before)
    assert counts[1] <= counts[0]
