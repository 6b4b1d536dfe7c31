"""
The comparison still runs, with few messages and with what needs no network: Fencepost, SQLite in
C, the hand-written queue, and whichever peers this Python happens to have.
"""

from __future__ import annotations

import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest
from bench._c import driver, preload
from bench.peers import tables
from bench.peers.__main__ import run
from bench.peers.child import Child
from bench.peers.found import HAND, OUR_JOB, OURS, RAW
from bench.peers.install import PYTHON_PEERS, commands, environment
from bench.peers.peer import Adapter, Payload, adapter
from bench.peers.race import Failed, Race, Runner
from bench.peers.sizes import TINY, write_bodies


def tiny(folder: Path, *names: str) -> Race:
    begun = commands(names, python=sys.executable, raw=driver("raw"), node=None)
    library = preload("syncs") if sys.platform == "linux" else None
    until = time.monotonic() + 60
    return Race(begun, folder, TINY, env=environment(library), until=until, say=lambda _: None)


def test_a_run_fills_its_tables(tmp_path: Path) -> None:
    """Every operation has its figures, nothing failed, and the document takes the tables."""
    found = run(tiny(tmp_path, OURS, OUR_JOB, HAND))
    assert found["failures"] == {}
    full = found["figures"]["full"]
    assert {RAW, OURS, OUR_JOB, HAND} == set(full["put"])
    assert {OURS, OUR_JOB, HAND} == set(full["work"]) == set(full["threads 16"])
    assert all(one["done"] == TINY.jobs for one in full["work"][OURS])
    if sys.platform == "linux":
        assert full["put"][HAND][0]["syncs"] == TINY.puts
    document = tmp_path / "page.md"
    document.write_text(f"before\n{tables.BEGIN}of before\n{tables.END}after\n", encoding="utf-8")
    tables.replace(document, {"machine": {}, "missing": {"huey": "no"}, **found})
    text = document.read_text(encoding="utf-8")
    assert "of before" not in text
    assert "| huey | missing: no |" in text


class Stutter:
    """A queue that hands each message out twice."""

    def __init__(self, folder: Path, sync: str) -> None:
        self.line: list[Payload] = []

    def put(self, payload: Payload) -> None:
        self.line += [payload, payload]

    def take(self) -> Payload:
        return self.line.pop(0)

    def count(self) -> int:
        return len(self.line)


def test_a_message_that_comes_twice_is_an_error(tmp_path: Path) -> None:
    """And so is a count that does not add up."""
    which = Adapter("stutter", None, Stutter, "full", "-")
    child = Child(which, [{"number": 0}, {"number": 1}])
    child.answer(f"open full 0 {tmp_path}\n")
    assert "error" not in child.answer("put 1\n")
    assert "2 are left, and it should be 1" in child.answer("count\n")["error"]
    assert "handed out twice" in child.answer("take 2\n")["error"]


def test_what_goes_wrong_is_written_down_and_stops_nobody(tmp_path: Path) -> None:
    """A process that ends at once is a failure of its own, and the others have their figures."""
    race = tiny(tmp_path, HAND)
    with race:
        race.commands = {"broken": [sys.executable, "-c", "raise SystemExit('no such thing')"]}
        with race.excused("broken", "start"):
            race.runners["broken"] = race.runner("broken").greet()
        race.puts_and_takes("normal")
    assert "no such thing" in race.failures["broken"]["start"]
    assert len(race.figures["normal"]["put"][HAND]) == TINY.rounds


@pytest.mark.parametrize("name", PYTHON_PEERS)
def test_an_adapter_of_a_peer_that_is_here_works(tmp_path: Path, name: str) -> None:
    """Put, take, work, and nothing is lost or comes twice."""
    try:
        version(name)
    except PackageNotFoundError:
        pytest.skip(f"{name} is not installed")
    write_bodies(tmp_path / "bodies", 20)
    command = [sys.executable, "-m", "bench.peers.child", name, str(tmp_path / "bodies")]
    runner = Runner(command, tmp_path, name, environment(None))
    try:
        runner.greet()
        for order in (f"open normal 0 {tmp_path}", "put 9", "take 3", "count", "work 900", "count"):
            answer: dict[str, Any] = runner.order(order)
        assert answer["done"] == 0
    except Failed as error:
        pytest.fail(str(error))
    finally:
        runner.end()
    assert adapter(name).package == name
