"""Listings at the core: orders, cursors, merges, filters that discard, and look-ups."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fencepost._core_test")

from fencepost import InvalidArgument
from fencepost._binding.calls import Core
from fencepost._binding.pack import Filter, records
from harness_core import SECOND, START, Held, Verdict, ack, define, lib, message, put, settle, take
from harness_core import core as opened
from harness_core import rows as cut

pytestmark = pytest.mark.hostile

LOOKS = 10_000  # rows that one page looks at
LIMITS = [1, 2, 3, 7, 1000]


@pytest.fixture
def core(path: Path) -> Iterator[Core]:
    with opened(path) as core:
        yield core


def page(core: Core, state: int, limit: int, **filters: Any) -> tuple[list[int], Any]:
    found, after = core.list(Filter(state, limit, **filters))
    return [record[0] for record in records(found)], after


def listed(core: Core, state: int, limit: int = 1000, **filters: Any) -> list[int]:
    """All pages; each is as long as it may be, as long as no filter discards too much."""
    ids: list[int] = []
    after = None
    while True:
        found, after = page(core, state, limit, after=after, **filters)
        ids += found
        if after is None:
            return ids
        assert len(found) == limit


def end(core: Core, *claims: Held, verb: int = lib.FP_ACK) -> None:
    answers = settle(core, *[Verdict(claim.id, claim.token, verb) for claim in claims])
    assert answers == [lib.FP_DONE] * len(claims)


# ---- in line -------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", LIMITS)
def test_pending_is_in_the_order_of_the_line(core: Core, limit: int) -> None:
    """Queue by queue, the higher priority first, then by due moment, then as they were put."""
    one, two = define(core, "one"), define(core, "two")
    second = put(core, two, b"1", b"2", b"3")
    late = put(core, one, b"1", b"2", delay_us=SECOND)
    normal = put(core, one, b"1", b"2", b"3", b"4")
    low = put(core, one, b"1", priority=-128)
    high = put(core, one, b"1", b"2", priority=127)
    assert listed(core, lib.FP_PENDING, limit) == [*high, *normal, *late, *low, *second]
    assert listed(core, lib.FP_PENDING, limit, queue=one) == [*high, *normal, *late, *low]
    assert listed(core, lib.FP_PENDING, limit, queue=two) == second


@pytest.mark.parametrize("limit", LIMITS)
def test_leased_and_pending_do_not_mix(core: Core, limit: int) -> None:
    queue = define(core, "q", lease_us=SECOND)
    ids = put(core, queue, *[b"body"] * 9)
    put(core, queue, b"later", delay_us=SECOND // 2)
    leased = [claim.id for claim in take(core, queue, 5)]
    assert listed(core, lib.FP_LEASED, limit) == leased == ids[:5]
    assert listed(core, lib.FP_PENDING, limit)[:4] == ids[5:]


@pytest.mark.parametrize("limit", LIMITS)
def test_who_waits_in_a_lane_is_pending_behind_the_others(core: Core, limit: int) -> None:
    """Lane by lane, each in its own order; a queue or a lane that is named shows its own alone."""
    one, two = define(core, "one"), define(core, "two")
    lanes = [b"a", b"b", b"c"]
    heads = {b"one": [], b"two": []}  # type: dict[bytes, list[int]]
    behind: dict[tuple[int, bytes], list[int]] = {}
    for queue, name in ((one, b"one"), (two, b"two")):
        ids = put(core, queue, *[b"body"] * 9, lanes=lanes * 3)
        heads[name] = ids[:3]
        for i, lane in enumerate(lanes):
            behind[queue, lane] = ids[3 + i :: 3]
    plain = put(core, one, b"1", b"2")

    found = listed(core, lib.FP_PENDING, limit, queue=one)
    assert found[:5] == [*heads[b"one"], *plain]
    assert sorted(found[5:]) == sorted(
        each for (q, _), ids in behind.items() if q == one for each in ids
    )
    assert sorted(listed(core, lib.FP_WAITING, limit)) == sorted(chain(*behind.values()))
    for lane in lanes:
        assert listed(core, lib.FP_WAITING, limit, queue=two, lane=lane) == behind[two, lane]
        waiting = listed(core, lib.FP_WAITING, limit, lane=lane)
        assert sorted(waiting) == sorted(behind[one, lane] + behind[two, lane])
        head = [heads[b"two"][lanes.index(lane)]]
        assert listed(core, lib.FP_PENDING, limit, queue=two, lane=lane) == head + behind[two, lane]
    assert listed(core, lib.FP_PENDING, limit, queue=one, lane=b"none") == []
    assert listed(core, lib.FP_LEASED, limit, lane=b"a") == []


def test_since_and_before_bound_the_due_moment(core: Core) -> None:
    """`since` is included, `before` is not, in every level; of who waits, it is the first due."""
    queue = define(core, "q")
    due = {}
    for i in range(4):
        for priority in (0, 5):
            (id_,) = put(core, queue, b"body", delay_us=i * SECOND, priority=priority)
            due[id_] = i
    put(core, queue, b"head", lanes=[b"l"])
    (waits,) = put(core, queue, b"body", lanes=[b"l"], delay_us=2 * SECOND)
    window = {"since_us": START + SECOND, "before_us": START + 3 * SECOND}
    for limit in (1, 2, 1000):
        found = listed(core, lib.FP_PENDING, limit, **window)
        assert found[-1] == waits
        assert [due[one] for one in found[:-1]] == [1, 2, 1, 2]


def test_a_kind_shows_its_own_alone(core: Core) -> None:
    queue, kind = define(core, "q"), core.kind(None, b"mail")
    put(core, queue, b"1")
    ids = put(core, queue, b"1", b"2", b"3", kind=kind)
    assert listed(core, lib.FP_PENDING, 2, kind=kind) == ids
    end(core, *take(core, queue, 4))
    assert listed(core, lib.FP_DONE_LISTED, 2, kind=kind) == ids[::-1]


# ---- ended ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", LIMITS)
def test_outcomes_are_newest_first_over_all_queues(core: Core, limit: int) -> None:
    """Those that ended in one commit stand by their ids, the higher first."""
    queues = [define(core, f"q{i}") for i in range(3)]
    ended: list[int] = []
    for round_ in range(4):
        core.hand(START + round_)
        for queue in queues:
            ids = put(core, queue, *[b"body"] * 3)
            end(core, *take(core, queue, 3), verb=lib.FP_FAIL)
            ended += ids
    assert listed(core, lib.FP_STATE_DEAD, limit) == ended[::-1]
    for i, queue in enumerate(queues):
        mine = [one for at, one in enumerate(ended) if at // 3 % 3 == i]
        assert listed(core, lib.FP_STATE_DEAD, limit, queue=queue) == mine[::-1]
    window = {"since_us": START + 1, "before_us": START + 3}
    assert listed(core, lib.FP_STATE_DEAD, limit, **window) == ended[9:27][::-1]
    assert listed(core, lib.FP_CANCELLED, limit) == []


def test_what_comes_and_goes_shifts_no_page(core: Core) -> None:
    """A page begins after the row where the last one ended, whatever became of that row."""
    queue = define(core, "q")
    ids = put(core, queue, *[b"body"] * 6)
    first, after = page(core, lib.FP_PENDING, 3)
    assert first == ids[:3]
    end(core, *take(core, queue, 3))
    more = put(core, queue, b"body")
    assert page(core, lib.FP_PENDING, 10, after=after) == ([*ids[3:], *more], None)

    first, after = page(core, lib.FP_DONE_LISTED, 1)
    core.hand(START + 1)
    end(core, *take(core, queue, 2))
    assert page(core, lib.FP_DONE_LISTED, 10, after=after) == (ids[1::-1], None)


def test_unlisted_outcomes_are_not_listed(core: Core) -> None:
    queue = define(core, "q", listed=0)
    (id_,) = put(core, queue, b"body")
    end(core, *take(core, queue))
    assert listed(core, lib.FP_DONE_LISTED) == []
    found = message(core, id_)
    assert found is not None
    assert found.state == lib.FP_DONE_UNLISTED
    with pytest.raises(InvalidArgument, match="unlisted outcomes cannot be listed"):
        page(core, lib.FP_DONE_UNLISTED, 1)


# ---- bounds --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ended", [False, True])
def test_a_filter_that_discards_all_ends_its_page(core: Core, ended: bool) -> None:
    """After so many rows a page ends, however short; its cursor leads on to what was wanted."""
    queue, kind = define(core, "q"), core.kind(None, b"rare")
    (first,) = put(core, queue, b"1", kind=kind)
    put(core, queue, *[b""] * (2 * LOOKS))
    (last,) = put(core, queue, b"1", kind=kind)
    state, wanted = lib.FP_PENDING, [first, last]
    if ended:
        while claims := take(core, queue, LOOKS):
            ack(core, *claims)
        state, wanted = lib.FP_DONE_LISTED, [last, first]
    pages: list[list[int]] = []
    after = None
    while not pages or after is not None:
        found, after = page(core, state, 10, kind=kind, after=after)
        pages.append(found)
    assert [*chain(*pages)] == wanted
    assert len(pages) == 3
    assert [] in pages


def test_a_cursor_of_another_queue_is_refused(core: Core) -> None:
    one, two = define(core, "one"), define(core, "two")
    put(core, one, b"1", b"2")
    put(core, two, b"1", b"2")
    _, after = page(core, lib.FP_PENDING, 1, queue=one)
    with pytest.raises(InvalidArgument, match="cursor is of another listing"):
        page(core, lib.FP_PENDING, 1, queue=two, after=after)


# ---- one message ---------------------------------------------------------------------------------


def test_a_key_finds_its_message_wherever_it_is(core: Core) -> None:
    queue, kind = define(core, "q"), core.kind(None, b"mail")
    ids = {}
    for life in (lib.FP_LIFE_LASTING, lib.FP_LIFE_LIVE):
        (ids[life],) = put(core, queue, b"body", keys=[b"k"], life=life, kind=kind)

    def found(life: int, of_kind: int = kind) -> list[int]:
        return [record[0] for record in records(core.get_by_key(queue, of_kind, life, b"k"))]

    for life, id_ in ids.items():
        assert found(life) == [id_]
        assert found(life, of_kind=0) == []
    end(core, *take(core, queue, 2))
    assert found(lib.FP_LIFE_LASTING) == [ids[lib.FP_LIFE_LASTING]]
    assert found(lib.FP_LIFE_LIVE) == []


def test_content_is_body_headers_result_and_progress(core: Core) -> None:
    queue = define(core, "q")
    (id_,) = put(core, queue, b"the body", headers=[b"the headers"])
    assert list(cut(core.content(id_), 4)) == [(b"the body", b"the headers", None, None)]
    core.progress(None, id_, b"the progress")
    (claim,) = take(core, queue)
    settle(core, Verdict(claim.id, claim.token, lib.FP_ACK, result=b"the result"))
    assert next(cut(core.content(id_), 4))[2] == b"the result"
