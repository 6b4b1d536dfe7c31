"""Runs of odd ids, many records and great values; and listings while runs come and go."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost import App, InvalidArgument, Run
from fencepost._binding.calls import Core
from fencepost._binding.codes import FP
from fencepost._binding.flow import RecordPut
from harness_flow import Scene
from harness_outside import Outside
from harness_worker import worked

ODD_IDS = [
    "\N{ROCKET}" * 256,  # 1,024 bytes
    "a\nb\tc\x1b[31m",
    "%s' OR 1 = 1; --",
    " ",
    "../../etc",
    "e\u0301",  # and not the letter that looks the same
    "\u00e9",
    "\u202egnp.exe",
    "child:3:abc",
    "parent:",
]
NO_IDS = ["", "a\0b", "\ud800", "x" * 1025, "\N{ROCKET}" * 257]


def test_any_text_is_the_id_of_a_run(app: App) -> None:
    """And each is another run: nothing is trimmed, folded or cut."""

    @app.workflow
    async def says(run: Run) -> str:
        return await run.step("id", lambda: run.id)

    handles = [says.options(id=odd).start() for odd in ODD_IDS]
    with worked(app):
        assert [handle.result(60) for handle in handles] == ODD_IDS
    assert sorted(run.id for run in app.store.runs(limit=200)) == sorted(ODD_IDS)
    assert [handle.delete() for handle in handles] == [1] * len(ODD_IDS)


@pytest.mark.parametrize("id", NO_IDS, ids=ascii)
def test_what_cannot_be_the_id_of_a_run_is_refused(app: App, id: str) -> None:
    @app.workflow
    async def one(run: Run) -> None: ...

    with pytest.raises(InvalidArgument, match="id"):
        one.options(id=id).start()
    with pytest.raises(InvalidArgument, match="id"):
        one.handle(id)
    assert app.store.runs() == []


def test_a_step_may_return_sixteen_megabytes(app: App) -> None:
    """Written once, and read by each later pass; and given on as an argument and a result."""
    size = 16 * 1024 * 1024
    made: list[int] = []

    def make() -> str:
        made.append(1)
        return "x" * size

    @app.workflow
    async def big(run: Run) -> str:
        text = await run.step("make", make)
        await run.sleep("nap", 0.001)
        return await run.step("pass on", lambda: text)

    handle = big.start()
    with worked(app):
        assert len(handle.result(60)) == size
    assert made == [1]


@pytest.mark.hostile
@pytest.mark.long
def test_a_run_of_a_hundred_thousand_records(app: App) -> None:
    """Each pass is given all of them; it can be looked at, forked and forgotten."""
    records = 100_000
    passes: list[int] = []

    @app.workflow
    async def long(run: Run) -> int:
        passes.append(1)
        found = 0
        for n in range(records):
            found += await run.step(f"s{n}", int, 1)
        return found + await run.wait("go", int)

    handle = long.options(id="long").start()
    core = app.store._file.core
    at = Scene(core, handle._run._flow, core.queue_find(None, b"workflows")[0], 1)
    (held,) = at.take()
    for first in range(0, records, 5000):
        puts = [
            RecordPut(b"long", held.token, b"s%d" % n, 0, b"1") for n in range(first, first + 5000)
        ]
        at.flow.record(None, puts)
    at.end(held, FP.END_SLEEP, at_us=0)
    handle.signal("go", 1)
    with worked(app):
        assert handle.result(120) == records + 1
    assert passes == [1]
    assert len(handle.steps()) == records + 1
    assert handle.delete() == records + 1


# ---- listings ------------------------------------------------------------------------------------

Between = Callable[[list[bytes], int], None]


@pytest.mark.hostile
@pytest.mark.parametrize("state", [FP.RUN_RUNNING, FP.RUN_DONE, FP.RUN_FAILED])
@pytest.mark.parametrize("seed", range(2))
def test_a_listing_has_each_run_once_whatever_goes_meanwhile(
    path: Path, core: Core, at: Scene, outside: Outside, state: int, seed: int
) -> None:
    """
    Those that are there from its beginning to its end; many of them ended at one moment. The newest
    one and the cursor's own are among those that go, so that their rowids are given anew.
    """
    chance = random.Random(seed)
    verb = {FP.RUN_DONE: FP.END_DONE, FP.RUN_FAILED: FP.END_FAIL}.get(state)

    def begin(id: bytes) -> None:
        at.start(id)
        if verb is not None:
            (held,) = at.take()
            at.end(held, verb, kind=b"error" if verb == FP.END_FAIL else None)
            if chance.random() < 0.3:
                core.hand(core.now() + 1)

    alive = [b"run %d" % number for number in range(24)]
    for one in alive:
        begin(one)
    stays = set(alive)
    seen: list[bytes] = []
    after, fresh = None, 0
    while True:
        page, after = at.flow.runs(state, after=after, limit=3)
        seen += [row.id for row in page]
        if after is None:
            break
        for _ in range(2):
            gone = chance.choice([alive[-1], seen[-1], chance.choice(alive)])
            if gone in alive:
                alive.remove(gone)
                stays.discard(gone)
                at.flow.delete(None, gone)
            alive.append(b"new %d" % fresh)
            begin(alive[-1])
            fresh += 1
        if chance.random() < 0.3:
            outside.change(path, "VACUUM")
    assert len(seen) == len(set(seen))
    assert stays <= set(seen)
