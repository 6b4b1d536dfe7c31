"""
What an enqueue does where its key is taken: answer with the first, replace it, or re-arm it.

Comparing, which is what keys do unless they are told otherwise, is in test_keys.py.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from fencepost import InvalidArgument, QueueFull
from fencepost._binding.calls import Core
from harness_core import (
    START,
    Verdict,
    ack,
    define,
    keyed,
    lib,
    message,
    put,
    settle,
    state_of,
    take,
)
from harness_core import core as opened
from harness_ladder import findings

LASTING, LIVE = lib.FP_LIFE_LASTING, lib.FP_LIFE_LIVE
REPLACE, REARM, RETURN = lib.FP_EQUAL_REPLACE, lib.FP_EQUAL_REARM, lib.FP_EQUAL_RETURN


def test_the_first_can_be_returned_whatever_it_says(core: Core) -> None:
    queue = define(core, "q")
    first = keyed(core, queue, b"k")
    assert keyed(core, queue, b"k", b"other", equal=RETURN) == first


def test_a_pending_or_ended_one_is_replaced_and_a_leased_one_stays(core: Core) -> None:
    queue = define(core, "q")
    first = keyed(core, queue, b"k")
    second = keyed(core, queue, b"k", b"b", equal=REPLACE)
    assert (state_of(core, first), state_of(core, second)) == (lib.FP_CANCELLED, lib.FP_PENDING)

    (held,) = take(core, queue)
    assert keyed(core, queue, b"k", b"c", equal=REPLACE) == held.id == second
    ack(core, held)
    third = keyed(core, queue, b"k", b"d", equal=REPLACE)
    assert state_of(core, second) == lib.FP_DONE_LISTED
    assert keyed(core, queue, b"k", b"d") == third


def test_one_key_twice_in_a_batch_that_replaces_leaves_the_last(core: Core) -> None:
    queue = define(core, "q")
    keys = [b"k", b"x", b"k"]
    ids = put(core, queue, b"a", b"b", b"c", keys=keys, life=LASTING, equal=REPLACE)
    first, between, last = ids
    assert state_of(core, first) == lib.FP_CANCELLED
    assert [held.id for held in take(core, queue, 3)] == [between, last]


def test_replacing_the_head_of_a_lane_lets_the_next_one_in(core: Core) -> None:
    queue = define(core, "q")
    keyed(core, queue, b"k", lanes=[b"x"])
    (second,) = put(core, queue, b"second", lanes=[b"x"])
    keyed(core, queue, b"k", b"again", lanes=[b"x"], equal=REPLACE)
    assert [held.id for held in take(core, queue, 3)] == [second]


def test_a_full_queue_can_replace_nothing(core: Core) -> None:
    queue = define(core, "q", max_size=1)
    first = keyed(core, queue, b"k")
    with pytest.raises(QueueFull):
        keyed(core, queue, b"k", b"b", equal=REPLACE)
    assert state_of(core, first) == lib.FP_PENDING


def test_what_is_answered_from_its_key_needs_no_room(core: Core) -> None:
    """Also a batch that is larger than the queue, where enough of it is there or was there."""
    queue = define(core, "q", max_size=3)
    names = [b"%d" % number for number in range(5)]
    for name in names[:2]:
        keyed(core, queue, name)
    ack(core, *take(core, queue, 2))
    for name in names[2:]:
        keyed(core, queue, name)
    columns = {"keys": names, "digests": sha256(b"a").digest() * 5, "life": LASTING}
    put(core, queue, *[b"a"] * 5, **columns)
    assert findings(core) == ""
    with pytest.raises(QueueFull):
        put(core, queue, b"a")


def test_what_never_fits_is_not_called_a_full_queue(
    core: Core, unchanged: Callable[[], None]
) -> None:
    """Waiting for room would last for ever."""
    queue = define(core, "q", max_size=3)
    unchanged()
    with pytest.raises(InvalidArgument, match="4 messages never fit .* max_size 3"):
        put(core, queue, *[b"a"] * 4, keys=[b"k", None, None, None], life=LIVE)
    with pytest.raises(InvalidArgument, match="4 messages never fit"):
        put(core, queue, *[b"a"] * 4, keys=[b"k", None, None, None], life=LIVE, equal=REPLACE)
    unchanged()


def test_only_queues_that_can_find_them_replace_messages(core: Core) -> None:
    bulk = define(core, "bulk", lib.FP_PROFILE_QUEUE)
    jobs = define(core, "jobs")
    with pytest.raises(InvalidArgument, match="addressed"):
        keyed(core, bulk, b"k", equal=REPLACE)
    with pytest.raises(InvalidArgument, match="wake-ups"):
        keyed(core, jobs, b"k", equal=REARM)


@pytest.fixture
def wakeups(core: Core) -> int:
    return define(core, "wake", lib.FP_PROFILE_WAKEUP)


def woken(core: Core, queue: int, delay_us: int = 0) -> int:
    return keyed(core, queue, b"run", life=LIVE, delay_us=delay_us)


def test_a_pending_wake_up_moves_to_the_earlier_moment(core: Core, wakeups: int) -> None:
    first = woken(core, wakeups, 100)
    assert woken(core, wakeups, 50) == first
    assert woken(core, wakeups, 70) == first
    core.hand(START + 49)
    assert take(core, wakeups) == []
    core.hand(START + 50)
    assert [held.id for held in take(core, wakeups, 5)] == [first]


@pytest.mark.parametrize("verb", [lib.FP_ACK, lib.FP_RETRY, lib.FP_RELEASE, lib.FP_LATER])
def test_a_wake_up_that_came_while_it_ran_is_not_lost(
    core: Core, wakeups: int, path: Path, verb: int
) -> None:
    """Whatever becomes of the turn under way, and also where another handle said it."""
    first = woken(core, wakeups)
    (held,) = take(core, wakeups)
    with opened(path) as other:
        assert woken(other, wakeups, 10) == first
        assert woken(other, wakeups, 30) == first
    settle(core, Verdict(held.id, held.token, lib.FP_RENEW, 99))
    settle(core, Verdict(held.id, held.token, verb, 20))
    core.hand(START + 10)
    (again,) = take(core, wakeups, 5)
    assert again.id == first
    assert again.token > held.token
    ack(core, again)
    assert state_of(core, first) is None


def test_a_further_turn_begins_anew(core: Core) -> None:
    """Its age and its attempts count from there, and what failed before it is forgotten."""
    queue = define(core, "wake", lib.FP_PROFILE_WAKEUP, max_age_us=100, lease_us=10_000)
    first = woken(core, queue)
    (held,) = take(core, queue)
    settle(core, Verdict(held.id, held.token, lib.FP_RETRY, 0, None, b"error", None, b"why"))
    (held,) = take(core, queue)
    core.hand(START + 1000)
    assert woken(core, queue) == first
    assert ack(core, held) == [lib.FP_DONE]
    found = message(core, first)
    assert found is not None
    assert (found.attempt, found.failure_kind) == (0, None)
    (held,) = take(core, queue)
    assert settle(core, Verdict(held.id, held.token, lib.FP_RETRY, 100)) == [lib.FP_DONE]
    core.hand(START + 1100)
    (held,) = take(core, queue)
    assert settle(core, Verdict(held.id, held.token, lib.FP_RETRY, 1)) == [lib.FP_DEAD]


def test_one_wake_up_twice_in_a_batch_is_one(core: Core, wakeups: int) -> None:
    ids = put(core, wakeups, b"w", b"w", keys=[b"run", b"run"], life=LIVE)
    assert len(set(ids)) == 1
    assert len(take(core, wakeups, 5)) == 1
