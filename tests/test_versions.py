"""Messages of another version of the code: newer ones, renamed ones, and what is no message."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from fencepost import App, Context, Delivery, Run
from fencepost._binding.calls import FP
from harness_outside import Outside
from harness_worker import lease, until


class Colour(Enum):
    RED = "red"


@dataclass
class Order:
    at: datetime
    day: date
    uuid: UUID
    price: Decimal
    raw: bytes
    colour: Colour


def test_h15_a_payload_from_another_version(path: Path) -> None:
    """
    An unknown name is put off and dead in the end, undecodable bytes and a newer payload are dead
    letters at once, one by one, with raw bytes and a reason; the attempts of others are untouched;
    typed values come back equal, and nothing is ever unpickled.
    """
    zone = timezone(timedelta(hours=-3, minutes=-30))
    order = Order(
        at=datetime(2026, 3, 1, 12, 30, 15, 123456, zone),
        day=date(2024, 2, 29),
        uuid=UUID(int=7),
        price=Decimal("10.10"),
        raw=b"\0\xff",
        colour=Colour.RED,
    )
    newer, app = App(path), App(path)

    @newer.job
    def tomorrow(n: int) -> None: ...

    @newer.job(name="ship")
    def newer_ship(order: Order, express: bool) -> Order:
        return order

    @newer.job(name="count")
    def newer_count(n: str) -> None: ...

    @app.job(context=True)
    def ship(ctx: Context, order: Order) -> Order:
        assert ctx.attempt == 1
        return order

    @app.job
    def count(n: int) -> int:
        return n

    unknown = tomorrow.enqueue(1)
    lease(newer.store, 30, "default", max_age_us=30_000_000)  # shorter than it is put off for
    aged = tomorrow.enqueue(2)
    too_new, wrong = newer_ship.enqueue(order, True), newer_count.enqueue("x")
    pickled = app.store.queue("plain")
    pickled.enqueue("gASVCgAAAAAAAACMAm9zlIwGc3lzdGVtlJOULg==")
    sound = ship.enqueue(order)
    with app.worker():
        assert sound.result(60) == order
        for dead in (too_new, wrong, unknown, aged):
            until(lambda dead=dead: dead.status().state == "dead")  # type: ignore[misc]
    kinds = {m.id: m.failure.kind for m in app.store.messages("dead") if m.failure}
    assert kinds == {
        too_new.id: "undecodable",
        wrong.id: "undecodable",
        unknown.id: "too_old",
        aged.id: "too_old",
    }
    assert app.store.content(wrong.id).body == b'{"n":"x"}'
    assert b'"express":true' in app.store.content(too_new.id).body
    assert pickled.size() == 1
    for one in (newer, app):
        one.store.close()


def test_an_older_worker_beside_a_newer_library_writes_nothing_more(
    path: Path, outside: Outside, caplog: pytest.LogCaptureFixture
) -> None:
    """
    What runs at the upgrade ends without being settled, and the worker with a clear word. Whoever
    knows the schema hands it out again when its lease is over, or at once if its process ends.
    """
    app = App(path)
    gate, ran = threading.Event(), Counter[str]()

    def wait(what: str) -> str:
        ran[what] += 1
        assert gate.wait(30)
        return what

    @app.job
    def job() -> str:
        return wait("job")

    @app.workflow
    async def flow(run: Run) -> str:
        return await run.step("step", wait, "step")

    mail = app.outbox("mail", int, on_unknown="retry", lease=1)

    @mail.handler
    def deliver(d: Delivery[int]) -> None:
        wait("mail")

    lease(app.store, 1)
    wakeups = FP.PROFILE_WAKEUP, {"lease_us": 1_000_000}
    app.store._file.core.queue_define(None, b"workflows", *wakeups)
    handles: list[Any] = [job.enqueue(), flow.start()]
    mail.send("somewhere", 1)
    alone = threading.active_count()
    worker = app.worker(threads=3).start()
    until(lambda: len(ran) == 3)
    outside.change(path, "UPDATE fencepost_meta SET version = version + 1")
    before = outside.dump(path)
    gate.set()
    until(lambda: not worker.running)
    assert "the worker ends: this file has schema version" in caplog.text
    worker.stop(grace=1)
    until(lambda: threading.active_count() <= alone)  # a pass of it could go on below
    assert outside.dump(path) == before
    outside.change(path, "UPDATE fencepost_meta SET version = version - 1")
    with app.worker(threads=3):
        assert [handle.result(60) for handle in handles] == ["job", "step"]
        until(lambda: app.store.stats()["queues"]["mail"]["done"])
    assert set(ran.values()) == {2}
    assert app.store.check(full=True) == []
    app.store.close()
