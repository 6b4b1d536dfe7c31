"""Redis Streams: what the server refuses, what it knows already, and an answer that is none."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import pytest

import fencepost
from fencepost import App, InvalidArgument, Outbox
from fencepost.testing import Kit
from harness_brokers import DESTINATION, Redis, served
from harness_hooks import HOST
from harness_outbox import only
from harness_worker import AT_ONCE

pytest.importorskip("redis")

from fencepost.relay.redis import RedisStreams, known_key


@pytest.fixture(scope="module")
def running(tmp_path_factory: Any) -> Iterator[Redis]:
    for server in served("redis", tmp_path_factory.mktemp("redis")):
        assert isinstance(server, Redis)
        yield server


@pytest.fixture
def server(running: Redis) -> Redis:
    running.empty()
    return running


def streams(app: App, url: str, *, words: Any = None, **policy: Any) -> Outbox[int]:
    outbox = app.outbox("events", int, **{"backoff": AT_ONCE, **policy})
    outbox.handler(RedisStreams(url, **{"hold": 60, **(words or {})}))
    return outbox


def test_an_event_that_is_known_is_not_added_again(app: App, kit: Kit, server: Redis) -> None:
    """As long as `dedupe` says; the key that knows it goes by itself."""
    outbox = streams(app, server.url, words={"dedupe": 3600}, on_unknown="retry")
    outbox.send(DESTINATION, 1)
    with kit.crash_at("sent", "events"):
        kit.drain(until_idle=True)
    assert only(kit, "done").attempt == 2
    (entry,) = server.entries()
    with server.client() as client:
        left = client.pttl(known_key(DESTINATION, entry.event_id))
    assert 0 < left <= 3_600_000


def test_without_it_the_event_is_there_twice_under_its_one_id(
    app: App, kit: Kit, server: Redis
) -> None:
    outbox = streams(app, server.url, on_unknown="retry")
    outbox.send(DESTINATION, 1)
    with kit.crash_at("sent", "events"):
        kit.drain(until_idle=True)
    first, second = server.entries()
    assert first == second


def test_an_event_that_could_not_be_added_is_not_known(app: App, kit: Kit, server: Redis) -> None:
    """What stands in the way is taken away, the operator replays, and it is there."""
    outbox = streams(app, server.url, words={"dedupe": 3600})
    with server.client() as client:
        client.set(DESTINATION, "no stream")
        outbox.send(DESTINATION, 1)
        kit.drain()
        failure = only(kit, "dead").failure
        assert failure is not None
        assert failure.code == "WRONGTYPE"
        client.delete(DESTINATION)
    kit.store.replay(kit.store.messages("dead"))
    kit.drain()
    assert len(server.entries()) == 1


@pytest.mark.parametrize("dedupe", [None, 3600])
@pytest.mark.parametrize(
    ("setting", "sick", "well"), [("maxmemory", "1", "0"), ("min-replicas-to-write", "1", "0")]
)
def test_a_server_that_takes_nothing_for_now_is_an_outage(
    app: App, kit: Kit, server: Redis, setting: str, sick: str, well: str, dedupe: int | None
) -> None:
    outbox = streams(app, server.url, words={"dedupe": dedupe}, max_attempts=1)
    with server.client() as client:
        client.config_set(setting, sick)
        try:
            for number in (1, 2):
                outbox.send(DESTINATION, number)
            assert kit.drain() == (0, 1, 0, 0)
        finally:
            client.config_set(setting, well)
    kit.drain(until_idle=True)
    assert len(server.entries()) == len(kit.store.messages("done")) == 2


def test_what_is_refused_is_an_attempt_of_its_message(app: App, kit: Kit, server: Redis) -> None:
    with server.client() as client:
        client.acl_setuser("narrow", enabled=True, nopass=True, commands=["+@all"], keys=["mine*"])
    url = f"redis://narrow:x@{HOST}:{server.port}/0"
    outbox = streams(app, url, max_attempts=2)
    outbox.send(DESTINATION, 1)
    outbox.send("mine", 2)
    kit.drain(until_idle=True)
    assert only(kit, "dead").attempt == 2
    assert only(kit, "done").attempt == 1


def test_the_stream_is_kept_to_a_length(app: App, kit: Kit, server: Redis) -> None:
    outbox = streams(app, server.url, words={"maxlen": 100})
    for number in range(220):
        outbox.send(DESTINATION, number)
    kit.drain()
    entries = server.entries()
    assert 100 <= len(entries) < 220
    assert entries[-1].body == b"219"


@pytest.fixture
def babbler() -> Iterator[int]:
    """Agrees to everything, and answers XADD with what is no answer."""

    def serve() -> None:
        with suppress(OSError):
            while True:
                line, _ = listening.accept()
                with closing(line), suppress(OSError):
                    while said := line.recv(65536):
                        agreed = b"+OK\r\n" * (said.count(b"*") or 1)
                        line.sendall(b"?garbage\r\n" if b"XADD" in said else agreed)

    with socket.create_server((HOST, 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        yield int(listening.getsockname()[1])
        listening.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_an_answer_that_is_none_says_nothing(app: App, kit: Kit, babbler: int) -> None:
    outbox = streams(app, f"redis://{HOST}:{babbler}/0", words={"timeout": 5})
    outbox.send(DESTINATION, 1)
    kit.drain()
    assert only(kit, "unknown").attempt == 1


@pytest.mark.parametrize(
    ("stream", "place"),
    [
        ("orders", "fencepost:{orders}:e"),
        ("{eu}orders", "fencepost:{eu}:e"),
        ("a{b}{c}", "fencepost:{b}:e"),
        ("{}x", "fencepost:{{}x}:e"),
        ("a{b", "fencepost:{a{b}:e"),
    ],
)
def test_what_knows_an_event_stands_beside_its_stream(stream: str, place: str) -> None:
    """A cluster places keys by what is in the first braces."""
    assert known_key(stream, "e") == place


def test_what_is_said_wrongly_is_refused_where_it_is_said() -> None:
    wrong: list[tuple[Any, dict[str, Any]]] = [
        ("http://x", {}),
        (7, {}),
        ("redis://x", {"dedupe": 0}),
        ("redis://x", {"dedupe": 0.0004}),
        ("redis://x", {"maxlen": 0}),
        ("redis://x", {"timeout": 0}),
    ]
    for url, words in wrong:
        with pytest.raises(InvalidArgument):
            RedisStreams(url, **words)


def test_an_unreachable_server_is_named_in_the_failure(app: App, kit: Kit) -> None:
    outbox = streams(app, "redis://127.0.0.1:1/0")
    outbox.send(DESTINATION, 1)
    kit.drain()
    message: fencepost.Message = only(kit, "pending")
    assert message.failure is not None
    assert "ConnectionError" in message.failure.text
