"""
The one shape in which all queues are measured, and who they are.

A module of `bench.peers.adapters` has the ADAPTERS of one queue. It uses what the queue's own
documentation says to use, and sets nothing but where the file is and how durable a commit is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TypeVar

__all__ = [
    "ALL",
    "LEASE",
    "MODULES",
    "Adapter",
    "Handler",
    "Payload",
    "Peer",
    "adapter",
    "loop",
    "when",
]

LEASE = 30  # seconds, where a queue has leases
MODULES = {
    "fencepost": "ours",
    "fencepost-job": "ours",
    "hand": "hand",
    "hand-100": "hand",
    "hand-1ms": "hand",
    "hand-50ms": "hand",
    "honker": "honker",
    "huey": "huey",
    "litequeue": "litequeue",
    "localqueue": "localqueue",
    "persist-queue": "persistqueue",
    "simplebroker": "simplebroker",
}

ALL = ("put", "many", "take", "threads", "work", "listen")
Payload = dict[str, Any]
Handler = Callable[[Payload], None]
P = TypeVar("P")


class Peer(Protocol):
    """
    One queue in one folder, opened with one durability.

    What its adapter does not offer, it need not have.
    """

    def put(self, payload: Payload, /) -> object:
        """Committed when it returns; from any thread."""

    def put_many(self, payloads: Sequence[Payload], /) -> object:
        """In one commit."""

    def take(self) -> Payload | None:
        """Claim one, look at its payload, and ack it."""

    def count(self) -> int:
        """How many were put and not yet acked."""

    def work(self, handler: Handler, stop: threading.Event) -> None:
        """One thread that runs the handler on each message, and acks it; until `stop` is set."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Adapter:
    """
    Which queue it is. `package` is its name on PyPI, none for what is in this tree; `default` is
    the `synchronous` that it has if nobody says otherwise, `syncs` those that it can be told to
    have; `acks` what becomes of a message whose worker dies; `offers` the orders it can carry out,
    where `listen` is for workers that notice what other processes put.
    """

    title: str
    package: str | None
    open: Callable[[Path, str], Any]
    default: str
    acks: str
    syncs: Sequence[str] = ("full", "normal")
    offers: Sequence[str] = ALL


def adapter(name: str) -> Adapter:
    """Its queue must be installed."""
    found: dict[str, Adapter] = import_module(f"bench.peers.adapters.{MODULES[name]}").ADAPTERS
    return found[name]


def when(stop: threading.Event, call: Callable[[], object]) -> None:
    """Call it when `stop` is set."""

    def wait() -> None:
        stop.wait()
        call()

    threading.Thread(target=wait, daemon=True).start()


def loop(
    claim: Callable[[], tuple[Any, P] | None],
    ack: Callable[[Any], object],
    handler: Callable[[P], None],
    stop: threading.Event,
    nap: float,
) -> None:
    """The worker of a queue that has none: one at a time, and a nap when there is none."""
    while not stop.is_set():
        claimed = claim()
        if claimed is None:
            stop.wait(nap)
        else:
            handler(claimed[1])
            ack(claimed[0])
