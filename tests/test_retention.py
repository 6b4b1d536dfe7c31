"""
What has ended goes again: by its queue's `keep`, with its key after the key window, in slices; and
by an operator's purge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("fencepost._core_test")

from fencepost import StorageError
from fencepost._binding.calls import Core
from fencepost._binding.guest import Guest
from harness_core import (
    SECOND,
    START,
    Verdict,
    ack,
    define,
    lib,
    message,
    put,
    settle,
    stats,
    take,
    tx,
)
from harness_core import core as opened
from harness_ended import BULK, DAY, HOUR, WEEK, again, end

pytestmark = pytest.mark.hostile

RETAIN_LOOKS = 5000  # rows that a slice looks at


@pytest.fixture
def core(path: Path) -> Iterator[Core]:
    with opened(path) as core:
        yield core


def retain(core: Core, limit: int = 100) -> int:
    """A whole round; how many messages went."""
    purged, more = 0, True
    while more:
        gone, more = core.retain(limit)
        assert gone <= limit
        purged += gone
    return purged


# ---- by `keep` -----------------------------------------------------------------------------------


@pytest.mark.parametrize("listed", [1, 0])
@pytest.mark.parametrize("verb", [lib.FP_ACK, lib.FP_CANCEL])
def test_done_and_cancelled_go_keep_after_they_ended(core: Core, verb: int, listed: int) -> None:
    """At the very moment, and not a microsecond before; they are counted no more."""
    queue = define(core, "q", keep_us=DAY, listed=listed)
    ids = end(core, queue, b"a", b"b", verb=verb)
    core.hand(START + DAY - 1)
    assert retain(core) == 0
    assert all(message(core, one) for one in ids)

    core.hand(START + DAY)
    assert retain(core) == 2
    assert [message(core, one) for one in ids] == [None, None]
    now = stats(core, queue)
    assert (now.done, now.cancelled) == (0, 0)
    assert core.check(full=True).blob == b""


def test_dead_letters_are_never_removed_by_themselves(core: Core) -> None:
    queue = define(core, "q", keep_us=DAY)
    (dead,) = end(core, queue, b"a", verb=lib.FP_FAIL)
    core.hand(START + 1000 * DAY)
    assert retain(core) == 0
    assert message(core, dead) is not None
    assert again(core, queue, b"a") == (dead, False)


def test_what_is_in_line_is_never_removed(core: Core) -> None:
    queue = define(core, "q", keep_us=1, max_age_us=0)
    ids = put(core, queue, b"1", b"2")
    (claim,) = take(core, queue)
    core.hand(START + 1000 * DAY)
    assert retain(core) == 0
    assert all(message(core, one) for one in ids)
    assert ack(core, claim) == [lib.FP_DONE]


def test_each_queue_keeps_for_its_own_time(core: Core) -> None:
    """Also those that stand in no index, and lie between others' that stay."""
    queues = {
        days: define(core, f"q{days}{listed}", keep_us=days * DAY, listed=listed)
        for days, listed in [(1, 1), (2, 0), (3, 1), (4, 0)]
    }
    ids = {days: end(core, queue, b"a", b"b", b"c") for days, queue in queues.items()}
    for days in range(6):
        core.hand(START + days * DAY)
        retain(core, limit=2)
        for kept, of_queue in ids.items():
            there = [message(core, one) is not None for one in of_queue]
            assert there == [days < kept] * 3
    assert core.check(full=True).blob == b""


@pytest.mark.parametrize("listed", [0, 1])
def test_what_is_kept_for_less_time_from_now_on_goes_earlier(core: Core, listed: int) -> None:
    """Also in a handle that has looked already, and knows when it would have had to look again."""
    queue, other = define(core, "q", keep_us=WEEK, listed=listed), define(core, "b", keep_us=HOUR)
    ids = end(core, queue, b"a")
    end(core, other, b"b")
    assert retain(core) == 0
    core.hand(START + 2 * HOUR)
    assert retain(core) == 1
    define(core, "q", keep_us=HOUR)
    assert retain(core) == 1
    assert message(core, ids[0]) is None


