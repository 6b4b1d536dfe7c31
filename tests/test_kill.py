"""
Processes that are killed between any two steps of any operation. Storms are next door.

A kill leaves the file as it was before the operation or as it is after it. What was acknowledged is
there; what was not, is there whole or not at all.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness_cases import CASES, Case
from harness_core import core as opened
from harness_kill import DONE, PREPARED, Killer
from harness_ladder import findings, fingerprint
from harness_outside import Outside

pytestmark = pytest.mark.hostile

NEVER, NOT_AT_ALL = -1, -2  # a kill at that step: none; the operation is not even begun


@pytest.fixture(scope="module")
def killer() -> Iterator[Killer]:
    with Killer() as one:
        yield one


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_kill_at_any_step_leaves_all_or_nothing(
    case: Case, tmp_path: Path, killer: Killer, outside: Outside
) -> None:
    """And whoever opens the file next finds it healthy, and goes on with the work."""
    path = tmp_path / "file" / "app.db"

    def fate(at: int) -> tuple[list[str], bool, str]:
        shutil.rmtree(path.parent, ignore_errors=True)
        path.parent.mkdir()
        said, killed = killer.run(path, case.name, at)
        return said, killed, fingerprint(outside.dump(path))

    assert fate(NOT_AT_ALL)[:2] == ([PREPARED], False)
    before = fate(NOT_AT_ALL)[2]
    said, killed, after = fate(NEVER)
    assert (said, killed) == ([PREPARED, DONE], False)
    step = 0
    while True:
        said, killed, found = fate(step)
        if not killed:
            break
        assert said == [PREPARED]
        assert found in (before, after), f"half of it is there after a kill at step {step}"
        with opened(path) as core:
            assert findings(core) == ""
            assert core.retain(10) is not None
        step += 1
    assert (said, found) == ([PREPARED, DONE], after)
    assert step > 2
