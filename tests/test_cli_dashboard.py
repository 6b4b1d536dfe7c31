"""`fencepost dashboard`: a server of its own, for whoever has no application to mount it in."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("httpx")

import httpx

import fencepost
from commands import Run, quiet_environment, runner
from fencepost.cli.dashboard import _is_own
from harness_dashboard import dead

HEADER = "X-Fencepost-Token"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return runner(tmp_path)


@contextmanager
def ending(server: subprocess.Popen[str]) -> Iterator[None]:
    """It does not outlive a test that went wrong."""
    try:
        yield
    except BaseException:
        server.kill()
        raise


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_it_is_asked_to_stop(path: Path, number: signal.Signals) -> None:
    """Its token is behind the #, which no browser sends; without it it reads."""
    with fencepost.open(path) as store:
        (id_,) = dead(store, 1)
    command = [sys.executable, "-W", "error", "-m", "fencepost", "--database", str(path)]
    command += ["dashboard", "--port", "0", "--allow", "replay", "--json"]
    pipe = subprocess.PIPE
    environment = quiet_environment()
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment) as server:
        assert server.stdout is not None
        told = json.loads(server.stdout.readline())
        assert (told["private"], told["allowed"]) == (False, ["replay"])
        url, _, token = told["url"].partition("#token=")
        assert len(token) >= 32
        with ending(server), httpx.Client(base_url=url, headers={HEADER: token}) as client:
            answer = client.get("/api/status")
            assert answer.json()["totals"]["dead"] == 1
            assert "server" not in answer.headers
            done = client.post("/api/replay", json={"messages": [{"id": id_}]})
            assert done.json()["counts"] == {"replayed": 1}
            server.send_signal(number)
            _, said = server.communicate(timeout=60)
        assert (server.returncode, said) == (0, "")


def test_without_a_deed_there_is_no_token_and_the_environment_may_say_it(
    run: Run, path: Path
) -> None:
    """One that is too short to keep anybody out is refused."""
    done = run(
        "--database",
        str(path),
        "dashboard",
        "--port",
        "0",
        "--allow",
        "replay",
        code=1,
        FENCEPOST_DASHBOARD_TOKEN="short",
    )
    assert "16 to 1000" in done.stderr
    done = run("--database", str(path), "dashboard", "--port", "0", "--allow", "all things", code=1)
    assert "allow is of payloads" in done.stderr


def test_a_port_that_is_taken_is_told_in_a_line(run: Run, path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = run("--database", str(path), "dashboard", "--port", port, code=1)
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"fencepost: 127.0.0.1, port {port}: {os.strerror(errno.EADDRINUSE)}")


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("127.0.0.1", True),
        ("127.8.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),  # noqa: S104
        ("::", False),
        ("192.168.0.7", False),
        ("example.com", False),
    ],
)
def test_what_others_can_reach_is_private(host: str, own: bool) -> None:
    assert _is_own(host) is own


@pytest.mark.parametrize("missing", ["starlette", "uvicorn"])
def test_without_the_extra_it_says_what_to_install(path: Path, missing: str) -> None:
    program = (
        "import sys, importlib.util as u; find = u.find_spec;"
        f"u.find_spec = lambda name, *a: None if name == {missing!r} else find(name, *a);"
        f"sys.argv = ['fencepost', '--database', {str(path)!r}, 'dashboard'];"
        "from fencepost.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert f"the dashboard needs {missing}: pip install 'fencepost[web]'" in done.stderr


def test_without_starlette_the_room_itself_says_it() -> None:
    program = (
        "import importlib.util as u; find = u.find_spec;"
        "u.find_spec = lambda name, *a: None if name == 'starlette' else find(name, *a);"
        "import fencepost.dashboard"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "the dashboard needs starlette: pip install 'fencepost[web]'" in done.stderr
