"""
A workflow of five steps that is killed: each life is a process of its own that opens the file, has
a worker go on with the run, and dies at a counted point, or at a counted step of the core behind
it.

What reaches the outside is a line in the notes, written in one stroke.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from pathlib import Path
from typing import Any

import fencepost
from fencepost import App, Run, Workflow
from fencepost._worker import failpoints
from harness_kill import Say, serve
from harness_worker import AT_ONCE, Notes, until

ID = "r"
NAP = 0.02  # seconds
NEVER = -1


def declare(path: Path, notes: Notes) -> tuple[App, Workflow[[int], list[Any]]]:
    app = App(path)

    def first(key: str) -> str:
        notes.write("first", key)
        return "1"

    def pay(tx: fencepost.Transaction, amount: int) -> int:
        notes.write("pay")
        tx.execute("INSERT INTO paid (amount) VALUES (?)", (amount,))
        return amount + 1

    async def last(key: str) -> str:
        notes.write("last", key)
        return "5"

    @app.workflow(max_attempts=0, backoff=AT_ONCE)
    async def five(run: Run, amount: int) -> list[Any]:
        one = await run.step("first", first, run.key("first"))
        await run.sleep("nap", NAP)
        who = await run.wait("ok", str)
        messages = await run.receive("messages", int)
        paid = await run.transact("pay", pay, amount)
        return [one, who, messages, paid, await run.step("last", last, run.key("last"))]

    return app, five


def begin(path: Path, notes: Notes) -> None:
    app, five = declare(path, notes)
    with app.transaction() as tx:
        tx.execute("CREATE TABLE paid (amount INTEGER)")
    five.options(id=ID).start(7)
    app.store.close()


def live(say: Say, path: Path, notes: str, point: int, step: int) -> None:
    """
    Goes on with the run, and tells it what it waits for; is killed at the `point`-th point (NEVER:
    not), or, with `step` from 0 on, at so many steps of the core behind it. Says each point.
    """
    from harness_core import lib

    logging.disable()
    app, five = declare(path, Notes(Path(notes)))
    lock = threading.Lock()
    passed = 0

    def count(*at: str) -> None:
        nonlocal passed
        with lock:
            here, passed = passed, passed + 1
            say(" ".join(at))
        if here != point:
            return
        if step < 0:
            os.kill(os.getpid(), signal.SIGKILL)
            threading.Event().wait()
        lib.fp_fault_kill(step)

    failpoints.watch(count)
    handle = five.handle(ID)
    with app.worker(threads=1):
        while (status := handle.status()).state != "done":
            if "ok" in status.waiting_for:
                handle.signal("ok", "ann")
            sent = any(one.kind == "inbox" for one in handle.steps())  # in a life before this one
            if "messages" in status.waiting_for and not sent:
                handle.send(1)
            until(lambda before=status: handle.status() != before)  # type: ignore[misc]
    say("done")


if __name__ == "__main__":
    serve(live)
