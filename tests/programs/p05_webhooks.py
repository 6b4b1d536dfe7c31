"""
A provider's webhooks, sent by a handler of one's own; and the operator's script.

    fencepost work p05_webhooks:app
    python p05_webhooks.py --operator < keys-that-the-provider-has
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import httpx

import fencepost


@dataclass
class Receipt:
    order: int
    cents: int


app = fencepost.App("shop.db")
receipts = app.outbox(
    "receipt",
    Receipt,
    max_attempts=12,
    backoff=fencepost.Backoff(base=5, cap=900),
    max_age=86_400,
    keep=30 * 86_400,
    rate=50,
    on_dead="halt",
    on_unknown="hold",
)
client = httpx.Client(timeout=10)


@receipts.handler
def deliver(d: fencepost.Delivery[Receipt]) -> None:
    try:
        answer = client.post(
            d.destination,
            json={"order": d.payload.order, "cents": d.payload.cents},
            headers={"Idempotency-Key": d.event_id, "X-Fence": str(d.token), **d.headers},
        )
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise fencepost.RetryLater(str(error), delay=30) from error  # never got out
    except httpx.TransportError as error:
        raise fencepost.DeliveryUnknown(str(error)) from error  # may have arrived
    if answer.status_code in (429, 503):
        after = float(answer.headers.get("Retry-After", 30))
        raise fencepost.RetryLater(answer.reason_phrase, delay=after, whole_queue=True)
    if answer.is_client_error:
        raise fencepost.PermanentError(answer.text[:200], code=str(answer.status_code))
    answer.raise_for_status()


def pay(order: int, customer: str, url: str, cents: int) -> None:
    with app.transaction() as tx:
        tx.execute("UPDATE orders SET paid = 1 WHERE id = ?", (order,))
        receipts.send(url, Receipt(order, cents), key=f"receipt:{order}", lane=customer, tx=tx)


def operator() -> None:
    """`fencepost outbox list-unknown`, `confirm-delivered ID` and `retry ID` do the same."""
    store = app.store
    known = {line.strip() for line in sys.stdin}  # keys which the provider says it has
    cursor: str | None = None
    while True:
        page = store.messages("unknown", queue="receipt", after=cursor, limit=200)
        arrived = [m for m in page if m.key in known]
        missing = [m for m in page if m.key not in known]
        print("confirmed", store.confirm(arrived, note="provider's list of today"))
        for answer in store.replay(missing, rate=10):
            print(answer.id, answer.outcome)
        if page.next is None:
            break
        cursor = page.next
    for m in store.messages("dead", queue="receipt", limit=200):
        print(m.id, m.key, m.lane, m.failure)


if __name__ == "__main__":
    operator() if "--operator" in sys.argv else app.run()
