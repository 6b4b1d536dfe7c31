"""
Stores that nobody closed are closed at the end of the main thread, before the interpreter joins the
others: one of them may wait for a message that nobody will send, and `Closed` lets it go. Who has a
transaction open, perhaps a handler that hangs, is not waited for: it ends with the process.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from fencepost.errors import Error

if TYPE_CHECKING:
    from fencepost.store import Store

__all__ = ["unclosed"]

unclosed: Final[weakref.WeakSet[Store]] = weakref.WeakSet()


def _close_all() -> None:
    for store in list(unclosed):
        store._file.core.patience = 0
        with suppress(Error):
            store.close()


getattr(threading, "_register_atexit", atexit.register)(_close_all)
