"""Workflows on the core as C gives it: one thin word for each thing that a test does with them."""

from __future__ import annotations

from typing import Any, NamedTuple

from fencepost._binding.calls import Core
from fencepost._binding.codes import FP
from fencepost._binding.flow import End, Flow, Parent, RecordPut, Start, Stored
from fencepost._binding.pack import Put
from harness_core import Held, define, lib, stats, take

__all__ = ["ARGS", "LEASE", "Scene", "begin", "keys", "scene", "start", "wake"]

ARGS = b'{"order":1}'
LEASE = 30_000_000


class Scene(NamedTuple):
    """A queue of wake-ups, and the kind of its runs."""

    core: Core
    flow: Flow
    queue: int
    kind: int

    def start(self, id: bytes = b"run", **said: Any) -> int:
        """A run; the id of its wake-up."""
        return start(self, id, **said)[0]

    def take(self, limit: int = 1) -> list[Held]:
        return take(self.core, self.queue, limit)

    def end(self, held: Held, verb: int, **said: Any) -> int:
        """Ends the pass that was taken with a wake-up: the answer."""
        assert held.key is not None
        end = End(held.key, held.token, verb)._replace(**said)
        return self.flow.end(None, (), [end])[1][0]

    def record(self, held: Held, key: bytes, value: bytes | None = b"v", kind: int = 0) -> int:
        """A record of such a pass: the answer."""
        assert held.key is not None
        put = RecordPut(held.key, held.token, key, kind, value)
        return self.flow.record(None, [put])[0].answer

    def state(self, id: bytes = b"run") -> str | None:
        row = self.flow.get(id)
        return None if row is None else FP.RUN_STATES[row.state]

    def parent(self, held: Held, key: bytes = b"child") -> Parent:
        assert held.key is not None
        return Parent(held.key, held.token, key)

    def start_job(self, jobs: int, held: Held, key: bytes = b"child", **said: Any) -> int:
        """A job as the child of a run: its id."""
        return self.flow.start_job(None, Put(jobs, [b"body"], **said), self.parent(held, key))[0]

    def counts(self) -> tuple[int, int, int, int]:
        """Pending, waiting, leased, dead."""
        found = stats(self.core, self.queue)
        return found.pending, found.waiting, found.leased, found.dead


def scene(core: Core) -> Scene:
    queue = define(core, "workflow", lib.FP_PROFILE_WAKEUP)
    return Scene(core, Flow(core), queue, core.kind(None, b"refund"))


def start(at: Scene, id: bytes = b"run", **said: Any) -> tuple[int, bool]:
    return at.flow.start(None, Start(at.queue, at.kind, id, ARGS)._replace(**said))


def begin(core: Core) -> tuple[Scene, Held]:
    """A run whose pass is on."""
    at = scene(core)
    at.start()
    return at, at.take()[0]


def keys(records: object) -> list[bytes]:
    assert hasattr(records, "__iter__")
    return [one.key for one in records if isinstance(one, Stored)]


def wake(at: Scene, id: bytes = b"run", key: bytes = b"signal:go") -> bool:
    """A signal; whether it was the first."""
    return at.flow.arrive(None, id, key, b"value")[1]
