"""
Senders that are killed, each a real process: what was sent is never sent again by itself, and what
was not is sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import outbox_app
from fencepost import Store
from harness_kill import Killer
from harness_worker import Notes
from outbox_app import NEVER, declare

pytestmark = pytest.mark.hostile

STEPS = 40  # about what a delivery takes behind its claim, and what the worker looks at then


@pytest.fixture(scope="module")
def senders() -> Iterator[Killer]:
    with Killer(outbox_app.__file__) as one:
        yield one


def sent(notes: Notes, payload: int) -> list[list[str]]:
    return [line for line in notes.read() if line[:2] == ["sent", str(payload)]]


def send(path: Path, notes: Notes, *payloads: int, **policy: object) -> None:
    app, outbox = declare(path, notes, **policy)
    for payload in payloads:
        outbox.send("somewhere", payload, lane="lane")
    app.store.close()


def states(path: Path, notes: Notes) -> dict[str, int]:
    app, _ = declare(path, notes)
    with app.store as store:
        assert store.check(full=True) == []
        return ended(store)


def ended(store: Store) -> dict[str, int]:
    return {name: count for name, count in store.stats()["totals"].items() if count}


@pytest.mark.parametrize(
    ("point", "said", "first"),
    [
        ("claimed", {"done": 2}, 1),
        ("begun", {"done": 1, "unknown": 1}, 0),
        ("handled", {"done": 1, "unknown": 1}, 1),
        ("sent", {"done": 1, "unknown": 1}, 1),
        ("committed", {"done": 2}, 1),
    ],
)
def test_a_sender_that_is_killed_leaves_what_is_known(
    path: Path, notes: Notes, senders: Killer, point: str, said: dict[str, int], first: int
) -> None:
    """
    The next one sends what was not begun, leaves alone what was, and goes on with the lane; nobody
    waits for the dead one's lease.
    """
    send(path, notes, 1, 2)
    assert senders.run(path, str(notes.path), point, -1, "hold").killed
    assert senders.run(path, str(notes.path), NEVER, -1, "hold").said == ["done"]
    assert states(path, notes) == said
    assert (len(sent(notes, 1)), len(sent(notes, 2))) == (first, 1)


def test_h12_sent_again_by_name_it_is_the_same_event(
    path: Path, notes: Notes, senders: Killer
) -> None:
    """Published, then killed before the mark. Those of one lane arrive in their order."""
    send(path, notes, 1, 2, on_unknown="retry")
    assert senders.run(path, str(notes.path), "sent", -1, "retry").killed
    assert senders.run(path, str(notes.path), NEVER, -1, "retry").said == ["done"]
    assert states(path, notes) == {"done": 2}
    (_, _, event, attempt, _), (_, _, again, second, _) = sent(notes, 1)
    assert (event, attempt, second) == (again, "1", "2")
    assert [line[1] for line in notes.read()] == ["1", "1", "2"]


def test_killed_at_every_step_nothing_is_lost_and_nothing_sent_twice(
    tmp_path: Path, senders: Killer
) -> None:
    """
    From the claim on, at each step of the core until none is left to be killed at. What is done
    was sent once; what is unknown at most once; and nothing is anything else.
    """
    killed, fates = 0, set()
    for step in range(STEPS):
        folder = tmp_path / str(step)
        folder.mkdir()
        path, notes = folder / "app.db", Notes(folder / "notes")
        send(path, notes, 1)
        killed += senders.run(path, str(notes.path), "claimed", step, "hold").killed
        assert senders.run(path, str(notes.path), NEVER, -1, "hold").said == ["done"]
        (fate,) = states(path, notes).items()
        count = len(sent(notes, 1))
        fates.add((fate, count))
        assert (fate, count) in ((("done", 1), 1), (("unknown", 1), 0), (("unknown", 1), 1))
    # Whether one falls between beginning and send, the threads decide: "begun" above has that.
    assert {state for (state, _), _ in fates} == {"done", "unknown"}
    assert killed > 0
