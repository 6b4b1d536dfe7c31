"""Lanes that stand still: an operator sees which, and lets them go on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commands import runner
from fencepost import App, Delivery, DeliveryUnknown, Halted, InvalidArgument, PermanentError
from fencepost.testing import Kit

LANES = [f"lane {n:02}" for n in range(12)]


@pytest.fixture
def sent() -> list[int]:
    return []


@pytest.fixture
def ids(app: App, kit: Kit, sent: list[int]) -> dict[str, int]:
    """Two deliveries in each lane; every other lane stands still for its first, by its id."""
    outbox = app.outbox("events", int, on_dead="halt")

    @outbox.handler
    def deliver(d: Delivery[int]) -> None:
        if d.payload >= 0:
            sent.append(d.payload)
        elif d.payload % 2:
            raise PermanentError
        else:
            raise DeliveryUnknown

    halted: dict[str, int] = {}
    for n, lane in enumerate(LANES):
        first = outbox.send("d", n if n % 2 else -1 - n // 2, lane=lane)
        outbox.send("d", 100 + n, lane=lane)
        if n % 2 == 0:
            halted[lane] = first.id
    kit.drain()
    return halted


def test_those_that_stand_still_are_listed_by_name(kit: Kit, ids: dict[str, int]) -> None:
    """With the message that each stands still for; a page goes on behind the last one."""
    assert kit.store.halted_lanes("events") == [Halted(*one) for one in sorted(ids.items())]
    found: list[Halted] = []
    while page := kit.store.halted_lanes("events", after=found[-1].lane if found else "", limit=2):
        assert len(page) <= 2
        found += page
    assert found == [Halted(*one) for one in sorted(ids.items())]
    failures = [kit.store.message(one.message) for one in found]
    assert {one.state for one in failures if one} == {"dead", "unknown"}


def test_one_that_goes_on_is_not_among_them(kit: Kit, ids: dict[str, int], sent: list[int]) -> None:
    """Released, or its unknown head confirmed or sent again."""
    first, second, *_ = ids
    assert kit.store.release_lane("events", first)
    message = kit.store.message(ids[second])
    assert message is not None
    assert message.state == "unknown"
    assert kit.store.confirm([message]) == 1
    assert [one.lane for one in kit.store.halted_lanes("events")] == list(ids)[2:]
    kit.drain()
    assert {100, 102} <= set(sent)


def test_a_queue_without_any_has_none(app: App, kit: Kit, ids: dict[str, int]) -> None:
    kit.store.queue("other").enqueue(1, lane="x")
    assert kit.store.halted_lanes("other") == []
    with pytest.raises(InvalidArgument, match="no queue"):
        kit.store.halted_lanes("none")
    for limit in (0, 201):
        with pytest.raises(InvalidArgument, match="limit"):
            kit.store.halted_lanes("events", limit=limit)


@pytest.fixture
def ask(kit: Kit, tmp_path: Path) -> Callable[..., Any]:
    run = runner(tmp_path)

    def ask(*arguments: str, code: int = 0) -> Any:
        call = ("--database", kit.store.path, "lane", *arguments, "--json")
        return json.loads(run(*call, code=code).stdout)

    return ask


def test_the_command_line_lists_and_releases(
    kit: Kit, ids: dict[str, int], ask: Callable[..., Any], sent: list[int]
) -> None:
    """An answer for each, and an exit code for all."""
    told = [{"lane": lane, "message": id_} for lane, id_ in sorted(ids.items())]
    assert ask("list", "events") == told
    assert ask("list", "events", "--after", told[3]["lane"], "--limit", "1") == told[4:5]
    assert ask("release", "events", LANES[0]) == [{"lane": LANES[0], "outcome": "released"}]
    assert ask("release", "events", LANES[0], LANES[2], code=1) == [
        {"lane": LANES[0], "outcome": "not halted"},
        {"lane": LANES[2], "outcome": "released"},
    ]
    assert ask("list", "events") == told[2:]
    kit.drain()
    assert {100, 102} <= set(sent)
