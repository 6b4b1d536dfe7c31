"""What the demo's file says at the end: counted, not remembered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import fencepost


class Region(NamedTuple):
    name: str
    reports: int
    strongest: float
    place: str


class Count(NamedTuple):
    reports: int  # lines of the data
    deliveries: int
    redeliveries: int
    lost: int  # reports that were never applied
    twice: int  # reports that were applied more than once
    regions: list[Region]  # most reports first

    @property
    def right(self) -> bool:
        summed = sum(region.reports for region in self.regions)
        return self.lost == 0 and self.twice == 0 and summed == self.reports


def count(store: fencepost.Store, ids: Sequence[str]) -> Count:
    """Compare what was applied with the ids that were to be."""
    with store.transaction() as tx:
        rows = tx.execute("SELECT quake, count(*), max(attempt) FROM applied GROUP BY quake")
        regions = tx.execute("SELECT * FROM region ORDER BY reports DESC, name")
    applied = {quake: times for quake, times, _ in rows}
    deliveries = sum(attempts for _, _, attempts in rows)
    return Count(
        reports=len(ids),
        deliveries=deliveries,
        redeliveries=deliveries - len(applied),
        lost=sum(quake not in applied for quake in ids),
        twice=sum(times > 1 for times in applied.values()),
        regions=[Region(*row) for row in regions],
    )
