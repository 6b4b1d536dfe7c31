"""
Signed webhooks from one file to another, over a receiver that fails and senders that are killed.

    python examples/webhooks/shop.py [ORDERS] [KILLS]

The shop pays its orders and has a receipt sent to its customer: one commit. Workers send, and are
killed in the middle. The customer, a process with a file of its own (customer.py), is busy at
times, and at times takes an event and says nothing. Because it remembers what it has had, the shop
says on_unknown="retry": what nobody can answer for is sent again, as the same event. In the end
each receipt is counted once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import fencepost
from fencepost.relay.signing import new_secret
from fencepost.relay.webhook import Webhook

CUSTOMER = Path(__file__).with_name("customer.py")
SOME = 15  # receipts that a worker gets through before it is killed

app = fencepost.App("webhooks.db")
receipts = app.outbox(
    "receipts",
    dict[str, int],
    max_attempts=50,
    backoff=fencepost.Backoff(base=0.01, cap=0.1),
    on_unknown="retry",
)
receipts.handler(Webhook(secret=os.environ.get("WEBHOOK_SECRET"), one_host=True, hold=0.1))


def pay(orders: int, url: str) -> None:
    with app.transaction() as tx:
        tx.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, paid INT)")
        for order in range(1, orders + 1):
            new = tx.execute("INSERT OR IGNORE INTO orders VALUES (?, 1) RETURNING id", (order,))
            if new:
                receipts.send(url, {"order": order}, key=f"receipt:{order}", tx=tx)


def waiting() -> int:
    counts = app.store.stats()["totals"]
    return int(counts["pending"] + counts["leased"])


def killed_in_the_middle(environment: dict[str, str]) -> None:
    before = waiting()
    with subprocess.Popen([sys.executable, __file__, "work"], env=environment) as worker:
        while waiting() > max(0, before - SOME):
            time.sleep(0.005)
        worker.kill()


def counted() -> tuple[int, int]:
    """Receipts that the customer counted once, and more than once."""
    with fencepost.open("customer.db") as store, store.transaction() as tx:
        rows = tx.execute("SELECT sum(times = 1), sum(times > 1) FROM receipts")
    once, more = rows[0]
    return int(once or 0), int(more or 0)


def main(orders: int, kills: int) -> None:
    secret = new_secret()
    environment = {**os.environ, "WEBHOOK_SECRET": secret}
    command = [sys.executable, str(CUSTOMER), secret, "7"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as customer:
        assert customer.stdout is not None
        pay(orders, customer.stdout.readline().strip())
        done = 0
        while done < kills and waiting():
            killed_in_the_middle(environment)
            done += 1
        with subprocess.Popen([sys.executable, __file__, "work"], env=environment) as worker:
            while waiting():
                time.sleep(0.01)
            worker.terminate()
        while sum(counted()) < orders:
            time.sleep(0.01)
        customer.terminate()
    once, more = counted()
    print(f"receipts counted once          {once}")
    print(f"receipts counted twice         {more}")
    print(f"workers killed                 {done}")


if __name__ == "__main__":
    if sys.argv[1:] == ["work"]:
        app.run()
    else:
        main(*(int(word) for word in sys.argv[1:] or ("200", "3")))
