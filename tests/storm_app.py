"""
What a storm blows over: one file with everything that Fencepost has, and an observer's book.

The book is a file of its own. A line of it is on the disk before its writer does the next thing, so
that what stands there of the store was acknowledged by it. Rows of the application's are written in
the commits of which they tell: `sent` with a message, `ended` with its end.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, NamedTuple

from fencepost import (
    App,
    Batch,
    Context,
    Delivery,
    Inbox,
    Job,
    Outbox,
    PermanentError,
    Queue,
    Run,
    Transaction,
    Workflow,
)
from harness_worker import AT_ONCE, lease

LEASE = 2.0  # seconds; who is killed is noticed sooner
DEATHS = 0  # attempts: nothing but `shaky` dies of its workers being killed
TABLES = (
    "CREATE TABLE sent (what TEXT, id INTEGER PRIMARY KEY, name TEXT)",
    "CREATE TABLE ended (what TEXT, name TEXT, token INTEGER, lane TEXT)",
    "CREATE TABLE mended (name TEXT PRIMARY KEY)",
    "CREATE TABLE ticked (due TEXT)",
)

Tx = Any  # a transaction of ours, or a connection of another SQLite


class Book:
    """The observer's own: a line for each thing that somebody was told."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, *words: object) -> None:
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())
        os.fsync(self._file)

    def at(self, *words: object) -> None:
        """Where its writer's life has come to, which a witness remembers."""

    def read(self) -> list[list[str]]:
        """All whole lines: of the last one a kill may have left a part."""
        text = self.path.read_text()
        return [line.split() for line in text[: text.rfind("\n") + 1].splitlines()]


class Jobs(NamedTuple):
    pay: Job[[int], int]
    shaky: Job[[], None]
    later: Job[[], None]
    made: Job[[int], int]


class Queues(NamedTuple):
    numbers: Queue[int]
    plain: Queue[int]
    bulk: Queue[int]


class House(NamedTuple):
    """The declarations; the same for who lives in the storm and for who looks at it afterwards."""

    app: App
    book: Book
    jobs: Jobs
    queues: Queues
    receipts: Outbox[int]
    payments: Inbox[int]
    order: Workflow[[int], list[Any]]


def note_end(tx: Tx, what: str, name: object, token: int = 0, lane: str | None = None) -> None:
    tx.execute("INSERT INTO ended VALUES (?, ?, ?, ?)", (what, str(name), token, lane))


def note_sent(tx: Tx, what: str, id: int, name: object = "") -> None:
    tx.execute("INSERT INTO sent VALUES (?, ?, ?)", (what, id, str(name)))


def is_mended(tx: Transaction, name: object) -> bool:
    return bool(tx.execute("SELECT 1 FROM mended WHERE name = ?", (str(name),)))


def jobs(app: App, *, recurring: bool) -> Jobs:
    @app.job(context=True, max_attempts=DEATHS, backoff=AT_ONCE)
    def pay(ctx: Context, n: int) -> int:
        note_end(ctx.tx, "pay", ctx.id, ctx.token, ctx.lane)
        return n

    @app.job(context=True, max_attempts=2, backoff=AT_ONCE)
    def shaky(ctx: Context) -> None:
        """Dies of itself, or with its workers, until somebody has mended what it needs."""
        if not is_mended(ctx.tx, ctx.id):
            raise ValueError("not mended")
        note_end(ctx.tx, "shaky", ctx.id, ctx.token)

    @app.job
    def later() -> None: ...

    @app.job(max_attempts=DEATHS, backoff=AT_ONCE)
    def made(n: int) -> int:
        return n + 1

    @app.job(context=True, max_attempts=DEATHS, backoff=AT_ONCE)
    def tick(ctx: Context) -> None:
        ctx.tx.execute("INSERT INTO ticked VALUES (?)", (ctx.due.isoformat(),))

    if recurring:
        app.every(0.25)(tick)
    return Jobs(pay, shaky, later, made)


def queues(app: App) -> Queues:
    policy: Any = {"max_attempts": DEATHS, "backoff": AT_ONCE, "lease": LEASE}
    numbers = app.queue("numbers", int, **policy)

    @numbers.handler(batch=20)
    def take(batch: Batch[int]) -> None:
        for claim in batch:
            note_end(batch.tx, "numbers", claim.id, claim.token)

    plain = app.queue("plain", int, addressed=True, **policy)
    return Queues(numbers, plain, app.queue("bulk", int, **policy))


def boxes(app: App, book: Book, pay: Job[[int], int]) -> tuple[Outbox[int], Inbox[int]]:
    policy: Any = {"max_attempts": DEATHS, "backoff": AT_ONCE, "lease": LEASE}
    receipts = app.outbox("receipts", int, **policy)
    payments = app.inbox("payments", int, **policy)

    @receipts.handler
    def deliver(d: Delivery[int]) -> None:
        book.write("went", d.id)
        time.sleep(0.005)  # the network, in the middle of which some die
        note_end(d.tx, "receipts", d.id, d.token)

    @payments.handler
    def paid(ctx: Context, n: int) -> None:
        note_end(ctx.tx, "payments", n, ctx.token)
        note_sent(ctx.tx, "pay", pay.options(tx=ctx.tx).enqueue(n).id)
        note_sent(ctx.tx, "receipts", receipts.send("d", n, tx=ctx.tx).id)

    return receipts, payments


def workflows(app: App, made: Job[[int], int]) -> Workflow[[int], list[Any]]:
    def draw() -> str:
        return os.urandom(8).hex()

    def bill(tx: Transaction, run: str, drawn: str) -> None:
        note_end(tx, "order", run, lane=drawn)

    def look(tx: Transaction, run: str) -> None:
        if not is_mended(tx, run):
            raise PermanentError("not mended")

    def pack(tx: Transaction, run: str) -> str:
        note_end(tx, "part", run)
        return run

    @app.workflow(max_attempts=DEATHS, backoff=AT_ONCE)
    async def part(run: Run, n: int) -> str:
        await run.sleep("nap", 0.01)
        return await run.transact("pack", pack, run.id)

    @app.workflow(max_attempts=DEATHS, backoff=AT_ONCE)
    async def order(run: Run, n: int) -> list[Any]:
        """What it has drawn is recorded once: the row and the result tell of the same."""
        drawn = await run.step("draw", draw)
        await run.sleep("nap", 0.01)
        if n % 4 == 0:
            await run.transact("look", look, run.id)
        said = await run.wait("go", str)
        await run.transact("bill", bill, run.id, drawn)
        try:
            await run.wait("never", str, timeout=0.02)
        except TimeoutError:
            said += " late"
        children: list[Awaitable[Any]] = [
            run.child("part", part, n),
            run.child("made", made, n),
        ]
        parts = await run.gather(*children)
        return [drawn, said, parts, await run.step("last", draw)]

    return order


def house(path: Path, book: Book, *, recurring: bool = True) -> House:
    app = App(path)
    own = jobs(app, recurring=recurring)
    receipts, payments = boxes(app, book, own.pay)
    return House(app, book, own, queues(app), receipts, payments, workflows(app, own.made))


def build(path: Path, book: Book) -> None:
    """The file, its tables and its queues, which nobody kills."""
    app = house(path, book, recurring=False).app
    with app.store as store:
        with store.transaction() as tx:
            for table in TABLES:
                tx.execute(table)
        lease(store, LEASE)
        app.worker().start().stop()  # which makes the queues that are missing
