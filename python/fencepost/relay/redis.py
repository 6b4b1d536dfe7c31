"""
Redis Streams: each delivery is one entry of the stream that its destination names.

    events.handler(RedisStreams("redis://127.0.0.1:6379/0", dedupe=timedelta(days=1)))
    events.send("orders", Paid(42))

An entry has the attributes of a CloudEvent as fields (`ce-id` is the event), the headers of
`send()`, `content-type` and `data`, the payload. **Unknown** is an XADD that was sent and not
answered in time. With `dedupe` it can be sent again within that span: say on_unknown="retry" on the
outbox. What an answered XADD survives, the server's own persistence says.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, Final

from fencepost._checks import name_bytes, whole
from fencepost.errors import InvalidArgument, PermanentError
from fencepost.outbox import Delivery
from fencepost.relay._relay import Broker, Limits, Lines, Refused, said
from fencepost.spans import span_us
from fencepost.values import Span

try:
    from redis import exceptions
    from redis.asyncio.connection import AbstractConnection, ConnectionPool
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "streams need redis: pip install 'fencepost[redis]'", name=error.name
    ) from error

__all__ = ["RedisStreams"]

ENTRIES_MAX: Final = 2**53

# Written, then remembered: where the second fails, the entry may come twice, and is never missing.
ONCE: Final = """
local known = redis.call('GET', KEYS[2])
if known then return known end
local id = redis.call('XADD', KEYS[1], unpack(ARGV, 2))
redis.call('SET', KEYS[2], id, 'PX', ARGV[1])
return id
"""

DOWN: Final = ("BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "NOREPLICAS", "OOM")
DOWN_TOO: Final = (  # of those that the library has classes for, and takes the word away from
    exceptions.BusyLoadingError,
    exceptions.ClusterDownError,
    exceptions.OutOfMemoryError,
    exceptions.ReadOnlyError,
    exceptions.TryAgainError,
)


class RedisStreams(Broker["Line"]):
    """
    A handler that adds `Delivery.body` to the stream `Delivery.destination`.

    `dedupe`: an event that was added is known for so long under a key of its own (fencepost:…), and
    is not added again; the two are one script, and so one step of the server. `maxlen` lets the
    server trim the stream to about so many entries, read or not. Where the server cannot be
    reached, is loading, full or a replica, the whole outbox waits for `hold` seconds and uses
    nobody's attempts; `timeout` seconds are for reaching it, and again for its answer.

    Further words go to `redis.asyncio.ConnectionPool.from_url`. One server, or what stands before
    several: a cluster's redirections are refusals.
    """

    def __init__(
        self,
        url: str,
        *,
        dedupe: Span | None = None,
        maxlen: int | None = None,
        timeout: Span = 10,
        hold: Span = 5,
        max_bytes: int = 1 << 20,
        content_type: str = "application/json",
        **pool: Any,
    ) -> None:
        super().__init__(Limits(timeout, hold, max_bytes, content_type))
        name_bytes(url, "a url")
        self._known_ms = None if dedupe is None else span_us(dedupe, "dedupe") // 1000
        if self._known_ms == 0:
            raise InvalidArgument("dedupe is 0: it would be forgotten at once")
        self._trim = (
            () if maxlen is None else ("MAXLEN", "~", whole(maxlen, "maxlen", 1, ENTRIES_MAX))
        )
        # Of a connection whose server went away the pool notices only without its notifications.
        self._words = {"protocol": 2, **pool}
        self._url = url
        self._pools = Lines(self._pool)
        self._new_pool()  # so that a wrong address is refused here, not at each delivery

    def _new_pool(self) -> ConnectionPool:
        try:
            return ConnectionPool.from_url(self._url, **self._words)
        except (TypeError, ValueError) as error:
            raise InvalidArgument(f"no address of a Redis server: {error}") from error

    async def _pool(self) -> AsyncGenerator[ConnectionPool, None]:
        pool = self._new_pool()
        try:
            yield pool
        finally:
            await pool.disconnect()

    async def _reach(self) -> Line:
        pool = await self._pools.here()
        return pool, await pool.get_connection()  # type: ignore[no-untyped-call]

    async def _publish(self, line: Line, delivery: Delivery[Any], body: bytes) -> None:
        pool, connection = line
        try:
            await connection.send_command(*self._command(delivery, body), check_health=False)
            await connection.read_response()
        except exceptions.ResponseError as error:
            raise self._refusal(error) from error
        except exceptions.BusyLoadingError as error:
            raise self._limits.outage(said(error)) from error
        finally:
            await pool.release(connection)

    def _command(self, delivery: Delivery[Any], body: bytes) -> list[Any]:
        stream = delivery.destination
        fields = {**delivery.headers, "content-type": self._limits.content_type, "data": body}
        entry = [*self._trim, "*", *(part for field in fields.items() for part in field)]
        if self._known_ms is None:
            return ["XADD", stream, *entry]
        return [
            "EVAL",
            ONCE,
            2,
            stream,
            known_key(stream, delivery.event_id),
            self._known_ms,
            *entry,
        ]

    def _refusal(self, error: exceptions.ResponseError) -> Exception:
        text = str(error)
        if isinstance(error, DOWN_TOO) or text.startswith(DOWN):
            return self._limits.outage(said(error))
        if "WRONGTYPE" in text:
            return PermanentError(text, code="WRONGTYPE")
        return Refused(text)


Line = tuple[ConnectionPool, AbstractConnection]


def known_key(stream: str, event_id: str) -> str:
    """In a place with the stream's own, also where keys are spread over several servers."""
    _, opened, rest = stream.partition("{")
    tag = rest.partition("}")[0] if opened and "}" in rest else ""
    return f"fencepost:{{{tag or stream}}}:{event_id}"
