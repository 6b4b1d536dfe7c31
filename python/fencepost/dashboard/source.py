"""
The file that is looked at: a store that somebody has open, or a path.

Of a path nothing is held. Its status is read from outside; for a listing or an action the file is
opened, and closed again, so it may be missing, replaced or restored between two requests.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import fencepost
from fencepost._checks import shown
from fencepost.dashboard.answers import Refused
from fencepost.errors import InvalidArgument

__all__ = ["Source"]

PATIENCE: Final = 2.0  # seconds in which a file may be busy


class Source:
    """Of one dashboard; for all threads."""

    def __init__(self, given: fencepost.Store | fencepost.App | fencepost.StrPath) -> None:
        if not isinstance(given, (fencepost.Store, fencepost.App, str, os.PathLike)):
            raise InvalidArgument(
                f"a dashboard is of a store, an App or a path, not {shown(given)}"
            )
        self._given = given

    def status(self) -> dict[str, Any]:
        """As `Store.stats`. Raises as the core, and `Refused` for a file that is missing."""
        if isinstance(self._given, (fencepost.Store, fencepost.App)):
            return self._open(self._given).stats()
        return _status(Path(self._given))

    @contextmanager
    def store(self) -> Iterator[fencepost.Store]:
        """The store, for one request. Raises as `status`."""
        if isinstance(self._given, (fencepost.Store, fencepost.App)):
            yield self._open(self._given)
            return
        _status(Path(self._given))  # which says what is wrong with a file
        with fencepost.open(self._given, create=False, busy_timeout=PATIENCE) as store:
            yield store

    @staticmethod
    def _open(given: fencepost.Store | fencepost.App) -> fencepost.Store:
        return given.store if isinstance(given, fencepost.App) else given


def _status(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise Refused(503, "missing", f"there is no file {path}")
    try:
        return fencepost.status(path)
    except InvalidArgument as error:
        raise Refused(503, "not_a_store", str(error)) from error
