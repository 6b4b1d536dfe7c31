"""
NATS JetStream: each delivery is published to the subject that its destination names.

    events.handler(JetStream("nats://127.0.0.1:4222"))
    events.send("orders.paid", Paid(42))

A stream has to take the subject. The event is `Nats-Msg-Id`, by which the stream removes duplicates
within its own window (two minutes unless it says otherwise); the other headers are the attributes
of a CloudEvent and those of `send()`. **Unknown** is a message that was published and not
acknowledged by the stream in time; within the window it can be published again: say
on_unknown="retry" on the outbox, and give the stream a window longer than your worker's absence.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from typing import Any, Final

from fencepost._checks import name_bytes, several
from fencepost.errors import InvalidArgument, PermanentError
from fencepost.outbox import Delivery
from fencepost.relay._relay import Limits, Line, Refused, StandingBroker, headers_of, said
from fencepost.values import Span

try:
    import nats.errors
    import nats.js.errors
    from nats.aio.client import Client
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "streams of NATS need nats-py: pip install 'fencepost[nats]'", name=error.name
    ) from error

__all__ = ["JetStream"]

CLOSING: Final = 1.0  # seconds for a last word to one that may not listen
HEAD_BYTES: Final = len("NATS/1.0\r\n\r\n")
LINE_BYTES: Final = len(": \r\n")  # of each header, beside its name and its value
GONE: Final = (nats.errors.ConnectionClosedError, nats.errors.ConnectionDrainingError)
STREAM_FULL: Final = 10077  # of this stream; all else of its sort is said of the server
NEVER: Final = (
    nats.errors.BadSubjectError,
    nats.errors.BadHeaderError,
    nats.errors.MaxPayloadError,
)


class JetStream(StandingBroker["Session"]):
    """
    A handler that publishes `Delivery.body` to the subject `Delivery.destination`, and waits for
    the stream's acknowledgement.

    `servers`: an address or several, which are tried in turn. `stream`: only this one may take it;
    another one's answer is a refusal. No stream, and what a stream says no to, is an attempt of the
    message. Where no server can be reached, or JetStream is not there for now, the whole outbox
    waits for `hold` seconds and uses nobody's attempts; `timeout` seconds are for reaching it, and
    again for its answer.

    Further words go to `nats.connect`.
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        *,
        stream: str | None = None,
        timeout: Span = 10,
        hold: Span = 5,
        max_bytes: int = 1 << 20,
        content_type: str = "application/json",
        **words: Any,
    ) -> None:
        super().__init__(Limits(timeout, hold, max_bytes, content_type))
        self._servers = [servers] if isinstance(servers, str) else several(servers, "servers", str)
        for server in self._servers:
            name_bytes(server, "a server")
        if not self._servers:
            raise InvalidArgument("there is no server to publish to")
        if stream is not None:
            name_bytes(stream, "a stream")
        self._stream = stream
        self._words = words

    async def _connect(self) -> AsyncGenerator[Session, None]:
        session = Session(Client())
        # The library's own reconnecting would send later what we have answered for by then.
        once: dict[str, Any] = {"allow_reconnect": False, "max_reconnect_attempts": 1}
        once["closed_cb"] = session.end
        words = {"error_cb": _quiet, "reconnect_time_wait": 0, **self._words}
        try:
            await session.client.connect(self._servers, **words, **once)
            yield session
        finally:
            with suppress(Exception):
                await asyncio.wait_for(session.client.close(), CLOSING)

    async def _publish(self, line: Session, delivery: Delivery[Any], body: bytes) -> None:
        own = {"content-type": self._limits.content_type, "Nats-Msg-Id": delivery.event_id}
        if self._stream is not None:
            own["Nats-Expected-Stream"] = self._stream
        headers = headers_of(delivery, own)
        size = len(body) + HEAD_BYTES + LINE_BYTES * len(headers)
        size += sum(len(name) + len(value) for name, value in headers.items())
        if size > line.client.max_payload:
            text = f"with its headers it has {size} bytes, and the server takes"
            raise PermanentError(f"{text} {line.client.max_payload}", code="too_large")
        try:
            await line.publish(delivery.destination, body, headers, self._limits.timeout)
        except NEVER as error:
            raise PermanentError(said(error), code=type(error).__name__) from error
        except GONE as error:
            raise self._limits.outage(said(error)) from error
        except nats.js.errors.ServiceUnavailableError as error:
            if error.err_code == STREAM_FULL:
                raise Refused(said(error)) from error
            raise self._limits.outage(said(error)) from error
        except (nats.js.errors.NoStreamResponseError, nats.js.errors.APIError) as error:
            raise Refused(said(error)) from error


class Session(Line):
    def __init__(self, client: Client) -> None:
        self.client = client
        self._stream = client.jetstream()
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def open(self) -> bool:
        return self.client.is_connected

    async def ask(self, timeout: float) -> None:
        await self.client.flush(timeout=timeout)  # type: ignore[arg-type]

    async def end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    async def publish(
        self, subject: str, body: bytes, headers: dict[str, str], timeout: float
    ) -> None:
        """Returns when a stream has it. Where the connection ends, the library would wait on."""
        publishing = asyncio.ensure_future(
            self._stream.publish(subject, body, headers=headers, timeout=timeout)
        )
        try:
            either: list[asyncio.Future[Any]] = [publishing, self._ended]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not publishing.done():
                raise ConnectionError("the connection ended before the answer")
            await publishing
        finally:
            publishing.cancel()


async def _quiet(error: Exception) -> None:
    """What goes wrong with a connection is said by what fails through it."""
