"""A process of a weather: operations at random, each a commit with a row that tells what it did."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, NamedTuple

import harness_scenes as scene
from fencepost._binding.calls import Core, OpenTx
from fencepost._binding.guest import Guest
from harness_core import Held, define, lib, opened, put, settle, take
from harness_core import tx as transaction
from harness_kill import Say
from harness_outside import Outside


class Child(NamedTuple):
    """What a life is given: its voice, its file, and another process that can look at it."""

    say: Say
    path: Path
    outside: Outside


class Plan(NamedTuple):
    """Of a weather. `fails`: some syncs fail; `lies`: none does anything."""

    seed: int
    steps: int
    normal: bool = False
    fails: bool = False
    lies: bool = False


class Sky:
    """One process of a weather: the handle, and what it holds."""

    def __init__(self, me: Child, dice: random.Random, normal: bool) -> None:
        self._me, self._dice, self._normal = me, dice, normal
        self._held: list[Held] = []
        self._begun: set[Held] = set()
        self.core = self._opened()
        self._outbox = scene.outbox(self.core, max_attempts=0)
        self._inbox = define(self.core, "inbox", lib.FP_PROFILE_INBOX, max_attempts=0)
        self._queues = [scene.jobs(self.core, max_attempts=0), self._outbox, self._inbox]

    def again(self) -> None:
        """Closes, which checkpoints and removes the WAL, and opens."""
        self.core.close()
        self.core = self._opened()

    def _opened(self) -> Core:
        core = opened(self._me.path, normal=self._normal)
        often = self._dice.choice([12, 100])
        for pragma in (f"wal_autocheckpoint = {often}", "journal_size_limit = 8000"):
            core._number(lib.fp_pragma, f"PRAGMA {pragma}".encode())
        return core

    def step(self, number: int) -> None:
        way = self._dice.random()
        if way < 0.2 and len(self._held) < 5:
            self._claim()
        with transaction(self.core) as tx:
            if self._held and way < 0.6:
                said = self._settle(self._held.pop(), way, tx)
            else:
                said = self._put(number, tx)
            run(tx, f"INSERT INTO history VALUES ({number}, {said})")

    def _settle(self, held: Held, way: float, tx: OpenTx) -> str:
        """What is sent begins first, and may end as what nobody can answer for."""
        verb, said = lib.FP_ACK, "ended"
        if held.queue == self._outbox and held not in self._begun:
            verb, said = lib.FP_BEGIN, "begun"
            self._begun.add(held)
            self._held.append(held)
        elif way > 0.5:
            verb, said = lib.FP_RETRY, "tried"
        elif held in self._begun and way > 0.4:
            verb = lib.FP_UNKNOWN
        lease = -1 if verb == lib.FP_BEGIN else 0
        assert settle(self.core, scene.say(held, verb, lease), tx=tx) == [lib.FP_DONE]
        return f"'{said}', {held.id}"

    def _put(self, number: int, tx: OpenTx) -> str:
        columns: dict[str, Any] = {"lanes": [self._dice.choice([None, b"x", b"y"])]}
        queue = self._dice.choice(self._queues)
        if queue == self._inbox:
            columns.update(keys=[b"%d" % number], life=lib.FP_LIFE_LASTING, digests=bytes(32))
        body = self._dice.randbytes(self._dice.choice([10, 300, 9000]))
        (message,) = put(self.core, queue, body, tx=tx, **columns)
        return f"'sent', {message}"

    def _claim(self) -> None:
        claims = take(self.core, self._queues, 2)
        for claim in claims:
            self._me.say(f"token {claim.token}")
        self._held += claims


def run(tx: OpenTx, sql: str) -> None:
    with Guest(tx, sql) as guest:
        guest.run(1, b"")


def run_alone(core: Core, sql: str) -> None:
    with transaction(core) as tx:
        run(tx, sql)
