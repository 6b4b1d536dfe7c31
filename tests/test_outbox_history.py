"""
Histories of an outbox: two worker processes at a time, killed in the middle, and an operator who
confirms some of what is unknown and retries the rest. Lanes halt for what nobody can answer for.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

import outbox_app
from fencepost import Store
from harness_kill import Killer
from harness_worker import Notes
from outbox_app import NEVER, declare

pytestmark = pytest.mark.hostile

LANES = ("a", "b", "c")
ROUNDS = 6


@pytest.fixture(scope="module")
def pair() -> Iterator[list[Killer]]:
    """Two servers, so that two workers live side by side."""
    with ExitStack() as stack:
        yield [stack.enter_context(Killer(outbox_app.__file__)) for _ in range(2)]


class History:
    def __init__(self, path: Path, notes: Notes, seed: int) -> None:
        self.path = path
        self.notes = notes
        self.luck = random.Random(seed)
        self.sent = 0
        self.retried: Counter[int] = Counter()
        self.payloads: dict[int, int] = {}  # by message id

    def come(self, count: int) -> None:
        """Further ones, each in the lane of its number."""
        app, outbox = declare(self.path, self.notes, on_dead="halt", max_attempts=0)
        with app.store:
            for _ in range(count):
                lane = LANES[self.sent % len(LANES)]
                self.payloads[outbox.send("d", self.sent, lane=lane).id] = self.sent
                self.sent += 1

    def live(self, pair: list[Killer], *steps: int) -> int:
        """Two workers at once; a step of -1 is no death. How many died."""
        points = ["claimed" if step >= 0 else NEVER for step in steps]

        def run(killer: Killer, point: str, step: int) -> bool:
            fate = killer.run(self.path, str(self.notes.path), point, step, "hold")
            assert fate.killed or fate.said == ["done"]
            return fate.killed

        with ThreadPoolExecutor(2) as pool:
            return sum(pool.map(run, pair, points, steps))

    def decide(self) -> bool:
        """The operator's word on all that is unknown; whether there was any."""
        app, _ = declare(self.path, self.notes)
        with app.store as store:
            unknown = store.messages("unknown")
            for message in unknown:
                if self.luck.random() < 0.5:
                    assert store.confirm([message]) == 1
                    continue
                (answer,) = store.replay([message])
                assert answer.outcome == "replayed"
                self.retried[self.payloads[message.id]] += 1
            return bool(unknown) or in_line(store) > 0

    def check(self) -> None:
        app, _ = declare(self.path, self.notes)
        with app.store as store:
            assert store.check(full=True) == []
            totals = store.stats()["totals"]
            assert {name: count for name, count in totals.items() if count} == {"done": self.sent}
        order = [int(payload) for word, payload, *_ in self.notes.read() if word == "sent"]
        for lane in range(len(LANES)):
            mine = [payload for payload in order if payload % len(LANES) == lane]
            assert mine == sorted(mine), "one of a lane was overtaken"
        for payload, count in Counter(order).items():
            assert count <= 1 + self.retried[payload], "sent again by itself"


def in_line(store: Store) -> int:
    totals = store.stats()["totals"]
    return int(totals["pending"] + totals["waiting"] + totals["leased"])


def live_through(path: Path, tmp_path: Path, pair: list[Killer], seed: int) -> None:
    story = History(path, Notes(tmp_path / "notes"), seed)
    died = 0
    for _ in range(ROUNDS):
        story.come(story.luck.randrange(1, 7))
        died += story.live(pair, story.luck.randrange(60), story.luck.randrange(60))
        story.decide()
    while story.decide():
        story.live(pair, -1, -1)
    assert died > 1
    story.check()


@pytest.mark.parametrize("seed", range(3))
def test_no_history_loses_repeats_or_reorders(
    path: Path, tmp_path: Path, pair: list[Killer], seed: int
) -> None:
    live_through(path, tmp_path, pair, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3, 60))
def test_no_history_of_many_loses_repeats_or_reorders(
    path: Path, tmp_path: Path, pair: list[Killer], seed: int
) -> None:
    live_through(path, tmp_path, pair, seed)
