"""
Sends in the core: begun before they reach the outside, and unknown when nobody can say what came
of them.

Three facts: what has not begun is handed out again; what has begun is not, unless the queue says
so; and only an operator takes a message out of `unknown`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost import InvalidArgument
from fencepost._binding.calls import Core
from harness_core import (
    START,
    Held,
    Verdict,
    ack,
    define,
    lib,
    message,
    opened,
    put,
    settle,
    state_of,
    stats,
    take,
)

LEASE = 30_000_000
DONE = [lib.FP_DONE]


@pytest.fixture
def queue(core: Core) -> int:
    return outbox(core)


def outbox(core: Core, **fields: int) -> int:
    return define(core, "outbox", lib.FP_PROFILE_OUTBOX, **fields)


def begin(core: Core, *held: Held, delay_us: int = -1) -> list[int]:
    return settle(core, *(Verdict(one.id, one.token, lib.FP_BEGIN, delay_us) for one in held))


def doubt(core: Core, held: Held, text: bytes = b"timed out") -> list[int]:
    said = Verdict(held.id, held.token, lib.FP_UNKNOWN, 0, None, b"error", b"Timeout", text)
    return settle(core, said)


def pairs(*ids: int, generation: int = -1) -> array[int]:
    return array("q", [number for id_ in ids for number in (id_, generation)])


def confirm(core: Core, *ids: int, note: bytes = b"", generation: int = -1) -> list[int]:
    return core.confirm(pairs(*ids, generation=generation), note)


def replay(core: Core, id_: int, generation: int = -1) -> list[int]:
    return core.replay(pairs(id_, generation=generation), 0, 0, apply=True)


# ---- the send begins -----------------------------------------------------------------------------


def test_what_has_begun_is_told_and_held(core: Core, queue: int) -> None:
    """Its token stays, its lease begins anew: from the moment of the send, not from the claim."""
    put(core, queue)
    (held,) = take(core, queue)
    core.hand(START + 20)
    assert begin(core, held) == DONE
    found = message(core, held.id)
    assert found is not None
    assert (found.state, found.due, found.attempt) == (lib.FP_BEGUN, START + 20 + LEASE, 1)
    assert stats(core, queue).leased == 1
    assert ack(core, held) == DONE
    assert state_of(core, held.id) == lib.FP_DONE_LISTED


def test_a_claim_that_was_lost_cannot_begin(core: Core, queue: int) -> None:
    """Or two would send: who has overslept its lease learns it before it sends."""
    put(core, queue)
    (first,) = take(core, queue)
    core.hand(START + LEASE)
    (second,) = take(core, queue)
    assert begin(core, first) == [lib.FP_LOST]
    assert begin(core, second) == DONE
    assert begin(core, first) == [lib.FP_LOST]


def test_a_claim_that_has_run_out_and_is_nobodys_begins_with_a_whole_lease(
    core: Core, queue: int
) -> None:
    put(core, queue)
    (held,) = take(core, queue)
    core.hand(START + LEASE)
    assert begin(core, held) == DONE
    assert take(core, queue) == []
    assert ack(core, held) == DONE


def test_beginning_twice_and_renewing_keep_it_begun(core: Core, queue: int) -> None:
    put(core, queue)
    (held,) = take(core, queue)
    assert begin(core, held) == begin(core, held, delay_us=5) == DONE
    assert settle(core, Verdict(held.id, held.token, lib.FP_RENEW, 7)) == DONE
    assert state_of(core, held.id) == lib.FP_BEGUN
    core.hand(START + 7)
    assert take(core, queue) == []
    assert state_of(core, held.id) == lib.FP_STATE_UNKNOWN


def test_another_handle_cannot_unlearn_that_it_has_begun(
    core: Core, queue: int, tmp_path: Path
) -> None:
    """
    The first handle remembers where its claim stands; begun by a second one in that same
    microsecond it stands in the same place, and is not what the first remembers.
    """
    put(core, queue)
    (held,) = take(core, queue)
    second = opened(tmp_path / "app.db")
    assert begin(second, held, delay_us=LEASE) == DONE
    assert settle(core, Verdict(held.id, held.token, lib.FP_RENEW, LEASE)) == DONE
    assert state_of(core, held.id) == lib.FP_BEGUN
    second.close()


@pytest.mark.parametrize("verb", ["RETRY", "RELEASE", "LATER"])
def test_what_is_put_back_has_not_begun_any_more(core: Core, queue: int, verb: str) -> None:
    """The handler says that nothing was sent; the next attempt begins by itself."""
    put(core, queue)
    (held,) = take(core, queue)
    begin(core, held)
    assert settle(core, Verdict(held.id, held.token, getattr(lib, f"FP_{verb}"), 0)) == DONE
    (again,) = take(core, queue)
    core.hand(START + LEASE)
    (third,) = take(core, queue)
    assert (third.id, third.lapsed) == (again.id, 1)


# ---- nobody answers ------------------------------------------------------------------------------


def test_a_lease_that_lapses_before_the_send_is_retried(core: Core, queue: int) -> None:
    put(core, queue)
    take(core, queue)
    core.hand(START + LEASE)
    (again,) = take(core, queue)
    assert (again.attempt, again.lapsed) == (2, 1)


def test_a_lease_that_lapses_after_the_send_began_is_unknown(core: Core, queue: int) -> None:
    """Never handed out again; what its holder says later is too late, and does nothing."""
    put(core, queue, b"a", b"b")
    first, _ = take(core, queue, 2)
    begin(core, first)
    core.hand(START + LEASE - 1)
    assert take(core, queue, 5) == []
    core.hand(START + LEASE)
    assert [one.body for one in take(core, queue, 5)] == [b"b"]
    found = message(core, first.id)
    assert found is not None
    assert (found.state, found.attempt, found.generation) == (lib.FP_STATE_UNKNOWN, 1, 1)
    assert (found.failure_kind, found.failure_text) == (
        b"worker_lost",
        b"its worker was lost after it had begun",
    )
    assert stats(core, queue).unknown == 1
    assert ack(core, first) == [lib.FP_LOST]
    core.hand(START + 1000 * LEASE)
    assert all(one.id != first.id for one in take(core, queue, 5))


def test_a_queue_may_ask_for_the_retry_by_name(core: Core) -> None:
    queue = outbox(core, on_unknown=1, max_attempts=2)
    put(core, queue)
    for attempt in (1, 2):
        (held,) = take(core, queue)
        assert held.attempt == attempt
        begin(core, held)
        core.hand(START + attempt * LEASE)
    assert take(core, queue) == []
    assert state_of(core, held.id) == lib.FP_STATE_DEAD


def test_the_last_attempt_that_had_begun_is_unknown_not_dead(core: Core) -> None:
    """It may have arrived, so that it is no dead letter."""
    queue = outbox(core, max_attempts=1)
    put(core, queue)
    (held,) = take(core, queue)
    begin(core, held)
    core.hand(START + LEASE)
    assert take(core, queue) == []
    assert state_of(core, held.id) == lib.FP_STATE_UNKNOWN


def test_who_cannot_say_what_came_of_it_says_so(core: Core, queue: int) -> None:
    put(core, queue)
    (held,) = take(core, queue)
    begin(core, held)
    assert doubt(core, held) == DONE
    found = message(core, held.id)
    assert found is not None
    assert (found.state, found.failure_code) == (lib.FP_STATE_UNKNOWN, b"Timeout")
    assert doubt(core, held) == [lib.FP_ALREADY]
    assert ack(core, held) == [lib.FP_ALREADY]
    assert state_of(core, held.id) == lib.FP_STATE_UNKNOWN


# ---- the operator --------------------------------------------------------------------------------


@pytest.fixture
def unknown(core: Core, queue: int) -> int:
    put(core, queue, keys=[b"k"], life=lib.FP_LIFE_LASTING)
    (held,) = take(core, queue)
    begin(core, held)
    doubt(core, held)
    return held.id


def test_confirmed_is_done_and_says_who_said_so(core: Core, queue: int, unknown: int) -> None:
    core.hand(START + 5)
    assert confirm(core, unknown, note=b"seen in their log") == DONE
    found = message(core, unknown)
    assert found is not None
    assert (found.state, found.settled_at) == (lib.FP_DONE_LISTED, START + 5)
    assert (found.failure_kind, found.failure_text) == (b"confirmed", b"seen in their log")
    assert (stats(core, queue).unknown, stats(core, queue).done) == (0, 1)
    assert take(core, queue) == []


def test_only_what_is_unknown_is_confirmed(core: Core, queue: int, unknown: int) -> None:
    (pending,) = put(core, queue, b"other")
    assert confirm(core, unknown, pending, 10**6, unknown) == [
        lib.FP_DONE,
        lib.FP_NOT_DEAD,
        lib.FP_GONE,
        lib.FP_NOT_DEAD,
    ]


def test_a_confirmation_is_of_one_generation(core: Core, queue: int, unknown: int) -> None:
    """Retried and unknown again since the operator looked: the old word does not fit it."""
    assert replay(core, unknown) == DONE
    (held,) = take(core, queue)
    doubt(core, held)
    assert confirm(core, unknown, generation=1) == [lib.FP_SUPERSEDED]
    assert confirm(core, unknown, generation=2) == DONE


def test_what_is_not_kept_is_gone_when_confirmed(core: Core) -> None:
    queue = outbox(core, keep_us=0)
    put(core, queue)
    (held,) = take(core, queue)
    doubt(core, held)
    assert confirm(core, held.id) == DONE
    assert message(core, held.id) is None
    assert stats(core, queue).done == 0


def test_a_note_has_its_limit(core: Core, unknown: int) -> None:
    with pytest.raises(InvalidArgument, match="note"):
        confirm(core, unknown, note=b"x" * 1001)
    assert state_of(core, unknown) == lib.FP_STATE_UNKNOWN


@pytest.mark.parametrize(("limit", "attempts"), [(3, [2, 3]), (1, [1]), (0, [2, 3])])
def test_a_retry_counts_on_and_has_one_attempt_at_least(
    core: Core, limit: int, attempts: list[int]
) -> None:
    """C's rule: +1 attempt where the budget was used up, and only there."""
    queue = outbox(core, max_attempts=limit)
    put(core, queue)
    (held,) = take(core, queue)
    doubt(core, held)
    for attempt in attempts:
        assert replay(core, held.id) == DONE
        (held,) = take(core, queue)
        assert held.attempt == attempt
        doubt(core, held)


