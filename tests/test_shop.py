"""A web application: FastAPI and SQLAlchemy in the queue's file, workers inside and beside it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from commands import imported, quiet_environment, until

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")
uvicorn = pytest.importorskip("uvicorn")

PROGRAM = Path(__file__).parent / "programs" / "p01_shop.py"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The program, in a folder of its own, where its file will be."""
    monkeypatch.chdir(tmp_path)
    module = imported(PROGRAM, monkeypatch)
    yield module
    module.engine.dispose()
    module.jobs.store.close()


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """A worker in a process of its own, for all queues; started by the test."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def worker(folder: Path) -> subprocess.Popen[bytes]:
    environment = quiet_environment()
    path = os.pathsep.join([str(PROGRAM.parent), environment.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "fencepost", "work", "p01_shop:jobs"]
    return subprocess.Popen(command, cwd=folder, env={**environment, "PYTHONPATH": path})


class Client:
    """Asks a server on this machine."""

    def __init__(self, port: int) -> None:
        self._port = port

    def ask(self, path: str, said: object = None) -> tuple[int, Any]:
        """The status, and the answer."""
        with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)) as line:
            if said is None:
                line.request("GET", path)
            else:
                line.request("POST", path, json.dumps(said), {"Content-Type": "application/json"})
            answer = line.getresponse()
            body = answer.read()
            return answer.status, json.loads(body) if answer.status < 300 else None


@contextmanager
def served(api: Any) -> Iterator[Client]:
    """By a real server, in a thread."""
    server = uvicorn.Server(uvicorn.Config(api, port=0, log_level="critical"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started or not thread.is_alive())
        yield Client(server.servers[0].sockets[0].getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(60)


def test_orders_and_jobs_are_one_commit_all_the_way(
    shop: Any, tmp_path: Path, beside: list[subprocess.Popen[bytes]]
) -> None:
    """
    What a request puts in, a worker in another process packs; what that one puts in is mailed by
    the worker inside the web process. Each with rows of the ORM, in the ORM's transaction.
    """
    store = shop.jobs.store
    mails = [f"welcome:{n}" for n in (1, 2, 3)] + [f"packed:{n}" for n in (1, 2, 3, 4)]
    with served(shop.api) as client:
        taken = [
            client.ask("/orders", {"email": f"{name}@example.com", "total": 5})
            for name in ("ann", "bob", "eve")
        ]
        assert [status for status, _ in taken] == [202] * 3
        _, raw = client.ask("/raw", {"email": "raw@example.com", "total": 7})
        beside.append(worker(tmp_path))
        for _, answer in taken:
            assert ended(client, answer["job"]) == {"state": "done", "attempt": 1}
        until(lambda: len(store.messages("done", kind="send_mail")) == len(mails))
        assert client.ask("/jobs/999999") == (404, None)
        assert client.ask("/health") == (200, [])
    done = [str(one.key) for one in store.messages("done", kind="send_mail")]
    assert sorted(done) == sorted(mails)
    with shop.make_session() as session:
        orders = session.query(shop.Order).order_by(shop.Order.id).all()
        assert [order.state for order in orders] == ["packed"] * 4
        assert (orders[3].id, orders[3].email) == (raw["order"], "raw@example.com")
    assert store.check(full=True) == []


def ended(client: Client, job: int) -> Any:
    def asked() -> Any:
        _, status = client.ask(f"/jobs/{job}")
        return None if status["state"] in ("pending", "leased") else status

    return until(asked)


def test_a_request_that_fails_leaves_neither_order_nor_job(shop: Any) -> None:
    def broken(**_: object) -> None:
        raise RuntimeError("after the order and the first job")

    with served(shop.api) as client:
        shop.pack.options = broken
        assert client.ask("/orders", {"email": "a@b", "total": 5}) == (500, None)
        assert set(shop.jobs.store.stats()["totals"].values()) == {0}
        with shop.make_session() as session:
            assert session.query(shop.Order).count() == 0
