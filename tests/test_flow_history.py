"""
Random histories of runs against a few obvious lines: whatever happens in whatever order, nothing
that came for a run is lost on it, its records stay as they were first written, and a parent is told
once of each child.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fencepost import Gone
from fencepost._binding.codes import FP
from fencepost._binding.flow import Parent, child_outcome
from harness_core import START, Held, look_after
from harness_core import core as opened
from harness_flow import LEASE, Scene, scene
from harness_ladder import findings

pytestmark = pytest.mark.hostile

ENDS = [FP.END_DONE, FP.END_SLEEP, FP.END_WAIT, FP.END_RETRY, FP.END_FAIL, FP.END_PARK]
ENDS += [FP.END_RELEASE, FP.END_WAIT, FP.END_WAIT]
LIVE = ("running", "sleeping", "waiting")
RESTS = ("failed", "parked")


@dataclass
class Model:
    """What a run must be, by what was said of it."""

    written: dict[bytes, bytes] = field(default_factory=dict)
    unseen: bool = False  # something came that no pass has begun after
    children: list[bytes] = field(default_factory=list)
    told: int = 0  # of how many of them


class History:
    def __init__(self, at: Scene, seed: int) -> None:
        self.at = at
        self.dice = random.Random(seed)
        self.now = START
        self.models: dict[bytes, Model] = {}
        self.out: list[Held] = []
        self.taken: set[bytes] = set()  # by the last move

    def move(self, moves: list[Callable[[], None]]) -> None:
        self.taken = set()
        self.dice.choice(moves)()
        self.check()

    def start(self) -> None:
        name = b"r%d" % len(self.models)
        mother = self.dice.choice(self.out) if self.out and self.dice.random() < 0.5 else None
        parent = None
        if mother is not None and mother.key in self.models:
            parent = Parent(mother.key, mother.token, b"kid-" + name)
            if self.fenced(mother):
                return
        limit = self.dice.choice([-1, 1, 2])
        assert self.at.start(name, parent=parent, max_attempts=limit)
        self.models[name] = Model(unseen=True)
        if parent is not None:
            self.models[parent.id].children.append(name)

    def fenced(self, held: Held) -> bool:
        answer = self.at.record(held, b"look", b"")
        if answer != FP.LOST and held.key is not None:
            self.models[held.key].written.setdefault(b"look", b"")
        return answer == FP.LOST

    def some(self) -> bytes:
        return self.dice.choice(sorted(self.models))

    def signal(self) -> None:
        name = self.some()
        key = b"signal:%d" % self.dice.randrange(3)
        value = b"%d" % self.dice.randrange(9)
        model = self.models[name]
        state = self.at.state(name)
        try:
            stored, first = self.at.flow.arrive(None, name, key, value)
        except Gone:
            assert state in ("done", "cancelled")
            return
        assert first == (key not in model.written)
        assert stored == model.written.setdefault(key, value)
        model.unseen = model.unseen or first

    def take(self) -> None:
        for held in self.at.take(self.dice.randrange(1, 3)):
            assert held.key is not None
            assert self.at.state(held.key) == "running"
            self.models[held.key].unseen = False
            self.taken.add(held.key)
            self.out = [one for one in self.out if one.key != held.key] + [held]

    def record(self) -> None:
        if self.out:
            held = self.dice.choice(self.out)
            assert held.key is not None
            key, value = b"s%d" % self.dice.randrange(5), b"%d" % self.dice.randrange(9)
            written = self.models[held.key].written
            answer = self.at.record(held, key, value)
            if answer != FP.LOST:
                first = written.setdefault(key, value)
                assert answer == (FP.DONE if first == value else FP.ALREADY)

    def end(self) -> None:
        if self.out:
            held = self.out.pop(self.dice.randrange(len(self.out)))
            verb = self.dice.choice(ENDS)
            at_us = {FP.END_SLEEP: self.now + 5, FP.END_RETRY: 3}.get(verb, -1)
            self.at.end(held, verb, at_us=at_us, kind=b"error")

    def later(self) -> None:
        self.now += self.dice.choice([1, 5, LEASE])
        self.at.core.hand(self.now)

    def forget(self) -> None:
        """A worker dies that holds something: its lease is all that is left of it."""
        if self.out:
            self.out.pop()

    def resume(self) -> None:
        name = self.some()
        rests = self.at.state(name) in RESTS
        assert self.at.flow.resume(None, name) == (FP.DONE if rests else FP.ALREADY)

    def cancel(self) -> None:
        if self.dice.random() < 0.3:
            self.at.flow.cancel(None, self.some())

    def check(self) -> None:
        for name, model in self.models.items():
            found = {one.key: one.value for one in self.at.flow.records(name)}
            told = [key for key in found if key.startswith(b"kid-")]
            for kid in model.children:
                state = self.at.state(kid)
                if state in ("done", "cancelled") and self.at.state(name) in LIVE + RESTS:
                    outcome = child_outcome(found[b"kid-" + kid])
                    assert outcome.state in (state, "failed")
            assert model.told <= len(told) <= len(model.children)
            model.unseen |= len(told) > model.told and name not in self.taken
            model.told = len(told)
            assert {k: v for k, v in found.items() if k not in told} == model.written

    def drain(self) -> None:
        """In the end each run that was told something it has not seen is handed out."""
        for held in self.out:
            self.at.end(held, FP.END_WAIT)
        for name in sorted(self.models):
            self.at.flow.resume(None, name)
        seen: set[bytes] = set()
        for _ in range(20):
            self.now += LEASE
            self.at.core.hand(self.now)
            for held in self.at.take(50):
                assert held.key is not None
                seen.add(held.key)
                self.at.end(held, FP.END_WAIT)
        for name, model in self.models.items():
            if model.unseen and self.at.state(name) in LIVE:
                assert name in seen, f"{name!r} was told something, and never handed out"


@pytest.mark.parametrize("seed", range(40))
def test_nothing_that_comes_for_a_run_is_lost_on_it(path: Path, seed: int) -> None:
    with opened(path, normal=True) as core:
        history = History(scene(core), seed)
        moves = [history.start, history.signal, history.signal, history.take, history.take]
        moves += [history.record, history.end, history.end, history.later, history.forget]
        moves += [history.resume, history.cancel]
        history.start()
        for _ in range(60):
            history.move(moves)
        assert findings(core) == ""
        look_after(core)
        history.drain()
        assert findings(core) == ""
