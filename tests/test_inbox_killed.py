"""
Receivers and senders that are killed, over and over: nothing that was accepted is lost, nothing is
handled to its end twice, and what follows from it follows once.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import inbox_app
from harness_kill import Killer
from harness_worker import Notes
from inbox_app import declare, make

pytestmark = pytest.mark.hostile

MESSAGES = 6
NOT = -1


@pytest.fixture(scope="module")
def receivers() -> Iterator[Killer]:
    with Killer(inbox_app.__file__) as one:
        yield one


def check(path: Path, notes: Notes, accepted: set[int]) -> None:
    """Against the model: each that was accepted has its row, its job's end and one delivery."""
    app, _ = declare(path, notes)
    with app.store as store:
        with app.transaction() as tx:
            rows = Counter(int(n) for (n,) in tx.execute("SELECT n FROM paid"))
        assert rows == Counter(accepted)
        queues = store.stats()["queues"]
        assert queues["payments"]["done"] == queues["default"]["done"] == len(accepted)
        receipts = queues["receipts"]
        assert receipts["done"] + receipts["unknown"] == len(accepted)
        assert store.check(full=True) == []
    sent = Counter(int(n) for word, n in notes.read() if word == "sent")
    followed = Counter(int(n) for word, n in notes.read() if word == "followed")
    assert set(followed) == accepted
    assert all(count == 1 for count in sent.values())
    assert receipts["done"] <= len(sent) <= len(accepted)


@pytest.mark.parametrize("seed", range(4))
def test_histories_of_killed_workers_are_the_models(
    path: Path, tmp_path: Path, receivers: Killer, seed: int
) -> None:
    """The same stories each time, so that a red build is red for everybody."""
    live_through(path, tmp_path, receivers, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4, 104))
def test_many_histories_of_killed_workers_are_the_models(
    path: Path, tmp_path: Path, receivers: Killer, seed: int
) -> None:
    live_through(path, tmp_path, receivers, seed)


def live_through(path: Path, tmp_path: Path, receivers: Killer, seed: int) -> None:
    """
    Messages come, some of them again, while each worker is killed after a few steps more or less;
    the last one may finish.
    """
    notes = Notes(tmp_path / "notes")
    luck = random.Random(seed)
    accepted: set[int] = set()
    killed = 0
    for _ in range(8):
        came = [luck.randrange(20) for _ in range(MESSAGES)]
        make(path, notes, *came)
        accepted |= set(came)
        killed += receivers.run(path, str(notes.path), luck.randrange(120)).killed
    assert receivers.run(path, str(notes.path), NOT).said == ["done"]
    assert killed >= 2
    check(path, notes, accepted)
