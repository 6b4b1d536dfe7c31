"""
A storm: all who can use a file at once, each a process that is killed and replaced at once.

Run as a program, which forks all of them and opens nothing itself:

    harness_storm.py PATH BOOK KILLS SEED

Who dies is drawn, and how: from outside at any moment, or of itself at a drawn step of the core. It
says at the end, as JSON, who was killed where: after which of its last words, or at which step.
"""

from __future__ import annotations

import json
import logging
import math
import mmap
import os
import random
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from threading import Event

import fencepost
from fencepost import Claim, LeaseLost, sql
from fencepost._worker import failpoints
from fencepost.errors import Cancelled
from harness_core import ffi, lib
from storm_app import Book, House, house, note_end, note_sent

PLACE_BYTES = 64
CALM = 0.25  # seconds without a word, after which somebody is killed all the same
STEPS = (10, 3000)  # of the core, within which who dies of itself does so; some while it opens
KEYS = 600
BEGAN = "began"

Life = Callable[[House], None]


class Witness(Book):
    """A book that also keeps the last word, where the storm can read it after a kill."""

    def __init__(self, path: Path, place: memoryview) -> None:
        super().__init__(path)
        self._place = place

    def at(self, *words: object) -> None:
        """Words without their numbers."""
        said = " ".join(str(word) for word in words if not str(word).isdigit()).encode()
        self._place[:] = said[:PLACE_BYTES].ljust(PLACE_BYTES, b"\0")

    def write(self, *words: object) -> None:
        super().write(*words)
        self.at(words[0])


class Warned(logging.Handler):
    """What the worker warns of stands in the book, too."""

    def __init__(self, book: Book) -> None:
        super().__init__(logging.WARNING)
        self._book = book

    def emit(self, record: logging.LogRecord) -> None:
        self._book.write("warned", record.getMessage().partition("\n")[0])


# ---- lives ---------------------------------------------------------------------------------------


def produce(us: House) -> None:
    """Several things in each commit, some of which others have brought, too; sometimes the end."""
    for n in range(10**9):
        key = random.randrange(KEYS)
        with us.app.transaction() as tx:
            lane = f"lane-{n % 3}"
            paid = us.jobs.pay.options(lane=lane, tx=tx).enqueue(n)
            note_sent(tx, "pay", paid.id)
            keyed = us.jobs.pay.options(key=f"k{key}", tx=tx).enqueue(key)
            if keyed.created:
                note_sent(tx, "pay", keyed.id)
            for put in us.queues.numbers.enqueue_many(range(n % 5), tx=tx):
                note_sent(tx, "numbers", put.id)
            for put in (us.queues.plain.enqueue(n, tx=tx), us.queues.bulk.enqueue(n, tx=tx)):
                note_sent(tx, "bulk", put.id)
            note_sent(tx, "receipts", us.receipts.send("d", n, lane=lane, tx=tx).id)
            if us.payments.accept(f"m{key}", key, tx=tx) == "accepted":
                note_sent(tx, "payments", -1 - key, key)
        us.book.write("sent", paid.id, keyed.id, put.id)
        if n % 3 == 0:
            begin_others(us, n)
        if n % 7 == 0:
            with suppress(TimeoutError, Cancelled):
                paid.result(0.3)
                us.book.write("done", paid.id)


def begin_others(us: House, n: int) -> None:
    """A run, of which some are told at once what they will wait for; jobs of which one dies."""
    run = f"{os.getpid()}-{n}"
    with us.app.transaction() as tx:
        handle = us.order.options(id=run, tx=tx).start(n)
        if n % 2:
            handle.signal("go", "at once", tx=tx)
        for what, job in (("shaky", us.jobs.shaky), ("later", us.jobs.later.options(delay=3600))):
            note_sent(tx, what, job.options(tx=tx).enqueue().id)
    us.book.write("started", run)


def work(us: House) -> None:
    us.app.worker(threads=4).start()
    Event().wait()


