"""
Processes that are killed: between any two steps of any operation, and in storms.

A kill leaves the file as it was before the operation or as it is after it. What was acknowledged is
there; what was not, is there whole or not at all.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import harness_storm
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


# ---- storms --------------------------------------------------------------------------------------


def told(logs: Path) -> dict[str, list[list[int]]]:
    """What all processes were told by the store, by what it was."""
    words = ("sent", "claimed", "ended", "lost", "went")
    lines: dict[str, list[list[int]]] = {word: [] for word in words}
    for log in logs.iterdir():
        for line in log.read_text().splitlines():
            word, _, numbers = line.partition(" ")
            assert word in lines, line
            lines[word].append([int(number) for number in numbers.split()])
    return lines


def weather(folder: Path, path: Path, outside: Outside, seconds: float) -> int:
    """One storm and what must be true after it; how many messages it saw."""
    logs = folder / "logs"
    logs.mkdir()
    seed = random.SystemRandom().randrange(10**9)
    print(f"seed {seed}")
    harness_storm.tables(path)
    command = [sys.executable, harness_storm.__file__, path, logs, seconds, seed]
    folders = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": folders}
    subprocess.run(list(map(str, command)), check=True, env=environment)
    with opened(path, hand_us=-1) as core, (logs / "drain").open("w") as rest:
        harness_storm.drain(core, lambda line: print(line, file=rest))
        assert findings(core) == ""
        all_ = harness_storm.queues(core)

    lines = told(logs)
    sent = {one for (one,) in outside.rows(path, "SELECT id FROM sent")}
    ended = [one for (one,) in outside.rows(path, "SELECT id FROM ended")]
    unknown = [
        one for (one,) in outside.rows(path, "SELECT id FROM fencepost_outcome WHERE state = 6")
    ]
    assert len(ended) == len(set(ended)), "a message ended twice"
    assert sorted([*ended, *unknown]) == sorted(sent), "a message and its row are one commit"
    came = outside.rows(path, f"SELECT key FROM fencepost_message WHERE queue = {all_.inbox}")
    assert len(came) == len({key for (key,) in came}), "one that came twice is two"
    outbox = outside.rows(path, f"SELECT id FROM ended WHERE queue = {all_.outbox}")
    went = [one for (one,) in lines["went"]]
    assert len(went) == len(set(went)), "a message was sent again by itself"
    assert {one for (one,) in outbox} <= set(went) <= {one for (one,) in outbox} | set(unknown)
    assert {one for (one,) in lines["sent"]} <= sent, "an acknowledged message is not there"
    assert {one for (one,) in lines["ended"]} <= set(ended), "an acknowledged end is not there"
    tokens = [token for _, token in lines["claimed"]]
    assert len(tokens) == len(set(tokens)), "a token was given out twice"
    assert not set(tokens) & sent, "a token was an id"
    strict = "SELECT count(*) FROM (SELECT id, max(id) OVER (PARTITION BY lane ORDER BY rowid) AS"
    overtook = f"{strict} latest FROM ended WHERE lane > '') WHERE id < latest"
    assert outside.rows(path, overtook) == [[0]], "a lane was overtaken"
    kept = outside.rows(path, "SELECT id FROM fencepost_outcome")
    named = outside.rows(path, f"SELECT id FROM ended WHERE queue != {all_.bulk}")
    assert sorted(one for (one,) in kept) == sorted([*(one for (one,) in named), *unknown])
    assert outside.rows(path, "SELECT count(*) FROM fencepost_due") == [[0]]
    return len(sent)


def test_a_storm_loses_nothing_and_ends_nothing_twice(
    tmp_path: Path, path: Path, outside: Outside
) -> None:
    """Six processes, killed at random moments and replaced at once, for a few seconds."""
    assert weather(tmp_path, path, outside, 6) > 50


@pytest.mark.long
@pytest.mark.parametrize("_", range(5))
def test_a_long_storm_neither(tmp_path: Path, path: Path, outside: Outside, _: int) -> None:
    assert weather(tmp_path, path, outside, 60) > 500
