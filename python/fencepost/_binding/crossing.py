"""What every crossing into the core ends with: a code becomes an exception, rows are copied."""

from __future__ import annotations

from time import monotonic
from typing import Any, Final

from fencepost._binding.lib import ffi, lib
from fencepost._binding.pack import Packed
from fencepost.errors import BY_CODE, Conflict, Error, StorageError

__all__ = ["checked", "copied", "raised", "text"]


def text(characters: Any) -> str:
    found: bytes = ffi.string(characters)
    return found.decode("utf-8", "replace")


_exceptions: Final = {getattr(lib, name): kind for name, kind in BY_CODE.items()}
_again: Final[int] = lib.FP_AGAIN


def checked(function: Any, *arguments: Any, patience: float = 0) -> None:
    """
    Call into the core; raise the exception its code stands for, with its own words.

    A call whose turn does not come is made again for `patience` seconds; between two tries the
    interpreter runs its signal handlers.
    """
    err = ffi.new("fp_error *")
    until = monotonic() + patience
    while (code := function(*arguments, err)) == _again and monotonic() < until:
        pass
    if code:
        raise raised(code, err)


def raised(code: int, err: Any) -> Error:
    """The exception that a code stands for."""
    kind = _exceptions[code]
    words = text(err.message)
    if kind is Conflict:
        return Conflict(words, id=err.id)
    if issubclass(kind, StorageError):
        statement = text(err.statement) or None
        return kind(words, statement=statement, sqlite_code=err.sqlite_code or None)
    return kind(words)


def copied(rows: Any) -> Packed:
    """The rows as bytes of Python's own; C's are given back by the caller."""
    size = rows.count * rows.width * 8 if rows.records else 0
    return Packed(
        rows.count,
        rows.width,
        ffi.buffer(rows.records, size)[:] if size else b"",
        ffi.buffer(rows.blob, rows.blob_bytes)[:] if rows.blob_bytes else b"",
    )
