"""What the dashboard may do, where it is allowed: each action by its name, and what it is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec

import fencepost
from fencepost import _operator as operator
from fencepost.dashboard.filter import Filter
from fencepost.errors import InvalidArgument

__all__ = ["ACTIONS", "Action"]

T = TypeVar("T")

PAGE: Final = 200  # messages of one request
DELAY_MAX: Final = 86_400  # seconds
SLICE: Final = 1000  # messages that go in one commit, so that nobody waits long

Delay = Annotated[float, msgspec.Meta(ge=0, le=DELAY_MAX)]


class Wanted(msgspec.Struct, forbid_unknown_fields=True):
    """A message as the page showed it."""

    id: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
    generation: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None = None


class Named(msgspec.Struct, forbid_unknown_fields=True):
    """Messages; `delay` in seconds and `note` where the action takes one."""

    messages: Annotated[list[Wanted], msgspec.Meta(min_length=1, max_length=PAGE)]
    delay: Delay = 0
    note: str = ""

    @property
    def seen(self) -> list[operator.Seen]:
        return [operator.Seen(one.id, one.generation) for one in self.messages]


class Replay(msgspec.Struct, forbid_unknown_fields=True):
    """
    Those that are named, or a page of those that are found: the answer says where the next begins.
    `apply` false: what would happen.
    """

    messages: Annotated[list[Wanted], msgspec.Meta(min_length=1, max_length=PAGE)] | None = None
    found: Filter | None = None
    delay: Delay = 0
    apply: bool = True


class OfQueue(msgspec.Struct, forbid_unknown_fields=True):
    queue: str


class OfLane(msgspec.Struct, forbid_unknown_fields=True):
    queue: str
    lane: str


class OfRun(msgspec.Struct, forbid_unknown_fields=True):
    id: str


class Discard(msgspec.Struct, forbid_unknown_fields=True):
    """Dead letters that died before a moment; counts only, unless `apply`."""

    before: str
    queue: str | None = None
    apply: bool = False


@dataclass(frozen=True)
class Action(Generic[T]):
    """Its address, what it is allowed as, what it is told, and what it does."""

    name: str
    allowed_as: str
    type: type[T]
    act: Callable[[fencepost.Store, T], Any]


def _told(outcomes: Iterable[tuple[int, str]]) -> dict[str, Any]:
    listed = [{"id": id_, "outcome": said} for id_, said in outcomes]
    return {"outcomes": listed, "counts": Counter(one["outcome"] for one in listed)}


def _replay(store: fencepost.Store, wanted: Replay) -> dict[str, Any]:
    if (wanted.messages is None) == (wanted.found is None):
        raise InvalidArgument("either messages are named, or a filter finds them")
    following = None
    if wanted.found is None:
        named: Iterable[Any] = Named(wanted.messages or []).seen
    else:
        named = page = wanted.found.page(store, "dead", PAGE)
        following = page.next
    outcomes = operator.replay(store, named, delay=wanted.delay, apply=wanted.apply)
    return {**_told(outcomes), "applied": wanted.apply, "next": following}


def _retry(store: fencepost.Store, wanted: Named) -> dict[str, Any]:
    return _told(operator.retry(store, wanted.seen, wanted.delay, wanted.note))


def _confirm(store: fencepost.Store, wanted: Named) -> dict[str, Any]:
    return _told(operator.confirm(store, wanted.seen, wanted.note))


def _cancel(store: fencepost.Store, wanted: Named) -> dict[str, Any]:
    return _told(operator.cancel(store, wanted.seen))


def _pause(store: fencepost.Store, wanted: OfQueue) -> dict[str, Any]:
    store.pause(wanted.queue)
    return {"queue": wanted.queue, "paused": True}


def _resume(store: fencepost.Store, wanted: OfQueue) -> dict[str, Any]:
    store.resume(wanted.queue)
    return {"queue": wanted.queue, "paused": False}


def _release(store: fencepost.Store, wanted: OfLane) -> dict[str, Any]:
    """`released` false: it did not stand still."""
    released = store.release_lane(wanted.queue, wanted.lane)
    return {"queue": wanted.queue, "lane": wanted.lane, "released": released}


def _cancel_run(store: fencepost.Store, wanted: OfRun) -> dict[str, Any]:
    return {"id": wanted.id, "outcome": operator.cancel_run(store, wanted.id)}


def _resume_run(store: fencepost.Store, wanted: OfRun) -> dict[str, Any]:
    return {"id": wanted.id, "outcome": operator.resume_run(store, wanted.id)}


def _discard(store: fencepost.Store, wanted: Discard) -> dict[str, Any]:
    """A slice; `more`: once more would find some."""
    count = store.purge(
        "dead",
        operator.moment(wanted.before),
        queue=wanted.queue,
        limit=SLICE,
        apply=wanted.apply,
    )
    return {"count": count, "applied": wanted.apply, "more": count == SLICE}


ACTIONS: Final[tuple[Action[Any], ...]] = (
    Action("replay", "replay", Replay, _replay),
    Action("retry", "retry", Named, _retry),
    Action("confirm", "confirm", Named, _confirm),
    Action("cancel", "cancel", Named, _cancel),
    Action("pause", "pause", OfQueue, _pause),
    Action("resume", "pause", OfQueue, _resume),
    Action("release", "release", OfLane, _release),
    Action("cancel-run", "cancel", OfRun, _cancel_run),
    Action("resume-run", "replay", OfRun, _resume_run),
    Action("discard", "discard", Discard, _discard),
)
