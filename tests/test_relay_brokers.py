"""Relays to brokers, each a real one: what arrives, what an outage is, and what nobody knows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fencepost
import relay_app
from fencepost import App, Outbox
from fencepost.testing import Kit
from harness_brokers import DESTINATION, SERVERS, Server, served
from harness_kill import Killer
from harness_outbox import only
from harness_worker import AT_ONCE, until
from relay_app import NEVER, declare, idle, relay

LONG = {"rabbitmq"}  # takes seconds to start

LANES, EACH = 4, 10


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[pytest.mark.long] * (name in LONG)) for name in SERVERS],
)
def running(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Server]:
    yield from served(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture
def server(running: Server) -> Server:
    """It runs, and has nothing at DESTINATION."""
    running.empty()
    return running


@pytest.fixture(scope="module")
def senders() -> Iterator[Killer]:
    with Killer(relay_app.__file__) as one:
        yield one


def relayed(app: App, server: Server, *, words: Any = None, **policy: Any) -> Outbox[int]:
    outbox = app.outbox("events", int, **{"backoff": AT_ONCE, **policy})
    outbox.handler(relay(server.name, server.url, **(words or {})))
    return outbox


# ---- what arrives --------------------------------------------------------------------------------


def test_it_arrives_named(app: App, kit: Kit, server: Server) -> None:
    """The payload's bytes, the attributes of a CloudEvent, the sender's headers."""
    outbox = relayed(app, server)
    outbox.send(DESTINATION, 7, headers={"traceparent": "00-ab-cd-01"})
    kit.drain()
    assert only(kit, "done").attempt == 1
    (entry,) = server.entries()
    named = {
        "ce-id": entry.event_id,
        "ce-type": "events",
        "ce-specversion": "1.0",
        "traceparent": "00-ab-cd-01",
    }
    assert named.items() <= entry.headers.items()
    assert entry.body == b"7"
    assert entry.headers["ce-source"] == f"urn:uuid:{entry.event_id.rpartition('-')[0]}"


def test_no_header_can_be_more_than_one(app: App, kit: Kit, server: Server) -> None:
    outbox = relayed(app, server)
    outbox.send(DESTINATION, 7, headers={"note": "a\r\nce-id: forged\r\n\r\nb é"})
    kit.drain()
    (entry,) = server.entries()
    assert entry.headers["ce-id"] == entry.event_id != "forged"
    assert entry.headers["note"].startswith("a")
    assert entry.body == b"7"


def test_a_huge_payload_arrives_whole(app: App, kit: Kit, server: Server) -> None:
    outbox = app.outbox("blobs", str)
    outbox.handler(relay(server.name, server.url, max_bytes=1 << 25))
    text = "x" * (1 << 22)
    outbox.send(DESTINATION, text)
    kit.drain()
    (entry,) = server.entries()
    assert entry.body == f'"{text}"'.encode()


def test_one_over_the_limit_is_a_dead_letter(app: App, kit: Kit, server: Server) -> None:
    outbox = relayed(app, server, words={"max_bytes": 2})
    for number in (10, 100):
        outbox.send(DESTINATION, number)
    kit.drain()
    assert [entry.body for entry in server.entries()] == [b"10"]
    failure = only(kit, "dead").failure
    assert failure is not None
    assert failure.code == "too_large"


# ---- outages -------------------------------------------------------------------------------------


def test_an_outage_uses_up_nobodys_attempts(app: App, kit: Kit, server: Server) -> None:
    """The connection stood when the server went; down, and up again, all arrive, each once."""
    outbox = relayed(app, server, words={"hold": 60}, max_attempts=1)
    outbox.send(DESTINATION, 0)
    kit.drain()
    server.kill()
    for number in (1, 2, 3):
        outbox.send(DESTINATION, number)
    for _ in range(3):
        assert kit.drain() == (0, 1, 0, 0)
        kit.advance(61)
    assert [message.attempt for message in kit.store.messages("pending")] == [0, 0, 0]
    server.start()
    kit.drain(until_idle=True)
    assert len(kit.store.messages("done")) == 4
    assert sorted(entry.body for entry in server.entries()) == [b"0", b"1", b"2", b"3"]


def test_a_server_that_was_restarted_behind_our_back_is_no_doubt(
    app: App, kit: Kit, server: Server
) -> None:
    outbox = relayed(app, server)
    outbox.send(DESTINATION, 0)
    kit.drain()
    server.kill()
    server.start()
    outbox.send(DESTINATION, 1)
    kit.drain(until_idle=True)
    assert len(kit.store.messages("done")) == 2


@pytest.mark.parametrize("resends", [False, True])
def test_a_server_that_hangs_leaves_one_in_doubt(
    app: App, kit: Kit, server: Server, resends: bool
) -> None:
    """
    It takes the message and says nothing. The first one is in doubt; the others wait, because it is
    asked whether it lives before anything more is said to it. By name the first one is sent again,
    and a server that removes duplicates has it once.
    """
    policy = {"on_unknown": "retry" if resends else "hold"}
    outbox = relayed(app, server, words={"hold": 60}, **policy)
    limits = outbox._handler._limits  # type: ignore[union-attr]
    outbox.send(DESTINATION, 0)
    kit.drain()
    limits.timeout, patient = 0.4, limits.timeout  # for one that will not answer, this is enough
    server.freeze()
    for number in (1, 2, 3):
        outbox.send(DESTINATION, number)
    kit.drain()
    server.thaw()
    limits.timeout = patient
    until(lambda: len(server.entries()) == 2)  # it had heard
    if not resends:
        assert only(kit, "unknown").attempt == 1
    kit.drain(until_idle=True)
    assert len(kit.store.messages("done")) == (4 if resends else 3)
    times = 2 if resends and not server.dedupes else 1
    bodies = sorted(entry.body for entry in server.entries())
    assert bodies == [b"0", *[b"1"] * times, b"2", b"3"]


# ---- the end-to-end count ------------------------------------------------------------------------


def test_each_event_is_there_and_lanes_keep_their_order(path: Path, server: Server) -> None:
    """The broker is killed and started again in the middle, more than once."""
    app, outbox = declare(path, server.name, server.url, on_unknown="retry")
    with app.store as store:

        def done() -> int:
            return int(store.stats()["totals"]["done"])

        with app.transaction() as tx:
            for number in range(LANES * EACH):
                outbox.send(DESTINATION, number, lane=str(number % LANES), tx=tx)
        with app.worker():
            for share in (4, 2):
                until(lambda: done() >= LANES * EACH // share)  # noqa: B023
                server.kill()
                server.start()
            until(lambda: idle(app))
        assert done() == LANES * EACH
        assert store.check(full=True) == []
    entries = server.entries()
    if server.dedupes:
        assert len(entries) == LANES * EACH
    received = [int(body) for body in {entry.event_id: entry.body for entry in entries}.values()]
    assert sorted(received) == list(range(LANES * EACH))
    for lane in range(LANES):
        of_it = [number for number in received if number % LANES == lane]
        assert of_it == sorted(of_it)


@pytest.mark.hostile
@pytest.mark.parametrize(("on_unknown", "ends"), [("hold", "unknown"), ("retry", "done")])
def test_a_sender_killed_between_send_and_mark(
    path: Path, server: Server, senders: Killer, on_unknown: str, ends: fencepost.State
) -> None:
    """It is there, and nobody here knows: never again by itself, or again as the same event."""
    app, outbox = declare(path, server.name, server.url, on_unknown=on_unknown)
    outbox.send(DESTINATION, 1)
    app.store.close()
    asked = (path, server.name, server.url)
    assert senders.run(*asked, "sent", on_unknown).killed
    assert senders.run(*asked, NEVER, on_unknown).said == ["done"]
    entries = server.entries()
    assert len({entry.event_id for entry in entries}) == 1
    assert len(entries) == (2 if on_unknown == "retry" and not server.dedupes else 1)
    app, _ = declare(path, server.name, server.url, on_unknown=on_unknown)
    with app.store as store:
        assert store.stats()["totals"][ends] == 1


def test_a_worker_has_one_connection_and_closes_it(path: Path, server: Server) -> None:
    """Two workers of one App, one after the other; what is left open is an error here."""
    app, outbox = declare(path, server.name, server.url)
    with app.store as store:
        for number in range(2):
            with app.worker():
                outbox.send(DESTINATION, number)
                until(lambda: store.stats()["totals"]["done"] == number + 1)  # noqa: B023
    assert len(server.entries()) == 2
