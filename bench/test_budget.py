"""What the script that guards the hot paths says, without counting anything."""

from __future__ import annotations

import json

from budget import BATCHES, HOT, WRITTEN, dearer
from instructions import OPERATIONS


def test_every_hot_path_is_counted_and_written_down() -> None:
    assert set(HOT) <= {f"{one.name} {one.profile}" for one in OPERATIONS}
    for budget in json.loads(WRITTEN.read_text("utf-8")).values():
        assert set(budget) == set(HOT)
        assert all(len(costs) == len(BATCHES) for costs in budget.values())


def test_what_became_dearer_is_named() -> None:
    """A twentieth is noise of the compiler, more is a change; what became cheaper is fine."""
    written = {"ack job": [50.0, 10.0], "claim job": [60.0, 14.0]}
    found = {"ack job": [52.4, 10.6], "claim job": [30.0, 14.0]}
    assert dearer(found, written) == [
        "ack job, batch 100: 10.6k instructions a row, written down are 10.0k (+6 %)"
    ]
