"""
Keys: who says a thing first owns the key; whoever says it again is answered with the first.

A lasting key answers until its window is over, a live one while its message is in line.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from hashlib import sha256

import pytest

from fencepost import Conflict, InvalidArgument
from fencepost._binding.calls import Core
from harness_core import (
    START,
    Held,
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
from harness_core import tx as transaction

SECOND = 1_000_000
HOUR = 3600 * SECOND
LASTING, LIVE = lib.FP_LIFE_LASTING, lib.FP_LIFE_LIVE
REPLACE, REARM, RETURN = lib.FP_EQUAL_REPLACE, lib.FP_EQUAL_REARM, lib.FP_EQUAL_RETURN


# ---- once ----------------------------------------------------------------------------------------


def test_a_lasting_key_answers_to_the_end_of_its_window_and_not_longer(core: Core) -> None:
    """Also when its message has gone before; at the window's end the key is free."""
    queue = define(core, "q", keep_us=10 * SECOND, key_window_us=20 * SECOND)
    first = keyed(core, queue, b"k")
    ack(core, *take(core, queue))
    core.hand(START + 10 * SECOND)
    assert core.retain(100) == (1, False)
    assert message(core, first) is None

    core.hand(START + 20 * SECOND - 1)
    assert keyed(core, queue, b"k") == first
    with pytest.raises(Conflict) as refused:
        keyed(core, queue, b"k", b"other")
    assert refused.value.id == first
    core.hand(START + 20 * SECOND)
    assert keyed(core, queue, b"k", b"other") > first


def test_a_window_counts_from_the_end_of_the_message(core: Core) -> None:
    """While it is in line its key answers, however long that takes."""
    queue = define(core, "q", key_window_us=20 * SECOND, max_age_us=0)
    first = keyed(core, queue, b"k")
    core.hand(START + 1000 * SECOND)
    core.retain(100)
    assert keyed(core, queue, b"k") == first


def test_a_queue_that_keeps_nothing_keeps_what_has_a_lasting_key(core: Core) -> None:
    queue = define(core, "bulk", lib.FP_PROFILE_QUEUE, key_window_us=20 * SECOND)
    first = keyed(core, queue, b"k")
    ack(core, *take(core, queue))
    core.hand(START + 20 * SECOND - 1)
    core.retain(100)
    assert keyed(core, queue, b"k") == first
    core.hand(START + 20 * SECOND)
    assert core.retain(100)[0] == 1
    assert keyed(core, queue, b"k") > first


@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_conflict_refuses_the_whole_batch(
    core: Core, unchanged: Callable[[], None], place: int
) -> None:
    """Not even a number of the counter is used up."""
    queue = define(core, "q")
    first = keyed(core, queue, b"k")
    unchanged()
    keys = [b"x", b"y", b"z"]
    keys[place] = b"k"
    with pytest.raises(Conflict) as refused:
        put(core, queue, b"1", b"2", b"3", keys=keys, life=LASTING)
    assert refused.value.id == first
    unchanged()
    assert put(core, queue, b"next") == [first + 1]


def test_a_refused_batch_gives_back_its_own_keys_only(core: Core) -> None:
    """What was answered from its key before the conflict still answers afterwards."""
    queue = define(core, "q")
    first = keyed(core, queue, b"k")
    keyed(core, queue, b"taken", b"other")
    digests = sha256(b"a").digest() * 3
    with transaction(core) as tx:
        with pytest.raises(Conflict):
            names = [b"k", b"new", b"taken"]
            put(core, queue, *[b"a"] * 3, keys=names, digests=digests, life=LASTING, tx=tx)
        (again,) = put(core, queue, b"a", keys=[b"k"], digests=digests[:32], life=LASTING, tx=tx)
        assert again == first
        (new,) = put(core, queue, b"z", keys=[b"new"], life=LASTING, tx=tx)
    assert new > first


