"""
Senders that are killed while a relay is at work: each is a process of its own that opens the file
and has a worker deliver what is there.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from pathlib import Path
from typing import Any

from fencepost import App, Outbox
from fencepost._worker import failpoints
from harness_kill import Say, serve
from harness_worker import AT_ONCE, until

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NEVER = ""


def relay(name: str, address: str, **words: Any) -> Any:
    """The one of this name, for a system on this machine, which removes duplicates if it can."""
    words = {"hold": 0.1, **words}
    if name == "webhook":
        from fencepost.relay.webhook import Webhook

        return Webhook(secret=SECRET, one_host=True, **words)
    if name == "redis":
        from fencepost.relay.redis import RedisStreams

        return RedisStreams(address, **{"dedupe": 3600, **words})
    if name == "nats":
        from fencepost.relay.nats import JetStream

        return JetStream(address, **words)
    if name == "rabbitmq":
        from fencepost.relay.rabbitmq import RabbitMQ

        return RabbitMQ(address, **words)
    raise AssertionError(name)


def declare(path: Path, name: str, address: str, **policy: object) -> tuple[App, Outbox[int]]:
    app = App(path)
    said: dict[str, Any] = {"backoff": AT_ONCE, "max_attempts": 1000, **policy}
    outbox = app.outbox("events", int, **said)
    outbox.handler(relay(name, address))
    return app, outbox


def idle(app: App) -> bool:
    """Both in one look: between two, a lane may let the next one in."""
    return not any(app.store.stats()["totals"][state] for state in ("pending", "leased"))


def live(say: Say, path: Path, name: str, address: str, point: str, on_unknown: str) -> None:
    """Delivers all there is; is killed at the first `point` (NEVER: not)."""
    logging.disable()
    app, _ = declare(path, name, address, on_unknown=on_unknown)

    def die(at: str, who: str) -> None:
        if at == point:
            os.kill(os.getpid(), signal.SIGKILL)
            threading.Event().wait()

    failpoints.watch(die)
    with app.worker():
        until(lambda: idle(app))
    say("done")


if __name__ == "__main__":
    serve(live)
