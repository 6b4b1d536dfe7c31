"""
Lives on a disk that loses its power: what a child does until then, and what must be true after.

The server forks each child before anything is opened, as in harness_kill. A child has the crash
disk (csrc/crash.h) all its life; it says what it was told before it does the next thing.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import harness_scenes as scene
from fencepost._binding.calls import Core, OpenTx
from fencepost._binding.guest import Guest
from fencepost.errors import StorageError
from harness_cases import CASES, Case
from harness_core import Held, define, lib, opened, put, settle, take
from harness_core import tx as transaction
from harness_kill import DONE, PREPARED, Fate, Killer, Say, serve
from harness_ladder import FOR_EVER, Arm, Ladder, findings
from harness_looks import LOOKS
from harness_outside import Outside

NEVER = -1
HEALTHY = "healthy"


class Cut(NamedTuple):
    """The power goes before the `at`-th sync, or just after it; NEVER: when the child is done."""

    at: int
    after: bool
    seed: int


class Child(NamedTuple):
    """What a life is given: its voice, its file, and another process that can look at it."""

    say: Say
    path: Path
    outside: Outside


def arm(cut: list[Any]) -> None:
    lib.fp_crash_at(*Cut(*cut))


def end(cut: list[Any]) -> None:
    """The power goes now."""
    lib.fp_crash_now(Cut(*cut).seed)


# ---- lives ---------------------------------------------------------------------------------------


def a_case(me: Child, name: str, cut: list[Any] | None) -> None:
    """Up to the case and, if there is a cut, through it."""
    case = case_of(name)
    core = opened(me.path)
    context = case.prepare(core)
    me.say(PREPARED)
    if cut is None:
        return
    before = lib.fp_syncs()
    arm(cut)
    case.operate(core, context)
    me.say(DONE)
    me.say(f"{lib.fp_syncs() - before}")
    end(cut)


def begin(me: Child, cut: list[Any]) -> None:
    """A store where none was, maybe in folders that were not; maybe in an application's file."""
    arm(cut)
    core = opened(me.path, wal=True)
    me.say("opened")
    put(core, scene.jobs(core), b"first")
    me.say(DONE)
    me.say(f"{lib.fp_syncs()}")
    end(cut)


FRAMES = 1100  # more than after which SQLite checkpoints


def fill(me: Child, cut: list[Any]) -> None:
    """A commit that fills the WAL and is checkpointed, one that begins it anew, and the closing."""
    core = opened(me.path)
    queue = scene.jobs(core)
    put(core, queue, b"old")
    me.say(PREPARED)
    before = lib.fp_syncs()
    arm(cut)
    for body in (b"x" * FRAMES * 4096, b"young"):
        put(core, queue, body)
        me.say(body[:5].decode())
    core.close()
    me.say(DONE)
    me.say(f"{lib.fp_syncs() - before}")
    end(cut)


def refused(me: Child, name: str, cut: list[Any] | None) -> None:
    """The operation's commit cannot be synced, and that is its end: by the power, or a kill."""
    case = case_of(name)
    core = opened(me.path)
    context = case.prepare(core)
    me.say(PREPARED)
    arm(cut or [NEVER, False, 0])
    lib.fp_fault_sync(0, 1)
    try:
        case.operate(core, context)
    except StorageError as error:
        me.say(f"{error}")
    if cut:
        end(cut)
    os.kill(os.getpid(), signal.SIGKILL)


def failing(me: Child, name: str, what: str, times: int) -> None:
    """The ladder: writes or syncs fail one after the other, the same handle goes on."""
    arms: dict[str, Arm] = {
        "full": lambda rung: lib.fp_fault_write(rung, times, 1),
        "broken": lambda rung: lib.fp_fault_write(rung, times, 0),
        "unsynced": lambda rung: lib.fp_fault_sync(rung, times),
        "unreadable": lambda rung: lib.fp_fault_io(rung, times),
    }
    ladder = Ladder(case_of(name), me.path.parent, me.outside)
    rungs = ladder.climb(arms[what])
    ladder.end()
    me.say(f"{rungs} rungs")


def crowd(me: Child, cut: list[Any]) -> None:
    """Threads that enqueue together, and share commits where they meet."""
    core = opened(me.path)
    queue = scene.bulk(core)

    def enqueue() -> None:
        for _ in range(10):
            for number in put(core, queue, b"a", b"b"):
                me.say(f"did {number}")

    threads = [threading.Thread(target=enqueue) for _ in range(4)]
    arm(cut)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    end(cut)


def look(me: Child) -> None:
    """Whoever opens it next, after the reboot: it is healthy, and work goes on."""
    core = opened(me.path, wal=True)
    me.say(findings(core) or HEALTHY)
    begun = core.begin(30)
    queue = core.queue_define(begun, b"afterwards", lib.FP_PROFILE_JOB, {})
    assert put(core, queue, b"a", tx=begun)
    begun.end(commit=False)
    with transaction(core) as tx:  # a commit that leaves no trace
        run(tx, "CREATE TABLE afterwards (x)")
        run(tx, "DROP TABLE afterwards")
    core.close()


