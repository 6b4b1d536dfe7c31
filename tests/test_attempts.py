"""
Attempts: counted when a message is handed out, given back by some verdicts, used up by others; and
how what is tried again and again comes to its end.
"""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest

from fencepost._binding.calls import Core
from harness_core import (
    START,
    Verdict,
    define,
    lib,
    message,
    one,
    put,
    said,
    settle,
    state_of,
    take,
)
from harness_core import core as opened
from harness_ladder import findings
from harness_outside import Outside

VERBS = (
    lib.FP_ACK,
    lib.FP_RETRY,
    lib.FP_RELEASE,
    lib.FP_LATER,
    lib.FP_FAIL,
    lib.FP_CANCEL,
    lib.FP_RENEW,
)
SECOND = 1_000_000


def test_attempts_are_counted_at_the_claim(core: Core) -> None:
    """A message that kills each of its workers is dead when its attempts are used up."""
    queue = define(core, "q", max_attempts=3)
    (deadly,) = put(core, queue, b"deadly")
    for attempt in (1, 2, 3):
        (held,) = take(core, queue)
        assert (held.attempt, held.lapsed) == (attempt, int(attempt > 1))
        core.hand(held.lease_end)
    assert take(core, queue) == []
    found = message(core, deadly)
    assert found is not None
    assert (found.state, found.failure_kind) == (lib.FP_STATE_DEAD, b"worker_lost")
    assert (found.attempt, found.generation) == (3, 1)


@pytest.mark.parametrize("alone", [lib.FP_ALONE_LAPSED, lib.FP_ALONE_TRIED])
def test_what_may_be_deadly_is_handed_out_alone(core: Core, alone: int) -> None:
    queue = define(core, "q")
    put(core, queue, b"first", b"tried", b"healthy")
    held = take(core, queue, 2, lease_us=10)
    settle(core, said(held[0], lib.FP_RETRY, 5))
    core.hand(START + 10)
    sizes = []
    while batch := take(core, queue, 10, alone=alone):
        sizes.append([claim.body for claim in batch])
    retried_with_others = [[b"healthy", b"first"], [b"tried"]]
    each_alone = [[b"healthy"], [b"first"], [b"tried"]]
    assert sizes == (retried_with_others if alone == lib.FP_ALONE_LAPSED else each_alone)


def test_what_may_be_deadly_can_be_left_where_it_is(core: Core) -> None:
    """For who has no room for it: the claim ends before it, and it is as suspect as before."""
    queue = define(core, "q")
    put(core, queue, b"deadly", b"healthy")
    (deadly,) = take(core, queue, 1, lease_us=10)
    core.hand(START + 10)
    (healthy,) = take(core, queue, 10, alone=lib.FP_ALONE_NEVER)
    assert healthy.body == b"healthy"
    assert take(core, queue, 10, alone=lib.FP_ALONE_NEVER) == []
    (again,) = take(core, queue, 10)
    assert (again.id, again.attempt, again.lapsed) == (deadly.id, 2, 1)


def test_nothing_is_lost_between_two_states(core: Core, path: Path, outside: Outside) -> None:
    """Whatever is said of it, a message is in the line or has ended, never both, never neither."""
    queue = define(core, "q")
    for verb in VERBS:
        held = one(core, queue)
        settle(core, said(held, verb))
        assert state_of(core, held.id) is not None
    counts = outside.rows(
        path,
        "SELECT (SELECT count(*) FROM fencepost_message),"
        " (SELECT count(*) FROM fencepost_due) + (SELECT count(*) FROM fencepost_outcome)",
    )
    assert counts == [[len(VERBS), len(VERBS)]]


# ---- what uses an attempt ------------------------------------------------------------------------


def test_a_retry_uses_the_attempt(core: Core) -> None:
    """The last one makes a dead letter, with the failure that was said."""
    queue = define(core, "q", max_attempts=2)
    held = one(core, queue)
    assert settle(core, said(held, lib.FP_RETRY)) == [lib.FP_DONE]
    (again,) = take(core, queue)
    assert again.attempt == 2
    why = Verdict(again.id, again.token, lib.FP_RETRY, 0, None, b"error", b"E1", b"it broke")
    assert settle(core, why) == [lib.FP_DEAD]
    found = message(core, again.id)
    assert found is not None
    assert (found.state, found.attempt) == (lib.FP_STATE_DEAD, 2)
    assert (found.failure_kind, found.failure_code) == (b"error", b"E1")
    assert found.failure_text == b"it broke"