def test_one_of_two_operators_wins(core: Core, unknown: int) -> None:
    """Whoever comes second finds nothing to do: neither sent and confirmed, nor sent twice."""
    assert replay(core, unknown, 1) == DONE
    assert replay(core, unknown, 1) == [lib.FP_NOT_DEAD]
    assert confirm(core, unknown, generation=1) == [lib.FP_NOT_DEAD]


# ---- lanes ---------------------------------------------------------------------------------------


def lane_of_two(core: Core, queue: int) -> Held:
    """The first is unknown, the second waits behind it."""
    put(core, queue, b"1", b"2", lanes=[b"x", b"x"])
    (held,) = take(core, queue, 5)
    begin(core, held)
    return held


def lapse(core: Core, held: Held) -> None:
    core.hand(START + LEASE)
    take(core, held.queue)


@pytest.mark.parametrize("end", [doubt, lapse])
def test_a_lane_that_halts_halts_for_what_is_unknown(
    core: Core, end: Callable[[Core, Held], object]
) -> None:
    """The retry of the first may not come after the second; with it the lane goes on."""
    queue = outbox(core, on_dead=1)
    held = lane_of_two(core, queue)
    end(core, held)
    assert take(core, queue, 5) == []
    assert replay(core, held.id) == DONE
    (again,) = take(core, queue, 5)
    assert again.body == b"1"
    assert ack(core, again) == DONE
    assert [one.body for one in take(core, queue, 5)] == [b"2"]


