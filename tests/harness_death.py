"""Workers of their own process that hold claims until they are killed."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from fencepost._binding.calls import Core
from harness_core import SECOND, Held, look_after, message, take
from harness_processes import heard, start

HOUR = 3600 * SECOND

# Says what it holds, and holds it until its input ends.
HOLDER = """
limit, close = map(int, sys.argv[2:])
with opened(path, hand_us=-1) as core:
    queue = define(core, "q")
    held = take(core, queue, limit, lease_us=3600 * 1_000_000)
    say([[claim.id, claim.token, claim.attempt] for claim in held])
    sys.stdin.read()
    if not close:
        os._exit(0)
"""


class Holder:
    """A process with claims whose leases are an hour."""

    def __init__(self, path: Path, limit: int = 1, *, close: bool = False) -> None:
        self.process = start(HOLDER, path, limit, int(close))
        self.claims: list[list[int]] = heard(self.process)

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self) -> None:
        kill(self.process)

    def end(self) -> None:
        """By itself."""
        assert self.process.communicate(timeout=60)
        assert self.process.returncode == 0


def kill(process: subprocess.Popen[str]) -> None:
    """SIGKILL, and wait until it is gone."""
    process.kill()
    process.wait()


def claimed(core: Core, queue: int, count: int = 1, **options: Any) -> list[Held]:
    """So many claims, however long they let wait for themselves."""
    found: list[Held] = []
    until = core.now() + 60 * SECOND
    while len(found) < count:
        assert core.now() < until, f"{len(found)} of {count} came"
        found += take(core, queue, count - len(found), until_us=core.now() + SECOND, **options)
    return found


def look_after_all(core: Core) -> None:
    """Until nothing more is to be taken over."""
    while look_after(core):
        pass


def due(core: Core, id_: int) -> int:
    found = message(core, id_)
    assert found is not None
    return found.due
