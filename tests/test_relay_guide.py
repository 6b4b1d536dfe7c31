"""The guide to relays is programs: its blocks run, against what they speak to."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from commands import imported, quiet_environment
from harness_brokers import served
from harness_hooks import free_port, receiver
from harness_pages import ROOT, blocks
from harness_worker import until

pytest.importorskip("httpx")

GUIDE = ROOT / "docs" / "relays.md"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with each block under the name that its first line has, on a port that is free."""
    port = str(free_port())
    for block in blocks(GUIDE):
        if block.language == "python":
            (tmp_path / block.name).write_text(block.text.replace("8000", port))
    return tmp_path


def start(folder: Path, name: str) -> subprocess.Popen[str]:
    command = [sys.executable, name]
    environment = quiet_environment()
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=pipe, text=True)


def test_what_the_sender_sends_the_customer_receives(programs: Path) -> None:
    with start(programs, "customer.py") as customer, start(programs, "sender.py") as sender:
        try:
            assert customer.stdout is not None
            assert customer.stdout.readline() == "order 42\n"
            sender.send_signal(signal.SIGTERM)
            assert sender.wait(60) == 0
        finally:
            sender.kill()
            customer.kill()


@pytest.mark.parametrize(
    ("name", "program", "stands_for", "stream"),
    [
        ("redis", "to_redis.py", "6379", None),
        ("nats", "to_nats.py", "4222", "orders"),
        pytest.param("rabbitmq", "to_rabbitmq.py", "5672", None, marks=pytest.mark.long),
    ],
)
def test_what_is_sent_to_a_broker_is_there(
    programs: Path, name: str, program: str, stands_for: str, stream: str | None
) -> None:
    """At the address of a real one."""
    for server in served(name, programs, destination="orders.paid", stream=stream):
        text = (programs / program).read_text()
        assert stands_for in text
        (programs / program).write_text(text.replace(stands_for, str(server.port)))
        with start(programs, program) as sender:
            try:
                (entry,) = until(server.entries)
                assert entry.body == b'{"order":42}'
                sender.send_signal(signal.SIGTERM)
                assert sender.wait(60) == 0
            finally:
                sender.kill()


def test_a_handler_may_stand_around_a_relay(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fencepost

    monkeypatch.chdir(programs)
    module = imported(programs / "around.py", monkeypatch)
    app: fencepost.App = module.app
    with app.store as store, receiver() as server:
        for kind in ("test", "paid"):
            module.events.send(server.url, {"kind": kind})
        with app.worker():
            until(lambda: store.stats()["totals"]["done"] and store.stats()["totals"]["dead"])
    assert [post.body for post in server.posts] == [b'{"kind":"paid"}']
