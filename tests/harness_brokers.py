"""
Brokers that relays speak to: real servers, each a process of its own on a free port with a folder
of its own, ended by its pid.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pytest

from harness_hooks import HOST, free_port
from harness_worker import until

DESTINATION = "events.paid"


class Entry(NamedTuple):
    """What the other end finds there."""

    event_id: str
    headers: Mapping[str, str]
    body: bytes


class Server:
    """One broker. What it has acknowledged is there again when it was killed and started."""

    name: ClassVar[str]
    program: ClassVar[str]
    library: ClassVar[str]
    dedupes: ClassVar[bool]

    def __init__(self, folder: Path, destination: str, stream: str | None) -> None:
        self.folder = folder
        self.destination = destination
        self.stream = stream or "events"  # where there have to be such
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def found(cls) -> str | None:
        """Debian puts some of them where only administrators look."""
        return shutil.which(cls.program, path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")

    @property
    def url(self) -> str:
        raise NotImplementedError

    def entries(self) -> list[Entry]:
        """All that came to its destination, in their order."""
        raise NotImplementedError

    def empty(self) -> None:
        """Of what came, and of what the server knows of it."""
        raise NotImplementedError

    def start(self) -> None:
        """Returns when it takes connections."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command(),
                stdout=log,
                stderr=log,
                env=self._environment(),
                cwd=self.folder,
                start_new_session=True,
            )
        until(self._answers)

    def kill(self) -> None:
        assert self._process is not None
        with suppress(ProcessLookupError):
            self._signal(signal.SIGKILL)
        self._process.wait()
        until(lambda: not self._listens())  # its children are gone, too

    def end(self) -> None:
        """Whatever has become of it by then."""
        with suppress(ProcessLookupError):
            self.thaw()
        self.kill()

    def freeze(self) -> None:
        """From now on it takes what is sent, and says nothing."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, number)  # a group of its own

    def _command(self) -> list[str]:
        raise NotImplementedError

    def _environment(self) -> dict[str, str]:
        return dict(os.environ)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "log").read_text()
        return self._listens() and self._ready()

    def _listens(self) -> bool:
        with suppress(OSError), socket.create_connection((HOST, self.port), 1):
            return True
        return False

    def _ready(self) -> bool:
        return True


class Redis(Server):
    name, program, library, dedupes = "redis", "redis-server", "redis", True

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}/0"

    def _command(self) -> list[str]:
        said = f"--bind {HOST} --port {self.port} --save '' --appendonly yes --appendfsync always"
        return [str(self.found()), *said.replace("''", "").split(), "--dir", str(self.folder)]

    def client(self) -> Any:
        import redis

        return redis.Redis.from_url(self.url)

    def _ready(self) -> bool:
        import redis

        with suppress(redis.ConnectionError), self.client() as client:
            return bool(client.ping())
        return False

    def empty(self) -> None:
        with self.client() as client:
            client.flushdb()

    def entries(self) -> list[Entry]:
        with self.client() as client:
            found = [fields for _, fields in client.xrange(self.destination)]
        entries = []
        for fields in found:
            headers = {
                name.decode(): value.decode("utf-8", "replace") for name, value in fields.items()
            }
            entries.append(Entry(headers["ce-id"], headers, fields[b"data"]))
        return entries


class Nats(Server):
    name, program, library, dedupes = "nats", "nats-server", "nats", True

    @property
    def url(self) -> str:
        return f"nats://{HOST}:{self.port}"

    def _command(self) -> list[str]:
        conf = self.folder / "nats.conf"
        conf.write_text(
            f"host: {HOST}\nport: {self.port}\nmax_payload: 8MB\nmax_pending: 16MB\n"
            f'jetstream {{ store_dir: "{self.folder}", max_memory_store: 0 }}\n'
        )
        return [str(self.found()), "-c", str(conf)]

    def _ready(self) -> bool:
        return asyncio.run(self._make())

    @property
    def subjects(self) -> str:
        return self.destination.partition(".")[0] + ".>"

    async def _make(self) -> bool:
        """The stream that takes it; made if it is not there."""
        import nats
        import nats.errors
        import nats.js.errors

        with suppress(nats.errors.Error, OSError):
            client = await nats.connect(self.url, allow_reconnect=False)
            try:
                await client.jetstream().add_stream(name=self.stream, subjects=[self.subjects])
            finally:
                await client.close()
            return True
        return False

    def empty(self) -> None:
        asyncio.run(self._empty())

    async def _empty(self) -> None:
        import nats

        client = await nats.connect(self.url, allow_reconnect=False)
        try:
            await client.jetstream().delete_stream(self.stream)
        finally:
            await client.close()
        assert await self._make()

    def entries(self) -> list[Entry]:
        return asyncio.run(self._entries())

    async def _entries(self) -> list[Entry]:
        import nats

        client = await nats.connect(self.url, allow_reconnect=False)
        try:
            stream = client.jetstream()
            info = await stream.stream_info(self.stream)
            found: list[Entry] = []
            if info.state.messages == 0:
                return found
            for number in range(info.state.first_seq, info.state.last_seq + 1):
                message = await stream.get_msg(self.stream, number)
                headers = dict(message.headers or {})
                found.append(Entry(headers["Nats-Msg-Id"], headers, message.data or b""))
            return found
        finally:
            await client.close()


class Rabbit(Server):
    """Its queue is called as its destination. It has an epmd of its own, too."""

    name, program, library, dedupes = "rabbitmq", "rabbitmq-server", "aio_pika", False

    def __init__(self, folder: Path, destination: str, stream: str | None) -> None:
        super().__init__(folder, destination, stream)
        self._epmd: subprocess.Popen[bytes] | None = None
        self._epmd_port = free_port()
        self._distribution_port = free_port()
        self._taken: list[Entry] = []  # out of the queue

    @classmethod
    def found(cls) -> str | None:
        """Not the script on the PATH, which is for its own user."""
        script = Path("/usr/lib/rabbitmq/bin", cls.program)
        return str(script) if script.exists() and shutil.which("epmd") else None

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@{HOST}:{self.port}/"

    def start(self) -> None:
        if self._epmd is None:
            command = ["epmd", "-port", str(self._epmd_port), "-address", HOST]
            self._epmd = subprocess.Popen(command)
        super().start()

    def end(self) -> None:
        super().end()
        if self._epmd is not None:
            self._epmd.kill()
            self._epmd.wait()

    def _command(self) -> list[str]:
        return [str(self.found())]

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": HOST,
            "HOME": str(self.folder),  # the cookie
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq"),
            "RABBITMQ_DIST_PORT": str(self._distribution_port),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_LOG_BASE": str(self.folder),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "mnesia"),
            "RABBITMQ_NODENAME": "fencepost@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": HOST,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_PID_FILE": str(self.folder / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }

    def _ready(self) -> bool:
        with suppress(OSError, TimeoutError):
            asyncio.run(self.told(self._nothing))
            return True
        return False

    async def _nothing(self, channel: Any) -> None:
        pass

    async def told(self, what: Callable[[Any], Awaitable[None]]) -> None:
        """`what` is given a channel; the queue is there."""
        import aio_pika

        async with await aio_pika.connect(self.url, timeout=5) as connection:
            channel = await connection.channel()
            await channel.declare_queue(self.destination, durable=True)
            await what(channel)

    def empty(self) -> None:
        self.entries()
        self._taken = []

    def entries(self) -> list[Entry]:
        asyncio.run(self.told(self._take))
        return list(self._taken)

    async def _take(self, channel: Any) -> None:
        queue = await channel.get_queue(self.destination)
        while (message := await queue.get(fail=False)) is not None:
            headers = {name: str(value) for name, value in message.headers.items()}
            self._taken.append(Entry(str(message.message_id), headers, message.body))
            await message.ack()


SERVERS: dict[str, type[Server]] = {"redis": Redis, "nats": Nats, "rabbitmq": Rabbit}


def served(
    name: str, folder: Path, *, destination: str = DESTINATION, stream: str | None = None
) -> Iterator[Server]:
    """
    A server of this kind until the end, whatever has become of it by then. The test is skipped
    where there is none, and says so.
    """
    kind = SERVERS[name]
    pytest.importorskip(kind.library)
    if kind.found() is None:
        pytest.skip(f"{kind.program} is not installed")
    server = kind(folder, destination, stream)
    try:
        server.start()
        yield server
    finally:
        server.end()
