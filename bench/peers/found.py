"""What a run found: medians over the rounds, and ratios within each round."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

__all__ = ["HAND", "OURS", "OUR_JOB", "RAW", "Found", "ratio"]

OURS, OUR_JOB, HAND, RAW = "fencepost", "fencepost-job", "hand", "raw"
Round = dict[str, Any]


class Found:
    """The JSON of a run, with what is asked of it. None where the run does not tell."""

    def __init__(self, run: dict[str, Any]) -> None:
        self.run = run
        self.about: dict[str, dict[str, Any]] = run["about"]
        own = {"this tree", self.about.get(RAW, {}).get("version")}
        self.peers = [name for name, about in self.about.items() if about["version"] not in own]
        self.acking = [name for name in self.peers if "no ack" not in self.about[name]["acks"]]

    def title(self, name: str) -> str:
        return str(self.about[name]["title"])

    def rounds(self, sync: str, operation: str, name: str) -> list[Round]:
        operations: dict[str, dict[str, list[Round]]] = self.run["figures"].get(sync, {})
        return operations.get(operation, {}).get(name, [])

    def rates(self, sync: str, operation: str, name: str) -> list[float]:
        """Messages per second, of each round."""
        return [one["done"] / one["wall"] * 1e9 for one in self.rounds(sync, operation, name)]

    def rate(self, sync: str, operation: str, name: str) -> float | None:
        return middle(self.rates(sync, operation, name))

    def cpus(self, sync: str, operation: str, name: str) -> list[float]:
        """Microseconds per message, of each round."""
        return [
            one["cpu"] / one["done"] / 1e3
            for one in self.rounds(sync, operation, name)
            if one["done"]
        ]

    def cpu(self, sync: str, operation: str, name: str) -> float | None:
        return middle(self.cpus(sync, operation, name))

    def waits(self, sync: str, operation: str, name: str) -> float | None:
        """For the disk, per message."""
        rounds = self.rounds(sync, operation, name)
        return middle([one["syncs"] / one["done"] for one in rounds if one["done"]])

    def failed(self, sync: str, operation: str, name: str) -> int:
        return sum(one.get("failed", 0) for one in self.rounds(sync, operation, name))

    def times(self, sync: str, operation: str, name: str, other: str) -> float | None:
        """How many times as fast as the other, by the wall."""
        return ratio(self.rates(sync, operation, name), self.rates(sync, operation, other))

    def best(self, sync: str, operation: str, names: Sequence[str]) -> str | None:
        rated = [(rate, name) for name in names if (rate := self.rate(sync, operation, name))]
        return max(rated)[1] if rated else None

    def late_ms(self, name: str, part: float) -> float | None:
        """From a commit to the handler, for this part of all messages at most."""
        rounds = self.rounds("normal", "wake", name)
        late = sorted(ns / 1e6 for one in rounds for ns in one["late"])
        return late[min(len(late) - 1, int(len(late) * part))] if late else None

    def idle(self, name: str) -> float | None:
        """What a worker that waits takes of one core, in percent."""
        rounds = self.rounds("normal", "idle", name)
        return middle([one["cpu"] / one["wall"] * 100 for one in rounds])


def middle(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def ratio(mine: Sequence[float], its: Sequence[float]) -> float | None:
    """The median of the ratios within a round."""
    both = zip(mine, its, strict=False)  # one of them may have failed in a later round
    return middle([one / other for one, other in both if other])
