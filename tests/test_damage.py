"""
When the world fails for real: damaged files, and a disk that is full.

A typed error in plain words, nothing half-written, and the store goes on when the cause is gone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import harness_damage
from fencepost import StorageError
from harness_core import ack, define, put, stats, take
from harness_core import core as opened
from harness_ladder import findings
from harness_outside import Outside
from harness_processes import finish, start

pytestmark = pytest.mark.usefixtures("no_process_left")


def lived_through(folder: Path, first: int, count: int) -> list[str]:
    """The seeds whose process crashed, hung or met what is no error of ours."""
    folders = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, harness_damage.__file__, str(folder), str(first), str(count)]
    environment = {**os.environ, "PYTHONPATH": folders}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return [f"seed {seed}: {how}" for seed, how in map(json.loads, done.stdout.splitlines())]


@pytest.mark.hostile
def test_whatever_stands_in_our_tables_a_call_answers_or_says_so(tmp_path: Path) -> None:
    """Values changed at random, rows removed: no crash, no hang, no assert."""
    assert lived_through(tmp_path, 0, 25) == []


@pytest.mark.hostile
@pytest.mark.long
def test_also_in_thousands_of_files(tmp_path: Path) -> None:
    assert lived_through(tmp_path, 1000, 5000) == []


def test_a_count_that_is_gone_is_told_and_nothing_is_written(path: Path, outside: Outside) -> None:
    with opened(path) as core:
        queue = define(core, "q")
        put(core, queue, b"a")
        (held,) = take(core, queue)
        outside.change(path, "DELETE FROM fencepost_tally WHERE queue = 1")
        before = outside.dump(path)
        for use in (lambda: put(core, queue, b"b"), lambda: ack(core, held)):
            with pytest.raises(StorageError, match="fencepost_tally"):
                use()
            assert outside.dump(path) == before
        outside.change(path, "INSERT INTO fencepost_tally (queue, leased) VALUES (1, 1)")
        assert ack(core, held) == [0]
        assert findings(core) == ""


@pytest.mark.parametrize(
    "damage",
    [
        "fencepost_tally SET last = -1 WHERE queue = 0",
        "fencepost_tally SET last = 9223372036854775807 WHERE queue = 0",
        "fencepost_tally SET time = 9223372036854775807 WHERE queue = 0",
        "fencepost_meta SET clock_offset = 9223372036854775807",
        "fencepost_meta SET longest_lease = -1",
    ],
)
def test_a_counter_or_clock_that_cannot_be_gives_out_nothing(
    path: Path, outside: Outside, damage: str
) -> None:
    """No token below those that were given out, no lease that never ends."""
    with opened(path, hand_us=-1) as core:
        queue = define(core, "q")
        put(core, queue, b"a")
        outside.change(path, f"UPDATE {damage}")
        before = outside.dump(path)
        for use in (lambda: take(core, queue), lambda: put(core, queue, b"b"), core.now):
            with pytest.raises(StorageError, match="damaged"):
                use()
        assert outside.dump(path) == before


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["X''", "X'ff'", "7", "hex(zeroblob(300))"])
def test_a_lane_whose_name_is_none_does_not_turn_in_circles(
    path: Path, outside: Outside, name: str
) -> None:
    """A blob sorts behind all text, and as text before it."""
    with opened(path) as core:
        queue = define(core, "q")
        put(core, queue, *[b"x"] * 4, lanes=[b"x", b"x", b"y", b"z"])
        outside.change(path, f"UPDATE fencepost_lane SET name = {name} WHERE name = 'y'")
        try:
            define(core, "q", lane_width=2)
        except StorageError as error:
            assert "damaged" in str(error)  # noqa: PT017 - a name that is only strange is none
        assert len(take(core, queue, 5)) >= 2


FULL = """
import resource
from fencepost import StorageError

with opened(path, hand_us=-1) as core:
    queue = define(core, "q")
    kept = put(core, queue, b"first")
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    wal = path.with_name(path.name + "-wal").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (wal + 300_000, hard))
    words = []
    while len(words) < 3:
        try:
            kept += put(core, queue, b"x" * 20_000)
        except StorageError as error:
            words.append(str(error))
    for use in (lambda: take(core, queue, 100), lambda: core.cancel(None, kept)):
        try:
            use()
        except StorageError as error:
            words.append(str(error))
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    kept += put(core, queue, b"x" * 20_000)
    say([words, kept])
"""


def test_a_disk_that_is_full_costs_nothing_but_the_call(path: Path, outside: Outside) -> None:
    """Files may not grow any more: an error of the disk, and afterwards it works as before."""
    ((words, kept),) = finish(start(FULL, path))
    assert len(words) == 5
    assert all("disk I/O error" in each or "disk is full" in each for each in words)
    assert outside.rows(path, "SELECT id FROM fencepost_message ORDER BY id") == [[i] for i in kept]
    with opened(path, hand_us=-1) as core:
        assert findings(core) == ""
        assert stats(core, 1).pending == len(kept)
