"""What the fuzzers found (tests/fuzz), each told once more as a claim of its own."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost import InvalidArgument
from fencepost._binding.calls import Core, checked
from fencepost._binding.flow import Start
from fencepost._binding.pack import Filter, records
from harness_core import START, define, ffi, lib, put, take, tx
from harness_core import core as opened
from harness_flow import scene
from harness_ladder import memory_live
from harness_outside import Outside

pytestmark = pytest.mark.hostile

NULL: Any = ffi.NULL
WORD = b"word"
Call = Callable[[Core, int], None]


@pytest.fixture
def core(path: Path) -> Iterator[Core]:
    with opened(path) as one:
        define(one, "q")
        yield one


def kind(core: Core, length: int) -> None:
    checked(lib.fp_kind, core._store, NULL, WORD, length, ffi.new("int64_t *"))


def queue(core: Core, length: int) -> None:
    found = ffi.new("int64_t *"), ffi.new("int64_t[]", lib.FP_POLICY_FIELDS)
    checked(lib.fp_queue_find, core._store, NULL, WORD, length, *found)


def lanes(core: Core, length: int) -> None:
    checked(lib.fp_lanes, core._store, 1, WORD, length, 10, ffi.new("fp_rows *"))


def run(core: Core, length: int) -> None:
    checked(lib.fp_run_get, core._store, NULL, WORD, length, ffi.new("fp_rows *"))


def shelf(core: Core, length: int) -> None:
    word = ffi.new("char[]", WORD)
    asked = ffi.new("fp_range *", {"id": word, "id_bytes": 4, "from": word, "from_bytes": length})
    checked(lib.fp_shelf_page, core._store, NULL, asked, 0, 0, 10, ffi.new("fp_rows *"))


def own_sql(core: Core, length: int) -> None:
    with tx(core) as begun:
        checked(lib.fp_guest_open, begun.place[0], b"SELECT 1", length, ffi.new("fp_guest **"))


@pytest.mark.parametrize("length", [-1, -5, -(2**31)])
@pytest.mark.parametrize("call", [kind, queue, lanes, run, shelf, own_sql])
def test_a_length_below_zero_is_refused(core: Core, call: Call, length: int) -> None:
    with pytest.raises(InvalidArgument):
        call(core, length)


def test_a_fork_has_the_arguments_of_its_run_also_where_there_are_none(core: Core) -> None:
    """And not those that are given for the fork, which nobody asked for."""
    at = scene(core)
    at.start(args=None)
    at.flow.fork(None, b"run", None, Start(at.queue, at.kind, b"fork", b"other"))
    forked = at.flow.get(b"fork")
    assert forked is not None
    assert forked.args is None


@pytest.mark.timeout(60)
@pytest.mark.parametrize("turn", [f"{(1 << 8) + 127}.5", f"{1 << 8}.5", "'x'"])
def test_a_turn_that_is_no_whole_number_is_passed_by(
    path: Path, outside: Outside, turn: str
) -> None:
    """It would be the next of itself: no count, no claim and no listing came to its end."""
    with opened(path) as core:
        queue = define(core, "q")
        odd, other = put(core, queue, b"odd", b"other", delay_us=5)
        outside.change(path, f"UPDATE fencepost_due SET turn = {turn} WHERE id = {odd}")
        assert core.stats().rows == 1
        assert take(core, queue, until_us=START + 1) == []
        assert [row[0] for row in listed(core)] == [other]
        core.hand(START + 5)
        assert [held.id for held in take(core, queue, 5)] == [other]


def test_a_lease_that_cannot_be_spoils_its_own_queue_alone(path: Path, outside: Outside) -> None:
    """The longest lease is everybody's: the whole file was refused after a claim with it."""
    with opened(path) as core:
        spoilt, other = define(core, "spoilt"), define(core, "other")
        put(core, spoilt, b"a")
        put(core, other, b"b")
        outside.change(path, f"UPDATE fencepost_queue SET lease = {2**63 - 1} WHERE id = {spoilt}")
        assert [held.body for held in take(core, spoilt)] == [b"a"]
        assert [held.body for held in take(core, other)] == [b"b"]


def listed(core: Core) -> list[tuple[Any, ...]]:
    """All pages of what is pending."""
    found, after = list[tuple[Any, ...]](), None
    while True:
        page, after = core.list(Filter(lib.FP_PENDING, 1, after=after))
        found += records(page)
        if after is None:
            return found


def take_a_wake_up_of_nobody(path: Path) -> None:
    with opened(path) as core:
        at = scene(core)
        put(core, at.queue, b"", kind=at.kind, lanes=[b"lane"])
        assert [held.key for held in at.take()] == [None]


def test_a_wake_up_that_is_nobodys_leaves_nothing_in_memory(path: Path) -> None:
    """It has a kind and a lane, but no key that says whose it is."""
    gc.collect()  # of handles that other tests have dropped
    live = memory_live()
    take_a_wake_up_of_nobody(path)
    gc.collect()
    assert memory_live() == live
