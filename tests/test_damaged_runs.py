"""Of a run whose rows are damaged all is shown that can be, and it hides no other."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

import fencepost
from fencepost import App, Run
from fencepost._operator import timeline_told
from fencepost._workflow.timeline import timeline
from harness_worker import until

RECORD = "UPDATE fencepost_record SET"
BEYOND = 2**62
DAMAGES = [
    f"UPDATE fencepost_run SET created_at = {BEYOND}",
    f"{RECORD} started_at = {BEYOND}",
    f"{RECORD} written_at = {BEYOND}",
    f"{RECORD} value = NULL",
    f"{RECORD} value = x'fffe7b'",
    f"{RECORD} value = '{{'",
    f"{RECORD} value = 3.5",
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_is_shown_as_far_as_it_goes(
    path: Path, foreign: Callable[[str], str], damage: str
) -> None:
    app = App(path)

    @app.workflow
    async def long(run: Run) -> None:
        try:
            await run.step("bad", int, "x")
        except ValueError:
            await run.sleep("nap", 0.001)
        await run.wait("told", str, timeout=3600)

    handle = long.options(id="a").start()
    with app.worker():
        until(lambda: handle.status().waiting_for == ("told",))
    app.store.close()
    foreign(damage)
    with fencepost.open(path) as store:
        (info,) = store.runs("waiting")
        assert isinstance(info.created_at, datetime)
        assert [step.name for step in long.at(store).handle("a").steps()][:2] == ["bad", "nap"]
        drawn = timeline(store._file, "a")
        assert [bar.name for bar in drawn.bars] == ["bad", "nap", "told"]
        timeline_told(drawn)
