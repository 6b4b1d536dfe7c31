"""
What is recorded of a run, and whether the code still asks for it in the same way.

A pass begins at the top of the function and asks for its steps by their names. What is recorded is
given back; the rest is run. So two things must stay true of the code while a run is alive:

    1. a name that was recorded is asked for as the same kind of thing
    2. what was recorded earlier is asked for before what was recorded later, and before anything
       that is not recorded yet

What runs side by side is recorded in the order in which it ended, and that is the order in which it
is given back; `missing` says what has to be asked for first. Signals and messages to the run come
from outside, at any time, and have no place in this order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from fencepost._checks import name_bytes
from fencepost._workflow.outcomes import Changed
from fencepost.errors import InvalidArgument

__all__ = ["CHILD", "DEADLINE", "ENDED", "FAILED", "INBOX", "LATE", "PATCH", "RECEIVE", "SIGNAL"]
__all__ += [
    "SLEEP",
    "STEP",
    "TRANSACT",
    "TRIED",
    "WORDS",
    "Entry",
    "History",
    "Record",
    "deadline_key",
]
__all__ += ["ended_key", "inbox_key", "patch_key", "signal_key", "tried_key"]

# Kinds of records, as the file numbers them.
STEP, TRANSACT, ENDED, SLEEP, SIGNAL, RECEIVE, INBOX = range(7)
FAILED, TRIED, DEADLINE, PATCH, LATE, CHILD = range(7, 13)

WORDS: Final = {
    STEP: "step",
    TRANSACT: "transact",
    CHILD: "child",  # that it was started
    SLEEP: "sleep",
    SIGNAL: "wait",
    RECEIVE: "receive",
    INBOX: "inbox",
    FAILED: "step",  # that raised, which the workflow caught
    TRIED: "step",  # that raised, and is tried again
    DEADLINE: "wait",  # until when
    PATCH: "patch",
    ENDED: "child",  # what came of it
    LATE: "wait",  # for a signal that did not come in time
}
ORDERED: Final = frozenset((STEP, TRANSACT, CHILD, SLEEP, RECEIVE, FAILED, DEADLINE))
SAME: Final = {FAILED: (STEP, TRANSACT)}  # what may be asked for where this is recorded
INBOX_DIGITS: Final = 20
# A record's key has 1,024 bytes; this leaves room for what stands before a name in keys of its own.
NAME_BYTES_MAX: Final = 1000

# What is not under a plain name: no step may be called so, and no signal can answer for a step.
PREFIXES: Final = (
    "inbox:",
    "signal:",
    "until:",
    "tried:",
    "patched:",
    "ended:",
    "child:",
    "parent:",
)


def check_name(name: object, what: str) -> None:
    """
    `InvalidArgument` for a name that no record could have. Asked before anything is done under it:
    an effect whose result cannot be recorded would be repeated.
    """
    encoded = name_bytes(name, what)
    if not 1 <= len(encoded) <= NAME_BYTES_MAX:
        raise InvalidArgument(f"{what} has 1 to {NAME_BYTES_MAX} bytes, not {len(encoded)}")
    if b"\0" in encoded:
        raise InvalidArgument(f"{what} contains a NUL character")


def signal_key(name: str) -> str:
    return f"signal:{name}"


def deadline_key(name: str) -> str:
    return f"until:{name}"


def tried_key(name: str, attempt: int) -> str:
    return f"tried:{attempt}:{name}"


def patch_key(name: str) -> str:
    return f"patched:{name}"


def ended_key(name: str) -> str:
    return f"ended:{name}"


def inbox_key(number: int) -> str:
    return f"inbox:{number:0{INBOX_DIGITS}}"


class Record(NamedTuple):
    """What the file has. Moments are of store time."""

    seq: int
    key: str
    kind: int
    value: bytes | None
    started_us: int | None
    written_us: int


class Entry(NamedTuple):
    """What is to be recorded."""

    key: str
    kind: int
    value: bytes | None
    started_us: int | None = None
    start: object = None  # of a child: what begins in the same commit


class History:
    """The records of one run, as one pass asks for them."""

    def __init__(self, records: Iterable[Record]) -> None:
        found = sorted(records, key=lambda record: record.seq)
        self._found = {record.key: record for record in found}
        self._ordered = [record for record in found if record.kind in ORDERED]
        self._inbox = [record for record in found if record.kind == INBOX]
        self._asked: set[str] = set()
        self._first = 0  # of the ordered ones, the first that was not asked for

    @property
    def asked(self) -> int:
        """How many names were asked for."""
        return len(self._asked)

    def find(self, key: str) -> Record | None:
        return self._found.get(key)

    def ask(self, name: str, kind: int) -> Record | None:
        """
        What is recorded under the name. `InvalidArgument` for a name that cannot be one, or that
        this pass asked for before; `Changed` if it is recorded as another kind.
        """
        check_name(name, f"the name of a {WORDS[kind]}")
        if name.startswith(PREFIXES):
            raise InvalidArgument(f"{name!r} begins with what only Fencepost's own names may")
        if name in self._asked:
            raise InvalidArgument(f"{name!r} is used twice: each name is once in a run")
        self._asked.add(name)
        deadline = self._found.get(deadline_key(name))
        if deadline is not None:
            if kind not in (SIGNAL, RECEIVE):
                raise Changed(_other_kind(deadline, name, kind))
            self._asked.add(deadline.key)
        plain = self._found.get(name)
        if plain is not None and kind not in SAME.get(plain.kind, (plain.kind,)):
            raise Changed(_other_kind(plain, name, kind))
        return self._found.get(signal_key(name)) if kind == SIGNAL else plain

    def missing(self, record: Record | None = None) -> Record | None:
        """What was recorded before this one, or at all, and was not asked for: the first of it."""
        while self._first < len(self._ordered):
            first = self._ordered[self._first]
            if first.key not in self._asked:
                return first if record is None or first.seq < record.seq else None
            self._first += 1
        return None

    def patched(self, name: str) -> bool | None:
        """Whether the run went through a change; None: it goes on from here, and may do so."""
        if patch_key(name) in self._found:
            return True
        return None if self.missing() is None else False

    def inbox(self, after: int, limit: int | None) -> list[Record]:
        """Messages to the run behind one of them, by its number."""
        return [record for record in self._inbox if record.seq > after][:limit]

    def attempts(self, name: str) -> list[Record]:
        """The failed attempts of a step that has not ended."""
        found: list[Record] = []
        while (record := self._found.get(tried_key(name, len(found) + 1))) is not None:
            found.append(record)
        return found


def _other_kind(record: Record, name: str, kind: int) -> str:
    word = WORDS.get(record.kind, "stranger")
    return (
        f"the code has changed: {name!r} is recorded as a {word}, and the code now asks for it as a"
        f" {WORDS[kind]}; deploy code that fits, guard the change with run.patched(), or fork the"
        " run"
    )
