"""RabbitMQ: what no queue takes, what one refuses, and what a message looks like."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost import App, InvalidArgument, Outbox
from fencepost.testing import Kit
from harness_brokers import DESTINATION, Rabbit, served
from harness_outbox import only
from harness_worker import AT_ONCE

pytest.importorskip("aio_pika")

from fencepost.relay.rabbitmq import RabbitMQ


@pytest.fixture(scope="module")
def running(tmp_path_factory: Any) -> Iterator[Rabbit]:
    for server in served("rabbitmq", tmp_path_factory.mktemp("rabbitmq")):
        assert isinstance(server, Rabbit)
        yield server


@pytest.fixture
def server(running: Rabbit) -> Rabbit:
    running.empty()
    return running


def published(app: App, url: str, *, words: Any = None, **policy: Any) -> Outbox[int]:
    outbox = app.outbox("events", int, **{"backoff": AT_ONCE, **policy})
    outbox.handler(RabbitMQ(url, **{"hold": 60, **(words or {})}))
    return outbox


@pytest.mark.long
def test_a_message_is_persistent_and_says_what_it_is(app: App, kit: Kit, server: Rabbit) -> None:
    found: list[Any] = []

    async def take(channel: Any) -> None:
        queue = await channel.get_queue(DESTINATION)
        found.append(await queue.get(no_ack=True))

    id_ = published(app, server.url).send(DESTINATION, 7).id
    kit.drain()
    asyncio.run(server.told(take))
    (message,) = found
    assert message.delivery_mode == 2
    assert (message.type, message.app_id) == ("events", "fencepost")
    assert message.content_type == "application/json"
    assert message.message_id.endswith(f"-{id_}")
    assert message.timestamp is not None


@pytest.mark.long
def test_what_no_queue_takes_is_an_attempt_of_its_message(
    app: App, kit: Kit, server: Rabbit
) -> None:
    """Others, beside it on the same channel, arrive."""
    outbox = published(app, server.url, max_attempts=2)
    outbox.send("nobodys", 1)
    outbox.send(DESTINATION, 2)
    kit.drain(until_idle=True)
    message = only(kit, "dead")
    assert message.failure is not None
    assert (message.attempt, message.failure.code) == (2, "Refused")
    assert [entry.body for entry in server.entries()] == [b"2"]


@pytest.mark.long
def test_what_a_full_queue_refuses_is_an_attempt_of_its_message(
    app: App, kit: Kit, server: Rabbit
) -> None:
    async def narrow(channel: Any) -> None:
        arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
        await channel.declare_queue("narrow", durable=True, arguments=arguments)

    asyncio.run(server.told(narrow))
    outbox = published(app, server.url, max_attempts=2)
    for number in (1, 2):
        outbox.send("narrow", number)
    kit.drain(until_idle=True)
    assert only(kit, "done").attempt == 1
    assert only(kit, "dead").attempt == 2


@pytest.mark.long
def test_an_exchange_that_is_missing_is_an_outage_until_it_is_there(
    app: App, kit: Kit, server: Rabbit
) -> None:
    async def declare(channel: Any) -> None:
        exchange = await channel.declare_exchange("orders", "topic", durable=True)
        queue = await channel.get_queue(DESTINATION)
        await queue.bind(exchange, "orders.*")

    outbox = published(app, server.url, words={"exchange": "orders"}, max_attempts=1)
    for number in (1, 2):
        outbox.send("orders.paid", number)
    assert kit.drain() == (0, 1, 0, 0)
    asyncio.run(server.told(declare))
    kit.drain(until_idle=True)
    assert sorted(entry.body for entry in server.entries()) == [b"1", b"2"]


@pytest.mark.long
def test_names_that_amqp_cannot_carry_are_dead_letters(app: App, kit: Kit, server: Rabbit) -> None:
    outbox = published(app, server.url)
    outbox.send("k" * 256, 1)
    outbox.send(DESTINATION, 2, headers={"é" * 128: "x"})
    outbox.send(DESTINATION, 3, headers={"é" * 127: "x"})
    kit.drain()
    codes = {m.failure.code for m in kit.store.messages("dead") if m.failure is not None}
    assert codes == {"name"}
    assert len(kit.store.messages("dead")) == 2
    assert [entry.body for entry in server.entries()] == [b"3"]


def test_what_is_said_wrongly_is_refused_where_it_is_said() -> None:
    wrong: list[tuple[Any, dict[str, Any]]] = [
        ("http://x", {}),
        (7, {}),
        ("amqp://x", {"exchange": 7}),
        ("amqp://x", {"timeout": 0}),
        ("amqp://x", {"max_bytes": 0}),
    ]
    for url, words in wrong:
        with pytest.raises(InvalidArgument):
            RabbitMQ(url, **words)


def test_a_broker_that_cannot_be_reached_is_an_outage(app: App, kit: Kit) -> None:
    outbox = published(app, "amqp://guest:secret@127.0.0.1:1/", max_attempts=1)
    outbox.send(DESTINATION, 1)
    kit.drain()
    message = only(kit, "pending")
    assert message.attempt == 0
    assert message.failure is not None
    assert "secret" not in message.failure.text
