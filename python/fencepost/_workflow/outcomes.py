"""
How a pass of a workflow may end, and what is raised through its code to end it.

What interrupts a pass is no Exception, so that `except Exception` in a workflow lets it through. It
comes up alone, or in a group where the workflow ran things side by side; `weigh` says which of a
group counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

__all__ = [
    "Changed",
    "Completed",
    "Failed",
    "Fenced",
    "Interruption",
    "Lost",
    "Outcome",
    "Parked",
    "Stopped",
    "Suspended",
    "Suspension",
    "Swallowed",
    "Withdrawn",
    "weigh",
    "weightiest",
]


class Interruption(BaseException):
    """Raised through a workflow's code to end its pass; not a failure."""


class Suspension(Interruption):
    """There is something to wait for: the pass ends here, and a later one comes this far again."""


class Fenced(Interruption):
    """Somebody else has the run. Nothing of this pass is recorded any more."""


class Changed(Interruption):
    """The code asks for something else than is recorded."""


class Withdrawn(Interruption):
    """The run was cancelled: nothing further is begun."""


class Swallowed(Exception):
    """A workflow returned although it had something to wait for: it caught what was to end it."""


# ---- what became of a pass -----------------------------------------------------------------------


class Completed(NamedTuple):
    """The workflow returned."""

    result: bytes | None


class Suspended(NamedTuple):
    """It waits: until a moment of store time, for what others supply, or for whichever is first."""

    due_us: int | None
    waiting_for: tuple[str, ...]
    asleep: bool  # nothing but a moment is waited for


class Failed(NamedTuple):
    """It raised."""

    error: BaseException


class Parked(NamedTuple):
    """An operator or other code is needed; no attempt is used."""

    text: str


class Lost(NamedTuple):
    """Somebody else has it."""


class Stopped(NamedTuple):
    """It was cancelled: the run itself, or its pass by the worker, which knows why."""

    withdrawn: bool


Outcome: TypeAlias = Completed | Suspended | Failed | Parked | Lost | Stopped


def weigh(error: BaseException) -> BaseException:
    """
    The one that counts: being fenced, changed code and cancellation before anything else, then the
    first real failure, then suspension.

    A group of several failures stays a group, without the suspensions in it.
    """
    leaves = list(_leaves(error))
    failures = [leaf for leaf in leaves if not isinstance(leaf, Interruption)]
    found = weightiest(leaves)
    return _without_suspensions(error) if found in failures and len(failures) > 1 else found


def weightiest(errors: Sequence[BaseException]) -> BaseException:
    """The same of errors that stand side by side: a failure comes alone."""
    for kind in (Fenced, Changed, Withdrawn):
        for error in errors:
            if isinstance(error, kind):
                return error
    failures = [error for error in errors if not isinstance(error, Suspension)]
    return failures[0] if failures else errors[0]


def _leaves(error: BaseException) -> Iterator[BaseException]:
    members = _members(error)
    if members is None:
        yield error
        return
    for member in members:
        yield from _leaves(member)


def _members(error: BaseException) -> tuple[BaseException, ...] | None:
    """Of an exception group, which older Pythons do not have."""
    found = getattr(error, "exceptions", None)
    return found if isinstance(found, tuple) and found and hasattr(error, "split") else None


def _without_suspensions(error: BaseException) -> BaseException:
    _, rest = error.split(Suspension)  # type: ignore[attr-defined]
    found: BaseException = error if rest is None else rest
    return found