class Plan(NamedTuple):
    """Of a weather. `fails`: some syncs fail; `lies`: none does anything."""

    seed: int
    steps: int
    normal: bool = False
    fails: bool = False
    lies: bool = False


def weather(me: Child, asked: list[Any]) -> None:
    """
    Operations at random, each in one commit with a row that says what it did; checkpoints are
    frequent, and the WAL begins anew and is cut short. The power goes at one of the syncs.
    """
    plan = Plan(*asked)
    dice = random.Random(plan.seed)
    sky = Sky(me, dice, plan.normal)
    run_alone(sky.core, "CREATE TABLE history (n INTEGER PRIMARY KEY, verb TEXT, id INTEGER)")
    sky.again()  # the table itself is safe, with either durability
    me.say(PREPARED)
    lib.fp_crash_lies(plan.lies)
    syncs = plan.steps if plan.normal else plan.steps * 3 // 2
    arm([dice.randrange(syncs), dice.random() < 0.3, plan.seed])
    for number in range(plan.steps):
        if plan.fails and dice.random() < 0.3:
            lib.fp_fault_sync(dice.randrange(3), 1)
        try:
            sky.step(number)
            me.say(f"did {number}")
        except StorageError:
            me.say(f"open {number}")
        lib.fp_fault_sync(NEVER, 0)
        if dice.random() < 0.1:
            sky.again()
    lib.fp_crash_now(plan.seed)


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


def case_of(name: str) -> Case:
    return next(one for one in (*CASES, *LOOKS) if one.name == name)


LIVES: dict[str, Callable[..., None]] = {
    life.__name__: life for life in (a_case, begin, crowd, fill, refused, failing, look, weather)
}


def live(outside: Outside, say: Say, path: Path, name: str, *asked: Any) -> None:
    lib.fp_crash_install()
    LIVES[name](Child(say, path, outside), *asked)


# ---- afterwards ----------------------------------------------------------------------------------


class Machine:
    """Power cuts, and the reboots after them, of one file."""

    def __init__(self, killer: Killer, folder: Path, outside: Outside) -> None:
        self.path = folder / "app.db"
        self._killer = killer
        self._outside = outside

    def cut(self, life: Callable[..., None], *asked: Any, keep: bool = False) -> Fate:
        """The life from its beginning, in a new folder unless `keep`, up to the power cut."""
        if not keep:
            shutil.rmtree(self.path.parent, ignore_errors=True)
            self.path.parent.mkdir(parents=True)
        fate = self._killer.run(self.path, life.__name__, *asked)
        self.side("-shm").unlink(missing_ok=True)
        return fate

    def side(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)

    def complaints(self) -> list[str]:
        """What whoever opens it next, and SQLite, have to say against the file."""
        said, killed = self._killer.run(self.path, look.__name__)
        found = [*said, *("killed" for _ in range(killed))]
        try:
            found += [row[0] for row in self._outside.rows(self.path, "PRAGMA integrity_check")]
        except AssertionError as error:
            found.append(str(error))
        return [one for one in found if one not in (HEALTHY, "ok")]

    def dump(self) -> str:
        return self._outside.dump(self.path)

    def rows(self, sql: str) -> list[list[Any]]:
        return self._outside.rows(self.path, sql)

    def history_is_wrong(self, said: list[str], *, full: bool) -> Iterator[str]:
        """After a weather: what the file says against what the child had been told."""
        did, unsure, tokens = (numbers(said, word) for word in ("did", "open", "token"))
        told = [*did, *unsure]
        under_way = max(told, default=-1) + 1
        try:
            history = self.rows("SELECT n, verb, id FROM history ORDER BY n")
        except AssertionError as error:
            yield str(error)
            return
        there = [n for n, _, _ in history]
        lost = set(did) - set(there)
        if full and lost:
            yield f"lost {sorted(lost)}"
        if lost and min(lost) < max(there, default=-1):
            yield f"{sorted(lost)} are lost and what came after them is not"
        if not set(there) <= {*told, under_way}:
            yield f"{there} are there, {told} were done"
        sent = {message for _, verb, message in history if verb == "sent"}
        ended = {message for _, verb, message in history if verb == "ended"}
        due = {message for (message,) in self.rows("SELECT id FROM fencepost_due")}
        if due != sent - ended:
            yield f"{sent} were sent and {ended} have ended, but {due} are due"
        begun: set[int] = set()
        for _, verb, message in history:
            begun = begun | {message} if verb == "begun" else begun - {message}
        staged = {
            message for (message,) in self.rows("SELECT id FROM fencepost_due WHERE stage = 2")
        }
        if staged != begun:
            yield f"{begun} have begun, and {staged} are said to have"
        last = self.rows("SELECT last FROM fencepost_tally WHERE queue = 0")[0][0]
        if full and max(tokens, default=0) > last:
            yield f"token {max(tokens)} would be given out again after {last}"


def numbers(said: list[str], word: str) -> list[int]:
    return [int(line.split()[1]) for line in said if line.startswith(f"{word} ")]


__all__ = ["DONE", "FOR_EVER", "HEALTHY", "NEVER", "PREPARED", "Cut", "Machine", "Plan", "numbers"]


if __name__ == "__main__":
    with Outside() as one:  # before the first fork: all children ask the same
        serve(partial(live, one))
