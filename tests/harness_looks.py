"""Everything that only looks, as cases: whatever fails in them, the file stays what it was."""

from __future__ import annotations

import sys
from array import array

import harness_scenes as scene
from fencepost._binding.calls import Core
from fencepost._binding.codes import FP
from fencepost._binding.guest import Guest
from fencepost._binding.pack import Filter
from fencepost._binding.shelf import shelves
from harness_cases import DONE, Case, Context, case
from harness_cases_flow import ended
from harness_core import START, lib, put, state_of, take, tx
from harness_scenes import LEASE, MONTH_LATER

LOOKS: list[Case] = []


@case(scene.dead, LOOKS)
def get(core: Core, ids: Context) -> None:
    assert state_of(core, ids[0]) == lib.FP_STATE_DEAD


@case(scene.keyed, LOOKS)
def get_by_key(core: Core, queue: Context) -> None:
    assert core.get_by_key(queue, 0, lib.FP_LIFE_LASTING, b"old").rows == 1


@case(scene.some, LOOKS)
def list_pending(core: Core, queue: Context) -> None:
    assert core.list(Filter(lib.FP_PENDING, 10))[0].rows == 3


@case(scene.dead, LOOKS)
def list_dead(core: Core, ids: Context) -> None:
    assert core.list(Filter(lib.FP_STATE_DEAD, 10))[0].rows == 2


@case(scene.halted, LOOKS)
def list_halted_lanes(core: Core, queue: Context) -> None:
    assert core.lanes(queue, b"", 10).rows == 1


@case(scene.one_held, LOOKS)
def content(core: Core, held: Context) -> None:
    assert core.content(held.id).rows == 1


@case(scene.lapsed, LOOKS)
def count(core: Core, queue: Context) -> None:
    assert core.stats().rows == 1


@case(scene.one_held, LOOKS)
def tell_the_workers(core: Core, held: Context) -> None:
    assert core.workers().rows == 1


@case(scene.fired, LOOKS)
def tell_the_schedules(core: Core, kind: Context) -> None:
    assert core.schedules().rows == 1


@case(scene.jobs, LOOKS)
def tell_the_uuid(core: Core, queue: Context) -> None:
    assert len(core.uuid()) == 16


@case(scene.ended, LOOKS)
def check(core: Core, queue: Context) -> None:
    found = core.check(full=True).blob
    assert found == b"" or b"error code=7" in found  # SQLite's own word for "out of memory" there


@case(scene.ended, LOOKS)
def count_what_a_purge_would_take(core: Core, queue: Context) -> None:
    assert core.purge(0, lib.FP_DONE_UNLISTED, MONTH_LATER, 100, apply=False) == 3


@case(scene.dead, LOOKS)
def ask_what_a_replay_would_do(core: Core, ids: Context) -> None:
    assert core.replay(array("q", [ids[0], -1]), 0, 0, apply=False) == DONE


@case(scene.jobs, LOOKS)
def find_a_queue(core: Core, queue: Context) -> None:
    assert core.queue_find(None, b"jobs")[0] == queue


@case(scene.jobs, LOOKS)
def find_nothing_to_claim(core: Core, queue: Context) -> None:
    assert take(core, queue, until_us=1) == []


@case(scene.dead, LOOKS)
def watch_ends(core: Core, ids: Context) -> None:
    assert core.watch(ids=ids, until_us=1).ended.rows == len(ids)


@case(scene.some, LOOKS)
def watch_a_queue(core: Core, queue: Context) -> None:
    assert core.watch(queues=[queue], until_us=1).due == b"\1"


@case(scene.some, LOOKS)
def roll_back(core: Core, queue: Context) -> None:
    begun = core.begin(30)
    try:
        put(core, queue, b"never", tx=begun)
    finally:
        begun.end(commit=False)


@case(scene.shelf, LOOKS)
def walk_a_shelf(core: Core, shelf: Context) -> None:
    assert [one.key for one in shelf.walk(None, "", "d", backwards=True)] == ["c", "a"]


@case(scene.shelf, LOOKS)
def name_the_shelves(core: Core, shelf: Context) -> None:
    assert [*shelves(core, None, "shel")] == ["shelf", "shelg"]


@case(scene.some, LOOKS)
def tell_what_is_around(core: Core, queue: Context) -> None:
    assert core.now() == START
    assert core.size(None, queue) == 3
    assert core.kinds().rows == 0
    assert core.wait(queue, core.version() - 1, 1) == core.version()
    assert core.beside()[1] <= 0


@case(scene.some, LOOKS)
def ask_by_ones_own_sql(core: Core, queue: Context) -> None:
    sql = "SELECT name FROM fencepost_queue WHERE id = :id"
    with tx(core) as begun, Guest(begun, sql) as guest:
        assert guest.parameters() == [":id"]
        assert guest.run(1, b"i" + queue.to_bytes(8, sys.byteorder))[0].rows == 1


@case(scene.one_held, LOOKS)
def keep_a_claim(core: Core, held: Context) -> None:
    keeper = core.keeper(LEASE)
    try:
        keeper.hold([held.id, held.token, LEASE, 0])
        assert not keeper.lost(held.id, held.token)
        keeper.drop([held.id, held.token])
        assert core.size(None, held.queue) == 3
    finally:
        keeper.stop()


@case(ended, LOOKS)
def look_at_runs(core: Core, at: Context) -> None:
    assert [row.id for row in at.flow.runs()[0]] == [b"run", b"done"]
    assert at.flow.get(b"done").result == b"r"
    assert len([*at.flow.records(b"run")]) == 2
    assert at.flow.purge(FP.RUN_FAILED, MONTH_LATER, 10, apply=False)[0] == 1
