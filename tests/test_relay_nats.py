"""NATS JetStream: what a stream refuses, what it knows already, and an answer that is none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fencepost import App, InvalidArgument, Outbox
from fencepost.testing import Kit
from harness_brokers import DESTINATION, Nats, served
from harness_hooks import HOST, free_port
from harness_outbox import only
from harness_worker import AT_ONCE

pytest.importorskip("nats")

from fencepost.relay.nats import JetStream


@pytest.fixture(scope="module")
def running(tmp_path_factory: Any) -> Iterator[Nats]:
    for server in served("nats", tmp_path_factory.mktemp("nats")):
        assert isinstance(server, Nats)
        yield server


@pytest.fixture
def server(running: Nats) -> Nats:
    running.empty()
    return running


def published(app: App, servers: Any, *, words: Any = None, **policy: Any) -> Outbox[int]:
    outbox = app.outbox("events", int, **{"backoff": AT_ONCE, **policy})
    outbox.handler(JetStream(servers, **{"hold": 60, **(words or {})}))
    return outbox


def test_an_event_that_is_known_is_not_stored_again(app: App, kit: Kit, server: Nats) -> None:
    outbox = published(app, server.url, on_unknown="retry")
    outbox.send(DESTINATION, 1)
    with kit.crash_at("sent", "events"):
        kit.drain(until_idle=True)
    assert only(kit, "done").attempt == 2
    assert len(server.entries()) == 1


@pytest.mark.parametrize(
    ("destination", "words"), [("nobodys", {}), (DESTINATION, {"stream": "others"})]
)
def test_what_no_stream_takes_is_an_attempt_of_its_message(
    app: App, kit: Kit, server: Nats, destination: str, words: dict[str, str]
) -> None:
    outbox = published(app, server.url, words=words, max_attempts=2)
    outbox.send(destination, 1)
    kit.drain(until_idle=True)
    message = only(kit, "dead")
    assert message.failure is not None
    assert (message.attempt, message.failure.code) == (2, "Refused")
    assert server.entries() == []


def test_what_a_full_stream_refuses_is_an_attempt_of_its_message(
    app: App, kit: Kit, server: Nats
) -> None:
    async def narrow(client: Any) -> None:
        words = {"max_msgs": 1, "discard": "new"}
        await client.jetstream().update_stream(name="events", subjects=["events.>"], **words)

    asyncio.run(told(server, narrow))
    outbox = published(app, server.url, max_attempts=2)
    for number in (1, 2):
        outbox.send(DESTINATION, number)
    kit.drain(until_idle=True)
    assert only(kit, "dead").attempt == 2
    assert [entry.body for entry in server.entries()] == [b"1"]


@pytest.mark.parametrize(
    ("destination", "code"), [("a b", "BadSubjectError"), ("a\r\nPUB x 0", "BadSubjectError")]
)
def test_what_is_no_subject_is_a_dead_letter(
    app: App, kit: Kit, server: Nats, destination: str, code: str
) -> None:
    published(app, server.url).send(destination, 1)
    kit.drain()
    failure = only(kit, "dead").failure
    assert failure is not None
    assert failure.code == code


def test_what_the_server_would_hang_up_on_is_a_dead_letter(
    app: App, kit: Kit, server: Nats
) -> None:
    """Its headers count; one byte less, and it is stored."""
    outbox = app.outbox("blobs", str)
    outbox.handler(JetStream(server.url, max_bytes=1 << 30))
    limit = 8 * 1024 * 1024
    outbox.send(DESTINATION, "x" * (limit - 2))
    kit.drain()
    failure = only(kit, "dead").failure
    assert failure is not None
    assert failure.code == "too_large"
    size = int(failure.text.split()[5])
    outbox.send(DESTINATION, "x" * (limit - 2 - (size - limit)))
    kit.drain()
    assert only(kit, "done").attempt == 1


def test_an_answer_that_is_none_says_nothing(app: App, kit: Kit, server: Nats) -> None:
    """Somebody else listens to that subject, and answers what is no acknowledgement."""
    outbox = published(app, server.url)
    outbox.send("babble", 1)
    with babbling(server, "babble"):
        kit.drain()
    assert only(kit, "unknown").attempt == 1


def test_of_several_servers_one_that_stands_is_found(app: App, kit: Kit, server: Nats) -> None:
    outbox = published(app, [f"nats://{HOST}:{free_port()}", server.url])
    for number in range(3):
        outbox.send(DESTINATION, number)
    kit.drain()
    assert len(server.entries()) == 3


def test_what_is_said_wrongly_is_refused_where_it_is_said() -> None:
    wrong: list[tuple[Any, dict[str, Any]]] = [
        ([], {}),
        ([7], {}),
        (7, {}),
        ("nats://x", {"stream": 7}),
        ("nats://x", {"timeout": 0}),
    ]
    for servers, words in wrong:
        with pytest.raises(InvalidArgument):
            JetStream(servers, **words)


# ---- others at the same server -------------------------------------------------------------------


@asynccontextmanager
async def connected(server: Nats) -> AsyncIterator[Any]:
    import nats

    client = await nats.connect(server.url, allow_reconnect=False)
    try:
        yield client
    finally:
        await client.close()


async def told(server: Nats, what: Callable[[Any], Awaitable[None]]) -> None:
    async with connected(server) as client:
        await what(client)


class babbling:  # noqa: N801 - read as a phrase
    """Within the block somebody answers there, in a thread of its own."""

    def __init__(self, server: Nats, subject: str) -> None:
        self._server = server
        self._subject = subject
        self._ready, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._babble()))

    def __enter__(self) -> None:
        self._thread.start()
        assert self._ready.wait(30)

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    async def _babble(self) -> None:
        async def answer(message: Any) -> None:
            await message.respond(b"\0garbage")

        async with connected(self._server) as client:
            await client.subscribe(self._subject, cb=answer)
            await client.flush()
            self._ready.set()
            await asyncio.to_thread(self._over.wait)
