"""What the commands say in the words of those they take the place of."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commands import runner
from fencepost import App, Delivery, DeliveryUnknown, PermanentError
from fencepost.testing import override

Ask = Callable[..., Any]


@pytest.fixture
def ask(tmp_path: Path, path: Path) -> Ask:
    run = runner(tmp_path)

    def ask(*arguments: str, code: int = 0) -> Any:
        return json.loads(run("--database", str(path), *arguments, "--json", code=code).stdout)

    return ask


@pytest.fixture
def ids(path: Path) -> dict[str, int]:
    """Jobs and deliveries in each state, and one message of neither; deliveries by their end."""
    app = App()
    outbox = app.outbox("receipt", str, max_attempts=2)
    app.queue("data", int)

    @app.job
    def work(end: str) -> None:
        if end == "dead":
            raise PermanentError

    @outbox.handler
    def deliver(d: Delivery[str]) -> None:
        if d.payload == "unknown":
            raise DeliveryUnknown("timed out")
        if d.payload == "dead":
            raise PermanentError("no such address")

    with override(app, path) as kit:
        kit.store.queue("data", int).enqueue(1)
        for end in ("done", "dead", "dead"):
            work.enqueue(end)
        found = {end: outbox.send("d", end).id for end in ("done", "dead", "unknown")}
        kit.drain()
        work.enqueue("later")
        with kit.crash_at("claimed", "work"):
            kit.drain(limit=1)
        work.options(delay=60).enqueue("later")
        found["pending"] = outbox.send("d", "later", delay=60).id
    return found


def test_jobs_and_deliveries_are_counted_in_their_words(ask: Ask, ids: dict[str, int]) -> None:
    told = ask("stats")
    assert told["jobs"] == {"queued": 1, "running": 1, "succeeded": 1, "failed": 2}
    assert told["outbox"] == {
        "pending": 1,
        "sending": 0,
        "sent": 1,
        "failed": 1,
        "delivery_unknown": 1,
    }


def test_a_delivery_says_how_it_stands_in_their_words(ask: Ask, ids: dict[str, int]) -> None:
    (listed,) = ask("outbox", "list-unknown")["messages"]
    assert (listed["id"], listed["status"]) == (ids["unknown"], "delivery_unknown")
    assert (listed["attempts"], listed["last_error"]) == (1, "timed out")
    assert listed["updated_at"] == listed["settled_at"]
    everyone = [str(id_) for id_ in ids.values()]
    (done, dead, unknown, pending) = ask(
        "outbox", "retry", *everyone, "--delay-seconds", "60", code=1
    )
    assert [one["status"] for one in (done, dead, pending)] == ["sent", "failed", "pending"]
    assert (unknown["outcome"], unknown["status"]) == ("replayed", "retrying")
    assert unknown["available_at"] is not None
    assert unknown["last_error"] is None, "what was tried anew has not failed"
    assert "status" not in ask("outbox", "retry", "99999", code=1)[0]


def test_a_note_is_no_error(ask: Ask, ids: dict[str, int]) -> None:
    (confirmed,) = ask("outbox", "confirm-delivered", str(ids["unknown"]), "--note", "they have it")
    assert (confirmed["status"], confirmed["last_error"]) == ("sent", None)