def test_a_lane_goes_on_when_the_one_that_halted_it_is_confirmed(core: Core) -> None:
    queue = outbox(core, on_dead=1)
    held = lane_of_two(core, queue)
    doubt(core, held)
    assert confirm(core, held.id) == DONE
    assert [one.body for one in take(core, queue, 5)] == [b"2"]


def test_a_confirmation_releases_no_lane_that_another_one_halted(core: Core) -> None:
    queue = outbox(core, on_dead=1)
    held = lane_of_two(core, queue)
    doubt(core, held)
    assert core.release_lane(queue, b"x")
    (second,) = take(core, queue, 5)
    settle(core, Verdict(second.id, second.token, lib.FP_FAIL))
    put(core, queue, b"3", lanes=[b"x"])
    assert confirm(core, held.id) == DONE
    assert take(core, queue, 5) == []


def test_a_retry_waits_its_turn_in_a_lane_that_another_one_halted(core: Core) -> None:
    """And its delay is its own: the lane stands still meanwhile, with it at the head."""
    queue = outbox(core, on_dead=1)
    held = lane_of_two(core, queue)
    doubt(core, held)
    assert core.replay(pairs(held.id), 50, 0, apply=True) == DONE
    assert take(core, queue, 5) == []
    core.hand(START + 50)
    (again,) = take(core, queue, 5)
    assert again.id == held.id
    doubt(core, again)
    assert core.release_lane(queue, b"x")
    (second,) = take(core, queue, 5)
    settle(core, Verdict(second.id, second.token, lib.FP_FAIL))
    assert replay(core, held.id) == DONE
    assert take(core, queue, 5) == []
    assert core.release_lane(queue, b"x")
    assert [one.id for one in take(core, queue, 5)] == [held.id]


def test_a_lane_that_goes_on_goes_on(core: Core, queue: int) -> None:
    held = lane_of_two(core, queue)
    doubt(core, held)
    assert [one.body for one in take(core, queue, 5)] == [b"2"]


# ---- limits --------------------------------------------------------------------------------------


def test_what_became_unknown_holds_no_place_any_more(core: Core) -> None:
    """A queue for one at a time: its lost sender does not stop it; the next look finds room."""
    queue = outbox(core, concurrency=1)
    put(core, queue, b"1", b"2")
    (held,) = take(core, queue, 5)
    begin(core, held)
    assert take(core, queue, 5) == []
    core.hand(START + LEASE)
    assert take(core, queue, 5) == []
    assert state_of(core, held.id) == lib.FP_STATE_UNKNOWN
    assert [one.body for one in take(core, queue, 5)] == [b"2"]