def test_progress_goes_with_its_message_in_one_transaction(core: Core) -> None:
    """Also where the first that is settled in it had none, and the store none at all."""
    queue = define(core, "q", **BULK)
    put(core, queue, b"a", b"b")
    first, second = take(core, queue, 2)
    with tx(core) as begun:
        assert ack(core, first, tx=begun) == [lib.FP_DONE]
        core.progress(begun, second.id, b"half")
        assert ack(core, second, tx=begun) == [lib.FP_DONE]
    with tx(core) as begun, Guest(begun, "SELECT * FROM fencepost_progress") as look:
        assert look.run(1, b"")[0].rows == 0


def test_nothing_of_a_message_stays(core: Core, path: Path, dump: Callable[[Path], str]) -> None:
    """Message, outcome, result, progress, key and count: the file is as if it had never been."""
    queue = define(core, "q", keep_us=DAY)
    core.hand(START + WEEK)
    (id_,) = put(core, queue, b"word-body", keys=[b"word-key"], life=1, headers=[b"word-header"])
    core.progress(None, id_, b"word-progress")
    (claim,) = take(core, queue)
    done = Verdict(claim.id, claim.token, lib.FP_ACK, result=b"word-result")
    assert settle(core, done) == [lib.FP_DONE]
    core.hand(START + 2 * WEEK)
    assert retain(core) == 1
    rows = [line for line in dump(path).splitlines() if line.startswith("INSERT")]
    tables = ("message", "outcome", "key", "progress", "trouble", "due")
    assert [row for row in rows if any(f'"fencepost_{table}"' in row for table in tables)] == []


# ---- keys ----------------------------------------------------------------------------------------


def test_a_key_answers_on_without_its_message(core: Core) -> None:
    """`keep` is an hour, the key window a day: in between, the key says who was there."""
    queue = define(core, "q", keep_us=HOUR, key_window_us=DAY)
    (first,) = end(core, queue, b"k")
    core.hand(START + HOUR)
    assert retain(core) == 1
    assert message(core, first) is None
    assert len(core.get_by_key(queue, 0, lib.FP_LIFE_LASTING, b"k").blob) == 0

    core.hand(START + DAY - 1)
    retain(core)
    assert again(core, queue, b"k") == (first, False)
    core.hand(START + DAY)
    id_, created = again(core, queue, b"k")
    assert created
    assert id_ > first


def test_an_expired_key_is_swept(core: Core, path: Path, dump: Callable[[Path], str]) -> None:
    """Also when nobody ever asks for it again."""
    queue = define(core, "q", keep_us=HOUR, key_window_us=DAY)
    end(core, queue, *[b"word-%d" % i for i in range(20)])
    core.hand(START + HOUR)
    assert retain(core) == 20
    core.hand(START + DAY - 1)
    retain(core)
    assert dump(path).count("word-") == 20
    core.hand(START + DAY)
    retain(core)
    assert dump(path).count("word-") == 0


def test_a_key_is_swept_at_its_end_by_who_gave_it(
    core: Core, path: Path, dump: Callable[[Path], str]
) -> None:
    """Also when the keys were just gone through, and nothing was to be swept for long."""
    queue = define(core, "q", keep_us=HOUR, key_window_us=HOUR + SECOND)
    end(core, queue, b"word")
    core.hand(START + HOUR - 1)
    assert retain(core) == 0
    core.hand(START + HOUR)
    assert retain(core) == 1
    assert dump(path).count("word") == 1
    core.hand(START + HOUR + SECOND)
    retain(core)
    assert dump(path).count("word") == 0


