"""What a store lives beside: other copies of SQLite in this process, and what they can do to it."""

from __future__ import annotations

from typing import Final

from fencepost._calls import SQLITE_VERSION, Core
from fencepost.values import Surroundings

__all__ = ["danger", "surroundings"]

# A checkpoint that begins while another program restarts the WAL may skip what is in it, and leave
# a damaged file: from the first version with a WAL on, and mended in these.
BROKEN_SINCE: Final = (3, 7, 0)
MENDED: Final = ((3, 44, 6), (3, 50, 7), (3, 51, 3))


def surroundings(core: Core) -> Surroundings:
    classic, strangers = core.beside()
    python = _python_sqlite()
    advice = [words for words in (danger(core), _restart(python)) if words]
    return Surroundings(
        "classic" if classic else "ofd",
        SQLITE_VERSION,
        python,
        None if strangers < 0 else strangers,
        advice,
    )


def danger(core: Core) -> str:
    """What is wrong here and now, or nothing."""
    classic, strangers = core.beside()
    if not classic or strangers <= 0:
        return ""
    return (
        "Another SQLite in this process has the file open, and this system's locks do not keep it"
        " and the store apart: close it there, or use the store in a process of its own."
    )


def _python_sqlite() -> str | None:
    try:
        from sqlite3 import sqlite_version
    except ImportError:  # a Python that was built without
        return None
    return sqlite_version


def is_mended(version: tuple[int, ...]) -> bool:
    """Does an SQLite of this version checkpoint safely beside one that restarts the WAL?"""
    if version < BROKEN_SINCE or version >= MENDED[-1]:
        return True
    return any(version[:2] == mended[:2] and version >= mended for mended in MENDED)


def _restart(python: str | None) -> str:
    if python is None or is_mended(tuple(int(part) for part in python.split("."))):
        return ""
    return (
        f"This Python's sqlite3 is SQLite {python}, which can damage a file when it checkpoints"
        " while another program restarts the WAL (mended in 3.51.3). Fencepost is on its guard,"
        " two programs of that version are not: where several write to this file with it, say"
        " PRAGMA wal_autocheckpoint=0 on each such connection, and leave checkpoints to Fencepost."
    )