def haul(us: House) -> None:
    """Claims and settles by hand: many at once with rows, some given back or renewed before."""
    queue = us.app.store.queue("bulk", int)
    while True:
        claims = queue.claim(8, wait=1)
        us.book.write("claimed", *(claim.token for claim in claims))
        with suppress(LeaseLost):
            if claims and random.random() < 0.3:
                claims.pop().retry(0)
            if claims and random.random() < 0.3:
                claims.pop().release()
            for claim in claims[:1]:
                claim.renew()
            with us.app.transaction() as tx:
                for claim in claims:
                    note_end(tx, "bulk", claim.id, claim.token)
                if queue.ack(claims, tx=tx):
                    raise LeaseLost
            us.book.write("ended", *(claim.id for claim in claims))


def knock(us: House) -> None:
    """Through the door: another SQLite puts in and settles, in commits that are its own."""
    queue = us.app.store.queue("plain", int)
    with closing(sqlite3.connect(us.app.store.path, timeout=60, isolation_level=None)) as other:
        other.execute("PRAGMA wal_autocheckpoint = 0")
        for n in range(10**9):
            other.execute("BEGIN IMMEDIATE")
            note_sent(other, "numbers", sql.enqueue(other, "numbers", b"%d" % n).id)
            paid = us.jobs.pay.options(tx=other, lane=f"lane-{n % 3}").enqueue(n)
            note_sent(other, "pay", paid.id)
            other.execute("COMMIT")
            us.book.write("sent", paid.id)
            for claim in queue.claim(3):
                us.book.write("claimed", claim.token)
                through_the_door(us, other, claim)


def through_the_door(us: House, other: sqlite3.Connection, claim: Claim[int]) -> None:
    other.execute("BEGIN IMMEDIATE")
    try:
        if claim.attempt == 1 and random.random() < 0.3:
            claim.retry(0, tx=other)
        else:
            note_end(other, "bulk", claim.id, claim.token)
            claim.ack(tx=other)
        other.execute("COMMIT")
        us.book.write("settled", claim.id)
    except LeaseLost:
        other.execute("ROLLBACK")


def operate(us: House) -> None:
    while True:
        tend(us)
        time.sleep(0.02)


def tend(us: House) -> None:
    """What operators do: revive, resume, confirm or send again, tell, and cancel."""
    store = us.app.store
    for message in store.messages("dead", queue="default"):
        with store.transaction() as tx:
            tx.execute("INSERT OR IGNORE INTO mended VALUES (?)", (str(message.id),))
        us.book.write("revives", message.id)
        store.replay([message])
    for message in store.messages("unknown"):
        verb = "confirms" if message.id % 2 else "resends"
        us.book.write(verb, message.id)
        _ = store.confirm([message]) if message.id % 2 else store.replay([message])
    for run in store.runs("failed"):
        with store.transaction() as tx:
            tx.execute("INSERT OR IGNORE INTO mended VALUES (?)", (run.id,))
        us.order.handle(run.id).resume()
        us.book.write("resumed", run.id)
    for run in store.runs("waiting"):
        tell(us, run.id, list(run.waiting_for))
    for message in store.messages("pending", queue="default", kind="later"):
        cancel(us, "later", message.id)
    for message in store.messages("leased", queue="default", kind="pay", limit=1):
        cancel(us, "pay", message.id)


def tell(us: House, run: str, waits: list[str]) -> None:
    """One of five that wait is cancelled; the others go on."""
    if "go" not in waits:
        return
    handle = us.order.handle(run)
    with us.app.transaction() as tx:
        cancelled = int(run.rpartition("-")[2]) % 5 == 4 and handle.cancel(tx=tx)
        if cancelled:
            note_end(tx, "cancelled", run)
        else:
            handle.signal("go", "told", tx=tx)
    us.book.write("cancelled" if cancelled else "told", run)


def cancel(us: House, what: str, id: int) -> None:
    handle = (us.jobs.later if what == "later" else us.jobs.pay).handle(id)
    with us.app.transaction() as tx:
        cancelled = handle.cancel(tx=tx)
        if cancelled:
            note_end(tx, "cancelled", id)
    if cancelled:
        us.book.write("cancelled", id)


