"""
A run whose workers are killed, each a real process: what is recorded never runs again, what
`transact` wrote is there once, and deadlines stay where they were first set.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import workflow_app
from fencepost import App
from fencepost._workflow.runfile import RunFile
from harness_kill import Fate, Killer
from harness_worker import Notes
from workflow_app import ID, NEVER, begin, declare

pytestmark = pytest.mark.hostile

RESULT = ["1", "ann", [1], 8, "5"]
STEPS = 60  # about as many as the core takes behind a point until the next one


@pytest.fixture(scope="module")
def lives() -> Iterator[Killer]:
    with Killer(workflow_app.__file__) as one:
        yield one


def recorded(path: Path) -> dict[str, bytes | None]:
    """What the file has of the run, after a death."""
    app = App(path)
    with app.store as store:
        return {record.key: record.value for record in RunFile(store._file, ID).records()}


def survive(lives: Killer, path: Path, notes: Notes, point: int, step: int = -1) -> Fate:
    """
    One life that ends at the point, and one more that goes on to the end; in between and after it
    everything is as promised.
    """
    begin(path, notes)
    fate = lives.run(path, str(notes.path), point, step)
    before, ran = recorded(path), notes.read()
    second = lives.run(path, str(notes.path), NEVER, -1)
    assert second.said[-1:] == ["done"], second
    after = recorded(path)
    assert {key: after[key] for key in before} == before
    for name in ("first", "last"):
        again = [line for line in notes.read()[len(ran) :] if line[0] == name]
        assert not (name in before and again), f"{name} was recorded, and ran again"
        assert all(line[1] == f"{ID}:{name}" for line in notes.read() if line[0] == name)
    app, five = declare(path, notes)
    with app.store as store:
        assert five.handle(ID).result(1) == RESULT
        with store.transaction() as tx:
            assert tx.execute("SELECT amount FROM paid") == [(7,)]
        assert store.check(full=True) == []
    return fate


def test_it_is_killed_at_each_point_on_its_way(lives: Killer, tmp_path: Path) -> None:
    """At each await and around each commit, one life after the other, until none is left."""
    seen: list[str] = []
    for point in range(60):
        folder = tmp_path / str(point)
        folder.mkdir()
        fate = survive(lives, folder / "app.db", Notes(folder / "notes"), point)
        if not fate.killed:
            break
        seen.append(fate.said[-1])
    assert not fate.killed, "it has more points than that"
    assert {" ".join(words.split()[:2]) for words in seen} >= {
        "claimed five",
        "step done",
        "step recorded",
        "sleep recorded",
        "handled five",
        "committed five",
    }
    assert {words.split()[-1] for words in seen} >= {"first", "nap", "messages", "pay", "last"}


@pytest.mark.long
@pytest.mark.parametrize("point", range(20))
def test_it_is_killed_at_each_step_of_each_commit(
    lives: Killer, tmp_path: Path, point: int
) -> None:
    killed = 0
    for step in range(STEPS):
        folder = tmp_path / str(step)
        folder.mkdir()
        fate = survive(lives, folder / "app.db", Notes(folder / "notes"), point, step)
        killed += fate.killed
    assert killed


def test_h13_power_cut_between_steps(lives: Killer, tmp_path: Path) -> None:
    """
    Killed when a step's body is done and nothing recorded, when it is recorded, and when the
    sleep's deadline is; down past the deadline each time. The sleep ends at its first deadline, at
    once because that has passed; the step that was not recorded runs again with its own key.
    """
    for number, point in enumerate(("step done", "step recorded", "sleep recorded")):
        folder = tmp_path / str(number)
        folder.mkdir()
        path, notes = folder / "app.db", Notes(folder / "notes")
        begin(path, notes)
        found = next(
            at
            for at in range(20)
            if _first_life(lives, folder / f"look {at}.db", at).startswith(point)
        )
        assert lives.run(path, str(notes.path), found, -1).killed
        deadline = recorded(path).get("nap")
        assert lives.run(path, str(notes.path), NEVER, -1).said[-1] == "done"
        if deadline is not None:
            assert recorded(path)["nap"] == deadline
        ran = [line for line in notes.read() if line[0] == "first"]
        assert ran == [["first", f"{ID}:first"]] * (2 if point == "step done" else 1)


def _first_life(lives: Killer, path: Path, at: int) -> str:
    notes = Notes(path.with_suffix(".notes"))
    begin(path, notes)
    return lives.run(path, str(notes.path), at, -1).said[-1]
