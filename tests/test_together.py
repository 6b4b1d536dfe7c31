"""
Acks of claims that came together are settled together; which changes nothing but the cost.

Claims made at the same moment stand at the same place of the line, so the neighbours that must
stay are as near as they can be.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost._binding.calls import Core
from harness_core import START, Held, Verdict, ack, define, lib, put, settle, state_of, stats, take
from harness_core import core as opened

pytestmark = pytest.mark.hostile

DONE, LOST, ALREADY = lib.FP_DONE, lib.FP_LOST, lib.FP_ALREADY


@pytest.fixture
def core(path: Path) -> Iterator[Core]:
    with opened(path) as one:
        yield one
        assert one.check(full=False).rows == 0


@pytest.fixture(params=["bulk", "kept", "job"])
def queue(core: Core, request: pytest.FixtureRequest) -> int:
    kinds = {
        "bulk": (lib.FP_PROFILE_QUEUE, {}),
        "kept": (lib.FP_PROFILE_QUEUE, {"keep_us": 10**9}),
        "job": (lib.FP_PROFILE_JOB, {}),
    }
    profile, fields = kinds[request.param]
    return define(core, "q", profile, **fields)


def claimed(core: Core, queue: int, count: int) -> list[Held]:
    put(core, queue, *[b"%d" % number for number in range(count)])
    held = take(core, queue, count)
    assert len(held) == count
    return held


def left(core: Core, queue: int) -> int:
    return stats(core, queue).leased


def test_all_of_a_batch_are_done(core: Core, queue: int) -> None:
    held = claimed(core, queue, 20)
    assert ack(core, *held) == [DONE] * 20
    assert left(core, queue) == 0


def test_a_part_of_a_batch_leaves_the_rest_alone(core: Core, queue: int) -> None:
    """From its middle: those before and behind it are still held."""
    held = claimed(core, queue, 20)
    assert ack(core, *held[5:12]) == [DONE] * 7
    assert left(core, queue) == 13
    assert ack(core, *held[:5], *held[12:]) == [DONE] * 13


def test_a_batch_with_holes_leaves_the_holes_alone(core: Core, queue: int) -> None:
    held = claimed(core, queue, 20)
    assert ack(core, *held[::3]) == [DONE] * 7
    assert left(core, queue) == 13
    assert ack(core, *(claim for claim in held if held.index(claim) % 3)) == [DONE] * 13


def test_any_order_will_do(core: Core, queue: int) -> None:
    held = claimed(core, queue, 20)
    assert ack(core, *reversed(held)) == [DONE] * 20
    assert left(core, queue) == 0


def test_batches_at_one_place_do_not_take_each_other(core: Core, queue: int) -> None:
    """Their ids are interleaved, their leases end together; only the tokens tell them apart."""
    ids = put(core, queue, *[b"x"] * 20, priorities=None)
    odd = take(core, queue, 20)
    assert settle(core, *(Verdict(c.id, c.token, lib.FP_RELEASE) for c in odd[::2])) == [DONE] * 10
    even = take(core, queue, 20)
    assert {claim.lease_end for claim in odd + even} == {odd[0].lease_end}
    assert [claim.id for claim in even] == ids[::2]
    assert ack(core, *even) == [DONE] * 10
    assert left(core, queue) == 10
    assert ack(core, *odd[1::2]) == [DONE] * 10


def test_one_that_was_lost_is_told_and_the_others_are_done(core: Core, queue: int) -> None:
    """The lost one is held by somebody else, at the same place as before."""
    held = claimed(core, queue, 20)
    lost = held[7]
    assert settle(core, Verdict(lost.id, lost.token, lib.FP_RELEASE)) == [DONE]
    (again,) = take(core, queue)
    assert (again.id, again.lease_end) == (lost.id, lost.lease_end)
    assert ack(core, *held) == [DONE] * 7 + [LOST] + [DONE] * 12
    assert left(core, queue) == 1
    assert ack(core, again) == [DONE]


def test_one_that_another_handle_took_over_is_told(core: Core, queue: int, path: Path) -> None:
    """Our own handle has not heard of it: the place it remembers is empty."""
    held = claimed(core, queue, 20)
    with opened(path, hand_us=held[0].lease_end) as other:
        (taken,) = take(other, queue)
        assert ack(core, *held) == [LOST] + [DONE] * 19
        assert left(core, queue) == 1
        assert ack(other, taken) == [DONE]


def test_one_that_was_renewed_is_done_with_the_others(core: Core, queue: int) -> None:
    held = claimed(core, queue, 20)
    one = held[7]
    assert settle(core, Verdict(one.id, one.token, lib.FP_RENEW, 10**12)) == [DONE]
    assert ack(core, *held) == [DONE] * 20
    assert left(core, queue) == 0


def test_a_lease_that_ran_out_unnoticed_is_no_loss(core: Core, queue: int) -> None:
    """Nobody has claimed it again."""
    held = claimed(core, queue, 20)
    core.hand(held[0].lease_end + 1)
    assert ack(core, *held) == [DONE] * 20


def test_once_all_were_claimed_again_none_is_done(core: Core, queue: int) -> None:
    held = claimed(core, queue, 5)
    core.hand(held[0].lease_end)
    again = [claim for _ in held for claim in take(core, queue)]
    assert ack(core, *held) == [LOST] * 5
    assert ack(core, *again) == [DONE] * 5


def test_the_same_claim_twice_in_one_call(core: Core) -> None:
    queue = define(core, "jobs")
    held = claimed(core, queue, 6)
    assert ack(core, *held, *held) == [DONE] * 6 + [ALREADY] * 6


def test_results_go_with_their_own_message(core: Core) -> None:
    queue = define(core, "jobs")
    held = claimed(core, queue, 9)
    verdicts = [
        Verdict(c.id, c.token, lib.FP_ACK, result=None if n % 3 == 0 else b"%d" % n)
        for n, c in enumerate(held)
    ]
    assert settle(core, *verdicts) == [DONE] * 9
    for number, claim in enumerate(held):
        content = core.content(claim.id)
        expected = b"" if number % 3 == 0 else b"%d" % number
        assert content.blob == (claim.body or b"") + expected


def test_what_was_said_beside_a_message_goes_with_it(core: Core) -> None:
    """Progress of what is not kept, and the trouble of an earlier attempt."""
    queue = define(core, "q", lib.FP_PROFILE_QUEUE)
    held = claimed(core, queue, 6)
    core.progress(None, held[2].id, b"half")
    assert ack(core, *held) == [DONE] * 6


@pytest.mark.parametrize("column", ["lanes", "keys"])
def test_those_with_a_lane_or_a_live_key_keep_their_rules(core: Core, column: str) -> None:
    """In the middle of a batch: the lane goes on, the key is free again."""
    queue = define(core, "jobs")
    named: list[bytes | None] = [None] * 12
    named[3], named[9] = b"a", b"a" if column == "lanes" else b"b"
    columns: dict[str, Any] = {column: named}
    put(core, queue, *[b"x"] * 12, life=lib.FP_LIFE_LIVE, **columns)
    held = take(core, queue, 12)
    assert len(held) == 11 if column == "lanes" else 12
    assert ack(core, *held) == [DONE] * len(held)
    if column == "lanes":
        (next_one,) = take(core, queue)
        assert ack(core, next_one) == [DONE]
    else:
        put(core, queue, b"other", keys=[b"a"], life=lib.FP_LIFE_LIVE)


def test_what_a_savepoint_took_back_is_found_again(core: Core, queue: int) -> None:
    """A renewal in a transaction that was rolled back: the remembered places are the old ones."""
    held = claimed(core, queue, 8)
    begun = core.begin(30)
    moved = [Verdict(claim.id, claim.token, lib.FP_RENEW, 10**12) for claim in held]
    assert settle(core, *moved, tx=begun) == [DONE] * 8
    begun.end(commit=False)
    assert ack(core, *held) == [DONE] * 8
    assert [state_of(core, claim.id) for claim in held].count(lib.FP_LEASED) == 0


def test_a_long_batch_is_settled_in_pieces(core: Core, queue: int) -> None:
    """More than one piece holds, with a lost one at a seam."""
    held = claimed(core, queue, 30)
    lost = held[6]
    settle(core, Verdict(lost.id, lost.token, lib.FP_RELEASE, START))
    answers = ack(core, *held)
    assert answers == [LOST if claim is lost else DONE for claim in held]


def test_a_newer_claim_at_the_very_same_place_is_not_the_older_ones(core: Core, path: Path) -> None:
    """Given back, and claimed by another handle in the same moment for as long."""
    queue = define(core, "q", lib.FP_PROFILE_JOB)
    put(core, queue)
    (held,) = take(core, queue)
    with opened(path) as other:
        assert settle(other, Verdict(held.id, held.token, lib.FP_RELEASE)) == [lib.FP_DONE]
        (newer,) = take(other, queue)
        assert (newer.id, newer.lease_end) == (held.id, held.lease_end)
        assert ack(core, held) == [lib.FP_LOST]
        assert ack(other, newer) == [lib.FP_DONE]