def look(us: House) -> None:
    """It is whole at each moment, and so is a copy, and what is made of that."""
    path = Path(us.app.store.path)
    copy, back = (path.with_name(f"{name}-{os.getpid()}") for name in ("copy", "back"))
    while True:
        found = us.app.store.check(full=True)
        assert found == [], found
        us.book.at("checked")
        us.app.store.backup(copy, overwrite=True)
        us.book.at("copied")
        fencepost.restore(copy, back)
        us.book.at("restored")
        with fencepost.open(back) as store:
            found = store.check(full=True)
        assert found == [], found
        assert fencepost.status(path)["queues"]
        back.unlink()


LIVES: tuple[Life, ...] = (produce, produce, work, work, work, haul, knock, operate, look)


def live(life: Life, path: Path, book: Path, place: memoryview, die: int) -> None:
    """In the child. `die`: at that step of the core, from its first on; -1: not."""
    witness = Witness(book, place)
    logging.getLogger("fencepost").addHandler(Warned(witness))
    logging.getLogger("fencepost").propagate = False
    try:
        witness.at(BEGAN)
        failpoints.watch(witness.at)
        if die >= 0:
            word = ffi.from_buffer(place)
            lib.fp_fault_last_word(word, PLACE_BYTES)
            lib.fp_fault_kill(die)
        life(house(path, witness))
    except BaseException as error:
        witness.write("broke", life.__name__, type(error).__name__, error)
    finally:
        os._exit(1)


# ---- the storm -----------------------------------------------------------------------------------


class Storm:
    """`killed`: who, how and where."""

    def __init__(self, path: Path, book: Path, dice: random.Random) -> None:
        self.killed: list[tuple[str, str, str]] = []
        self._path, self._book, self._dice = path, book, dice
        self._places = memoryview(mmap.mmap(-1, PLACE_BYTES * len(LIVES)))
        self._number: dict[int, int] = {}  # of the life, by pid

    def place(self, number: int) -> memoryview:
        return self._places[number * PLACE_BYTES : (number + 1) * PLACE_BYTES]

    def where(self, number: int) -> str:
        return bytes(self.place(number)).partition(b"\0")[0].decode(errors="replace")

    def spawn(self, number: int) -> None:
        doomed = self._dice.random() < 0.4
        die = int(math.exp(self._dice.uniform(*map(math.log, STEPS)))) if doomed else -1
        pid = os.fork()
        if pid == 0:
            random.seed(os.getpid())
            live(LIVES[number], self._path, self._book, self.place(number), die)
        self._number[pid] = number

    def bury(self, pid: int, status: int, *, again: bool = True) -> None:
        number = self._number.pop(pid)
        where = self.where(number)
        how = "at" if where.startswith("at ") else "after"
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        where = where.removeprefix("at ")
        self.killed.append((LIVES[number].__name__, how if killed else "broke", where))
        if again:
            self.spawn(number)

    def kill(self, pid: int, *, again: bool = True) -> None:
        os.kill(pid, signal.SIGKILL)
        self.bury(*os.waitpid(pid, 0), again=again)

    def blow(self, kills: int) -> None:
        for number in range(len(LIVES)):
            self.spawn(number)
        while len(self.killed) < kills:
            self.wait(self._dice.randrange(1, 600))
            if not self.dead():
                self.kill(self.victim())
        for pid in list(self._number):
            self.kill(pid, again=False)

    def victim(self) -> int:
        """Mostly one that has come to something."""
        pids = list(self._number)
        begun = [pid for pid in pids if self.where(self._number[pid]) != BEGAN]
        return self._dice.choice(begun if begun and self._dice.random() < 0.9 else pids)

    def dead(self) -> int:
        """Buries one that has died of itself; 0: none has."""
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            self.bury(pid, status)
        return pid

    def wait(self, count: int) -> None:
        """Until so many bytes more are in the book, or nobody has said a word for a while."""
        size = self._book.stat().st_size
        calm = time.monotonic() + CALM
        while self._book.stat().st_size < size + count and time.monotonic() < calm:
            time.sleep(0.002)


def main(path: Path, book: Path, kills: int, seed: int) -> None:
    storm = Storm(path, book, random.Random(seed))
    storm.blow(kills)
    print(json.dumps(storm.killed))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