def test_a_conflict_in_a_transaction_leaves_it_open(core: Core) -> None:
    """What was taken before the conflict is given back, what the caller did goes on."""
    queue = define(core, "q")
    first = keyed(core, queue, b"k")
    with transaction(core) as tx:
        (before,) = put(core, queue, b"before", tx=tx)
        with pytest.raises(Conflict):
            put(core, queue, b"1", b"2", keys=[b"x", b"k"], life=LASTING, tx=tx)
        (between,) = put(core, queue, b"between", tx=tx)
        after = keyed(core, queue, b"x", b"another", tx=tx)
    assert [before, between, after] == [first + 1, first + 2, first + 3]
    assert state_of(core, after) == lib.FP_PENDING


def test_an_expired_key_that_met_a_conflict_is_still_free(core: Core) -> None:
    queue = define(core, "q", keep_us=SECOND, key_window_us=2 * SECOND)
    keyed(core, queue, b"old")
    ack(core, *take(core, queue))
    core.hand(START + SECOND)
    core.retain(100)
    core.hand(START + 3 * SECOND)
    keyed(core, queue, b"k")
    with pytest.raises(Conflict):
        put(core, queue, b"1", b"2", keys=[b"old", b"k"], life=LASTING)
    assert state_of(core, keyed(core, queue, b"old", b"new")) == lib.FP_PENDING


def test_keys_of_other_queues_kinds_and_lives_are_others(core: Core) -> None:
    one, two = define(core, "one"), define(core, "two")
    kind = core.kind(None, b"send_mail")
    ids = {
        keyed(core, one, b"k"),
        keyed(core, two, b"k"),
        keyed(core, one, b"k", kind=kind),
        keyed(core, one, b"k", life=LIVE),
    }
    assert len(ids) == 4


def test_without_a_digest_bodies_and_headers_are_compared(core: Core) -> None:
    queue = define(core, "q")
    said = {"keys": [b"k"], "life": LASTING, "headers": [b"{}"]}
    first = put(core, queue, b"a", **said)
    assert put(core, queue, b"a", **said) == first
    with pytest.raises(Conflict):
        put(core, queue, b"b", **said)
    with pytest.raises(Conflict):
        put(core, queue, b"a", **{**said, "headers": [b"[]"]})


