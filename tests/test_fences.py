"""
Fences: only the newest claim of a message can settle it, renew it or give it back.

    1. Only the holder of the newest token may settle, renew or return.    (at most one finisher)
    2. A row leaves the line only into an outcome.                         (at least one delivery)
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost._binding.calls import Core
from fencepost._binding.guest import Guest
from fencepost._binding.pack import Take
from harness_core import (
    START,
    Held,
    ack,
    define,
    lib,
    message,
    one,
    put,
    said,
    settle,
    take,
)
from harness_core import core as opened
from harness_core import tx as transaction
from harness_outside import Outside

VERBS = {
    "ack": lib.FP_ACK,
    "retry": lib.FP_RETRY,
    "release": lib.FP_RELEASE,
    "later": lib.FP_LATER,
    "fail": lib.FP_FAIL,
    "cancel": lib.FP_CANCEL,
    "renew": lib.FP_RENEW,
}
PROFILES = {
    "bulk": lib.FP_PROFILE_QUEUE,
    "job": lib.FP_PROFILE_JOB,
    "inbox": lib.FP_PROFILE_INBOX,
    "wake-up": lib.FP_PROFILE_WAKEUP,
}


# ---- an older token opens nothing ----------------------------------------------------------------


def taken_over(core: Core, held: Held) -> None:
    core.hand(held.lease_end)
    assert take(core, held.queue)[0].token > held.token


def released(core: Core, held: Held) -> None:
    assert settle(core, said(held, lib.FP_RELEASE)) == [lib.FP_DONE]


def retried(core: Core, held: Held) -> None:
    assert settle(core, said(held, lib.FP_RETRY, 5)) == [lib.FP_DONE]


def retried_and_taken(core: Core, held: Held) -> None:
    retried(core, held)
    core.hand(START + 5)
    assert take(core, held.queue)[0].token > held.token


def cancelled(core: Core, held: Held) -> None:
    """By somebody else: what its holder says next must not pass for his own end."""
    assert core.cancel(None, [held.id]) == [lib.FP_DONE]


def buried(core: Core, held: Held) -> None:
    core.hand(held.lease_end)
    assert take(core, held.queue) == []


LOSSES: list[Callable[[Core, Held], None]] = [
    taken_over,
    released,
    retried,
    retried_and_taken,
    cancelled,
    buried,
]


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.__name__)
def test_who_lost_a_message_can_change_nothing(
    core: Core,
    path: Path,
    outside: Outside,
    loss: Callable[[Core, Held], None],
    profile: int,
    verb: int,
) -> None:
    """By no verb, however it was lost; it is told, and the file stays what it was."""
    queue = define(core, "q", profile, max_attempts=1 if loss is buried else 5)
    held = one(core, queue)
    loss(core, held)
    before = outside.dump(path)
    assert settle(core, said(held, verb)) == [lib.FP_LOST]
    assert outside.dump(path) == before


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_nor_can_a_token_that_never_was(core: Core, verb: int) -> None:
    held = one(core, define(core, "q"))
    for token in (0, held.token - 1, held.token + 1):
        assert settle(core, said(held._replace(token=token), verb)) == [lib.FP_LOST]
    assert settle(core, said(held._replace(id=held.id + 1), verb)) == [lib.FP_LOST]
    core.cancel(None, [held.id])  # whoever ended it had no token
    assert settle(core, said(held._replace(token=0), verb)) == [lib.FP_LOST]


@pytest.mark.parametrize("lost", range(4))
@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_one_that_was_lost_spares_the_others_of_its_batch(
    core: Core, path: Path, profile: int, verb: int, lost: int
) -> None:
    """Wherever it stood among them, and though this handle had not heard of it."""
    queue = define(core, "q", profile)
    put(core, queue, b"a", b"b", b"c", b"d")
    held = take(core, queue, 4, lease_us=100 + lost)
    if profile == lib.FP_PROFILE_QUEUE:
        core.cancel(None, [held[lost].id])
    else:
        with opened(path) as other:
            other.cancel(None, [held[lost].id])
    answers = settle(core, *(said(claim, verb) for claim in held))
    assert answers == [lib.FP_LOST if n == lost else lib.FP_DONE for n in range(4)]


def test_a_stale_claim_of_another_handle_opens_nothing(core: Core, path: Path) -> None:
    """The handle remembers where its claim stood; the file knows better."""
    queue = define(core, "q")
    held = one(core, queue)
    with opened(path, hand_us=held.lease_end) as other:
        (newer,) = take(other, queue)
        assert settle(core, said(held, lib.FP_RENEW)) == [lib.FP_LOST]
        assert ack(core, held) == [lib.FP_LOST]
        assert ack(other, newer) == [lib.FP_DONE]


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_a_late_word_leaves_a_newer_claim_of_its_own_handle(core: Core, profile: int) -> None:
    """The handle goes on knowing where that one stands, which in a bulk queue nobody else knows."""
    held = one(core, define(core, "q", profile))
    core.hand(held.lease_end)
    (newer,) = take(core, held.queue)
    assert ack(core, held) == [lib.FP_LOST]
    assert ack(core, newer) == [lib.FP_DONE]


def test_a_place_is_no_proof(core: Core, path: Path) -> None:
    """The message stands where this handle left it, but put there by another, who gave it back."""
    held = one(core, define(core, "q"))
    with opened(path) as other:
        there = held.lease_end - START
        assert settle(other, said(held, lib.FP_RETRY, there)) == [lib.FP_DONE]
        for verb in VERBS.values():
            assert settle(core, said(held, verb)) == [lib.FP_LOST]
    core.hand(held.lease_end)
    assert take(core, held.queue)[0].id == held.id


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_what_is_pending_has_no_token_that_opens_it(core: Core, verb: int) -> None:
    """Its row says 0, and so could anybody."""
    held = one(core, define(core, "q"))
    settle(core, said(held, lib.FP_RELEASE))
    assert settle(core, said(held._replace(token=0), verb)) == [lib.FP_LOST]
    assert len(take(core, held.queue)) == 1


# ---- repeated, late, elsewhere -------------------------------------------------------------------


@pytest.mark.parametrize("verb", [lib.FP_ACK, lib.FP_FAIL, lib.FP_CANCEL])
def test_ones_own_end_can_be_said_again(core: Core, verb: int) -> None:
    """By the same token it is "already"; by any other it is lost."""
    held = one(core, define(core, "q"))
    assert settle(core, said(held, verb)) == [lib.FP_DONE]
    assert settle(core, said(held, verb)) == [lib.FP_ALREADY]
    assert ack(core, held) == [lib.FP_ALREADY]
    assert ack(core, held._replace(token=held.token + 1)) == [lib.FP_LOST]


def test_one_claim_twice_in_a_batch_is_settled_once(core: Core) -> None:
    queue = define(core, "q")
    held = one(core, queue)
    assert ack(core, held, held) == [lib.FP_DONE, lib.FP_ALREADY]


def test_a_lapsed_claim_is_not_forgotten_while_nobody_has_it(core: Core) -> None:
    """Though the handle makes room in its table of places for others."""
    bulk = define(core, "bulk", lib.FP_PROFILE_QUEUE)
    old = one(core, bulk)
    core.queue_pause(None, bulk, True)
    core.hand(old.lease_end)
    for number in range(20):
        one(core, define(core, f"other{number}", lib.FP_PROFILE_QUEUE))
    assert ack(core, old) == [lib.FP_DONE]


def test_a_replayed_message_knows_nothing_of_its_last_holder(core: Core) -> None:
    held = one(core, define(core, "q"))
    settle(core, said(held, lib.FP_FAIL))
    core.replay(array("q", [held.id, 1]), 0, 0, apply=True)
    assert ack(core, held) == [lib.FP_LOST]
    (again,) = take(core, held.queue)
    assert (again.attempt, again.generation) == (1, 1)
    assert again.token > held.token
    assert ack(core, again) == [lib.FP_DONE]


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_a_lapsed_lease_that_nobody_took_still_settles(core: Core, profile: int) -> None:
    """Except in an inbox, which takes no word from a lease that has run out."""
    held = one(core, define(core, "q", profile))
    core.hand(held.lease_end)
    strict = profile == lib.FP_PROFILE_INBOX
    assert ack(core, held) == [lib.FP_LOST if strict else lib.FP_DONE]


def test_one_microsecond_earlier_an_inbox_takes_it(core: Core) -> None:
    held = one(core, define(core, "q", lib.FP_PROFILE_INBOX))
    core.hand(held.lease_end - 1)
    assert ack(core, held) == [lib.FP_DONE]


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_any_handle_settles_what_can_be_found_by_its_id(core: Core, path: Path, verb: int) -> None:
    """Claimed here, renewed there, settled here again: the token is the proof, not the handle."""
    held = one(core, define(core, "q"))
    with opened(path) as other:
        assert settle(other, said(held, lib.FP_RENEW, 77)) == [lib.FP_DONE]
        assert settle(core, said(held, lib.FP_RENEW, 88)) == [lib.FP_DONE]
        assert settle(other, said(held, verb)) == [lib.FP_DONE]
        assert ack(core, held) in ([lib.FP_LOST], [lib.FP_ALREADY], [lib.FP_DONE])


@pytest.mark.hostile
def test_a_renewed_claim_of_a_bulk_queue_is_found_where_it_stands_now(core: Core) -> None:
    queue = define(core, "q", lib.FP_PROFILE_QUEUE)
    put(core, queue, b"a", b"b")
    held = take(core, queue, 2)
    for lease_us in (10, 20, 30):
        assert settle(core, *(said(one, lib.FP_RENEW, lease_us) for one in held)) == [0, 0]
    assert ack(core, *held) == [lib.FP_DONE] * 2
    assert lib.fp_places(core._store) == 0


@pytest.mark.hostile
def test_a_handle_forgets_the_claims_that_ended(core: Core) -> None:
    """Its table of places does not grow with what has passed through it."""
    queue = define(core, "q")
    for verb in VERBS.values():
        held = one(core, queue)
        settle(core, said(held, verb))
        if verb == lib.FP_RENEW:
            ack(core, held)
    lost = one(core, queue)
    core.cancel(None, [lost.id])
    assert lib.fp_places(core._store) == 0


# ---- rolled back ---------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_what_was_rolled_back_was_never_settled(core: Core, profile: int, verb: int) -> None:
    held = one(core, define(core, "q", profile))
    begun = core.begin(30)
    assert settle(core, said(held, verb), tx=begun) == [lib.FP_DONE]
    begun.end(commit=False)
    assert settle(core, said(held, lib.FP_RENEW, 99)) == [lib.FP_DONE]
    assert ack(core, held) == [lib.FP_DONE]


def guest(tx: object, sql: str) -> None:
    with Guest(tx, sql) as statement:  # type: ignore[arg-type]
        statement.run(1, b"")


@pytest.mark.parametrize("sql", ["ROLLBACK TO a", "/* back */ ROLLBACK TRANSACTION TO a"])
@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_a_savepoint_undoes_a_settlement(core: Core, profile: int, verb: int, sql: str) -> None:
    """The claim stands where it stood, also when it had moved twice within the savepoint."""
    held = one(core, define(core, "q", profile))
    with transaction(core) as tx:
        guest(tx, "SAVEPOINT a")
        assert settle(core, said(held, lib.FP_RENEW, 9), tx=tx) == [lib.FP_DONE]
        assert settle(core, said(held, verb), tx=tx) == [lib.FP_DONE]
        guest(tx, sql)
        assert settle(core, said(held, lib.FP_RENEW, 7), tx=tx) == [lib.FP_DONE]
    assert ack(core, held) == [lib.FP_DONE]


@pytest.mark.hostile
@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_and_the_claim_outlives_that_transaction(core: Core, profile: int, verb: int) -> None:
    """What was settled before the savepoint stays settled, what was settled after it is held."""
    queue = define(core, "q", profile)
    put(core, queue, b"a", b"b")
    before, after = take(core, queue, 2)
    with transaction(core) as tx:
        assert ack(core, before, tx=tx) == [lib.FP_DONE]
        guest(tx, "SAVEPOINT a")
        settle(core, said(after, lib.FP_RENEW, 9), said(after, verb), tx=tx)
        guest(tx, "ROLLBACK TO a")
    assert ack(core, before)[0] in (lib.FP_ALREADY, lib.FP_LOST)
    assert ack(core, after) == [lib.FP_DONE]
    assert lib.fp_places(core._store) == 0


def test_a_savepoint_undoes_a_policy_and_an_enqueue(core: Core) -> None:
    """What is remembered of them is forgotten with them."""
    queue = define(core, "q", lease_us=1000)
    with transaction(core) as tx:
        guest(tx, "SAVEPOINT a")
        core.queue_define(tx, b"q", lib.FP_PROFILE_JOB, {"lease_us": 5000})
        further = core.queue_define(tx, b"further", lib.FP_PROFILE_JOB, {})
        put(core, further, b"never", tx=tx)
        put(core, queue, b"never", tx=tx)  # under the new policy, which is remembered now
        guest(tx, "ROLLBACK TO a")
        kept = put(core, queue, b"kept", tx=tx)[0]
    (held,) = take(core, queue)
    assert (held.id, held.lease_end) == (kept, START + 1000)
    assert core.queue_find(None, b"further")[0] == 0


# ---- numbers -------------------------------------------------------------------------------------


def test_tokens_rise_over_all_queues_and_handles(core: Core, path: Path) -> None:
    """Whatever is deleted in between, and however often the file is closed."""
    seen = [0]
    queues = [define(core, name) for name in ("one", "two")]
    for round_ in range(4):
        with opened(path) as other:
            for handle, queue in ((core, queues[0]), (other, queues[1])):
                put(handle, queue, b"a", b"b")
                held = take(handle, queue, 2)
                seen += [claim.token for claim in held]
                if round_ % 2:
                    ack(handle, *held)
                    handle.purge(0, lib.FP_DONE_UNLISTED, START + 1, 100, apply=True)
                else:
                    settle(handle, *(said(claim, lib.FP_RELEASE) for claim in held))
    assert seen == sorted(set(seen))


def test_the_number_of_a_rolled_back_enqueue_is_given_again(core: Core) -> None:
    """An id is provisional until its commit: before, nobody else can know it."""
    queue = define(core, "q")
    begun = core.begin(30)
    (never,) = put(core, queue, b"never", tx=begun)
    begun.end(commit=False)
    assert message(core, never) is None
    assert put(core, queue, b"a") == [never]


def test_a_claim_and_a_settlement_are_one_commit(core: Core, path: Path, outside: Outside) -> None:
    """Where the claim cannot be made the settlement is not, either."""
    queue = define(core, "q")
    put(core, queue, b"a", b"b")
    (held,) = take(core, queue)
    before = outside.dump(path)
    with pytest.raises(Exception, match="no queue"):
        core.step([said(held, lib.FP_ACK)], Take([queue + 1], 1))
    assert outside.dump(path) == before
    answers, found = core.step([said(held, lib.FP_ACK)], Take([queue], 1))
    assert (answers, found.rows) == ([lib.FP_DONE], 1)
