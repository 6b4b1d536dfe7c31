import asyncio
from datetime import timedelta

import fencepost

app = fencepost.App("shop.db")  # one file: your tables and ours


@app.job(max_attempts=5)
def pack(order: int) -> str:
    return f"packed {order}"


receipts = app.outbox("receipt", dict[str, int])  # what leaves the file


@receipts.handler  # the only place that touches the outside world
def deliver(d: fencepost.Delivery[dict[str, int]]) -> None:
    print("POST", d.destination, d.payload, "Idempotency-Key:", d.event_id)


payments = app.inbox("payments", dict[str, int])  # what comes in: once per message id


@payments.handler
def paid(ctx: fencepost.Context, event: dict[str, int]) -> None:
    order = event["order"]
    ctx.tx.execute("UPDATE orders SET paid = 1 WHERE id = ?", (order,))
    pack.options(tx=ctx.tx).enqueue(order)  # your row, the job, the receipt and the end of
    receipts.send(
        "https://…", event, key=f"receipt:{order}", tx=ctx.tx
    )  # this message: one commit, or none


@app.workflow
async def refund(run: fencepost.Run, order: int) -> str:
    await run.sleep(
        "cool off", timedelta(hours=1)
    )  # costs nothing while it sleeps, survives a reboot
    who = await run.wait("approved by", str, timeout=timedelta(days=3))
    return await run.step(
        "pay back", pay_back, order, who
    )  # recorded: never runs again once it has finished


def pay_back(order: int, who: str) -> str:
    return f"refund {order}, approved by {who}"


async def main() -> None:
    with app.transaction() as tx:
        tx.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, paid INT DEFAULT 0)")
        tx.execute("INSERT OR IGNORE INTO orders (id) VALUES (42)")
    async with app.worker():
        print(
            payments.accept("evt-1", {"order": 42}), payments.accept("evt-1", {"order": 42})
        )  # accepted duplicate
        handle = await refund.options(id="refund-42").aio.start(42)
        print(
            await handle.signal("approved by", "ann"), await handle.signal("approved by", "bob")
        )  # True False
        print(await handle.status())


asyncio.run(main())
