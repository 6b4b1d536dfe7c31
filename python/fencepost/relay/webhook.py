"""
Webhooks: each delivery is one POST to its destination, signed as Standard Webhooks has it.

    receipts.handler(Webhook(secret="whsec_…"))
    receipts.send("https://shop.example/hooks", Receipt(42))

What an answer means is the table at `_judge`. **Unknown** is a request that began and was not
answered in time, or with no HTTP, and one that a gateway says it heard no answer to (504). A
receiver that remembers `webhook-id` can be sent to again: say on_unknown="retry" where all do.
"""

from __future__ import annotations

import asyncio
import email.utils
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Final

from fencepost._checks import flag
from fencepost.errors import DeliveryUnknown, InvalidArgument, PermanentError, RetryLater
from fencepost.outbox import Delivery
from fencepost.relay._relay import Limits, Lines, Refused, headers_of, said
from fencepost.relay.signing import Secret, keys_of, sign
from fencepost.values import Span

try:
    import httpx
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "webhooks need httpx: pip install 'fencepost[webhook]'", name=error.name
    ) from error

__all__ = ["Webhook"]

ANSWER_BYTES_MAX: Final = 8192  # more of an answer is not read
ANSWER_SHOWN: Final = 200  # characters of it that a failure keeps
RETRY_AFTER_MIN: Final = 1.0  # seconds: who is asked again at once, and uses no attempt, has no end
RETRY_AFTER_MAX: Final = 3600.0
LATER: Final = {408, 425, 429}  # of the 4xx, what another moment may change
BUSY: Final = {429, 503}  # said of the receiver, not of this request
LOST: Final = 504  # a gateway's own time-out
CONNECTION: Final = {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
NOT_SAID: Final = {"host", *CONNECTION}  # by a message


class Webhook:
    """
    A handler that posts `Delivery.body` to `Delivery.destination`, a URL.

    `secret` signs it: text, bytes, or several while they are changed; None: not signed. `timeout`
    seconds are for all of it, from the connection (half of them at most) to the answer. A payload
    over `max_bytes` is a dead letter. Redirects are not followed. The body of an answer is read up
    to 8 KiB, and kept of a refusal as far as a failure goes.

    `one_host`: all destinations are one receiver's. Where it cannot be reached, or says 429 or 503,
    the whole outbox waits for `hold` seconds and uses nobody's attempts. Without it, receivers do
    not wait for each other: each of those is an attempt of its message. Retry-After is honoured
    (from 1 s up to an hour) in both cases, and uses no attempt.

    Further words go to `httpx.AsyncClient`: verify, cert, auth, proxy, headers for each request.
    """

    def __init__(
        self,
        *,
        secret: Secret | Sequence[Secret] | None,
        one_host: bool = False,
        timeout: Span = 15,
        hold: Span = 30,
        max_bytes: int = 1 << 20,
        content_type: str = "application/json",
        **client: Any,
    ) -> None:
        self._keys = [] if secret is None else keys_of(secret)
        self._one_host = flag(one_host, "one_host")
        self._limits = Limits(timeout, hold, max_bytes, content_type)
        refused = {"timeout", "follow_redirects"} & client.keys()
        if refused:
            raise InvalidArgument(f"{refused.pop()} is not the client's to say here")
        self._words = client
        self._clients = Lines(self._client)

    async def _client(self) -> AsyncGenerator[httpx.AsyncClient, None]:
        # Receivers of one domain are not one receiver: what one of them sets, no other is told.
        jar = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        words = {"cookies": jar, **self._words}
        # What is over all of an exchange cuts it off; a handshake is best ended by who began it.
        timeout = httpx.Timeout(None, connect=self._limits.timeout / 2)
        async with httpx.AsyncClient(timeout=timeout, follow_redirects=False, **words) as client:
            yield client

    async def __call__(self, delivery: Delivery[Any], /) -> None:
        body = self._limits.body_of(delivery)
        headers = self._headers(delivery, body)
        client = await self._clients.here()
        exchange = _Exchange()
        try:
            request = client.build_request(
                "POST",
                delivery.destination,
                content=body,
                headers=headers,
                extensions={"trace": exchange.trace},
            )
            await asyncio.wait_for(exchange.run(client, request), self._limits.timeout)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError) as error:
            raise PermanentError(said(error), code="request") from error
        except Exception as error:
            if exchange.status is None:
                raise self._unanswered(exchange, said(error)) from error
        self._judge(exchange)

    def _headers(self, delivery: Delivery[Any], body: bytes) -> dict[str, str]:
        own = {
            "accept-encoding": "identity",
            "content-length": str(len(body)),
            "content-type": self._limits.content_type,
            "idempotency-key": delivery.event_id,
            "user-agent": "fencepost",
            "webhook-id": delivery.event_id,
        }
        if self._keys:
            now = int(time.time())
            own["webhook-timestamp"] = str(now)
            own["webhook-signature"] = sign(self._keys, delivery.event_id, now, body)
        spelled = headers_of(delivery, own)
        return {name: text for name, text in spelled.items() if name.lower() not in NOT_SAID}

    # ---- what it means ---------------------------------------------------------------------------

    def _unanswered(self, exchange: _Exchange, text: str) -> Exception:
        if exchange.began:
            return DeliveryUnknown(text)
        return self._limits.outage(text) if self._one_host else Refused(text)

    def _judge(self, exchange: _Exchange) -> None:
        """
        2xx             it arrived
        408, 425, 429   not now
        504             a gateway heard no answer: nobody knows
        5xx             not now
        anything else   never like this: a redirect, an address that is gone, a body it refuses
        """
        status = exchange.status
        assert status is not None
        if 200 <= status < 300:
            return
        text = f"answered {status}: {exchange.shown()}".rstrip(": ")
        if status == LOST:
            raise DeliveryUnknown(text)
        if status not in LATER and status < 500:
            raise PermanentError(text, code=str(status))
        if exchange.retry_after is not None:
            raise RetryLater(text, delay=exchange.retry_after, whole_queue=self._one_host)
        if self._one_host and status in BUSY:
            raise self._limits.outage(text)
        raise Refused(text)


class _Exchange:
    """One request, as far as it came."""

    def __init__(self) -> None:
        self.began = False  # something of the request may have gone out
        self.status: int | None = None
        self.retry_after: float | None = None
        self._answer = b""

    async def trace(self, event: str, info: object) -> None:
        self.began = self.began or event.endswith("send_request_headers.started")

    async def run(self, client: httpx.AsyncClient, request: httpx.Request) -> None:
        answer = await client.send(request, stream=True)
        try:
            self.retry_after = _retry_after(answer.headers.get("retry-after", ""))
            self.status = answer.status_code
            # Read to its end, the connection is used again; longer ones are cut off.
            async for piece in answer.aiter_raw():
                self._answer += piece
                if len(self._answer) > ANSWER_BYTES_MAX:
                    break
        finally:
            await answer.aclose()

    def shown(self) -> str:
        return self._answer.decode("utf-8", "replace")[:ANSWER_SHOWN]


def _retry_after(text: str) -> float | None:
    """In seconds from now: a number of them, or a date. None: it says neither."""
    seconds: float | None = None
    if text.isascii() and text.isdigit():
        seconds = float(text)
    else:
        with suppress(ValueError, OverflowError):
            seconds = email.utils.parsedate_to_datetime(text).timestamp() - time.time()
    return None if seconds is None else min(max(seconds, RETRY_AFTER_MIN), RETRY_AFTER_MAX)
