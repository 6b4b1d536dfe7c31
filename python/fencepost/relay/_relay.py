"""What the relays have in common: limits, connections, and how headers are spelled."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote

from fencepost._checks import name_bytes, whole
from fencepost.errors import DeliveryUnknown, InvalidArgument, PermanentError, RetryLater
from fencepost.outbox import Delivery
from fencepost.spans import seconds, span_us
from fencepost.values import Span

__all__ = ["Broker", "Limits", "Line", "Lines", "Refused", "StandingBroker", "headers_of", "said"]

L = TypeVar("L")

BODY_BYTES_MAX: Final = 1 << 31
PRINTABLE: Final = "".join(map(chr, range(0x20, 0x7F)))
CLOUD_EVENT: Final = PRINTABLE.translate(
    dict.fromkeys(map(ord, ' "%'))
)  # its HTTP binding, 3.1.3.2
TURNS: Final = 16  # of the loop, in which an end is heard that has come and was not listened to
NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class Refused(Exception):
    """The other side said no: nothing arrived there, and it may be asked again."""


class Limits:
    """How long and how much, as each relay is told."""

    def __init__(self, timeout: Span, hold: Span, max_bytes: int, content_type: str) -> None:
        self.timeout = seconds(span_us(timeout, "timeout"))
        self.hold = seconds(span_us(hold, "hold"))
        if not self.timeout or not self.hold:
            raise InvalidArgument("timeout and hold are longer than 0")
        self.max_bytes = whole(max_bytes, "max_bytes", 1, BODY_BYTES_MAX)
        name_bytes(content_type, "content_type")
        self.content_type = content_type

    def body_of(self, delivery: Delivery[Any]) -> bytes:
        body = delivery.body
        if len(body) > self.max_bytes:
            text = f"its payload has {len(body)} bytes, and at most {self.max_bytes} are sent"
            raise PermanentError(text, code="too_large")
        return body

    def outage(self, text: str) -> RetryLater:
        """For everybody, and so nobody's fault."""
        return RetryLater(text, delay=self.hold, whole_queue=True)


class Lines(Generic[L]):
    """
    What a relay keeps open, one for each event loop that it was called on: a worker has a loop of
    its own. It is made at the first delivery, and closed when the loop ends.
    """

    def __init__(self, make: Callable[[], AsyncGenerator[L, None]]) -> None:
        self._make = make  # yields once; the loop, when it ends, ends what was begun on it
        self._all: dict[asyncio.AbstractEventLoop, _Line[L]] = {}

    async def here(self, stands: Callable[[L], Awaitable[bool]] | None = None) -> L:
        """
        The one of this loop; made anew if it no longer `stands`. Raises what making it raises. Who
        comes meanwhile waits, and is given the same.
        """
        loop = asyncio.get_running_loop()
        if loop not in self._all:
            for ended in [one for one in list(self._all) if one.is_closed()]:
                del self._all[ended]
            self._all[loop] = _Line()
        one = self._all[loop]
        async with one.lock:
            if one.held is not None:
                if stands is None or await stands(one.line):
                    return one.line
                held, one.held = one.held, None
                await held.aclose()
            held = self._make()
            one.line = await anext(held)
            one.held = held
            return one.line


class _Line(Generic[L]):
    line: L

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.held: AsyncGenerator[L, None] | None = None


class Broker(Generic[L]):
    """A relay to one system, which all deliveries of the outbox go to."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    async def __call__(self, delivery: Delivery[Any], /) -> None:
        body = self._limits.body_of(delivery)
        try:
            line = await asyncio.wait_for(self._reach(), self._limits.timeout)
        except Exception as error:
            raise self._limits.outage(said(error)) from error
        try:
            await asyncio.wait_for(self._publish(line, delivery, body), self._limits.timeout)
        except (PermanentError, RetryLater, Refused):
            raise
        except Exception as error:
            self._doubt(line)
            raise DeliveryUnknown(said(error)) from error

    async def _reach(self) -> L:
        """A connection that stands. Nothing is sent by it yet; what is raised is an outage."""
        raise NotImplementedError

    def _doubt(self, line: L) -> None:
        """It did not answer: it is to be asked whether it stands before it is used again."""

    async def _publish(self, line: L, delivery: Delivery[Any], body: bytes) -> None:
        """
        Returns when the system has it. `PermanentError`, `RetryLater` or `Refused` where it has
        certainly not; whatever else is raised says that nobody knows.
        """
        raise NotImplementedError


class Line:
    """A connection that stands for many deliveries, side by side. `doubted`: it may be dead."""

    doubted = False

    @property
    def open(self) -> bool:
        """As far as its own end knows."""
        raise NotImplementedError

    async def ask(self, timeout: float) -> None:
        """Returns when the other end has answered something."""
        raise NotImplementedError


S = TypeVar("S", bound=Line)


class StandingBroker(Broker[S]):
    """
    One connection for all. Which did not answer once is asked before it is used again, so that of
    an end that hangs one delivery finds out for all; the others wait, and have not been sent.
    """

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._lines = Lines(self._connect)

    def _connect(self) -> AsyncGenerator[S, None]:
        """Yields one that stands; then closes it."""
        raise NotImplementedError

    async def _reach(self) -> S:
        return await self._lines.here(self._stands)

    async def _stands(self, line: S) -> bool:
        for _ in range(TURNS):
            await asyncio.sleep(0)
        if line.doubted and line.open:
            with suppress(Exception):
                await line.ask(self._limits.timeout / 2)
                line.doubted = False
        return line.open and not line.doubted

    def _doubt(self, line: S) -> None:
        line.doubted = True


def headers_of(delivery: Delivery[Any], own: dict[str, str]) -> dict[str, str]:
    """
    Of the event and of `send()`, under `own`, which win; names are compared without their case.

    Spelled so that no value can end its line: what is not printable ASCII is percent-encoded, as
    CloudEvents has it for the attributes of an event.
    """
    taken = {name.lower() for name in own}
    found: dict[str, str] = {}
    for name, value in delivery.headers.items():
        if not NAME.fullmatch(name):
            raise PermanentError(f"a header cannot be called {name!r}", code="header")
        if name.lower() not in taken:
            safe = CLOUD_EVENT if name.lower().startswith("ce-") else PRINTABLE
            found[name] = quote(value, safe=safe).strip()
    return {**found, **own}


def said(error: BaseException) -> str:
    """Its type, which says most, and its words."""
    words = str(error)
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
