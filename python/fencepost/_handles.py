"""What a handle of a job's message and one of a run tell alike: how it is, now and later."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeVar

from fencepost._binding import pack
from fencepost._file import File
from fencepost._plans import Ask, Change, Plan, here
from fencepost.codec import Codec
from fencepost.transactions import unwrap
from fencepost.values import Failure, State

__all__ = ["Seen", "Status", "Watched", "progress_of"]

T = TypeVar("T")

PROGRESS: Final = 3  # in fp_content's records


class Status(NamedTuple):
    """
    Where a job or a run is. `attempt` is the one that runs or was the last, 0 before the first.

    `failure` is the last one, also while it waits for its next attempt; `progress` the latest value
    its handler gave. `waiting_for` has the names of the waits and sleeps in which a run stands.
    """

    state: State
    attempt: int
    due: datetime | None
    failure: Failure | None
    progress: Any
    waiting_for: tuple[str, ...] = ()


class Seen(NamedTuple):
    """What `watch` saw at last, and the file's version then."""

    status: Status
    version: int
    ended: bool


class Watched:
    """What can be looked at: `_look` is one look, and whether it has ended. It raises `Gone`."""

    _file: File

    def _look(self) -> tuple[Status, bool]:
        raise NotImplementedError

    def status(self) -> Status:
        """How it is now. Raises `Gone`."""
        return here(self._status())

    def watch(self) -> Iterator[Status]:
        """How it is now, and again after each change, until it has ended. Raises `Gone`."""
        seen = here(self._next(None))
        yield seen.status
        while not seen.ended:
            seen = here(self._next(seen))
            yield seen.status

    def _status(self) -> Plan[Status]:
        status, _ = yield from self._asked(self._look)
        return status

    def _next(self, seen: Seen | None) -> Plan[Seen]:
        """The next status that is another one, or the last."""
        unwrap(self._file, None)
        version = None if seen is None else seen.version
        while True:
            if version is not None:
                yield Change(self._file, version)
            # Read before the look: what changes after the look is then not slept through.
            version = self._file.core.version()
            status, ended = yield Ask(self._file, self._look)
            if seen is None or ended or status != seen.status:
                return Seen(status, version, ended)

    def _asked(self, fn: Callable[[], T]) -> Plan[T]:
        unwrap(self._file, None)
        found: T = yield Ask(self._file, fn)
        return found


def progress_of(file: File, id: int, codec: Codec) -> Any:
    """The latest value that the handler of this message gave; None without one. Raises `Gone`."""
    content = file.core.content(id)
    (lengths,) = pack.records(content)
    progress = pack.parts(content.blob, 0, lengths)[0][PROGRESS]
    return None if progress is None else codec.decode(progress, Any)