@pytest.mark.parametrize("verb", [lib.FP_RELEASE, lib.FP_LATER])
def test_what_is_given_back_uses_none(core: Core, verb: int) -> None:
    """However often: it is still the first attempt."""
    queue = define(core, "q", max_attempts=1)
    held = one(core, queue)
    for _ in range(5):
        assert settle(core, said(held, verb)) == [lib.FP_DONE]
        (held,) = take(core, queue)
        assert held.attempt == 1


def test_the_limit_is_the_messages_own_and_none_is_none(core: Core) -> None:
    queue = define(core, "q", max_attempts=3)
    (once,) = put(core, queue, b"once", max_attempts=1)
    (always,) = put(core, queue, b"always", max_attempts=0)
    for _ in range(20):
        settle(core, *(said(held, lib.FP_RETRY) for held in take(core, queue, 2)))
    assert state_of(core, once) == lib.FP_STATE_DEAD
    assert state_of(core, always) == lib.FP_PENDING


# ---- where it goes -------------------------------------------------------------------------------


def test_a_release_goes_back_to_its_old_place(core: Core) -> None:
    """Before those that came after it, also when its lease had lapsed and was taken over."""
    queue = define(core, "q")
    held = one(core, queue)
    put(core, queue, b"later")
    core.hand(held.lease_end)
    take(core, queue)  # the later one, which was due before the lease ended
    (held,) = take(core, queue)
    put(core, queue, b"last")
    settle(core, said(held, lib.FP_RELEASE))
    assert [claim.body for claim in take(core, queue, 5)] == [b"a", b"last"]


def test_a_release_with_a_delay_goes_no_further_forward_than_it_was(core: Core) -> None:
    queue = define(core, "q")
    put(core, queue, b"a", delay_us=100)
    core.hand(START + 100)
    (held,) = take(core, queue)
    settle(core, said(held, lib.FP_RELEASE, 50))
    found = message(core, held.id)
    assert found is not None
    assert found.due == START + 150


def test_the_back_off_grows_to_its_cap(core: Core) -> None:
    """base, base * factor, and so on; the cap at the most."""
    policy = {"base_us": 10, "factor_milli": 3000, "cap_us": 80, "max_attempts": 0}
    queue = define(core, "q", **policy)
    put(core, queue, b"a")
    delays = []
    for _ in range(5):
        (held,) = take(core, queue)
        settle(core, said(held, lib.FP_RETRY, -1))
        found = message(core, held.id)
        assert found is not None
        delays.append(found.due - core.now())
        core.hand(found.due)
    assert delays == [10, 30, 80, 80, 80]


def test_jitter_spreads_the_back_off_to_both_sides(core: Core) -> None:
    queue = define(core, "q", base_us=1000, jitter_milli=200, max_attempts=0, cap_us=10_000)
    put(core, queue, *[b"x"] * 60)
    delays = []
    for held in take(core, queue, 60):
        settle(core, said(held, lib.FP_RETRY, -1))
        found = message(core, held.id)
        assert found is not None
        delays.append(found.due - START)
    assert 800 <= min(delays) < 1000 < max(delays) <= 1200


# ---- too old -------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", [lib.FP_RETRY, lib.FP_LATER])
def test_what_would_be_too_old_dies(core: Core, verb: int) -> None:
    """A further try at the very end of its age is one, a microsecond later there is none."""
    queue = define(core, "q", max_age_us=100 * SECOND, max_attempts=0, lease_us=1000 * SECOND)
    put(core, queue, b"a", b"b")
    fits, late = take(core, queue, 2)
    core.hand(START + 40 * SECOND)
    assert settle(core, said(fits, verb, 60 * SECOND)) == [lib.FP_DONE]
    assert settle(core, said(late, verb, 60 * SECOND + 1)) == [lib.FP_DEAD]
    found = message(core, late.id)
    assert found is not None
    assert found.failure_kind == b"too_old"


def test_what_is_used_up_and_too_old_died_of_its_last_failure(core: Core) -> None:
    queue = define(core, "q", max_age_us=SECOND, max_attempts=1)
    held = one(core, queue)
    core.hand(START + 10 * SECOND)
    why = Verdict(held.id, held.token, lib.FP_RETRY, 0, None, b"error", None, b"it broke")
    assert settle(core, why) == [lib.FP_DEAD]
    found = message(core, held.id)
    assert found is not None
    assert found.failure_kind == b"error"


def test_a_release_never_ages(core: Core) -> None:
    queue = define(core, "q", max_age_us=SECOND)
    held = one(core, queue)
    core.hand(START + 10 * SECOND)
    assert settle(core, said(held, lib.FP_RELEASE)) == [lib.FP_DONE]


