"""
A shop in one file: what comes in, what is to be done, what goes out.

    python shop.py                  pays for one order, twice, and stops by Ctrl-C
    python -m pytest test_shop.py   its tests: no waiting, no threads
"""

from __future__ import annotations

from datetime import timedelta

import fencepost

app = fencepost.App("shop.db")  # one file: your tables and ours


@app.job(max_attempts=5)
def pack(order: int) -> str:
    return f"packed {order}"


receipts = app.outbox("receipt", dict[str, int])  # what leaves the file


@receipts.handler  # the only place that touches the outside world
def deliver(d: fencepost.Delivery[dict[str, int]]) -> None:
    post(d.destination, d.payload, idempotency_key=d.event_id)


def post(url: str, body: dict[str, int], *, idempotency_key: str) -> None:
    print("POST", url, body, "Idempotency-Key:", idempotency_key)


payments = app.inbox("payments", dict[str, int])  # what comes in: once per message id


@payments.handler
def paid(ctx: fencepost.Context, event: dict[str, int]) -> None:
    order = event["order"]
    ctx.tx.execute("UPDATE orders SET paid = paid + 1 WHERE id = ?", [order])
    # Your row, the job, the receipt and the end of this message: one commit, or none.
    pack.options(tx=ctx.tx).enqueue(order)
    receipts.send("https://shop.example/receipts", event, key=f"receipt:{order}", tx=ctx.tx)


@app.workflow
async def refund(run: fencepost.Run, order: int) -> str:
    await run.sleep("cool off", timedelta(hours=1))  # costs nothing, and survives a reboot
    who = await run.wait("approved by", str, timeout=timedelta(days=3))
    await run.transact("take back", take_back, order)  # happens once, with its record
    return await run.step("pay back", pay_back, order, who)  # recorded: never again once it ended


def take_back(tx: fencepost.Transaction, order: int) -> None:
    tx.execute("UPDATE orders SET paid = paid - 1 WHERE id = ?", [order])


def pay_back(order: int, who: str) -> str:
    return f"order {order} paid back, approved by {who}"


@app.cron("0 3 * * *", tz="Europe/Paris")
@app.job(context=True)
def forget_old_orders(ctx: fencepost.Context) -> int:
    return ctx.tx.execute("DELETE FROM orders WHERE paid = 0").rowcount


def make_tables() -> None:
    with app.transaction() as tx:
        tx.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, paid INT DEFAULT 0)")


def order(number: int) -> None:
    with app.transaction() as tx:
        tx.execute("INSERT OR IGNORE INTO orders (id) VALUES (?)", [number])


if __name__ == "__main__":
    make_tables()
    order(42)
    print(payments.accept("evt-1", {"order": 42}), payments.accept("evt-1", {"order": 42}))
    app.run()
