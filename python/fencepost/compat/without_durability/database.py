"""The file, and what coroutines and effects have of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import fencepost
from fencepost._binding.flow import Flow
from fencepost._checks import name_bytes
from fencepost._file import File, file_of
from fencepost.errors import Busy
from fencepost.spans import span_us
from fencepost.store import Store
from fencepost.transactions import Params, Rows, Transaction
from fencepost.values import StrPath

__all__ = ["Cursor", "Database", "Effect", "connect", "id_of", "migrate", "spans"]

T = TypeVar("T")

log: Final = logging.getLogger("fencepost")

TIMEOUT: Final = timedelta(seconds=5)
THREADS: Final = 40  # twice the passes that its worker runs at once, for what keeps them alive


class _Milliseconds(Protocol):
    @property
    def count(self) -> int: ...


class Cursor:
    """
    What an effect gets: the open transaction, with the words of a `sqlite3` cursor.

    `tx` is the transaction itself, for `tx=` of jobs and sends that belong to the effect.
    """

    def __init__(self, tx: Transaction) -> None:
        self.tx = tx
        self.rowcount = -1
        self.lastrowid: int | None = None
        self._rows: Iterator[tuple[Any, ...]] = iter(())

    def execute(self, sql: str, params: Params = (), /) -> Cursor:
        found: Rows = self.tx.execute(sql, params)
        self._rows = iter(found)
        self.rowcount, self.lastrowid = found.rowcount, found.lastrowid
        return self

    def executemany(self, sql: str, params: Iterable[Sequence[object]], /) -> Cursor:
        self._rows = iter(())
        self.rowcount = self.tx.executemany(sql, params)
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        return next(self._rows, None)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return list(self._rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self._rows


Effect: TypeAlias = Callable[[Cursor], object]


@dataclass(frozen=True, eq=False)
class Database:
    """A store, and the threads in which coroutines call it. Made by `connect`, or of a store."""

    store: Store
    timeout: timedelta = TIMEOUT  # of a transaction
    threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(THREADS, "fencepost-durable"), repr=False
    )

    async def run(self, work: Callable[[Store], T]) -> T:
        """
        `work(store)` in a thread. Who is cancelled leaves at once; what was begun is finished, and
        if it fails then, the loop's exception handler is told.
        """
        return await self.call(partial(work, self.store))

    async def call(self, work: Callable[[], T]) -> T:
        loop, begun = asyncio.get_running_loop(), self.threads.submit(work)
        try:
            return await asyncio.wrap_future(begun)
        except asyncio.CancelledError:
            begun.add_done_callback(partial(_orphaned, loop))
            raise

    async def insist(self, work: Callable[[], T]) -> T:
        """
        For what the runner's loop asks for itself, and would end with: while the file is locked
        for longer than a call waits, it is asked again.
        """
        while True:
            try:
                return await self.call(work)
            except Busy as busy:
                log.warning("a worker waits on: %s", busy)

    async def aclose(self) -> None:
        """Close the store, once nobody is in a call. Later calls raise `Closed`."""
        await self.call(self.store.close)

    @property
    def file(self) -> File:
        return file_of(self.store)

    @property
    def flow(self) -> Flow:
        return Flow(self.file.core)


def _orphaned(loop: asyncio.AbstractEventLoop, ended: Future[Any]) -> None:
    """Somebody else than its caller has to hear of what went wrong."""
    error = None if ended.cancelled() else ended.exception()
    if error is not None:
        said = {"message": "a call that nobody waited for any more failed", "exception": error}
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(loop.call_exception_handler, said)


def connect(path: StrPath, *, timeout: _Milliseconds | None = None) -> Database:
    """
    Open the file; make it, and the folders above it. `timeout` is how long each call waits for its
    turn: 5 seconds. Raises as `fencepost.open`.
    """
    patience = TIMEOUT if timeout is None else timedelta(milliseconds=timeout.count)
    return Database(fencepost.open(path, wal=True, busy_timeout=patience), patience)


async def migrate(database: Database) -> None:
    """Nothing: a file that is open has its tables, and was brought up to this release."""


def id_of(workflow: str) -> bytes:
    return name_bytes(workflow, "a workflow's id")


def spans(*said: timedelta) -> list[int]:
    """Each in microseconds."""
    return [span_us(span, "a span") for span in said]