def test_age_counts_from_the_last_replay(core: Core) -> None:
    """Who brings a dead letter back after a month wants it tried."""
    queue = define(core, "q", max_age_us=100 * SECOND)
    held = one(core, queue)
    settle(core, said(held, lib.FP_FAIL))
    core.hand(START + 1000 * SECOND)
    core.replay(array("q", [held.id, -1]), 0, 0, apply=True)
    (held,) = take(core, queue)
    assert settle(core, said(held, lib.FP_RETRY, 100 * SECOND)) == [lib.FP_DONE]
    core.hand(START + 1100 * SECOND)
    (held,) = take(core, queue)
    assert settle(core, said(held, lib.FP_RETRY, 1)) == [lib.FP_DEAD]


def test_what_was_put_off_on_purpose_does_not_age_meanwhile(core: Core) -> None:
    """Neither before its first due moment, nor before that of a replay."""
    queue = define(core, "q", max_age_us=100 * SECOND)
    (one,) = put(core, queue, b"a", delay_us=1000 * SECOND)
    for due in (1000, 5000):
        core.hand(START + due * SECOND)
        (held,) = take(core, queue)
        assert settle(core, said(held, lib.FP_RETRY, 100 * SECOND)) == [lib.FP_DONE]
        core.hand(START + (due + 100) * SECOND)
        (held,) = take(core, queue)
        assert settle(core, said(held, lib.FP_RETRY, 1)) == [lib.FP_DEAD]
        core.replay(array("q", [one, -1]), (4000 - 100) * SECOND, 0, apply=True)


def test_only_what_is_dead_or_unknown_is_replayed(core: Core) -> None:
    """What is kept of a message that was done, or cancelled, is no dead letter."""
    queue = define(core, "q", lib.FP_PROFILE_OUTBOX)
    fates = {
        lib.FP_ACK: lib.FP_NOT_DEAD,
        lib.FP_CANCEL: lib.FP_NOT_DEAD,
        lib.FP_FAIL: lib.FP_DONE,
        lib.FP_UNKNOWN: lib.FP_DONE,
    }
    for verb, answer in fates.items():
        held = one(core, queue)
        settle(core, said(held, verb))
        for apply in (False, True):
            assert core.replay(array("q", [held.id, -1]), 0, 0, apply=apply) == [answer]
    assert len(take(core, queue, 9)) == 2
    assert findings(core) == ""


def test_an_old_request_cannot_wake_a_newer_death(core: Core) -> None:
    """A dead letter has a generation, which a replay names: the one that was seen."""
    queue = define(core, "q")
    held = one(core, queue)
    for generation in (1, 2, 3):
        settle(core, said(held, lib.FP_FAIL))
        for other in (0, generation - 1, generation + 1):
            pair = array("q", [held.id, other])
            assert core.replay(pair, 0, 0, apply=True) == [lib.FP_SUPERSEDED]
        pair = array("q", [held.id, generation])
        assert core.replay(pair, 0, 0, apply=False) == [lib.FP_DONE]
        assert core.replay(pair, 0, 0, apply=True) == [lib.FP_DONE]
        assert core.replay(pair, 0, 0, apply=True) == [lib.FP_NOT_DEAD]
        (held,) = take(core, queue)
        assert held.generation == generation


# ---- what is left of a failure -------------------------------------------------------------------


def test_the_last_failure_is_shown_while_it_is_in_line_and_gone_after(
    core: Core, path: Path, outside: Outside
) -> None:
    queue = define(core, "q")
    held = one(core, queue)
    why = Verdict(held.id, held.token, lib.FP_RETRY, 0, None, b"error", b"E1", b"it broke")
    settle(core, why)
    found = message(core, held.id)
    assert found is not None
    assert (found.failure_kind, found.failure_text) == (b"error", b"it broke")
    (held,) = take(core, queue)
    settle(core, said(held, lib.FP_ACK))
    assert outside.rows(path, "SELECT count(*) FROM fencepost_trouble") == [[0]]


def test_a_message_that_is_missing_in_the_file_does_not_stop_the_line(
    path: Path, outside: Outside
) -> None:
    """It is told as damaged, and an operator may remove it; the others go on."""
    with opened(path) as core:
        queue = define(core, "q")
        ids = put(core, queue, b"a", b"b", b"c")
        outside.change(path, f"DELETE FROM fencepost_message WHERE id = {ids[0]}")
        assert [claim.body for claim in take(core, queue, 5)] == [b"b", b"c"]
        found = message(core, ids[0])
        assert found is not None
        assert (found.state, found.failure_kind) == (lib.FP_STATE_DEAD, b"damaged")
        assert "missing" in findings(core)
        assert core.purge(queue, lib.FP_STATE_DEAD, START + 1, 5, apply=True) == 1
        assert findings(core) == ""
