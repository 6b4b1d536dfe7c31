"""
The caller's own SQL and our messages in one commit.

A transaction belongs to the thread and the asyncio task that began it, and to nobody else. While
it is open it is the file's one writer: waiting for it is bounded, and one that is held for longer
than it would have been waited for is logged with its holder.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from time import monotonic
from typing import Any, Final, TypeAlias

from fencepost._binding import pack
from fencepost._binding.calls import OpenTx
from fencepost._binding.guest import Guest
from fencepost._checks import name_bytes, one_by_one
from fencepost._door.drivers import ForeignTx
from fencepost._door.inserts import Door
from fencepost._file import File
from fencepost.errors import Error, InvalidArgument
from fencepost.spans import SECOND, span_us
from fencepost.values import Row, Span

__all__ = ["Rows", "Transaction", "Tx", "entered", "transaction", "unwrap"]

SETS: Final = 500  # parameter sets in one crossing of executemany
log: Final = logging.getLogger("fencepost")

Params: TypeAlias = Sequence[object] | Mapping[str, object]


class Rows(list[Row]):
    """The rows of a statement; how many it wrote, and the rowid of the last that it inserted."""

    def __init__(self, rows: Iterable[Row], rowcount: int, lastrowid: int | None) -> None:
        super().__init__(rows)
        self.rowcount = rowcount
        self.lastrowid = lastrowid


class Transaction:
    """
    An open transaction, made by `Store.transaction()`. SAVEPOINT is yours; BEGIN, COMMIT, ROLLBACK,
    ATTACH and writing PRAGMAs are not, nor are writes to our own tables.

    Used by another thread or task, or after its end: `InvalidArgument`.
    """

    def __init__(self, file: File, timeout_us: int) -> None:
        self._file = file
        self._owner = _owner()
        self._process = os.getpid()
        self._timeout = timeout_us / SECOND
        self._open: OpenTx | None = file.core.begin(self._timeout)
        self._began = monotonic()
        file.held = weakref.ref(self)  # one that an interrupt tore off must be free to go

    def execute(self, sql: str, params: Params = (), /) -> Rows:
        """
        Run one statement; all its rows.

        Parameters by position (`?`) or by name (`:a`, `@a`, `$a`): None, int in 64 bits, float,
        str, bytes. `StorageError` with SQLite's words and the statement if it fails; a broken
        constraint leaves the transaction open, as it was before the statement.
        """
        with Guest(self._use(), _sql(sql)) as guest:
            packed = pack.values(_in_order(guest.parameters(), params))
            found, changed, rowid = guest.run(1, packed)
            return Rows(pack.row_values(found), changed, rowid or None)

    def executemany(self, sql: str, params: Iterable[Sequence[object]], /) -> int:
        """Run one statement for each set of parameters; the rows written in all."""
        written = 0
        with Guest(self._use(), _sql(sql)) as guest:
            names = guest.parameters()
            sets = one_by_one(params, "sets of parameters")
            while chunk := [pack.values(_in_order(names, one)) for one in islice(sets, SETS)]:
                self._use()  # the parameters may come from a generator that ended us
                written += guest.run(len(chunk), b"".join(chunk))[1]
        return written

    def _use(self) -> OpenTx:
        if self._open is None:
            raise InvalidArgument("the transaction is over")
        if self._owner != _owner():
            raise InvalidArgument(
                "a transaction belongs to the thread and task that began it: this one to"
                f" {_spoken(self._owner)}"
            )
        return self._open

    def _end(self, *, commit: bool) -> None:
        tx, self._open = self._open, None
        if tx is None:
            return
        self._file.held = None
        try:
            tx.end(commit=commit)
        finally:
            held = monotonic() - self._began
            if held > self._timeout:
                log.warning(
                    "%s held a transaction for %.1f s, longer than its time-out of %g s",
                    _spoken(self._owner),
                    held,
                    self._timeout,
                )


Tx: TypeAlias = Transaction | ForeignTx


@contextmanager
def transaction(file: File, timeout: Span) -> Iterator[Transaction]:
    """Commits when the block ends, rolls back when it raises."""
    unwrap(file, None)
    timeout_us = span_us(timeout, "timeout")
    tx = Transaction(file, timeout_us)
    try:
        yield tx
        tx._end(commit=True)
    except BaseException:
        with suppress(Error):  # the reason for the rollback must not be covered by its failure
            tx._end(commit=False)
        raise


def entered(file: File, tx: Tx | None) -> OpenTx | Door | None:
    """`unwrap`, or the door of the same file for a connection of another library."""
    if tx is None or isinstance(tx, Transaction):
        return unwrap(file, tx)
    unwrap(file, None)
    return Door(tx, file)


def unwrap(file: File, tx: Transaction | None) -> OpenTx | None:
    """
    What the core knows of `tx`. Every call comes through here: `InvalidArgument` for a transaction
    of another store or another owner, and for none by the owner of one, who would wait for himself
    or be answered without his own writes.
    """
    if tx is None:
        held = None if file.held is None else file.held()
        if (
            held is not None
            and held._owner == _owner()
            and held._process == os.getpid()  # in a child of a fork, the core says what it is
        ):
            raise InvalidArgument(
                f"{_spoken(held._owner)} has a transaction of this store open: pass it as tx=, or"
                " end it first"
            )
        return None
    if tx._file is not file:
        raise InvalidArgument(f"tx= is a transaction of another store: {tx._file.path}")
    return tx._use()


# ---- owners --------------------------------------------------------------------------------------

Owner: TypeAlias = tuple[threading.Thread, Any]


def _owner() -> Owner:
    """The thread that asks, and the asyncio task that runs in it, if one does."""
    task = None
    asyncio = sys.modules.get("asyncio")  # where it was never imported, nothing runs in it
    if asyncio is not None and asyncio._get_running_loop() is not None:
        task = asyncio.current_task()
    return threading.current_thread(), task


def _spoken(owner: Owner) -> str:
    thread, task = owner
    return f"thread {thread.name}" + (f", task {task.get_name()}" if task else "")


# ---- parameters ----------------------------------------------------------------------------------


def _sql(sql: str) -> str:
    name_bytes(sql, "a statement")
    return sql


def _in_order(names: Sequence[str | None], params: Params) -> Sequence[object]:
    """The parameters as the statement numbers them."""
    if isinstance(params, Mapping):
        missing = [name or "?" for name in names if name is None or name[1:] not in params]
        if missing:
            raise InvalidArgument(f"no value for parameter {', '.join(missing)}")
        return [params[name[1:]] for name in names if name is not None]
    if isinstance(params, (str, bytes)) or not isinstance(params, Sequence):
        raise InvalidArgument(
            f"parameters are a sequence or a mapping, not {type(params).__name__}"
        )
    if len(params) != len(names):
        raise InvalidArgument(f"the statement has {len(names)} parameters, not {len(params)}")
    return params
