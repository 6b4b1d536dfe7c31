"""What a queue is declared to be, as the numbers that its row in the file holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from fencepost._binding.calls import FP
from fencepost._checks import flag, name_bytes, shown, whole
from fencepost.errors import InvalidArgument
from fencepost.spans import lease_us, span_us
from fencepost.values import Backoff

__all__ = ["Declaration", "declared"]


class Declaration(NamedTuple):
    """A queue by name, and what was said about it. Two that are equal are the same queue."""

    name: str
    profile: int
    fields: tuple[tuple[str, int], ...]  # only those that were said; the others stay as they are

    def differs(self, stored: Mapping[str, int]) -> bool:
        """Whether the file says something else. Of another profile: the core will refuse it."""
        fields = (("profile", self.profile), *self.fields)
        return any(stored[name] != value for name, value in fields)


def declared(name: str, policy: Mapping[str, Any], profile: int = FP.PROFILE_QUEUE) -> Declaration:
    """`InvalidArgument` for what is no policy, or cannot be its value."""
    name_bytes(name, "a queue's name")
    fields: dict[str, int] = {}
    for word, value in policy.items():
        if word not in _readers:
            raise InvalidArgument(f"{word} is not a policy of a queue")
        fields.update(_readers[word](value, word))
    return Declaration(name, profile, tuple(sorted(fields.items())))


# ---- one reader for each policy ------------------------------------------------------------------

COUNT_MAX: Final = 2**31 - 1
RATE_MILLI_MAX: Final = 10**9  # as in csrc/api.c

_Fields = dict[str, int]
_Reader = Callable[[Any, str], _Fields]


def _span(value: Any, word: str) -> _Fields:
    return {f"{word}_us": span_us(value, word)}


def _count(value: Any, word: str) -> _Fields:
    return {word: whole(value, word, 0, COUNT_MAX)}


def _flag(value: Any, word: str) -> _Fields:
    return {word: int(flag(value, word))}


def _choice(*words: str) -> _Reader:
    def read(value: Any, word: str) -> _Fields:
        if value not in words:
            raise InvalidArgument(f"{word} is {' or '.join(map(repr, words))}, not {shown(value)}")
        return {word: words.index(value)}

    return read


def _backoff(value: Any, word: str) -> _Fields:
    if not isinstance(value, tuple) or not 1 <= len(value) <= len(Backoff._fields):
        raise InvalidArgument(f"{word} is a Backoff, not {shown(value)}")
    base, factor, cap, jitter = Backoff(*value)
    jitter_milli = _milli(jitter, "backoff.jitter")
    if jitter_milli > 1000:
        raise InvalidArgument(f"backoff.jitter is a share, from 0 to 1, not {jitter}")
    return {
        "base_us": span_us(base, "backoff.base"),
        "factor_milli": _milli(factor, "backoff.factor"),
        "cap_us": span_us(cap, "backoff.cap"),
        "jitter_milli": jitter_milli,
    }


def _milli(value: float, word: str) -> int:
    """Thousandths, to the nearest: what is true of seconds and microseconds is true of these."""
    return (span_us(value, word) + 500) // 1000


def _rate(value: Any, word: str) -> _Fields:
    """0: no limit, and so not what is too small to be counted in thousandths."""
    milli = _milli(value, word)
    if milli > RATE_MILLI_MAX or (milli == 0 and value != 0):
        raise InvalidArgument(f"{word} is from 0.001 to 1000000 a second, or 0: {shown(value)}")
    return {f"{word}_milli": milli}


_readers: Final[dict[str, _Reader]] = {
    "lease": lambda value, word: {f"{word}_us": lease_us(value)},
    "max_attempts": _count,
    "backoff": _backoff,
    "max_age": _span,
    "keep": _span,
    "key_window": _span,
    "addressed": _flag,
    "listed": _flag,
    "max_size": _count,
    "concurrency": _count,
    "rate": _rate,
    "lane_width": _count,
    "on_dead": _choice("go on", "halt"),
    "on_unknown": _choice("hold", "retry"),
}
