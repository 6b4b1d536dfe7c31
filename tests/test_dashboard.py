"""The dashboard's JSON: what it reads is what the store and the command line say."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

import anyio
import anyio.to_thread
import httpx
from starlette.applications import Starlette
from starlette.routing import Mount

import fencepost
from fencepost import App, Store, dashboard
from fencepost.testing import Clock
from harness_dashboard import dead, fill
from harness_web import TOKEN, Web
from harness_worker import NOON

Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Only looked at."""
    path = tmp_path_factory.mktemp("shop") / "shop.db"
    fill(path, now=NOON)
    return path


@pytest.fixture
def look(filled: Path) -> Web:
    return Web(dashboard.app(filled))


@pytest.fixture
def web(store: Store) -> Web:
    """Over a store that a test has open."""
    return Web(dashboard.app(store))


# ---- reading -------------------------------------------------------------------------------------


def test_the_status_is_what_stats_says(web: Web, store: Store, clock: Clock) -> None:
    dead(store, 1, 2)
    store.queue("q").enqueue(3)
    store.queue("other").enqueue(4, delay=60)
    clock.advance(7)
    told, stats = web.get("status"), store.stats()
    assert told["totals"] == stats["totals"]
    assert datetime.fromisoformat(told["time"]) == clock.now
    queues = {queue.pop("name"): queue for queue in told["queues"]}
    for name, queue in queues.items():
        assert queue.pop("rest") is False
        assert queue.pop("ended") == stats["queues"][name]["dead"]
    assert queues == stats["queues"]
    assert queues["q"]["oldest_age"] == 7.0


@pytest.mark.parametrize("how", ["path", "store", "app"])
def test_it_is_of_a_path_a_store_or_an_app(path: Path, how: str) -> None:
    with fencepost.open(path) as store:
        store.queue("q", addressed=True).enqueue(1)
        given: Any = {"path": str(path), "store": store, "app": App(path)}[how]
        web = Web(dashboard.app(given))
        assert web.get("status")["totals"]["pending"] == 1
        assert [m["queue"] for m in web.get("messages", state="pending")["messages"]] == ["q"]
        if how == "app":
            given.store.close()


def test_a_listing_is_read_page_by_page_and_has_what_the_command_line_has(
    look: Web, filled: Path
) -> None:
    with fencepost.open(filled) as store:
        wanted = [one.id for one in store.messages("dead", limit=200)]
    found, after = [], None
    while True:
        given: dict[str, Any] = {"after": after} if after else {}
        page = look.get("messages", state="dead", limit=4, **given)
        assert len(page["messages"]) <= 4
        found += page["messages"]
        after = page["next"]
        if after is None:
            break
    assert [one["id"] for one in found] == wanted
    assert len(wanted) > 4
    command = [sys.executable, "-m", "fencepost", "--database", str(filled), "dead", "list"]
    done = subprocess.run([*command, "--json"], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout)["messages"] == found


def test_a_listing_is_filtered_as_the_store_filters(look: Web) -> None:
    ended = look.get("messages", state="dead", queue="default", kind="send_mail")["messages"]
    assert ended
    assert {one["queue"] for one in ended} == {"default"}
    first = ended[0]["settled_at"]
    before = look.get("messages", state="dead", before=first, since="2020-01-01T00:00:00Z")
    assert [m for m in before["messages"] if m["queue"] == "default"] == [
        one for one in ended if one["settled_at"] < first
    ]
    assert look.get("messages", state="dead", queue="no such queue")["messages"] == []


def test_one_message_and_a_received_one_are_found(look: Web) -> None:
    told = look.get("inbox", address="payments", message_id="pay_00017")
    assert (told["state"], told["failure"]["text"]) == ("dead", "order 17: -5 cannot be paid")
    assert look.get(f"messages/{told['id']}") == told
    assert look.refused("GET", "/api/messages/999999")[:2] == (404, "gone")
    missing = {"address": "payments", "message_id": "pay_99999"}
    assert look.refused("GET", "/api/inbox", params=missing)[:2] == (404, "gone")


