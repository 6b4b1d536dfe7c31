"""What jobs and workflows have in common: a function, called by a message, and its policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from fencepost._arguments import Arguments
from fencepost._checks import function, is_coroutine, name_bytes, several, shown, whole
from fencepost._declared import Placed
from fencepost._enqueue import ATTEMPTS_MAX, PRIORITIES
from fencepost._file import File
from fencepost.codec import Codec
from fencepost.errors import InvalidArgument
from fencepost.policies import declared
from fencepost.spans import span_us
from fencepost.values import Backoff, JobPolicy

if TYPE_CHECKING:
    from fencepost.store import Store

__all__ = ["Function", "Home"]


class Home(Protocol):
    """What a function asks of its App: where it lives, and how its values become bytes."""

    codec: Codec

    @property
    def store(self) -> Store: ...


class Function(Placed):
    """It is not callable: nobody runs what they meant to queue. `fn` is the function itself."""

    def __init__(
        self,
        fn: Callable[..., Any],
        policy: JobPolicy,
        home: Home,
        *,
        what: str,
        context: bool,
        queue: str,
        attempts: int,
    ) -> None:
        """`queue` and `attempts`: what holds where `policy` says nothing; -1: as the queue says."""
        unknown = policy.keys() - JobPolicy.__optional_keys__
        if unknown:
            raise InvalidArgument(f"{', '.join(sorted(unknown))}: no such policy of {what}")
        function(fn, what)
        self.fn = fn
        self.name = _name(policy.get("name") or getattr(fn, "__name__", None))
        self._home = home
        # What follows is for the worker.
        self._coroutine = is_coroutine(fn)
        self._aliases = _names(policy.get("aliases", ()))
        self._backoff = _backoff(policy["backoff"]) if "backoff" in policy else None
        self._permanent = _exceptions(policy.get("permanent", ()))
        self._timeout_us = span_us(policy["timeout"], "timeout") if "timeout" in policy else None
        if self._timeout_us == 0:
            raise InvalidArgument("timeout is 0: it would be over at once")
        self._max_attempts = attempts
        if "max_attempts" in policy:
            self._max_attempts = whole(policy["max_attempts"], "max_attempts", 0, ATTEMPTS_MAX)
        self._priority = whole(policy.get("priority", 0), "priority", *PRIORITIES)
        self._queue = policy.get("queue", queue)
        self._arguments = Arguments(fn, self.name, home.codec, context=context)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def _own_file(self) -> File:
        return self._home.store._file


def _backoff(value: Backoff) -> Backoff:
    declared("", {"backoff": value})  # what a queue would not take is no back-off of a job's
    return Backoff(*value)


def _exceptions(kinds: Sequence[Any]) -> tuple[type[Exception], ...]:
    found = tuple(several(kinds, "permanent errors", type))
    if not all(issubclass(kind, BaseException) for kind in found):
        raise InvalidArgument(f"permanent errors are exception classes, not {shown(kinds)}")
    return found


def _name(name: Any) -> str:
    """The name of a job. It names the type of its payload, too, which may have no NUL."""
    if b"\0" in name_bytes(name, "a job's name"):
        raise InvalidArgument("a job's name contains a NUL character")
    return str(name)


def _names(names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise InvalidArgument(f"aliases are a list of names: [{shown(names)}]")
    return tuple(_name(name) for name in several(names, "aliases"))
