"""Our store and sqlite3 on one file in one process, with threads, and with a kill."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import fencepost
from commands import until
from fencepost import App


def test_threads_with_their_own_connections_and_a_worker_share_the_file(
    app: App, path: Path
) -> None:
    """Each message is put in by one connection and acked in another; each of them once."""
    store = app.store
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS done (thread, n, PRIMARY KEY (thread, n))")

    def connected() -> sqlite3.Connection:
        return sqlite3.connect(path, timeout=60, isolation_level="IMMEDIATE")

    @app.job(context=True)
    def work(ctx: fencepost.Context, thread: int, n: int) -> None:
        with closing(connected()) as connection, connection:
            connection.execute("INSERT INTO done VALUES (?, ?)", (thread, n))
            ctx.ack(tx=connection)

    def fill(thread: int) -> None:
        with closing(connected()) as connection:
            for n in range(20):
                with connection:
                    work.options(tx=connection, key=f"{thread}/{n}").enqueue(thread, n)
                with connection:  # once more changes nothing
                    assert (
                        not work.options(tx=connection, key=f"{thread}/{n}")
                        .enqueue(thread, n)
                        .created
                    )

    with app.worker(threads=4):
        threads = [threading.Thread(target=fill, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        until(lambda: store.stats()["totals"]["done"] == 80)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM done").fetchone() == (80,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert store.check(full=True) == []


HELD = """
import sqlite3, sys, time
import fencepost
app = fencepost.App(sys.argv[1])
queue = app.queue("data", int)
queue.enqueue(0)
(claim,) = queue.claim(lease=3600)
connection = sqlite3.connect(sys.argv[1])
connection.execute("CREATE TABLE mine (id)")
connection.execute("INSERT INTO mine VALUES (1)")
queue.enqueue_many([1, 2], tx=connection)
claim.ack(tx=connection)
print("in", flush=True)
time.sleep(600)
"""


def test_who_is_killed_before_the_commit_has_done_nothing(path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", HELD, str(path)], stdout=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"in\n"
        process.kill()
    with fencepost.open(path) as store:
        queue = store.queue("data")
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("SELECT count(*) FROM mine").fetchone() == (0,)
        (claim,) = queue.claim(5, wait=30)  # that of the dead one, and no other
        assert (claim.payload, queue.size()) == (0, 1)
        assert store.check(full=True) == []


BY_HAND = """
INSERT INTO fencepost_enqueue (queue, body, headers)
VALUES ('receipts', '3', '{"fencepost-destination":"https://c"}')
"""


def test_what_leaves_the_file_is_sent_from_a_connection(app: App, path: Path) -> None:
    """By the outbox in `tx`, or by the plain INSERT that docs/door.md describes."""
    receipts = app.outbox("receipts", int)
    sent: list[tuple[str, int, str]] = []

    @receipts.handler
    def deliver(delivery: fencepost.Delivery[int]) -> None:
        sent.append((delivery.destination, delivery.payload, delivery.headers["ce-type"]))

    store = app.store
    with closing(sqlite3.connect(path)) as connection:
        receipts.send("https://a", 1, tx=connection)
        connection.rollback()
        receipts.send("https://b", 2, key="k", tx=connection)
        assert not receipts.send("https://b", 2, key="k", tx=connection).created
        connection.execute(BY_HAND)
        connection.commit()
    with app.worker():
        until(lambda: store.stats()["totals"]["done"] == 2)
    assert sorted(sent) == [("https://b", 2, "receipts"), ("https://c", 3, "receipts")]
