"""
One open file, as Store, Queue and Transaction share it: the handle, the bridge to event loops, the
codec, and what numbers the file gave to its queues and kinds.

A number never changes, so it is asked for once; but only what is committed is remembered, because
a caller's transaction may still roll back. Looking is done beside it, where nothing else is seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

from fencepost._binding import pack
from fencepost._binding.bridge import Bridge
from fencepost._binding.calls import Core, OpenTx
from fencepost._binding.pack import Packed
from fencepost._checks import name_bytes, shown
from fencepost.codec import Codec
from fencepost.errors import InvalidArgument
from fencepost.policies import Declaration

__all__ = ["File", "file_of", "named"]


class File:
    """`by_hand`: store time is turned by hand (fencepost.testing)."""

    def __init__(self, core: Core, path: str, codec: Codec, *, by_hand: bool = False) -> None:
        self.core = core
        self.bridge = Bridge(core)
        self.path = path
        self.codec = codec
        self.by_hand = by_hand
        stat = Path(path).stat()
        self.identity = stat.st_dev, stat.st_ino
        self._uuid = ""
        self.held: Callable[[], Any] | None = None  # the open Transaction, by weak reference
        self._declared: dict[Declaration, int] = {}
        self._kinds: dict[str, int] = {}
        self._names: dict[int, str] = {}  # of queues

    def queue(self, declaration: Declaration, tx: OpenTx | None) -> int:
        """The queue's number. Makes it, or brings its policy up to the declaration."""
        number = self._declared.get(declaration)
        if number is not None:
            return number
        name = name_bytes(declaration.name, "a queue's name")
        number, stored = self.core.queue_find(None, name)
        settled = number != 0 and not declaration.differs(stored)
        if not settled:
            number = self.core.queue_define(tx, name, declaration.profile, dict(declaration.fields))
        if settled or tx is None:
            self._declared[declaration] = number
        return number

    def knows(self, declaration: Declaration, kind: str) -> bool:
        """Whether the numbers of the queue and of the job's name need not be asked for."""
        return declaration in self._declared and (not kind or kind in self._kinds)

    def missing(self, declaration: Declaration) -> dict[str, int] | None:
        """All of the policy of a queue that is not in the file yet. None: it is there."""
        name = name_bytes(declaration.name, "a queue's name")
        if declaration in self._declared or self.core.queue_find(None, name)[0]:
            return None
        return self.core.queue_policy(declaration.profile, dict(declaration.fields))

    @property
    def uuid(self) -> str:
        """The file's own, as text; also that of its copies."""
        if not self._uuid:
            self._uuid = str(UUID(bytes=self.core.uuid()))
        return self._uuid

    def find(self, name: str) -> int:
        """The number of a queue that is there, or 0. Changes nothing."""
        return self.core.queue_find(None, name_bytes(name, "a queue's name"))[0]

    def kind(self, name: str, tx: OpenTx | None) -> int:
        """The number of a job's name; makes it. 0 for no name."""
        if not name:
            return 0
        number = self._kinds.get(name) or self.find_kind(name)
        if number == 0:
            number = self.core.kind(tx, name_bytes(name, "a job's name"))
            if tx is not None:
                return number
        self._kinds[name] = number
        return number

    def find_kind(self, name: str) -> int:
        """The number of a job's name that is there, or 0. Changes nothing."""
        return next((number for number, word in self.kinds() if word == name), 0)

    def kinds(self) -> Iterator[tuple[int, str]]:
        """Every job's name in the file, with its number."""
        return ((record[0], name) for record, name in named(self.core.kinds()))

    def queue_name(self, number: int) -> str:
        """The name of a queue that some message said it is on."""
        if number not in self._names:
            self._names = {record[0]: name for record, name in named(self.core.stats())}
        return self._names.get(number, f"(queue {number})")  # there is none: the file is damaged

    def wall_us(self) -> int:
        """The clock that callers' absolute moments are read on."""
        return self.core.now() if self.by_hand else time.time_ns() // 1000


def file_of(store: object) -> File:
    """The file of a Store. `InvalidArgument` for what is none."""
    file = getattr(store, "_file", None)
    if not isinstance(file, File):
        raise InvalidArgument(f"a store is what open() returns, not {shown(store)}")
    return file


def named(found: Packed) -> Iterator[tuple[tuple[int, ...], str]]:
    """Rows that end with the length of a name, each with its name."""
    at = 0
    for record in pack.records(found):
        length = record[-1]
        yield record, found.blob[at : at + length].decode("utf-8", "replace")
        at += length
