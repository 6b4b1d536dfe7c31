"""
All queues in one run: each in a process of its own, in rounds that alternate.

What goes wrong with one of them is written down and does not stop the others. Processes are ended
by their id.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench._rounds import rotated
from bench.peers.sizes import Sizes, write_bodies

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Failed", "Race", "Runner"]

ANSWER_MAX = 60  # seconds for one order; a queue that takes longer has hung
Answer = dict[str, Any]


class Failed(Exception):
    """What a queue, or its adapter, answered instead of figures."""


class Runner:
    """One queue's process."""

    def __init__(
        self, command: Sequence[str], folder: Path, name: str, env: Mapping[str, str]
    ) -> None:
        self.counted = folder / f"{name}.syncs"
        self.counted.write_bytes(bytes(8))
        self.log = folder / f"{name}.log"
        self.buffer = b""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **env, "FENCEPOST_BENCH_SYNCS": str(self.counted)},
            )
        self.about: Answer = {}

    def greet(self) -> Runner:
        """Read what the process says of itself, once it has begun."""
        self.about = self.answer()
        return self

    def syncs(self) -> int:
        """How many calls of the process have waited for the disk."""
        return int.from_bytes(self.counted.read_bytes()[:8], "little")

    def answer(self) -> Answer:
        assert self.process.stdout
        fd, last = self.process.stdout.fileno(), time.monotonic() + ANSWER_MAX
        while b"\n" not in self.buffer:
            ready, _, _ = select.select([fd], [], [], max(0, last - time.monotonic()))
            if not ready:
                self.end()
                raise Failed(f"no answer in {ANSWER_MAX} seconds")
            read = os.read(fd, 1 << 16)
            if not read:
                self.end()
                said = self.log.read_text(encoding="utf-8", errors="replace").strip()
                raise Failed(f"the process ended: {said.splitlines()[-1] if said else '-'}")
            self.buffer += read
        line, _, self.buffer = self.buffer.partition(b"\n")
        found: Answer = json.loads(line)
        if "error" in found:
            raise Failed(found["error"])
        return found

    def order(self, *words: object) -> Answer:
        """Ask, and wait for the answer; with the calls that waited for the disk meanwhile."""
        assert self.process.stdin
        before = self.syncs()
        try:
            self.process.stdin.write((" ".join(map(str, words)) + "\n").encode())
            self.process.stdin.flush()
        except OSError as error:
            raise Failed(f"the process is gone: {error}") from error
        answer = self.answer()
        return {**answer, "syncs": self.syncs() - before}

    def end(self) -> None:
        """Let it go; and make it, if it does not."""
        assert self.process.stdout
        assert self.process.stdin
        with suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class Race:
    """
    `commands` say how the process of each queue is begun, with the path of the bodies as a last
    argument. `figures[sync][operation][queue]` become lists, an answer for each round.
    """

    def __init__(
        self,
        commands: Mapping[str, Sequence[str]],
        folder: Path,
        sizes: Sizes,
        *,
        env: Mapping[str, str],
        until: float,
        say: Callable[[str], None] = print,
    ) -> None:
        self.commands, self.folder, self.sizes, self.env = commands, folder, sizes, env
        self.until, self.say = until, say
        self.bodies = folder / "bodies"
        self.body_bytes = write_bodies(self.bodies, sizes.bodies)
        self.runners: dict[str, Runner] = {}
        self.figures: dict[str, dict[str, dict[str, list[Answer]]]] = {}
        self.failures: dict[str, dict[str, str]] = {}
        self.wal_bytes = 0
        self.cut_short = False

    def __enter__(self) -> Self:
        begun = {name: self.runner(name) for name in self.commands}
        for name, runner in begun.items():
            with self.excused(name, "start"):
                self.runners[name] = runner.greet()
        return self

    def __exit__(self, *exc: object) -> None:
        for runner in self.runners.values():
            runner.end()

    def runner(self, name: str, role: str = "") -> Runner:
        command = [*self.commands[name], str(self.bodies)]
        return Runner(command, self.folder, name + role, self.env)

    def about(self) -> dict[str, Answer]:
        return {name: runner.about for name, runner in self.runners.items()}

    # ---- what may go wrong -----------------------------------------------------------------------

    def excused(self, name: str, what: str) -> _Excused:
        return _Excused(self, name, what)

    def late(self) -> bool:
        """Whether the time that was given is up; then what is left is left out."""
        if time.monotonic() > self.until:
            self.cut_short = True
        return self.cut_short

    def fresh(self, name: str) -> Path:
        place = self.folder / f"{name}.files"
        shutil.rmtree(place, ignore_errors=True)
        return place

    def recorded(self, name: str, sync: str, as_: str, *words: object) -> None:
        found = self.runners[name].order(*words)
        operations = self.figures.setdefault(sync, {})
        operations.setdefault(as_, {}).setdefault(name, []).append(found)

    def able(self, sync: str, *offers: str) -> list[str]:
        """Who is still with us, and offers one of these."""
        return [
            name
            for name, runner in self.runners.items()
            if runner.process.returncode is None
            and sync in runner.about["syncs"]
            and set(offers) & set(runner.about["offers"])
        ]

    # ---- the rounds ------------------------------------------------------------------------------

    def alternate(
        self, what: str, names: Iterable[str], rounds: int, one: Callable[[str], None]
    ) -> None:
        names = list(names)
        for number in range(rounds):
            if not names or self.late():
                break
            self.say(f"{what}, round {number + 1} of {rounds}")
            for name in rotated(names, number):
                if name in self.failures and what in self.failures[name]:
                    continue
                with self.excused(name, what):
                    one(name)
                shutil.rmtree(self.folder / f"{name}.files", ignore_errors=True)

    def puts_and_takes(self, sync: str) -> None:
        """
        On a new file in each round: singles, threads, batches; and what is left is counted.

        The first pages of a WAL cost more than those that are written over: everybody pays for
        them before the clocks run.
        """
        sizes = self.sizes

        def one(name: str) -> None:
            runner = self.runners[name]
            offers = runner.about["offers"]
            runner.order("open", sync, 0, self.fresh(name))
            runner.order("put", sizes.warm)
            self.recorded(name, sync, "put", "put", sizes.puts)
            if "take" in offers:
                self.recorded(name, sync, "take", "take", sizes.takes)
            for threads in (4, 16) if "threads" in offers else ():
                self.recorded(name, sync, f"threads {threads}", "threads", sizes.shared, threads)
            if "many" in offers:
                number = sizes.batches * sizes.batch
                self.recorded(name, sync, "many", "many", number, sizes.batch)
            if "pages" in offers:
                self.recorded(name, sync, "bare", "bare", sizes.puts)
                pages = ("pages", sizes.batches, self.wal_bytes)
                runner.order(*pages)  # from now on the file has its length
                self.recorded(name, sync, "pages", *pages)
                self.figures[sync]["pages"][name][-1]["done"] *= sizes.batch
            runner.order("count")
            runner.order("close")

        self.alternate(f"{sync}: puts and takes", self.able(sync, "put"), sizes.rounds, one)

    def measure_wal(self, name: str) -> None:
        """How many bytes one batch of ours writes: as many are written to a bare file."""
        runner = self.runners[name]
        place = self.fresh(name)
        runner.order("open", "normal", 0, place)
        runner.order("put", 1)
        [wal] = place.glob("*-wal")
        before = wal.stat().st_size
        runner.order("many", self.sizes.batch, self.sizes.batch)
        self.wal_bytes = wal.stat().st_size - before
        runner.order("close")

    def templates(self, number: int, names: Iterable[str], word: str) -> list[str]:
        """Folders with so many messages in line, filled once, of which each round gets a copy."""
        made: list[str] = []

        def one(name: str) -> None:
            runner = self.runners[name]
            place = self.folder / f"{name}.{word}"
            runner.order("open", "normal", 0, place)
            if "many" in runner.about["offers"]:
                runner.order("many", number, 1000)
            else:
                runner.order("put", number)
            runner.order("count")
            runner.order("close")
            made.append(name)

        self.alternate(f"{number} in line", names, 1, one)
        return made

    def copied(self, name: str, sync: str, number: int, word: str) -> None:
        place = self.fresh(name)
        shutil.copytree(self.folder / f"{name}.{word}", place)
        self.runners[name].order("open", sync, number, place)

    def backlog(self, syncs: Sequence[str]) -> None:
        """Claim and ack, one at a time, from a long line."""
        sizes = self.sizes
        able = [name for name in self.able("normal", "take") if self.offers(name, "many")]
        made = self.templates(sizes.backlog, able, "backlog")

        def one(name: str) -> None:
            self.copied(name, sync, sizes.backlog, "backlog")
            self.recorded(name, sync, "take from many", "take", sizes.from_backlog)
            self.runners[name].order("close")

        for sync in syncs:
            able = [name for name in made if name in self.able(sync, "take")]
            self.alternate(f"{sync}: takes from a long line", able, sizes.work_rounds, one)
        for name in made:
            shutil.rmtree(self.folder / f"{name}.backlog")

    def offers(self, name: str, word: str) -> bool:
        return word in self.runners[name].about["offers"]

    def workers(self, syncs: Sequence[str]) -> None:
        """One worker thread, a handler that does nothing, and a line of jobs."""
        sizes = self.sizes
        made = self.templates(sizes.jobs, self.able("normal", "work"), "jobs")

        def one(name: str) -> None:
            self.copied(name, sync, sizes.jobs, "jobs")
            self.recorded(name, sync, "work", "work", sizes.work_ms)
            self.runners[name].order("count")
            self.runners[name].order("close")

        for sync in syncs:
            able = [name for name in made if name in self.able(sync, "work")]
            self.alternate(f"{sync}: workers", able, sizes.work_rounds, one)

    def wakeups(self, sync: str) -> None:
        """A worker waits in one process, another one puts: when does the handler begin?"""
        sizes = self.sizes

        def one(name: str) -> None:
            place, worker = self.fresh(name), self.runners[name]
            worker.order("open", sync, 0, place)
            worker.order("listen")
            putter = self.runner(name, "-putter")
            try:
                putter.greet()
                putter.order("open", sync, 0, place)
                time.sleep(sizes.settle_ms / 1000)
                self.recorded(name, sync, "idle", "idle", sizes.idle_ms)
                rung = dict(putter.order("ring", sizes.rings, sizes.gap_ms)["rung"])
                heard = worker.order("hear", sizes.rings)["heard"]
                putter.order("close")
            finally:
                putter.end()
            worker.order("close")
            late = [max(0, at - rung[number]) for number, at in heard]
            wakes = self.figures[sync].setdefault("wake", {})
            wakes.setdefault(name, []).append({"late": late})

        able = self.able(sync, "listen")
        self.alternate(f"{sync}: wake-ups", able, sizes.wake_rounds, one)


class _Excused:
    """What fails in here is written down; the process begins anew, for what comes next."""

    def __init__(self, race: Race, name: str, what: str) -> None:
        self.race, self.name, self.what = race, name, what

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Failed | OSError):
            return False
        race, name = self.race, self.name
        race.failures.setdefault(name, {})[self.what] = str(error)
        race.say(f"  {name}: {error}")
        if name in race.runners:
            race.runners.pop(name).end()
            with suppress(Failed, OSError):
                race.runners[name] = race.runner(name).greet()
        return True
