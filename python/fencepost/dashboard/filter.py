"""Which messages are meant: what a listing, and an action on all that it finds, may be told."""

from __future__ import annotations

import msgspec

import fencepost
from fencepost import _operator as operator

__all__ = ["Filter"]


class Filter(msgspec.Struct, forbid_unknown_fields=True):
    """Of one state; a page at a time, whose `next` is the `after` of the one behind it."""

    queue: str | None = None
    kind: str | None = None
    failure: fencepost.FailureKind | None = None
    lane: str | None = None
    since: str | None = None
    before: str | None = None
    after: str | None = None

    def page(self, store: fencepost.Store, state: fencepost.State, limit: int) -> fencepost.Page:
        return store.messages(
            state,
            queue=self.queue,
            kind=self.kind,
            failure=self.failure,
            lane=self.lane,
            since=None if self.since is None else operator.moment(self.since),
            before=None if self.before is None else operator.moment(self.before),
            after=self.after,
            limit=limit,
        )
