"""examples/web: FastAPI on one event loop, a worker in its lifespan, a real server."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fencepost
from commands import quiet_environment, until

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
httpx = pytest.importorskip("httpx")

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "web"


class Server:
    """The example in a process of its own, on this machine alone."""

    def __init__(self, folder: Path, loop: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        path = os.pathsep.join([str(FOLDER), quiet_environment().get("PYTHONPATH", "")])
        command = [sys.executable, "-m", "uvicorn", "main:api", "--port", str(self.port)]
        self.process = subprocess.Popen(
            [*command, "--loop", loop, "--log-level", "error"],
            cwd=folder,
            env={**quiet_environment(), "PYTHONPATH": path},
        )
        until(self.answers)

    def answers(self) -> bool:
        assert self.process.poll() is None
        with socket.socket() as line:
            return line.connect_ex(("127.0.0.1", self.port)) == 0

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(60)


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """On the loop that the test names."""
    pytest.importorskip(request.param)
    one = Server(tmp_path, request.param)
    yield one
    if one.process.poll() is None:
        one.end(signal.SIGKILL)


@pytest.mark.parametrize("server", ["asyncio", "uvloop"], indirect=True)
def test_requests_at_the_same_time_are_each_answered_once(server: Server, tmp_path: Path) -> None:
    """
    Two hundred at once, each twice under its key: as many jobs, all of them done by the worker in
    the lifespan, and the server ends as it should.
    """
    texts = {f"text-{n}": "word " * n for n in range(100)}

    async def ask() -> dict[str, tuple[int, int]]:
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:

            async def post(key: str, text: str) -> Any:
                headers = {"Idempotency-Key": key}
                return await client.post("/texts", params={"text": text}, headers=headers)

            twice = [*texts.items()] * 2
            answers = await asyncio.gather(*(post(*one) for one in twice))
            assert sorted({one.status_code for one in answers}) == [200, 202]
            ids = {key: one.json()["job"] for (key, _), one in zip(twice, answers, strict=True)}
            assert len({one.json()["job"] for one in answers}) == len(texts)
            waits = [client.get(f"/texts/{id_}", params={"wait": 30}) for id_ in ids.values()]
            found = [one.json()["words"] for one in await asyncio.gather(*waits)]
            other = await post("text-7", "something else")
            assert (other.status_code, f"job {ids['text-7']} " in other.text) == (409, True)
            assert (await client.get("/texts/1000000")).status_code == 404
            assert (await client.get("/health")).json() == []
            return dict(zip(ids, zip(ids.values(), found, strict=True), strict=True))

    found = asyncio.run(ask())
    assert {key: words for key, (_, words) in found.items()} == {
        key: len(text.split()) for key, text in texts.items()
    }
    assert server.end() == -signal.SIGTERM  # the server's way of saying that it ended as it should
    with fencepost.open(tmp_path / "web.db") as store:
        assert store.check(full=True) == []
        assert store.stats()["totals"]["done"] == len(texts)


@pytest.mark.parametrize("server", ["uvloop"], indirect=True)
def test_what_was_answered_survives_a_kill(server: Server, tmp_path: Path) -> None:
    """SIGKILL among many requests: each that had its answer is in the file."""

    async def ask() -> set[int]:
        told: set[int] = set()
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:

            async def post(n: int) -> None:
                answer = await client.post(
                    "/texts", params={"text": "a"}, headers={"Idempotency-Key": f"{n}"}
                )
                told.add(answer.json()["job"])
                if len(told) == 50:
                    server.process.kill()

            await asyncio.gather(*(post(n) for n in range(300)), return_exceptions=True)
        return told

    told = asyncio.run(ask())
    server.process.wait(60)
    assert len(told) >= 50
    with fencepost.open(tmp_path / "web.db") as store:
        assert {id_ for id_ in told if store.message(id_) is None} == set()
        assert store.check(full=True) == []
