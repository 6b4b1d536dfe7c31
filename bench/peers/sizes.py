"""How much is measured, and the payloads that it is measured with."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

__all__ = ["REAL", "TINY", "Sizes", "write_bodies"]


@dataclass(frozen=True, slots=True)
class Sizes:
    rounds: int
    warm: int  # puts before all: the WAL has its length then, and is written over
    puts: int  # one at a time
    takes: int
    shared: int  # puts of all threads together
    batches: int
    batch: int
    backlog: int
    from_backlog: int
    jobs: int  # in line when the worker begins
    work_rounds: int
    work_ms: int  # after which it is ended, if there is anything left
    wake_rounds: int
    rings: int
    gap_ms: int
    settle_ms: int  # what begins, ends its beginning
    idle_ms: int

    @property
    def bodies(self) -> int:
        """As many as one file holds at most, and what is put beside it."""
        filled = self.warm + self.puts + 2 * self.shared + self.batches * self.batch
        return max(filled, self.backlog, self.jobs, self.rings)


REAL = Sizes(
    rounds=5,
    warm=400,
    puts=300,
    takes=200,
    shared=480,
    batches=5,
    batch=1000,
    backlog=100_000,
    from_backlog=40,
    jobs=20_000,
    work_rounds=3,
    work_ms=2500,
    wake_rounds=2,
    rings=25,
    gap_ms=50,
    settle_ms=300,
    idle_ms=1500,
)
TINY = Sizes(
    rounds=1,
    warm=3,
    puts=8,
    takes=5,
    shared=16,
    batches=2,
    batch=10,
    backlog=50,
    from_backlog=4,
    jobs=20,
    work_rounds=1,
    work_ms=1000,
    wake_rounds=1,
    rings=3,
    gap_ms=2,
    settle_ms=10,
    idle_ms=10,
)


def write_bodies(path: Path, count: int) -> float:
    """One payload on each line; how many bytes each has in the mean."""
    lines = [
        json.dumps(
            {
                "number": number,
                "customer": f"customer-{number % 977}@example.com",
                "amount": round(number * 1.37 % 500, 2),
                "items": ["tea", "honey", "lemon"],
                "paid": number % 3 == 0,
                "note": "Please leave the parcel with the neighbours if nobody is at home.",
            },
            separators=(",", ":"),
        )
        for number in range(count)
    ]
    text = "\n".join(lines) + "\n"
    path.write_text(text, encoding="utf-8")
    return len(text) / count - 1
