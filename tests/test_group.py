"""
Who arrives together commits together, and each gets an answer of its own.

What is together here stood in line behind a transaction, so that the first of them took the others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fencepost._binding.calls import Core
from fencepost._binding.guest import Guest
from fencepost._binding.pack import Take
from fencepost.errors import Busy, Conflict, Gone, InvalidArgument, QueueFull
from harness_core import START, Verdict, ack, define, keyed, lib, put, settle, stats, take
from harness_core import core as opening
from harness_line import aside, counts, since, stand_in_line, together

pytestmark = pytest.mark.hostile

SECOND = 1_000_000
BULK = lib.FP_PROFILE_QUEUE


def putting(core: Core, queue: int, *bodies: bytes, **columns: Any) -> Callable[[], Any]:
    return partial(put, core, queue, *bodies, **columns)


def bodies(core: Core, queue: int) -> list[bytes | None]:
    return [claim.body for claim in take(core, queue, 100)]


# ---- together ------------------------------------------------------------------------------------


def test_calls_that_arrive_together_are_one_commit(core: Core, queue: int) -> None:
    """In the order in which they came, each with an id of its own."""
    before = counts(core)
    ids = together(core, *(putting(core, queue, b"%d" % n) for n in range(5)))
    assert since(core, before)[:2] == (1, 5)
    assert [number for (number,) in ids] == list(range(ids[0][0], ids[0][0] + 5))
    assert bodies(core, queue) == [b"0", b"1", b"2", b"3", b"4"]


def test_one_call_alone_is_one_commit(core: Core, queue: int) -> None:
    before = counts(core)
    put(core, queue)
    assert since(core, before)[:2] == (1, 1)


def test_what_one_wrote_the_next_one_sees(core: Core, queue: int) -> None:
    """As if each had been a transaction of its own: a claim finds what was just enqueued."""
    before = counts(core)
    (first,), claims, equal = together(
        core,
        putting(core, queue, b"a", keys=[b"k"], life=lib.FP_LIFE_LASTING),
        partial(take, core, queue, 5),
        putting(core, queue, b"a", keys=[b"k"], life=lib.FP_LIFE_LASTING),
    )
    assert since(core, before).commits == 1
    assert [claim.id for claim in claims] == [first] == equal


def test_every_sort_of_call_shares_a_commit(core: Core, queue: int) -> None:
    """And each says what it would have said alone."""
    bulk = define(core, "bulk", BULK)
    (cancelled,) = put(core, queue, b"to be cancelled")
    put(core, bulk, b"1", b"2")
    one, two = take(core, bulk, 2)
    before = counts(core)
    answers = together(
        core,
        partial(core.cancel, None, [cancelled]),
        partial(ack, core, one),
        partial(settle, core, Verdict(two.id, two.token, lib.FP_RENEW, SECOND)),
        partial(core.step, [Verdict(one.id, one.token, lib.FP_ACK)], Take([bulk], 1)),
        partial(core.kind, None, b"new"),
        partial(core.queue_pause, None, queue, paused=True),
        partial(core.progress, None, two.id, b"half"),
    )
    assert since(core, before)[:2] == (1, 7)
    assert answers[:3] == [[lib.FP_DONE]] * 3
    assert answers[3][0] == [lib.FP_LOST]  # nothing is kept of a bulk queue: it knows no "before"
    assert answers[4] > 0
    assert stats(core, queue).paused == 1
    assert ack(core, two) == [lib.FP_DONE]


def test_no_more_go_together_than_are_allowed(core: Core, queue: int) -> None:
    """Twelve in the test's own core, a hundred and twenty-eight in the real one."""
    before = counts(core)
    together(core, *(putting(core, queue, b"%d" % n) for n in range(30)))
    after = since(core, before)
    assert (after.commits, after.members, after.largest) == (3, 30, 12)


def test_large_ones_go_by_themselves(core: Core, queue: int) -> None:
    """A megabyte is as much as one transaction takes, but for one that is larger by itself."""
    sizes = [600_000, 600_000, 2_000_000, 300_000, 300_000]
    before = counts(core)
    together(core, *(putting(core, queue, b"x" * size) for size in sizes))
    assert since(core, before)[:2] == (4, 5)
    assert [len(body or b"") for body in bodies(core, queue)] == sizes


def test_a_transaction_shares_with_nobody(core: Core, queue: int) -> None:
    """It takes its turn in the same line, and those before and behind it are apart."""

    def transact() -> None:
        begun = core.begin(30)
        assert core.size(begun, queue) == 2
        put(core, queue, b"mine", tx=begun)
        begun.end(commit=True)

    before = counts(core)
    works = [putting(core, queue, b"%d" % n) for n in range(4)]
    together(core, *works[:2], transact, *works[2:])
    assert since(core, before)[:2] == (2, 4)
    assert bodies(core, queue) == [b"0", b"1", b"mine", b"2", b"3"]


