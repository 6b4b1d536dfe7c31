"""
A connection of this Python's SQLite that stops inside a checkpoint, between its look at the WAL's
header and what it does by it, and lets somebody else go on.

Spoken to through ctypes, with a VFS of its own over the usual one: a checkpoint calls xUnfetch(0)
at that very place.
"""

from __future__ import annotations

import _sqlite3
import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int64, c_void_p
from typing import Any

__all__ = ["checkpoint", "lacks_symbols", "paused"]

OPEN = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
UNFETCH = CFUNCTYPE(c_int, c_void_p, c_int64, c_void_p)
MAIN_DB, READWRITE, PASSIVE = 0x100, 0x2, 0

library = ctypes.CDLL(_sqlite3.__file__)
lacks_symbols = not hasattr(library, "sqlite3_vfs_find")


class Vfs(ctypes.Structure):
    _fields_ = (
        ("numbers", c_int * 3),
        ("next", c_void_p),
        ("name", c_char_p),
        ("data", c_void_p),
        ("open", c_void_p),
        ("others", c_void_p * 15),
    )


class Methods(ctypes.Structure):
    _fields_ = (("version", c_int), ("others", c_void_p * 17), ("unfetch", c_void_p))


@contextmanager
def paused(path: bytes, meanwhile: Callable[[], None]) -> Iterator[Any]:
    """A connection; `meanwhile` runs once, inside the first checkpoint that is asked of it."""
    library.sqlite3_vfs_find.restype = POINTER(Vfs)
    vfs = Vfs.from_buffer_copy(library.sqlite3_vfs_find(None).contents)
    real_open, waiting, kept = OPEN(vfs.open), [meanwhile], []

    def open_it(at: Any, name: Any, file: Any, flags: int, answer: Any) -> int:
        code = real_open(at, name, file, flags, answer)
        if code == 0 and flags & MAIN_DB:
            place = ctypes.cast(file, POINTER(POINTER(Methods)))
            methods = Methods.from_buffer_copy(place[0].contents)
            real_unfetch = UNFETCH(methods.unfetch)

            def unfetch(of: Any, offset: int, memory: Any) -> int:
                if waiting and offset == 0 and not memory and armed:
                    waiting.pop()()
                return int(real_unfetch(of, offset, memory))

            ours = UNFETCH(unfetch)
            methods.unfetch = ctypes.cast(ours, c_void_p)
            kept.extend([methods, ours])
            place[0] = ctypes.pointer(methods)
        return int(code)

    armed: list[bool] = []
    opener = OPEN(open_it)
    vfs.open = ctypes.cast(opener, c_void_p)
    vfs.name = b"pausing"
    library.sqlite3_vfs_register(ctypes.byref(vfs), 0)
    connection = c_void_p()
    try:
        code = library.sqlite3_open_v2(path, ctypes.byref(connection), READWRITE, b"pausing")
        assert code == 0
        for sql in (b"PRAGMA wal_autocheckpoint=0", b"SELECT count(*) FROM sqlite_schema"):
            assert library.sqlite3_exec(connection, sql, None, None, None) == 0
        armed.append(True)
        yield connection
        assert not waiting, "the checkpoint did not come by"
    finally:
        library.sqlite3_close(connection)
        library.sqlite3_vfs_unregister(ctypes.byref(vfs))


def checkpoint(connection: Any) -> int:
    code: int = library.sqlite3_wal_checkpoint_v2(connection, None, PASSIVE, None, None)
    return code
