"""The file as a whole, without opening it as a store: how it is, and the way back from a backup."""

from __future__ import annotations

import os
from datetime import datetime
from typing import Any, Final

from fencepost._binding import calls
from fencepost._checks import path_bytes
from fencepost._inspect import counted
from fencepost.spans import moment_us
from fencepost.values import StrPath

__all__ = ["restore", "status"]

NOW: Final = -1


def status(path: StrPath, *, at: datetime | None = None) -> dict[str, Any]:
    """
    The counts and ages of a file as `Store.stats` tells them, at the moment `at` (else now),
    without opening it as a store: nothing is written, and no message is read.

    No file is made, but for the -shm that belongs to a -wal without one. Counts are those of now;
    `at` is what ages and due moments are told from. Raises `StorageError` for what cannot be read,
    `InvalidArgument` for what is no store, `NewerSchema`.
    """
    encoded = path_bytes(path)
    now, found = calls.status(encoded, NOW if at is None else moment_us(at, "at"))
    return counted(os.fsdecode(encoded), now, found)


def restore(backup: StrPath, dest: StrPath, /) -> None:
    """
    Make a store at `dest` out of a backup. Stop whatever has the old file open, and move that away
    first: `InvalidArgument` if `dest`, or a -wal, -shm or -journal beside it, is there.

    The backup is read through, and refused with `StorageError` if it is damaged. Claims that were
    held when it was made open nothing in the new file: their messages are handed out again, those
    of an outbox whose send had begun become `unknown`. All numbers drawn from now on are above
    those that may have been drawn after the backup. Raises `NewerSchema`.
    """
    calls.restore(path_bytes(backup), path_bytes(dest))