def test_another_process_sweeps_what_one_left(core: Core, path: Path) -> None:
    """A handle that did not give the keys their end itself meets them within an hour."""
    queue = define(core, "q", keep_us=HOUR, key_window_us=DAY)
    retain(core)
    with opened(path) as other:
        end(other, queue, b"k")
        other.hand(START + HOUR)
        assert retain(other) == 1
    core.hand(START + DAY + HOUR)
    retain(core)
    (id_, created) = again(core, queue, b"k")
    assert (id_ > 0, created) == (True, True)
    assert core.check(full=True).blob == b""


def test_a_queue_that_keeps_nothing_keeps_keys(core: Core) -> None:
    """Bulk: what had a key is remembered for seven days, what had none not at all."""
    queue = define(core, "q", **BULK)
    (keyed,) = end(core, queue, b"k")
    put(core, queue, b"1")
    assert ack(core, *take(core, queue)) == [lib.FP_DONE]
    assert stats(core, queue).done == 1

    core.hand(START + WEEK - 1)
    assert retain(core) == 0
    assert again(core, queue, b"k") == (keyed, False)
    core.hand(START + WEEK)
    assert retain(core) == 1
    assert stats(core, queue).done == 0
    assert again(core, queue, b"k")[1]


def test_a_key_goes_with_its_message_where_keep_is_longer(core: Core) -> None:
    """The default key window is the longer of `keep` and seven days."""
    queue = define(core, "q", keep_us=30 * DAY)
    (first,) = end(core, queue, b"k")
    core.hand(START + 30 * DAY - 1)
    retain(core)
    assert again(core, queue, b"k") == (first, False)
    core.hand(START + 30 * DAY)
    assert retain(core) == 1
    assert again(core, queue, b"k")[1]


def test_a_key_that_passed_on_stays_with_its_new_owner(core: Core) -> None:
    """Retention of the first owner leaves the key alone."""
    queue = define(core, "q", keep_us=HOUR)
    end(core, queue, b"k")
    core.hand(START + 1)
    second, created = again(core, queue, b"k", lib.FP_EQUAL_REPLACE)
    assert created
    core.hand(START + HOUR)
    assert retain(core) == 1
    assert again(core, queue, b"k") == (second, False)
    assert core.check(full=True).blob == b""


# ---- slices --------------------------------------------------------------------------------------


@pytest.mark.parametrize("listed", [1, 0])
def test_a_slice_is_no_larger_than_asked(core: Core, listed: int) -> None:
    queue = define(core, "q", keep_us=DAY, listed=listed)
    end(core, queue, *[b"%d" % i for i in range(25)])
    core.hand(START + DAY)
    slices = [core.retain(10) for _ in range(3)]
    assert slices[0] == slices[1] == (10, True)
    assert slices[2][0] == 5
    assert retain(core) == 0


def test_a_slice_looks_at_no_more_than_it_may(core: Core) -> None:
    """The walk for unlisted ones goes on where it stopped, and comes to its end."""
    define(core, "short", keep_us=DAY)  # so that what is a day old may have to go
    queue = define(core, "q", **BULK)
    for start in range(0, 2 * RETAIN_LOOKS, 1000):
        end(core, queue, *[b"%d" % i for i in range(start, start + 1000)])
    core.hand(START + DAY)
    slices: list[tuple[int, bool]] = []
    while not slices or slices[-1][1]:
        slices.append(core.retain(10))
    assert [purged for purged, _ in slices] == [0] * len(slices)
    assert len(slices) > 2


def test_a_slice_that_failed_is_asked_for_again(core: Core) -> None:
    """What it had come to is not skipped."""
    queue = define(core, "q", keep_us=DAY)
    end(core, queue, *[b"%d" % i for i in range(4)])
    core.hand(START + DAY)
    rung = 0
    while True:
        lib.fp_fault_step(rung, 1)
        try:
            done = core.retain(100)
            break
        except StorageError:
            rung += 1
    lib.fp_fault_step(-1, 0)
    assert done[0] == 4
    assert rung > 10
