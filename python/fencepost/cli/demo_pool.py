"""The demo's worker processes, and the eye on the file that tells when to kill one."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import click

import fencepost
from fencepost.cli import demo_app
from fencepost.cli.supervise import STOPPED_WELL, Lifeline

LOOK_SECONDS = 0.02  # between two looks at the file
PATIENCE_SECONDS = 30.0  # with nothing applied, before the demo gives up


class Pool:
    """The worker processes. They die with the demo, however it ends; what they log is in `log`."""

    def __init__(self, path: str, size: int) -> None:
        self.log = Path(f"{path}.log")
        self._arguments = ["--database", path, "work", f"{demo_app.__name__}:app", "--threads", "1"]
        self._lifeline = Lifeline()
        self._workers = [self._start() for _ in range(size)]

    def __len__(self) -> int:
        return len(self._workers)

    def _start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return self._lifeline.start(self._arguments, log)

    def kill(self) -> int:
        """SIGKILL the one that has run longest; start another."""
        victim = self._workers.pop(0)
        victim.kill()
        victim.wait()
        self._workers.append(self._start())
        return victim.pid

    def check(self) -> None:
        """Nobody but the demo ends a worker."""
        for worker in self._workers:
            if worker.poll() is not None:
                raise click.ClickException(
                    f"worker {worker.pid} ended with {worker.returncode}: see {self.log}"
                )

    def stop(self) -> None:
        """Ask all to stop, and see that they do."""
        for worker in self._workers:
            worker.send_signal(signal.SIGTERM)
        for worker in self._workers:
            if (code := worker.wait(timeout=PATIENCE_SECONDS)) not in STOPPED_WELL:
                raise click.ClickException(f"a worker stopped with {code}: see {self.log}")


class Watch:
    """Looks at the file until it says what is waited for; tells how much is applied meanwhile."""

    def __init__(self, store: fencepost.Store, pool: Pool, tell: Callable[[int], None]) -> None:
        self._store = store
        self._pool = pool
        self._tell = tell

    def busy(self) -> bool:
        """Whether all workers hold something: more is leased than all but one of them could."""
        counts: dict[str, int] = self._store.stats()["queues"][demo_app.quakes.name]
        others = (len(self._pool) - 1) * demo_app.BATCH
        return counts["leased"] > others or counts["pending"] == 0

    def left(self) -> int:
        return demo_app.quakes.at(self._store).size()

    def until(self, fact: Callable[[int], bool]) -> int:
        """
        Wait until `fact(applied)` holds; how many reports were applied then.

        Gives up when a worker ended by itself, or when nothing moves any more.
        """
        applied, moved = self._applied(), time.monotonic()
        while not fact(applied):
            self._pool.check()
            time.sleep(LOOK_SECONDS)
            before, applied = applied, self._applied()
            if applied != before:
                moved = time.monotonic()
            elif time.monotonic() - moved > PATIENCE_SECONDS:
                raise click.ClickException(f"nothing moves any more: see {self._pool.log}")
        return applied

    def _applied(self) -> int:
        with self._store.transaction() as tx:
            applied = int(tx.execute("SELECT count(*) FROM applied")[0][0])
        self._tell(applied)
        return applied
