"""
RabbitMQ: each delivery is one persistent message, whose routing key is the destination.

    events.handler(RabbitMQ("amqp://guest:guest@127.0.0.1/", exchange="orders"))
    events.send("orders.paid", Paid(42))

`message_id` is the event; its headers are the attributes of a CloudEvent and those of `send()`. It
is published mandatory and with the broker's confirmation: done is what a queue has taken.
**Unknown** is a message that was published and not confirmed in time. The broker removes no
duplicates: say on_unknown="retry" on the outbox only where all who consume know `message_id`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any, Final

from fencepost._checks import name_bytes
from fencepost.errors import InvalidArgument, PermanentError
from fencepost.outbox import Delivery
from fencepost.relay._relay import Limits, Line, Refused, StandingBroker, said
from fencepost.values import Span

try:
    import aio_pika
    from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractExchange
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "RabbitMQ needs aio-pika: pip install 'fencepost[rabbitmq]'", name=error.name
    ) from error

__all__ = ["RabbitMQ"]

SHORT_BYTES_MAX: Final = 255  # of a routing key and a header's name, as AMQP 0-9-1 has it


class RabbitMQ(StandingBroker["Channel"]):
    """
    A handler that publishes `Delivery.body` with the routing key `Delivery.destination`.

    `exchange`: where to; "" is the default one, whose routing keys are the names of queues. What no
    queue takes, and what one refuses because it is full, is an attempt of the message. Where the
    broker cannot be reached, or the exchange is missing, the whole outbox waits for `hold` seconds
    and uses nobody's attempts; `timeout` seconds are for reaching it, and again for its answer.

    Further words go to `aio_pika.connect`.
    """

    def __init__(
        self,
        url: str,
        *,
        exchange: str = "",
        timeout: Span = 10,
        hold: Span = 5,
        max_bytes: int = 1 << 20,
        content_type: str = "application/json",
        **words: Any,
    ) -> None:
        super().__init__(Limits(timeout, hold, max_bytes, content_type))
        name_bytes(url, "a url")
        if not url.startswith(("amqp://", "amqps://")):
            raise InvalidArgument("the address of a RabbitMQ begins with amqp:// or amqps://")
        name_bytes(exchange, "an exchange")
        self._url = url
        self._exchange = exchange
        self._words = words

    async def _connect(self) -> AsyncGenerator[Channel, None]:
        connection = await aio_pika.connect(self._url, timeout=self._limits.timeout, **self._words)
        try:
            channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
            exchange = channel.default_exchange
            if self._exchange:
                exchange = await channel.get_exchange(self._exchange, ensure=True)
            yield Channel(connection, channel, exchange)
        finally:
            with suppress(Exception):
                await asyncio.wait_for(connection.close(), self._limits.timeout)

    async def _publish(self, line: Channel, delivery: Delivery[Any], body: bytes) -> None:
        for name in (delivery.destination, *delivery.headers):
            if len(name.encode()) > SHORT_BYTES_MAX:
                text = f"longer than {SHORT_BYTES_MAX} bytes: {name[:SHORT_BYTES_MAX]}"
                raise PermanentError(text, code="name")
        message = aio_pika.Message(
            body,
            app_id="fencepost",
            content_type=self._limits.content_type,
            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
            headers=dict(delivery.headers),
            message_id=delivery.event_id,
            timestamp=delivery.enqueued_at,
            type=delivery.queue,
        )
        try:
            await line.exchange.publish(message, delivery.destination, mandatory=True)
        except aio_pika.exceptions.DeliveryError as error:
            raise Refused(said(error)) from error


class Channel(Line):
    def __init__(
        self, connection: AbstractConnection, channel: AbstractChannel, exchange: AbstractExchange
    ) -> None:
        self.exchange = exchange
        self._connection = connection
        self._channel = channel

    @property
    def open(self) -> bool:
        return not (self._connection.is_closed or self._channel.is_closed)

    async def ask(self, timeout: float) -> None:
        await self._channel.set_qos(timeout=timeout)