def test_runs_are_told_with_their_steps_as_the_command_line_tells_them(
    look: Web, filled: Path
) -> None:
    runs, after = [], None
    while True:
        given: dict[str, Any] = {"after": after} if after else {}
        page = look.get("runs", limit=3, **given)
        runs += page["runs"]
        after = page["next"]
        if after is None:
            break
    states = {run["id"]: run["state"] for run in runs}
    assert states == {
        "refund of order 21": "done",
        "refund of order 23": "failed",
        "refund of order 25": "waiting",
        "refund of order 27": "sleeping",
    }
    (failed,) = look.get("runs", state="failed", name="refund")["runs"]
    assert failed["failure"]["text"] == "the bank does not answer"
    command = [sys.executable, "-m", "fencepost", "--database", str(filled), "workflow", "show"]
    command += [failed["id"], "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    shown = json.loads(done.stdout)
    told = look.get("run", id=failed["id"])
    assert [step["name"] for step in told["steps"]] == [
        "look up the order",
        "cool off",
        "approved by",
    ]
    assert {**told, "at": None} == {**shown, "at": None}
    assert look.refused("GET", "/api/run", params={"id": "none"})[:2] == (404, "gone")


def test_schedules_are_told_with_their_next_moment(look: Web) -> None:
    told = {one["job"]: one for one in look.get("schedules")["schedules"]}
    assert told["report"]["rule"] == "0 3 * * *"
    assert told["report"]["zone"] == "Europe/Paris"
    assert told["sweep"]["rule"] == "every 300 s"
    for one in told.values():
        assert one["next"] is not None
        assert one["next"] > one["fired_up_to"]


def test_a_worker_that_was_killed_is_told_as_dead(path: Path) -> None:
    """By the kernel, before anybody has cleared up behind it."""
    program = """if True:
        import os, sys, fencepost
        store = fencepost.open(sys.argv[1])
        queue = store.queue("q")
        queue.enqueue_many([1, 2])
        queue.claim(1)
        print(flush=True)
        sys.stdin.read()
    """
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", program, str(path)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as other:
        assert other.stdout is not None
        other.stdout.readline()
        web = Web(dashboard.app(path))
        (one,) = web.get("workers")["workers"]
        assert (one["pid"], one["alive"]) == (other.pid, True)
        other.kill()
        other.wait()
        (one,) = web.get("workers")["workers"]
        assert (one["pid"], one["alive"]) == (other.pid, False)


def test_more_queues_than_a_page_can_show_are_summed_up(
    web: Web, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.dashboard.api.QUEUES_MAX", 2)
    for number in range(4):
        store.queue(f"q{number}").enqueue_many(range(4 - number))
    told = web.get("status")
    assert [(queue["name"], queue["pending"]) for queue in told["queues"]] == [
        ("q0", 4),
        ("q1", 3),
        ("(others)", 3),
    ]
    assert [queue["rest"] for queue in told["queues"]] == [False, False, True]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("messages", "state"),
        ("messages?state=lost", "lost"),
        ("messages?state=dead&limit=0", "limit"),
        ("messages?state=dead&limit=201", "limit"),
        ("messages?state=dead&after=nonsense", "cursor"),
        ("messages?state=dead&since=yesterday", "yesterday"),
        ("messages?state=dead&order=1", "order"),
        ("messages/x", "int"),
    ],
)
def test_a_question_that_makes_no_sense_is_told_so(look: Web, path: str, words: str) -> None:
    status, type_, message = look.refused("GET", f"/api/{path}")
    assert (status, type_) == (400, "invalid")
    assert words in message


def test_what_is_not_there_and_what_is_not_asked_so_are_told_in_json(look: Web) -> None:
    assert look.refused("GET", "/api/nothing")[:2] == (404, "no_such_address")
    assert look.refused("POST", "/api/status")[:2] == (405, "method")


# ---- a file that cannot be read ------------------------------------------------------------------


def test_a_missing_file_is_told_and_is_not_made(path: Path) -> None:
    web = Web(dashboard.app(path))
    for address in ("status", "messages?state=dead", "workers"):
        assert web.refused("GET", f"/api/{address}") == (
            503,
            "missing",
            f"there is no file {path}",
        )
    assert not path.exists()
    fencepost.open(path).close()
    assert web.get("status")["totals"]["pending"] == 0, "and seen once it is there"


def test_what_is_no_store_is_told_and_does_not_become_one(path: Path, foreign: Ask) -> None:
    foreign("CREATE TABLE mine (a)")
    before = path.read_bytes()
    web = Web(dashboard.app(path))
    for address in ("status", "messages?state=dead"):
        assert web.refused("GET", f"/api/{address}")[:2] == (503, "not_a_store")
    assert path.read_bytes() == before


def test_a_damaged_and_a_newer_file_are_told_in_words(path: Path, foreign: Ask) -> None:
    web = Web(dashboard.app(path))
    path.write_bytes(b"no database" * 1000)
    assert web.refused("GET", "/api/status")[:2] == (503, "damaged")
    path.unlink()
    fencepost.open(path).close()
    foreign("UPDATE fencepost_meta SET version = 99")
    status, type_, message = web.refused("GET", "/api/messages?state=dead")
    assert (status, type_) == (503, "newer_schema")
    assert "99" in message


