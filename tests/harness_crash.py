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
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import harness_scenes as scene
from fencepost._binding import calls
from fencepost._binding.calls import checked
from fencepost.errors import StorageError
from harness_cases import CASES, Case
from harness_core import core as core_of
from harness_core import lib, opened, put
from harness_core import tx as transaction
from harness_kill import DONE, PREPARED, Fate, Killer, Say, serve
from harness_ladder import FOR_EVER, Arm, Ladder, disarm, findings, told
from harness_looks import LOOKS
from harness_outside import Outside
from harness_sky import Child, Plan, Sky, run, run_alone

NEVER = -1
HEALTHY = "healthy"


class Cut(NamedTuple):
    """The power goes before the `at`-th sync, or just after it; NEVER: when the child is done."""

    at: int
    after: bool
    seed: int


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


COMMITS = """
    BEGIN IMMEDIATE;
    INSERT INTO mine VALUES (7);
    INSERT INTO fencepost_enqueue (queue, kind, body, key) VALUES ('jobs', 'k', x'61', 'k');
    INSERT INTO fencepost_settle (id, token, verb) VALUES ({id}, {token}, 'ack');
    COMMIT
"""


def door(me: Child, cut: list[Any]) -> None:
    """Another program's commit through the door, with a row of its own."""
    core = opened(me.path)
    run_alone(core, "CREATE TABLE mine (x)")
    held = scene.one_held(core)
    me.say(PREPARED)
    before = lib.fp_syncs()
    arm(cut)
    sql = COMMITS.format(id=held.id, token=held.token)
    checked(lib.fp_elsewhere, str(me.path).encode(), sql.encode())
    me.say(DONE)
    me.say(f"{lib.fp_syncs() - before}")
    end(cut)


def copying(me: Child, what: str) -> Callable[[], None]:
    """What makes `dest.db`: a backup, or a restored file; and a backup that is there already."""
    core = opened(me.path)
    scene.one_held(core)
    backup, dest = (str(me.path.with_name(name)).encode() for name in ("backup.db", "dest.db"))
    core.backup(backup, over=False)
    if what == "restore":
        return partial(calls.restore, backup, dest)
    return partial(core.backup, dest, over=False)


def copy(me: Child, what: str, cut: list[Any]) -> None:
    """Until the copy has its name, and after that."""
    make = copying(me, what)
    me.say(PREPARED)
    before = lib.fp_syncs()
    arm(cut)
    make()
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


def arms(times: int) -> dict[str, Arm]:
    return {
        "full": lambda rung: lib.fp_fault_write(rung, times, 1),
        "broken": lambda rung: lib.fp_fault_write(rung, times, 0),
        "unsynced": lambda rung: lib.fp_fault_sync(rung, times),
        "unreadable": lambda rung: lib.fp_fault_io(rung, times),
    }


def failing(me: Child, name: str, what: str, times: int) -> None:
    """The ladder: writes or syncs fail one after the other, the same handle goes on."""
    ladder = Ladder(case_of(name), me.path.parent, me.outside)
    rungs = ladder.climb(arms(times)[what])
    ladder.end()
    me.say(f"{rungs} rungs")


def failing_open(me: Child, what: str, times: int) -> None:
    """The same for the making of a store: whoever opens it next makes what is missing."""
    failures: list[StorageError] = []
    for rung in count():
        me.path.parent.mkdir(exist_ok=True)
        arms(times)[what](rung)
        try:
            opened(me.path).close()
        except StorageError as error:
            failures.append(error)
        hits = lib.fp_fault_hits()
        disarm()
        with core_of(me.path) as core:
            assert findings(core) == ""
            assert put(core, scene.jobs(core), b"first") == [1], f"rung {rung}"
        shutil.rmtree(me.path.parent)
        if hits == 0:
            break
    assert all(map(told, failures)), failures
    me.say(f"{len(failures)} rungs")


def failing_copy(me: Child, name: str, what: str, times: int) -> None:
    """The same for copies: one that fails leaves nothing, also under no other name."""
    make, rung, hits = copying(me, name), 0, 1
    failures: list[StorageError] = []
    there = sorted(me.path.parent.iterdir())
    while hits:
        arms(times)[what](rung)
        try:
            make()
        except StorageError as error:
            failures.append(error)
        hits = lib.fp_fault_hits()
        disarm()
        dest = me.path.with_name("dest.db")
        if dest.exists():
            assert me.outside.rows(dest, "PRAGMA integrity_check") == [["ok"]]
            dest.unlink()
        assert sorted(me.path.parent.iterdir()) == there, f"rung {rung} left something behind"
        rung += 1
    # SQLite's own check of a copy takes a page that it cannot read for damage.
    strange = [one for one in failures if not told(one) and "is damaged" not in str(one)]
    assert strange == [], strange
    me.say(f"{len(failures)} rungs")


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


def case_of(name: str) -> Case:
    return next(one for one in (*CASES, *LOOKS) if one.name == name)


LIVES: dict[str, Callable[..., None]] = {
    life.__name__: life
    for life in (
        *(a_case, begin, copy, crowd, door, fill),
        *(refused, failing, failing_open, failing_copy, look, weather),
    )
}


def live(outside: Outside, say: Say, path: Path, name: str, *asked: Any) -> None:
    lib.fp_crash_install()
    LIVES[name](Child(say, path, outside), *asked)


# ---- afterwards ----------------------------------------------------------------------------------


class Machine:
    """Power cuts, and the reboots after them, of one file."""

    def __init__(
        self, killer: Killer, folder: Path, outside: Outside, name: str = "app.db"
    ) -> None:
        self.path = folder / name
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