@pytest.mark.parametrize(
    "key", [b"", b"x" * 1025, b"a\0b", b"\xff", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"]
)
def test_what_is_no_key_is_refused(core: Core, unchanged: Callable[[], None], key: bytes) -> None:
    """Empty, too long, with a NUL, or not UTF-8: half a character, a surrogate, beyond the end."""
    queue = define(core, "q")
    unchanged()
    with pytest.raises(InvalidArgument, match="key"):
        keyed(core, queue, key)
    unchanged()
    assert keyed(core, queue, "é".encode() * 512) > 0


# ---- once at a time ------------------------------------------------------------------------------


def used_up(core: Core, held: Held) -> None:
    """Its worker never answers, and a later claim buries it."""
    core.hand(held.lease_end)
    assert take(core, held.queue) == []


ENDS: dict[str, Callable[[Core, Held], object]] = {
    "ack": ack,
    "fail": lambda core, held: settle(core, Verdict(held.id, held.token, lib.FP_FAIL)),
    "last retry": lambda core, held: settle(core, Verdict(held.id, held.token, lib.FP_RETRY)),
    "holder's cancel": lambda core, held: settle(core, Verdict(held.id, held.token, lib.FP_CANCEL)),
    "cancel": lambda core, held: core.cancel(None, [held.id]),
    "burial": used_up,
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_live_key_is_freed_by_every_end(core: Core, end: Callable[[Core, Held], object]) -> None:
    queue = define(core, "q", max_attempts=1)
    first = keyed(core, queue, b"k", life=LIVE)
    assert keyed(core, queue, b"k", life=LIVE) == first
    (held,) = take(core, queue)
    assert keyed(core, queue, b"k", life=LIVE) == first
    end(core, held)
    assert keyed(core, queue, b"k", b"other", life=LIVE) > first


def test_a_batch_of_acks_frees_all_live_keys_and_no_lasting_one(core: Core) -> None:
    queue = define(core, "q")
    keys = [b"k%d" % number for number in range(8)]
    lives = bytes([LIVE] * 4 + [LASTING] * 4)
    first = put(core, queue, *[b"a"] * 8, keys=keys, lives=lives)
    assert ack(core, *take(core, queue, 8)) == [lib.FP_DONE] * 8
    again = put(core, queue, *[b"a"] * 8, keys=keys, lives=lives)
    assert again[4:] == first[4:]
    assert min(again[:4]) > max(first)


@pytest.mark.parametrize("verb", [lib.FP_RETRY, lib.FP_RELEASE, lib.FP_LATER, lib.FP_RENEW])
def test_a_live_key_is_held_by_what_stays_in_line(core: Core, verb: int) -> None:
    queue = define(core, "q")
    first = keyed(core, queue, b"k", life=LIVE)
    (held,) = take(core, queue)
    settle(core, Verdict(held.id, held.token, verb, 5))
    assert keyed(core, queue, b"k", life=LIVE) == first


def test_a_dead_letter_comes_back_only_while_its_live_key_is_free(core: Core) -> None:
    queue = define(core, "q")
    first = keyed(core, queue, b"k", life=LIVE)
    (held,) = take(core, queue)
    settle(core, Verdict(held.id, held.token, lib.FP_FAIL))
    second = keyed(core, queue, b"k", b"other", life=LIVE)
    pair = array("q", [first, -1])
    assert core.replay(pair, 0, 0, apply=True) == [lib.FP_LIVE_KEY]
    core.cancel(None, [second])
    assert core.replay(pair, 0, 0, apply=True) == [lib.FP_DONE]
    assert keyed(core, queue, b"k", life=LIVE) == first


def test_nor_does_one_whose_lasting_key_has_passed_on(core: Core) -> None:
    """One key is one message's; once it is nobody's, the dead letter gets it back."""
    queue = define(core, "q")
    first = keyed(core, queue, b"k")
    (held,) = take(core, queue)
    settle(core, Verdict(held.id, held.token, lib.FP_FAIL))
    second = keyed(core, queue, b"k", b"other", equal=REPLACE)
    pair = array("q", [first, -1])
    assert core.replay(pair, 0, 0, apply=True) == [lib.FP_LIVE_KEY]
    ack(core, *take(core, queue))
    assert core.replay(pair, 0, 0, apply=True) == [lib.FP_LIVE_KEY]
    assert core.purge(queue, lib.FP_DONE_LISTED, START + 1, 10, apply=True) == 1
    assert core.replay(pair, 0, 0, apply=True) == [lib.FP_DONE]
    assert keyed(core, queue, b"k") == first < second


def test_a_dead_letter_gets_a_key_back_whose_window_is_over(core: Core) -> None:
    queue = define(core, "q", keep_us=HOUR, key_window_us=2 * HOUR)
    first = keyed(core, queue, b"k")
    (held,) = take(core, queue)
    settle(core, Verdict(held.id, held.token, lib.FP_FAIL))
    keyed(core, queue, b"k", b"other", equal=REPLACE)
    ack(core, *take(core, queue))
    core.hand(START + HOUR)
    assert core.retain(10)[0] == 1
    pair = array("q", [first, -1])
    core.hand(START + 2 * HOUR - 1)
    assert core.replay(pair, 0, 0, apply=True) == [lib.FP_LIVE_KEY]
    core.hand(START + 2 * HOUR)
    assert core.replay(pair, 0, 0, apply=True) == [lib.FP_DONE]
    assert keyed(core, queue, b"k") == first


def test_a_purge_frees_a_lasting_key_at_once(core: Core) -> None:
    """An operator who removes a dead letter may want it said again."""
    queue = define(core, "q")
    first = keyed(core, queue, b"k")
    (held,) = take(core, queue)
    settle(core, Verdict(held.id, held.token, lib.FP_FAIL))
    assert core.purge(queue, lib.FP_STATE_DEAD, START + 1, 10, apply=True) == 1
    assert keyed(core, queue, b"k", b"other") > first
