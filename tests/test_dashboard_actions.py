"""What the dashboard may do: each action has the outcomes that the command line tells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from fencepost import Store, dashboard
from fencepost.testing import Clock
from harness_dashboard import dead, fill
from harness_web import TOKEN, Web


@pytest.fixture
def web(store: Store) -> Web:
    """May do anything, over a store that a test has open."""
    return Web(dashboard.app(store, allow=dashboard.ALLOWED, token=TOKEN), token=TOKEN)


def test_dead_letters_are_replayed_once_by_whoever_saw_them(web: Web, store: Store) -> None:
    """Two who act on the same sight: one does it, the other is told."""
    one, two = dead(store, "a", "b")
    seen = web.get("messages", state="dead")["messages"]
    wanted = [{"id": m["id"], "generation": m["generation"]} for m in seen]
    told = web.post("replay", {"messages": wanted})
    assert told["counts"] == {"replayed": 2}
    assert {m["id"]: m["outcome"] for m in told["outcomes"]} == dict.fromkeys(
        (one, two), "replayed"
    )
    for claim in store.queue("q").claim(2):
        claim.fail("again")
    assert web.post("replay", {"messages": wanted})["counts"] == {"superseded": 2}
    assert web.post("replay", {"messages": [{"id": one}, {"id": 99}]})["outcomes"] == [
        {"id": one, "outcome": "replayed"},
        {"id": 99, "outcome": "gone"},
    ]


def test_what_a_filter_finds_is_replayed_page_by_page(
    web: Web, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.dashboard.actions.PAGE", 2)
    dead(store, *range(5))
    dead(store, 9, name="other")
    asked: dict[str, Any] = {"found": {"queue": "q"}, "apply": False}
    assert web.post("replay", asked)["applied"] is False
    assert store.stats()["totals"]["dead"] == 6
    pages, after = [], None
    while True:
        told = web.post("replay", {"found": {"queue": "q", "after": after}})
        pages.append(told["counts"].get("replayed", 0))
        after = told["next"]
        if after is None:
            break
    assert sum(pages) == 5
    assert max(pages) == 2
    assert store.stats()["totals"]["dead"] == 1


def test_sends_in_doubt_are_confirmed_with_a_note_or_sent_again(path: Path) -> None:
    fill(path)
    web = Web(dashboard.app(path, allow=["confirm", "retry"], token=TOKEN), token=TOKEN)
    one, two, three, four = (m["id"] for m in web.get("messages", state="unknown")["messages"])
    told = web.post("confirm", {"messages": [{"id": one}, {"id": two}], "note": "asked them"})
    assert told["counts"] == {"confirmed": 2}
    assert web.get(f"messages/{one}")["failure"]["text"] == "asked them"
    assert web.post("retry", {"messages": [{"id": three}], "delay": 60})["counts"] == {
        "replayed": 1
    }
    assert web.post("retry", {"messages": [{"id": one}]})["counts"] == {"not unknown": 1}
    assert web.get("status")["totals"]["unknown"] == 1
    assert web.get(f"messages/{four}")["state"] == "unknown"


def test_messages_are_cancelled_and_queues_paused_and_resumed(web: Web, store: Store) -> None:
    queue = store.queue("q", addressed=True, listed=True, keep=60)
    one = queue.enqueue(1).id
    assert web.post("cancel", {"messages": [{"id": one}]})["counts"] == {"cancelled": 1}
    assert web.post("cancel", {"messages": [{"id": one}]})["counts"] == {"ended": 1}
    queue.enqueue(2)
    assert web.post("pause", {"queue": "q"}) == {"queue": "q", "paused": True}
    assert queue.claim() == []
    assert web.post("resume", {"queue": "q"}) == {"queue": "q", "paused": False}
    assert len(queue.claim()) == 1
    assert web.refused("POST", "/api/pause", json={"queue": "none"})[:2] == (400, "invalid")


def test_a_lane_that_stands_still_is_told_and_let_go_on(web: Web, store: Store) -> None:
    queue = store.queue("q", on_dead="halt", listed=True, addressed=True, keep=60)
    first = queue.enqueue(1, lane="l").id
    queue.enqueue(2, lane="l")
    queue.claim()[0].fail("no")
    assert web.get("lanes", queue="q") == {"lanes": [{"lane": "l", "message": first}]}
    assert queue.claim() == []
    wanted = {"queue": "q", "lane": "l"}
    assert web.post("release", wanted) == {**wanted, "released": True}
    assert web.post("release", wanted) == {**wanted, "released": False}
    assert [claim.payload for claim in queue.claim()] == [2]
    assert web.get("lanes", queue="q") == {"lanes": []}


def test_a_replay_of_what_is_found_keeps_to_the_filter(web: Web, store: Store) -> None:
    """To each part of it: what was not shown is not replayed."""
    queue = store.queue("q", listed=True, addressed=True, keep=60)
    one = queue.enqueue(1, lane="a").id
    two = queue.enqueue(2, lane="b").id
    for claim in queue.claim(2):
        claim.fail("no")
    assert web.post("replay", {"found": {"failure": "worker_lost"}})["outcomes"] == []
    assert web.post("replay", {"found": {"before": "2026-01-01T00:00:00Z"}})["outcomes"] == []
    found = {"lane": "a", "failure": "error"}
    assert web.post("replay", {"found": found})["outcomes"] == [{"id": one, "outcome": "replayed"}]
    assert [m.id for m in store.messages("dead")] == [two]


def test_runs_are_cancelled_and_what_failed_goes_on(path: Path) -> None:
    fill(path)
    web = Web(dashboard.app(path, allow=["cancel", "replay"], token=TOKEN), token=TOKEN)

    def told(action: str, number: int) -> str:
        outcome: str = web.post(action, {"id": f"refund of order {number}"})["outcome"]
        return outcome

    assert [told("cancel-run", number) for number in (25, 21, 99)] == ["cancelled", "ended", "gone"]
    assert [told("resume-run", number) for number in (23, 21, 99)] == [
        "resumed",
        "not failed",
        "gone",
    ]
    states = {run["id"]: run["state"] for run in web.get("runs")["runs"]}
    assert states == {
        "refund of order 21": "done",
        "refund of order 23": "running",
        "refund of order 25": "cancelled",
        "refund of order 27": "sleeping",
    }


def test_dead_letters_are_counted_before_they_are_discarded(
    web: Web, store: Store, clock: Clock
) -> None:
    dead(store, 1, 2)
    dead(store, 3, name="other")
    clock.advance(60)
    dead(store, 4)
    asked = {"before": clock.now.isoformat(), "queue": "q"}
    assert web.post("discard", asked) == {"count": 2, "applied": False, "more": False}
    assert store.stats()["totals"]["dead"] == 4
    assert web.post("discard", {**asked, "apply": True})["count"] == 2
    assert store.stats()["totals"]["dead"] == 2


def test_a_payload_is_shown_as_text_and_never_beside_a_listing(web: Web, store: Store) -> None:
    """A number that a browser could not hold comes whole; other bytes as base64."""
    queue = store.queue("q", listed=True, addressed=True, keep=60)
    secret = {"card": 2**62 + 1, "name": "Ann"}
    id_ = queue.enqueue(secret, headers={"trace": "t-1"}).id
    told = web.get(f"messages/{id_}/content")
    assert json.loads(told["payload"]["text"]) == secret
    assert json.loads(told["headers"]["text"]) == {"trace": "t-1"}
    assert told["result"] is None
    assert "Ann" not in json.dumps(web.get("messages", state="pending"))
    assert "Ann" not in json.dumps(web.get("status"))
    long = queue.enqueue("x" * 200_000).id
    assert web.get(f"messages/{long}/content")["payload"]["cut"] is True
    assert web.refused("GET", "/api/messages/99/content")[:2] == (404, "gone")
