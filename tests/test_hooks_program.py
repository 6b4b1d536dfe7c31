"""A program that sends webhooks by its own handler, and an operator's script, as they stand."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from commands import imported, quiet_environment
from harness_hooks import HOST, Post, Raw, Reply, free_port, receiver
from harness_worker import until

pytest.importorskip("httpx")

PROGRAM = Path(__file__).parent / "programs" / "p05_webhooks.py"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The program, in a folder of its own, where its file will be."""
    monkeypatch.chdir(tmp_path)
    module = imported(PROGRAM, monkeypatch)
    with module.app.transaction() as tx:
        tx.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, paid INT DEFAULT 0)")
        tx.executemany("INSERT INTO orders (id) VALUES (?)", [(order,) for order in range(1, 6)])
    yield module
    module.client.close()
    module.app.store.close()


def test_the_operator_settles_what_the_sender_could_not(shop: ModuleType, tmp_path: Path) -> None:
    """
    One arrives; one is refused; of two nobody hears an answer, and the provider knows of one of
    them; one never gets out. The operator's script settles the two, and the rest is told apart.
    """

    def answer(post: Post) -> Reply | Raw:
        silent = post.path in ("/2", "/3") and len(seen(post.path)) == 1
        return Raw() if silent else Reply(422 if post.path == "/4" else 200)

    def seen(path: str) -> list[str]:
        return [post.headers["idempotency-key"] for post in server.posts if post.path == path]

    def counts() -> dict[str, int]:
        return {name: n for name, n in shop.app.store.stats()["totals"].items() if n}

    with receiver(answer) as server:
        base = server.url.removesuffix("/hook")
        for order in range(1, 5):
            shop.pay(order, f"customer {order}", f"{base}/{order}", 100)
        shop.pay(5, "customer 5", f"http://{HOST}:{free_port()}/", 100)
        with shop.app.worker():
            until(lambda: counts() == {"done": 1, "dead": 1, "unknown": 2, "pending": 1})
        (late,) = shop.app.store.messages("pending", queue="receipt")
        assert (late.key, late.attempt) == ("receipt:5", 0)
        said = subprocess.run(
            [sys.executable, str(PROGRAM), "--operator"],
            cwd=tmp_path,
            env=quiet_environment(),
            input="receipt:2\n",
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        assert said[0] == "confirmed 1"
        assert said[1].endswith(" replayed")
        assert "receipt:4 customer 4 " in said[2]
        with shop.app.worker():
            until(lambda: counts() == {"done": 3, "dead": 1, "pending": 1})
    assert len(seen("/2")) == 1
    assert len(seen("/3")) == 2
    assert len(set(seen("/3"))) == 1