def test_the_keepers_beat_goes_first_in_the_group(core: Core, queue: int) -> None:
    """A claim that came before it does not take over the lease that it is about to renew."""
    put(core, queue, b"a")
    (held,) = take(core, queue, lease_us=SECOND)
    core.hand(START + SECOND)
    keeper = core.keeper(1000)

    def hold() -> None:
        keeper.hold([held.id, held.token, SECOND, 0])
        stand_in_line(core, 3)

    (new,), found = together(
        core, putting(core, queue), partial(take, core, queue, 5), meanwhile=hold
    )
    assert [claim.id for claim in found] == [new]
    assert counts(core).largest == 3
    assert not keeper.lost(held.id, held.token)
    keeper.stop()


# ---- one fails, before it has written ------------------------------------------------------------


def test_one_that_is_refused_costs_the_others_nothing(core: Core, queue: int) -> None:
    """A conflict, a queue that is not there, a message that is gone: the others are one commit."""
    keyed(core, queue, b"k", b"first")
    before = counts(core)
    answers = together(
        core,
        putting(core, queue, b"0"),
        partial(keyed, core, queue, b"k", b"another"),
        putting(core, 77, b"nowhere"),
        partial(core.progress, None, 10**9, b"x"),
        putting(core, queue, b"1"),
    )
    assert [type(answer) for answer in answers] == [
        list, Conflict, InvalidArgument, Gone, list,
    ]  # fmt: skip
    assert since(core, before)[:3] == (1, 5, 0)
    assert answers[4][0] == answers[0][0] + 1  # no number was lost on the way
    assert bodies(core, queue) == [b"first", b"0", b"1"]


def test_all_are_refused(core: Core, queue: int, unchanged: Callable[[], None]) -> None:
    unchanged()
    answers = together(core, putting(core, 77), putting(core, 78))
    assert [type(answer) for answer in answers] == [InvalidArgument] * 2
    unchanged()


def test_a_full_queue_counts_what_comes_together(core: Core) -> None:
    """Of five that arrive at once, three find room in a queue of three."""
    queue = define(core, "small", max_size=3)
    before = counts(core)
    answers = together(core, *(putting(core, queue, b"%d" % n) for n in range(5)))
    assert [type(answer) for answer in answers] == [list] * 3 + [QueueFull] * 2
    assert since(core, before).commits == 1
    assert bodies(core, queue) == [b"0", b"1", b"2"]


# ---- the file is busy ----------------------------------------------------------------------------


def test_who_is_not_taken_yet_can_leave(path: Path) -> None:
    """While the one who leads waits for another handle, those behind it still stand in line."""
    with opening(path) as core, opening(path) as other:
        queue = define(core, "q")
        begun, core.patience = other.begin(30), 0
        words: list[str] = []

        def refused() -> None:
            with pytest.raises(Busy) as told:
                put(core, queue)
            words.append(str(told.value))

        with aside(refused), aside(refused), aside(refused):
            stand_in_line(core, 3)
        assert lib.fp_waiting(core._store) == 0
        assert all("the file is busy: another process, or another handle" in each for each in words)
        begun.end(commit=False)
        put(core, queue)
        assert bodies(core, queue) == [b"body"]


def test_those_who_waited_for_the_file_are_one_commit(path: Path) -> None:
    """They gather behind the one who waits, and go with it when the lock comes."""
    with opening(path) as core, opening(path) as other:
        queue = define(core, "q")
        begun = other.begin(30)
        before = counts(core)
        works = [aside(putting(core, queue, b"%d" % n)) for n in range(4)]
        with works[0], works[1], works[2], works[3]:
            stand_in_line(core, 4)
            begun.end(commit=False)
        assert since(core, before)[:2] == (1, 4)


# ---- statements of the caller's own --------------------------------------------------------------


def test_a_savepoint_beside_groups(core: Core, queue: int) -> None:
    """What a transaction took back is not there for the group behind it."""

    def transact() -> None:
        begun = core.begin(30)
        for sql in ("SAVEPOINT a", "ROLLBACK TO a"):
            with Guest(begun, sql) as guest:
                guest.run(1, b"")
            put(core, queue, sql.encode(), tx=begun)
        begun.end(commit=True)

    together(core, putting(core, queue, b"0"), transact, putting(core, queue, b"1"))
    assert bodies(core, queue) == [b"0", b"ROLLBACK TO a", b"1"]
