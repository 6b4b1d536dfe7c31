"""
The receiving end: an HTTP server that verifies each webhook and takes it into an inbox.

    python examples/webhooks/customer.py SECRET [SEED]

It prints the address that it listens on. With a SEED it fails at random, as receivers do: it is
busy, or has taken the event and hangs up without a word. Each event is counted once all the same.
"""

from __future__ import annotations

import random
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import fencepost
from fencepost.relay.signing import BadSignature, verify

app = fencepost.App("customer.db")
receipts = app.inbox("receipts", dict[str, int])


@receipts.handler
def count(ctx: fencepost.Context, receipt: dict[str, int]) -> None:
    ctx.tx.execute(
        "INSERT INTO receipts VALUES (?, 1) ON CONFLICT DO UPDATE SET times = times + 1",
        (receipt["order"],),
    )


class Hooks(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            event_id = verify(SECRET, dict(self.headers), body)
        except BadSignature:
            self.answer(401)
            return
        if fails():
            self.answer(503)
            return
        said = receipts.accept(event_id, body)  # on disk, before we say so
        if fails():
            self.close_connection = True  # without an answer
            return
        self.answer(409 if said == "conflict" else 204)

    def answer(self, status: int) -> None:
        self.send_response(status)
        if status != 204:
            self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def fails() -> bool:
    return SEED is not None and chance.random() < 0.2


if __name__ == "__main__":
    SECRET = sys.argv[1]
    SEED = sys.argv[2] if len(sys.argv) > 2 else None
    chance = random.Random(SEED)
    with app.transaction() as tx:
        tx.execute("CREATE TABLE IF NOT EXISTS receipts (id INTEGER PRIMARY KEY, times INT)")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hooks)
    print(f"http://127.0.0.1:{server.server_address[1]}/hooks", flush=True)
    with app.worker():
        server.serve_forever()
