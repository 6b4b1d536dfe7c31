"""
Orders, payments that come in twice, receipts that go out: and workers that are killed all the time.

    python examples/orders/shop.py [ORDERS] [KILLS]

The provider brings each payment event twice. Its handler marks the order as paid and asks for a
receipt: one commit with the end of the event. Receipts go to a file, which is the outside world
here. Kill it yourself at any time, and run it again: no order is paid twice, none is forgotten, and
no receipt is sent twice by itself. Those of which nobody can say whether they went out, because a
worker died in the middle, are compared with what the outside world has, as an operator would.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import fencepost

RECEIPTS = Path("receipts.txt")
SOME = 15  # messages that a worker gets done before it is killed

app = fencepost.App("orders.db")
payments = app.inbox("payments", dict[str, int])
receipts = app.outbox("receipts", dict[str, int])


@payments.handler
def paid(ctx: fencepost.Context, event: dict[str, int]) -> None:
    order = event["order"]
    ctx.tx.execute("UPDATE orders SET paid = paid + 1 WHERE id = ?", (order,))
    receipts.send("ann@example.com", event, key=f"receipt:{order}", tx=ctx.tx)


@receipts.handler
def deliver(d: fencepost.Delivery[dict[str, int]]) -> None:
    time.sleep(0.002)  # the network
    with RECEIPTS.open("a", encoding="utf-8") as outside:
        outside.write(f"receipt:{d.payload['order']}\t{d.destination}\t{d.event_id}\n")


def bring_in(orders: int) -> None:
    with app.transaction() as tx:
        tx.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, paid INT DEFAULT 0)")
        for order in range(1, orders + 1):
            tx.execute("INSERT OR IGNORE INTO orders (id) VALUES (?)", (order,))
            for _ in range(2):
                payments.accept(f"payment-{order}", {"order": order}, tx=tx)


def waiting() -> int:
    counts = app.store.stats()["totals"]
    return int(counts["pending"] + counts["leased"])


def killed_in_the_middle() -> None:
    before = waiting()
    with subprocess.Popen([sys.executable, __file__, "work"]) as worker:
        while waiting() > 0 and before - waiting() < SOME:
            time.sleep(0.005)
        worker.kill()


def went_out() -> list[str]:
    if not RECEIPTS.exists():
        return []
    return [line.partition("\t")[0] for line in RECEIPTS.read_text(encoding="utf-8").splitlines()]


def compare() -> tuple[int, int]:
    """What is unknown has arrived if the outside world has it; else it is sent again."""
    there = set(went_out())
    confirmed = retried = 0
    while unknown := app.store.messages("unknown", queue="receipts", limit=200):
        missing = [message for message in unknown if message.key not in there]
        arrived = [message for message in unknown if message.key in there]
        confirmed += app.store.confirm(arrived, note="receipts.txt has it")
        retried += len(app.store.replay(missing))
    return confirmed, retried


def finish() -> None:
    with app.worker(threads=4):
        while waiting():
            time.sleep(0.05)


def main(orders: int, kills: int) -> None:
    bring_in(orders)
    killed = 0
    while waiting() and killed < kills:
        killed_in_the_middle()
        killed += 1
    finish()
    confirmed, retried = compare()
    finish()
    with app.transaction() as tx:
        [(once, more)] = tx.execute("SELECT sum(paid = 1), sum(paid > 1) FROM orders")
    sent = went_out()
    print(f"workers killed          {killed}")
    print(f"orders paid once        {once}")
    print(f"orders paid twice       {more}")
    print(f"receipts sent           {len(set(sent))}")
    print(f"receipts sent twice     {len(sent) - len(set(sent))}")
    print(f"in doubt: confirmed     {confirmed}")
    print(f"in doubt: sent again    {retried}")


if __name__ == "__main__":
    if sys.argv[1:] == ["work"]:
        app.run()
    else:
        numbers = [int(word) for word in sys.argv[1:]]
        main(*numbers, *(200, 5)[len(numbers) :])
