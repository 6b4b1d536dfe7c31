"""What a store lives beside: other copies of SQLite in this process, and what they can do to it."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from fencepost._binding.calls import SQLITE_VERSION, Core
from fencepost.values import Surroundings

__all__ = ["danger", "surroundings"]

# A checkpoint that begins while another program restarts the WAL may skip what is in it, and leave
# a damaged file: from the first version with a WAL on, and mended in these.
BROKEN_SINCE: Final = (3, 7, 0)
MENDED: Final = ((3, 44, 6), (3, 50, 7), (3, 51, 3))
COPY: Final = re.compile(r"/.*/[^/\n]*(?:sqlite|apsw|sqlcipher)[^/\n]*\.so[^/\n]*$", re.MULTILINE)


def surroundings(core: Core) -> Surroundings:
    classic, strangers = core.beside()
    python, copies = _python_sqlite(), _copies()
    several = _several(copies) if strangers > 0 else ""
    advice = [words for words in (danger(core), several, _restart(python)) if words]
    return Surroundings(
        "classic" if classic else "ofd",
        SQLITE_VERSION,
        python,
        None if strangers < 0 else strangers,
        copies,
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


def _copies() -> list[str]:
    """By the names of what is mapped; a program that is linked with SQLite statically has none."""
    maps = ""
    with suppress(OSError):
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    return sorted({found[0] for found in COPY.finditer(maps)})


def _several(copies: list[str]) -> str:
    """Python's module and the library that it is linked with are one copy, not two."""
    others = [path for path in copies if "/_sqlite3." not in path]
    if len(others) < 2:
        return ""
    return (
        f"More than one other SQLite is in this process ({', '.join(others)}). Each is kept apart"
        " from Fencepost, but not from the others: let only one of them open this file."
    )


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
