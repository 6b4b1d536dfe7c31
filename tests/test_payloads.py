"""H15: payloads of another version, by somebody else, or damaged."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from commands import runner
from fencepost import App, Context, Contracts, Envelope, Inbox, InvalidArgument
from fencepost.testing import Kit
from harness_worker import AT_ONCE

HEALTHY = 20


@dataclass
class Paid:
    order: int


@pytest.fixture
def handled() -> list[tuple[int, int]]:
    return []


@pytest.fixture
def inbox(app: App, kit: Kit, handled: list[tuple[int, int]]) -> Inbox[Paid]:
    inbox = app.inbox("in", Contracts({"paid.v1": Paid}), backoff=AT_ONCE)

    @inbox.handler
    def came(ctx: Context, event: Paid) -> None:
        handled.append((event.order, ctx.attempt))

    return inbox


STRANGE = {
    "bytes": (b"\x80\x04K\x07.", Envelope("paid.v1"), "undecodable"),
    "other": (b'{"order": "seven"}', Envelope("paid.v1"), "undecodable"),
    "name": (b'{"order": 7}', Envelope("paid.v2"), "unknown_contract"),
    "newer": (b'{"order": 7}', Envelope("paid.v1", version=2), "unsupported_version"),
}


def test_h15_what_cannot_be_handled_is_dead_one_by_one_and_shown_with_its_bytes(
    inbox: Inbox[Paid], kit: Kit, handled: list[tuple[int, int]]
) -> None:
    """
    Between healthy ones, which it costs nothing; each row is listed with its own error, and its
    bytes are what came. The first is a pickle of 7, and is none to us.
    """
    for n in range(HEALTHY):
        inbox.accept(f"h{n}", Paid(n))
        for name, (body, envelope, _) in STRANGE.items():
            inbox.accept(f"{name}{n}", body, envelope=envelope)
    kit.drain()
    assert handled == [(n, 1) for n in range(HEALTHY)]
    dead = kit.store.messages("dead", limit=200)
    assert len(dead) == len(STRANGE) * HEALTHY
    for message in dead:
        assert message.key is not None
        body, _, kind = STRANGE[message.key.rstrip("0123456789")]
        assert message.failure is not None
        assert (message.failure.kind, message.attempt) == (kind, 1)
        assert message.failure.text
        assert kit.store.content(message.id).body == body


def test_dead_letters_are_found_by_the_kind_of_their_failure(
    inbox: Inbox[Paid], kit: Kit, tmp_path: Path
) -> None:
    """Over all pages, which may be short; and replayed by it."""
    for n in range(HEALTHY):
        for name, (body, envelope, _) in STRANGE.items():
            inbox.accept(f"{name}{n}", body, envelope=envelope)
    kit.drain()
    found: list[str | None] = []
    after: str | None = None
    while True:
        page = kit.store.messages("dead", failure="unknown_contract", after=after, limit=7)
        found += [message.key for message in page]
        after = page.next
        if after is None:
            break
    assert found == [f"name{n}" for n in reversed(range(HEALTHY))]
    with pytest.raises(InvalidArgument, match="no kind of failure"):
        kit.store.messages("dead", failure="bad luck")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument):
        first = kit.store.messages("dead", failure="undecodable", limit=1)
        kit.store.messages("dead", after=first.next)
    run = runner(tmp_path)
    call = ("--database", kit.store.path, "dead")
    listed = json.loads(run(*call, "list", "--failure", "unsupported_version", "--json").stdout)
    assert len(listed["messages"]) == HEALTHY
    dry = run(*call, "replay", "--all", "--failure", "undecodable", "--dry-run", "--json").stdout
    assert json.loads(dry)["counts"] == {"replayed": 2 * HEALTHY}
    run(*call, "list", "--failure", "bad luck", code=2)


def test_h15_an_unknown_job_is_put_off_and_costs_nobody_an_attempt(app: App, kit: Kit) -> None:
    """
    Those behind it are done at once; it is dead at its `max_age` if nobody deploys the name, and
    runs if somebody does.
    """
    newer = App()
    ran: list[tuple[int, int]] = []

    @app.job(context=True)
    def old(ctx: Context, n: int) -> None:
        ran.append((n, ctx.attempt))

    @newer.job
    def new(n: int) -> None: ...

    strange = [new.at(kit.store).enqueue(n).id for n in range(3)]
    for n in range(HEALTHY):
        old.enqueue(n)
    kit.drain()
    assert ran == [(n, 1) for n in range(HEALTHY)]
    waiting = kit.store.messages("pending")
    assert [(one.id, one.attempt) for one in waiting] == [(id_, 0) for id_ in strange]
    assert {one.failure.kind for one in waiting if one.failure} == {"unknown_name"}
    kit.advance(7 * 86_400)
    kit.drain()
    assert {one.id for one in kit.store.messages("dead")} == set(strange)

    @app.job(name="new", context=True)
    def deployed(ctx: Context, n: int) -> None:
        ran.append((100 + n, ctx.attempt))

    kit.store.replay(kit.store.messages("dead"))
    kit.drain()
    assert sorted(ran)[-3:] == [(100, 1), (101, 1), (102, 1)]


def test_h15_a_dead_letter_shows_its_bytes_where_it_is_asked_for(
    inbox: Inbox[Paid], kit: Kit, tmp_path: Path
) -> None:
    """On the command line, and only then."""
    inbox.accept("1", b"\x80\x04K\x07.", envelope=Envelope("paid.v1", trace="t-1"))
    kit.drain()
    (message,) = kit.store.messages("dead")
    run = runner(tmp_path)

    def show(*more: str) -> Any:
        call = ("--database", kit.store.path, "dead", "show", str(message.id), "--json")
        return json.loads(run(*call, *more).stdout)

    assert "payload" not in show()
    assert show()["failure"]["kind"] == "undecodable"
    told = show("--payload")
    assert told["payload"] == {"base64": "gARLBy4="}
    assert told["envelope"] == {"version": 1, "contract": "paid.v1", "trace": "t-1"}
    assert told["headers"] == {}


def test_an_envelope_that_cannot_be_read_is_shown_as_it_is(
    inbox: Inbox[Paid], kit: Kit, tmp_path: Path
) -> None:
    """A newer one, for instance; one with a moment, with the offset that it had."""
    sent = datetime(2026, 3, 1, 9, 30, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    inbox.accept("1", Paid(1), envelope=Envelope(version=2))
    inbox.accept("2", Paid(2), envelope=Envelope(sent_at=sent))
    ids = [one.id for one in kit.store.messages("pending")]
    run = runner(tmp_path)

    def show(id_: int) -> Any:
        call = ("--database", kit.store.path, "show", str(id_), "--payload", "--json")
        return json.loads(run(*call).stdout)

    newer, timed = map(show, sorted(ids))
    assert newer["envelope"] is None
    assert json.loads(newer["headers"]["fencepost-envelope"])["version"] == 2
    assert timed["envelope"]["sent_at"] == "2026-03-01T09:30:00+05:30"
    told = run("--database", kit.store.path, "show", str(max(ids)), "--payload").stdout
    assert "paid.v1" in told