def test_a_busy_file_is_told_and_may_be_asked_again(path: Path) -> None:
    """An action waits for its turn, not for ever, and says who has it."""
    with fencepost.open(path, busy_timeout=0) as store:
        (id_,) = dead(store, 1)
        web = Web(dashboard.app(store, allow=["replay"], token=TOKEN), token=TOKEN)
        program = (
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
            "c.execute('BEGIN IMMEDIATE'); print(flush=True); sys.stdin.read()"
        )
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", program, str(path)]
        with subprocess.Popen(command, stdin=pipe, stdout=pipe) as other:
            assert other.stdout is not None
            other.stdout.readline()
            assert web.get("status")["totals"]["dead"] == 1, "reading goes on"
            answer = web.ask("POST", "/api/replay", json={"messages": [{"id": id_}]})
            assert (answer.status_code, answer.json()["error"]["type"]) == (503, "busy")
            assert answer.headers["retry-after"] == "1"
            other.kill()
        assert web.post("replay", {"messages": [{"id": id_}]})["counts"] == {"replayed": 1}


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="asks Linux what is open")
def test_nothing_is_held_between_two_requests(path: Path) -> None:
    """Of a file that is given by its path: not even its descriptor; the status writes nothing."""
    with fencepost.open(path) as store:
        dead(store, 1)
    before = path.stat().st_mtime_ns
    web = Web(dashboard.app(path))
    for _ in range(3):
        web.get("status")
        assert path.stat().st_mtime_ns == before
        web.get("messages", state="dead")
        web.get("workers")
        links = Path("/proc/self/fd").iterdir()
        held = [str(link.readlink()) for link in links if link.is_symlink()]
        assert not [name for name in held if name.startswith(str(path))]


async def test_a_file_that_answers_slowly_holds_up_nobody_else(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the event loop nor the threads of the application around it."""
    begun, go_on = threading.Semaphore(0), threading.Event()

    def slow(self: object) -> dict[str, Any]:
        begun.release()
        go_on.wait(60)
        return {"queues": {}, "totals": {}}

    monkeypatch.setattr("fencepost.dashboard.source.Source.status", slow)
    transport = httpx.ASGITransport(dashboard.app(path))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        free = anyio.to_thread.current_default_thread_limiter()
        asked = [asyncio.create_task(client.get("/api/status")) for _ in range(6)]
        assert await anyio.to_thread.run_sync(begun.acquire)
        assert (await client.get("/api/about")).status_code == 200
        assert free.borrowed_tokens == 0
        assert sum(task.done() for task in asked) == 0
        go_on.set()
        assert [(await task).status_code for task in asked] == [200] * 6


# ---- where it lives ------------------------------------------------------------------------------


def test_it_may_be_mounted_anywhere(filled: Path) -> None:
    """With no setting for it: all of the page's addresses are relative to its folder."""
    inside = dashboard.app(filled)
    web = Web(Starlette(routes=[Mount("/ops/queue", inside)]))
    page = web.ask("GET", "/ops/queue/")
    assert page.status_code == 200
    assert 'src="assets/main.js"' in page.text
    assert web.ask("GET", "/ops/queue/assets/main.js").status_code == 200
    assert web.ask("GET", "/ops/queue/api/status").json()["totals"]["dead"] == 11
    answer = web.ask("GET", "/ops/queue")
    assert answer.status_code in (307, 308)
    assert answer.headers["location"].endswith("/ops/queue/")


def test_the_page_is_kept_by_browsers_and_asked_about(look: Web) -> None:
    for address in ("/", "/assets/main.js", "/assets/style.css", "/assets/icon.svg"):
        page = look.ask("GET", address)
        tag = page.headers["etag"]
        assert page.headers["cache-control"] == "no-cache"
        again = look.ask("GET", address, headers={"If-None-Match": f'"x", W/{tag}'})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        head = look.ask("HEAD", address)
        assert (head.status_code, head.content) == (200, b"")
        assert int(head.headers["content-length"]) == len(page.content)
    answer = look.ask("HEAD", "/api/status")
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")


@pytest.mark.parametrize("path", ["/assets/../api.py", "/assets/%2e%2e/api.py", "/assets/none.js"])
def test_nothing_but_the_page_is_served(look: Web, path: str) -> None:
    assert look.refused("GET", path)[:2] == (404, "no_such_address")
