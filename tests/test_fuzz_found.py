"""What the fuzzers found (tests/fuzz), each told once more as a claim of its own."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost import InvalidArgument
from fencepost._binding.calls import Core, checked
from harness_core import core as opened
from harness_core import define, ffi, lib, put, tx
from harness_flow import scene
from harness_ladder import memory_live

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
