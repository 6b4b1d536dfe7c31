"""
Connections of other libraries: what is asked of each, and what its errors are in our words.

sqlite3, SQLAlchemy and Django are known by what their connections can do: none of them is imported
here, and a driver that behaves like one of them is taken for it.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from fencepost._checks import shown
from fencepost.errors import Busy, Error, InvalidArgument, LeaseLost, QueueFull, StorageError

__all__ = ["Driver", "ForeignTx", "KeyTaken", "driver_of"]


class _Cursors(Protocol):
    """sqlite3.Connection, and Django's connection."""

    def cursor(self) -> Any: ...


class _DriverSql(Protocol):
    """SQLAlchemy's Connection."""

    def exec_driver_sql(self, statement: str, /) -> Any: ...


class _Session(Protocol):
    """SQLAlchemy's Session."""

    def connection(self) -> Any: ...


ForeignTx: TypeAlias = _Cursors | _DriverSql | _Session


class KeyTaken(Error):
    """Another message has the key; which one, is still to be found out."""


class Driver:
    """A connection of the standard library's sqlite3, or of a driver that is made like it."""

    begin = 'connection.execute("BEGIN IMMEDIATE")'
    cure = (
        'connection.execute("BEGIN IMMEDIATE"), or sqlite3.connect(…, isolation_level="IMMEDIATE")'
    )

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._was_inside = False

    def rows(self, sql: str, params: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """All rows of one statement; what the driver raises, in our words."""
        with self.told():
            return self._rows(sql, params)

    def _rows(self, sql: str, params: Sequence[object]) -> list[tuple[Any, ...]]:
        cursor = self._raw.cursor()
        try:
            cursor.row_factory = None  # the connection's own may make anything of a row
            cursor.execute(sql, params)
            found: list[tuple[Any, ...]] = cursor.fetchall()
        finally:
            cursor.close()
        return found

    def enter(self) -> None:
        """
        See to it that a transaction is open. One that its driver would begin at the first write is
        begun now, with the write lock; `InvalidArgument` where each statement is a commit.
        """
        with self.told():
            raw = self._raw
            self._was_inside = raw.in_transaction
            alone = raw.isolation_level is None or getattr(raw, "autocommit", None) is True
        if self._was_inside:
            return
        if alone:
            raise InvalidArgument(
                f"the connection has no transaction open: begin one with {self.begin}, or leave tx="
                " out, so that the call is a commit of its own"
            )
        self.rows("BEGIN IMMEDIATE")

    def check_file(self, identity: tuple[int, int], path: str) -> None:
        """`InvalidArgument` unless its main database is this very file."""
        own = os.fsdecode(self.rows("PRAGMA database_list")[0][2])
        try:
            stat = Path(own).stat() if own else None
        except OSError:
            stat = None
        if stat is None or (stat.st_dev, stat.st_ino) != identity:
            raise InvalidArgument(
                f"the connection is to {own or 'a database in no file'}, and this is for {path}"
            )

    @contextmanager
    def told(self) -> Iterator[None]:
        try:
            yield
        except Error:
            raise
        except Exception as error:
            ours = self._in_our_words(error)
            if ours is None:
                raise
            raise ours from error

    def _in_our_words(self, error: Exception) -> Error | None:
        """None: it is no error of a database."""
        cause = getattr(error, "orig", None) or error  # SQLAlchemy wraps what its driver raised
        names = {kind.__name__ for kind in type(cause).__mro__}
        words, code = str(cause), getattr(cause, "sqlite_errorcode", None)
        if words.startswith(OURS):
            return _refused(words.removeprefix(OURS))
        if "is locked" in words:
            return Busy(self._why_locked())
        if "closed" in words and not names.isdisjoint(("Error", "InvalidRequestError")):
            return InvalidArgument(f"the connection is closed: {words}")
        if "no such table: fencepost_" in words:
            return InvalidArgument("the connection's database was never opened by Fencepost")
        if names.isdisjoint(("DatabaseError", "InterfaceError")):
            return InvalidArgument(words) if "SQLAlchemyError" in names else None
        if "ProgrammingError" in names or "InterfaceError" in names:
            return InvalidArgument(words)
        return StorageError(words, statement="the door", sqlite_code=code)

    def _why_locked(self) -> str:
        if not self._was_inside:
            return "database is locked: another writer held it for longer than the connection waits"
        return (
            "database is locked: the transaction was begun without the write lock, and"
            " another one has it or has written since. SQLite cannot wait here: roll back, and"
            f" begin with the lock: {self.cure}"
        )


class _SqlAlchemy(Driver):
    """SQLAlchemy's own Connection, so that a transaction begins as its engine says."""

    begin = "connection.begin(), on an engine that is not in AUTOCOMMIT"
    cure = (
        '@event.listens_for(engine, "begin") on a function that calls'
        ' connection.exec_driver_sql("BEGIN IMMEDIATE")'
    )

    def __init__(self, connection: Any) -> None:
        super().__init__(None)
        self._connection = connection
        with self.told():
            if connection.dialect.name != "sqlite":
                raise InvalidArgument(f"the connection is to {connection.dialect.name}, not SQLite")
            connection.exec_driver_sql("SELECT 1").close()  # begins, where nobody has yet
            self._raw = connection.connection.driver_connection

    def _rows(self, sql: str, params: Sequence[object]) -> list[tuple[Any, ...]]:
        result = self._connection.exec_driver_sql(sql, tuple(params))
        return [tuple(row) for row in result] if result.returns_rows else []


class _Django(Driver):
    """The sqlite3 connection below Django's."""

    begin = "transaction.atomic()"
    cure = '"OPTIONS": {"transaction_mode": "IMMEDIATE"} in DATABASES'

    def __init__(self, wrapper: Any) -> None:
        if wrapper.vendor != "sqlite":
            raise InvalidArgument(f"the connection is to {wrapper.vendor}, not SQLite")
        wrapper.validate_no_broken_transaction()
        wrapper.ensure_connection()
        super().__init__(wrapper.connection)


def driver_of(tx: Any) -> Driver:
    """How to speak to this connection. `InvalidArgument` for what is none."""
    if hasattr(tx, "ensure_connection") and hasattr(tx, "vendor"):
        return _Django(tx)
    ask = getattr(tx, "exec_driver_sql", None) or getattr(tx, "connection", None)
    if inspect.iscoroutinefunction(ask) or hasattr(tx, "__aenter__"):
        raise InvalidArgument(
            f"{shown(tx)} has to be awaited: SQLAlchemy's run_sync gives its connection or session"
            " as a plain one"
        )
    if hasattr(tx, "exec_driver_sql"):
        return _SqlAlchemy(tx)
    if inspect.ismethod(ask):  # a Session, which may have no connection yet
        with Driver(None).told():
            connection = ask()
        if hasattr(connection, "exec_driver_sql"):
            return _SqlAlchemy(connection)
    elif hasattr(type(tx), "cursor") and hasattr(type(tx), "isolation_level"):
        return Driver(tx)
    raise InvalidArgument(
        "tx= takes a Transaction of Store.transaction(), or a connection of sqlite3, SQLAlchemy or"
        f" Django, not {shown(tx)}"
    )


# ---- what the door says --------------------------------------------------------------------------

OURS: Final = "fencepost: "  # so begin the words of a trigger's refusal

_KINDS: Final[dict[str, type[Error]]] = {
    "lease lost": LeaseLost,
    "another message has this key": KeyTaken,
    "the queue is full": QueueFull,
    "the tables are damaged": StorageError,
}


def _refused(words: str) -> Error:
    return _KINDS.get(words, InvalidArgument)(words)
