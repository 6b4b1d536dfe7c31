"""
Receivers that are killed: each is a process of its own whose worker handles what is there, and dies
at a counted step of the core. Rows, a job that follows, a delivery, and the end: one commit.
"""

from __future__ import annotations

import logging
from pathlib import Path

from fencepost import App, Context, Delivery, Inbox
from fencepost._worker import failpoints
from harness_kill import Say, serve
from harness_worker import AT_ONCE, Notes, until


def declare(path: Path, notes: Notes) -> tuple[App, Inbox[int]]:
    app = App(path)
    inbox = app.inbox("payments", int, backoff=AT_ONCE, max_attempts=0)
    receipts = app.outbox("receipts", int, backoff=AT_ONCE)

    @app.job
    def follow(n: int) -> None:
        notes.write("followed", n)

    @receipts.handler
    def deliver(d: Delivery[int]) -> None:
        notes.write("sent", d.payload)

    @inbox.handler
    def paid(ctx: Context, n: int) -> None:
        ctx.tx.execute("INSERT INTO paid VALUES (?)", [n])
        follow.options(tx=ctx.tx).enqueue(n)
        receipts.send("d", n, tx=ctx.tx)

    return app, inbox


def make(path: Path, notes: Notes, *payloads: int) -> None:
    """The table, and what comes in."""
    app, inbox = declare(path, notes)
    with app.store, app.transaction() as tx:
        tx.execute("CREATE TABLE IF NOT EXISTS paid (n INT)")
        for n in payloads:
            inbox.accept(str(n), n, tx=tx)


def live(say: Say, path: Path, notes: str, step: int) -> None:
    """Handles all there is; is killed at the step-th step of the core from the first claim on."""
    from harness_core import lib

    logging.disable()
    app, _ = declare(path, Notes(Path(notes)))

    def die(at: str, name: str) -> None:
        nonlocal step
        if at == "claimed" and step >= 0:
            lib.fp_fault_kill(step)
            step = -1

    failpoints.watch(die)
    with app.worker(threads=2):
        until(lambda: not in_line(app))
    say("done")


def in_line(app: App) -> int:
    counts = app.store.stats()["totals"]
    return int(counts["pending"] + counts["waiting"] + counts["leased"])


if __name__ == "__main__":
    serve(live)
