"""A file as a busy shop leaves it: some of everything that the dashboard shows."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from importlib import resources
from pathlib import Path

import msgspec

import fencepost
from fencepost import App, Backoff, Context, Delivery, DeliveryUnknown, PermanentError, Run
from fencepost.cli.demo_app import Quake
from fencepost.testing import override

SOON = Backoff(1, 1, 0, 0)


class Receipt(msgspec.Struct):
    order: int
    total: str


class Paid(msgspec.Struct):
    order: int
    amount: int


class Shop:
    """Jobs that fail now and then, an outbox in doubt, an inbox, schedules."""

    def __init__(self) -> None:
        app = self.app = App(durability="normal")
        self.receipts = app.outbox("receipts", Receipt, backoff=SOON)
        self.payments = app.inbox("payments", Paid)

        @app.job(max_attempts=3, backoff=SOON)
        def send_mail(to: str, text: str) -> str:
            if "example.net" in to:
                raise ConnectionError(f"550 5.1.1 <{to}>: Recipient address rejected: User unknown")
            return "250 accepted"

        @app.job(max_attempts=2, backoff=SOON, queue="images")
        def resize(path: str, width: int) -> None:
            if path.endswith(".heic"):
                raise PermanentError("cannot identify image file: no HEIC here", code="HEIC")

        @app.cron("0 3 * * *", tz="Europe/Paris")
        @app.job(queue="nightly")
        def report() -> None:
            pass

        @app.every(timedelta(minutes=5))
        @app.job(queue="nightly")
        def sweep() -> None:
            pass

        @self.receipts.handler
        def deliver(d: Delivery[Receipt]) -> None:
            if d.payload.order % 9 == 0:
                raise DeliveryUnknown("read timed out after 10 s; the request had been sent")

        @self.payments.handler
        def paid(ctx: Context, event: Paid) -> None:
            if event.amount < 0:
                raise PermanentError(f"order {event.order}: {event.amount} cannot be paid")

        @app.workflow(max_attempts=2, backoff=SOON)
        async def refund(run: Run, order: int) -> str:
            await run.step("look up the order", str, order)
            await run.sleep("cool off", timedelta(minutes=20))
            who = await run.wait("approved by", str, timeout=timedelta(hours=4))
            return await run.step("pay back", pay_back, order, who)

        def pay_back(order: int, who: str) -> str:
            if order == 23:
                raise ConnectionError("the bank does not answer")
            return f"{order} by {who}"

        self.refund = refund
        self.send_mail, self.resize, self.report = send_mail, resize, report


def fill(path: Path, *, now: datetime | None = None) -> Shop:
    """What happened there in the three hours before `now`."""
    shop = Shop()
    now = now or datetime.now(timezone.utc)
    with override(shop.app, path, now=now - timedelta(hours=3)) as kit:
        kit.advance(1)  # the schedules are known from here on
        for quarter in range(4):
            _morning(shop, quarter)
            _refunds(shop, quarter)
            for _ in range(3):  # what failed is tried again
                kit.drain()
                kit.advance(5)
            kit.advance(timedelta(minutes=35))
        _waiting(shop, kit.store)
        kit.advance(timedelta(minutes=4))
        _quakes(kit.store)
    return shop


def dead(store: fencepost.Store, *payloads: object, name: str = "q") -> list[int]:
    """So many dead letters of a queue that keeps them; their ids in the order of their deaths."""
    queue = store.queue(name, listed=True, addressed=True, keep=3600)
    queue.enqueue_many(payloads)
    claims = queue.claim(len(payloads))
    for claim in claims:
        claim.fail(f"it was {claim.payload}")
    return [claim.id for claim in claims]


def _morning(shop: Shop, quarter: int) -> None:
    for number in range(quarter, 60, 4):
        at = "example.net" if number % 11 == 3 else "example.com"
        mail = shop.send_mail.options(key=f"welcome:{number}")
        mail.enqueue(f"c{number}@{at}", "Welcome!")
    for number in range(quarter, 40, 4):
        suffix = "heic" if number % 13 == 5 else "jpeg"
        image = shop.resize.options(lane=f"album {number % 3}")
        image.enqueue(f"/p/{number}.{suffix}", 1280)
    for number in range(quarter + 1, 41, 4):
        shop.payments.accept(f"pay_{number:05d}", Paid(number, -5 if number == 17 else number))
        to = f"https://shop.example/receipts/{number}"
        shop.receipts.send(to, Receipt(number, f"{number}.00"), key=f"receipt:{number}")


def _refunds(shop: Shop, quarter: int) -> None:
    """One a quarter; the first two were approved later, and the second of them failed."""
    shop.refund.options(id=f"refund of order {21 + 2 * quarter}").start(21 + 2 * quarter)
    if quarter in (2, 3):
        approved = shop.refund.handle(f"refund of order {17 + 2 * quarter}")
        approved.signal("approved by", "ann")


def _waiting(shop: Shop, store: fencepost.Store) -> None:
    """Not worked on any more: a paused queue, one that is late, and what is due later."""
    for number in range(25):
        shop.send_mail.enqueue(f"late{number}@example.com", "Your parcel")
    for number in range(12):
        shop.resize.options(lane="album 1").enqueue(f"/p/late{number}.jpeg", 640)
    shop.report.options(delay=timedelta(hours=7)).enqueue()
    store.pause("images")


def _quakes(store: fencepost.Store) -> None:
    queue = store.queue("quakes", Quake, keep=timedelta(days=1), listed=True, addressed=True)
    data = (resources.files("fencepost") / "data" / "quakes.jsonl").read_bytes()
    queue.enqueue_many([msgspec.json.decode(line, type=Quake) for line in data.splitlines()])
