"""
The words that others have for the states of jobs and deliveries, beside ours in JSON: whoever read
theirs reads ours.
"""

from __future__ import annotations

from typing import Any, Final

import fencepost

__all__ = ["counted", "delivery"]

COUNTED: Final = {
    "jobs": (
        "job",
        {"queued": ("pending", "waiting"), "running": ("leased",)}
        | {"succeeded": ("done",), "failed": ("dead",)},
    ),
    "outbox": (
        "outbox",
        {"pending": ("pending", "waiting"), "sending": ("leased",), "sent": ("done",)}
        | {"failed": ("dead",), "delivery_unknown": ("unknown",)},
    ),
}
NOTES: Final = ("confirmed", "replayed")
STATUS: Final[dict[str, str]] = {
    "pending": "pending",
    "leased": "sending",
    "done": "sent",
    "dead": "failed",
    "unknown": "delivery_unknown",
    "cancelled": "cancelled",
}


def counted(told: dict[str, Any]) -> dict[str, dict[str, int]]:
    """
    All jobs and all deliveries by status, out of what `stats` says. What is tried again is counted
    with what was not tried yet.
    """
    return {
        name: {
            word: sum(
                queue[state]
                for queue in told["queues"].values()
                if queue["profile"] == profile
                for state in states
            )
            for word, states in words.items()
        }
        for name, (profile, words) in COUNTED.items()
    }


def delivery(message: fencepost.Message) -> dict[str, Any]:
    """A delivery: how it stands, when it is sent next, and how it failed; a note is no failure."""
    again = message.state == "pending" and message.attempt > 0
    failure = message.failure
    return {
        "status": "retrying" if again else STATUS[message.state],
        "attempts": message.attempt,
        "available_at": message.due,
        "updated_at": message.settled_at,
        "last_error": None if failure is None or failure.kind in NOTES else failure.text,
    }
