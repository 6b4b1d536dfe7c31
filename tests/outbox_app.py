"""
Senders that are killed: each is a process of its own that opens the file, has a worker deliver what
is there, and dies at a named point or at a counted step.

What reaches the outside is a line in the notes, written in one stroke.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from pathlib import Path

from fencepost import App, Delivery, Outbox
from fencepost._worker import failpoints
from fencepost.values import Policy
from harness_kill import Say, serve
from harness_worker import AT_ONCE, Notes, until

NEVER = ""


def declare(path: Path, notes: Notes, **policy: object) -> tuple[App, Outbox[int]]:
    app = App(path)
    said: Policy = {"backoff": AT_ONCE, **policy}  # type: ignore[typeddict-item]
    outbox = app.outbox("events", int, **said)

    @outbox.handler
    def deliver(d: Delivery[int]) -> None:
        notes.write("sent", d.payload, d.event_id, d.attempt, os.getpid())
        failpoints.at("handled", "events")

    return app, outbox


def live(say: Say, path: Path, notes: str, point: str, step: int, on_unknown: str) -> None:
    """
    Delivers all there is; is killed at `point` (NEVER: not), or, with `step` from 0 on, at so many
    steps of the core behind it.
    """
    from harness_core import lib

    logging.disable()
    app, _ = declare(path, Notes(Path(notes)), on_unknown=on_unknown)

    armed = False

    def die(at: str, name: str) -> None:
        nonlocal armed
        if at != point or armed:
            return
        armed = True
        if step < 0:
            os.kill(os.getpid(), signal.SIGKILL)
            threading.Event().wait()
        lib.fp_fault_kill(step)

    failpoints.watch(die)
    with app.worker(threads=1):
        # Both in one look: between two, a lane may let the next one in.
        until(lambda: not any(app.store.stats()["totals"][one] for one in ("pending", "leased")))
    say("done")


if __name__ == "__main__":
    serve(live)
