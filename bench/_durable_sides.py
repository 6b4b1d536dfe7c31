"""
The sides of bench_workflow.py: the same workflow of three steps, by hand on the standard library,
by `App.workflow`, and where Python has it by `without-durability`, over its own store and over
ours.
"""

from __future__ import annotations

import asyncio
import importlib.util
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import _durable_hand
import fencepost
from _durable_hand import HandDurable
from fencepost._binding.flow import Flow, RecordPut

__all__ = ["SIDES", "STEPS", "Side"]

STEPS = ("reserve", "charge", "send")
POOL = 20
HAS_ORIGIN = all(
    importlib.util.find_spec(name) for name in ("without_durability", "without_durability_sqlite")
)
MINUTE_US = 60_000_000


def value(step: str, number: int) -> dict[str, Any]:
    return {"step": step, "order": number}


def commits(path: Path) -> int:
    """
    How often the file was committed to, as its WAL-index counts: bytes 8 to 12 of its header.

    Read by another process: closing a file drops the locks that this one's SQLite has on it.
    """
    program = "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read(12)[8:])"
    command = [sys.executable, "-I", "-S", "-c", program, f"{path}-shm"]
    done = subprocess.run(command, check=True, capture_output=True)
    return int(struct.unpack("=I", done.stdout)[0])


class Side:
    """
    One way to have workflows on a file. `run(numbers, at_a_time)` starts workflows and waits until
    all their records are durable; `began(number)` is when the first step of one began.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.starts: dict[int, float] = {}

    def record(self, count: int, at_a_time: int) -> None:
        """So many records, in `at_a_time` workflows at the same time."""
        raise NotImplementedError

    def start(self, number: int) -> None:
        raise NotImplementedError

    def wait(self, number: int) -> None:
        raise NotImplementedError

    @contextmanager
    def working(self) -> Iterator[None]:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def run(self, numbers: range, at_a_time: int) -> None:
        def one(number: int) -> None:
            self.start(number)
            self.wait(number)

        if at_a_time == 1:
            for number in numbers:
                one(number)
        else:
            with ThreadPoolExecutor(at_a_time) as threads:
                list(threads.map(one, numbers))

    def commits(self) -> int:
        return commits(self.path)


def in_threads(work: Callable[[int], None], count: int) -> None:
    with ThreadPoolExecutor(count) as threads:
        list(threads.map(work, range(count)))


class ByHand(Side):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._durable = HandDurable(path)
        self._ended: dict[int, threading.Event] = {}

    def record(self, count: int, at_a_time: int) -> None:
        def some(which: int) -> None:
            self._durable.make_ready(f"r{which}")
            held = None
            while held is None:
                held = self._durable.take()
            for number in range(count // at_a_time):
                self._durable.record(held, f"step {number}", value("step", number))

        in_threads(some, at_a_time)

    def start(self, number: int) -> None:
        self._ended[number] = threading.Event()
        self._durable.make_ready(str(number))

    def wait(self, number: int) -> None:
        assert self._ended[number].wait(60)

    @contextmanager
    def working(self) -> Iterator[None]:
        over = threading.Event()

        def body(durable: HandDurable, held: _durable_hand.Pass) -> None:
            number = int(held.workflow)
            self.starts[number] = time.perf_counter()
            found = durable.load(held.workflow)
            for step in STEPS:
                if step not in found:
                    durable.record(held, step, value(step, number))
            self._ended[number].set()

        args = (self._durable, body, POOL, over)
        worker = threading.Thread(target=_durable_hand.work, args=args)
        worker.start()
        try:
            yield
        finally:
            over.set()
            worker.join()

    def close(self) -> None:
        self._durable.close()


class Ours(Side):
    """`App.workflow`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._app = fencepost.App(path)
        self._handles: dict[int, Any] = {}

        async def three(run: Any, number: int) -> int:
            self.starts.setdefault(number, time.perf_counter())
            for step in STEPS:
                await run.step(step, value, step, number)
            return number

        self._workflow: Any = self._app.workflow(three)

    def record(self, count: int, at_a_time: int) -> None:
        flow = Flow(self._app.store._file.core)
        encode = self._app.store._file.codec.encode

        def some(which: int) -> None:
            name = b"r%d" % which
            token = flow.claim(name, 5 * MINUTE_US, MINUTE_US)
            for number in range(count // at_a_time):
                body = encode(value("step", number))
                flow.record(None, [RecordPut(name, token, b"step %d" % number, 0, body)])

        in_threads(some, at_a_time)

    def start(self, number: int) -> None:
        self._handles[number] = self._workflow.start(number)

    def wait(self, number: int) -> None:
        assert self._handles.pop(number).result(60) == number

    @contextmanager
    def working(self) -> Iterator[None]:
        with self._app.worker(threads=POOL):
            yield

    def close(self) -> None:
        self._app.store.close()


class Origin(Side):
    """`without-durability`, over whichever stores are given; its loop has a thread of its own."""

    def __init__(self, path: Path, make: Callable[[Path], Any]) -> None:
        super().__init__(path)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._ended: dict[int, threading.Event] = {}
        self._durable = self._await(self._made(make))

    async def _made(self, make: Callable[[Path], Any]) -> Any:
        durable = make(self.path)
        await durable.scheduler.prepare()
        return durable

    def _await(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def record(self, count: int, at_a_time: int) -> None:
        async def some(which: int) -> None:
            records = self._durable.checkpointer
            held = await records.claim(f"r{which}", timedelta(minutes=5), timedelta(minutes=1))
            for number in range(count // at_a_time):
                await records.record(held, f"step {number}", value("step", number))

        async def all_of_them() -> None:
            await asyncio.gather(*map(some, range(at_a_time)))

        self._await(all_of_them())

    def start(self, number: int) -> None:
        self._ended[number] = threading.Event()
        self._await(self._durable.scheduler.make_ready(str(number)))

    def wait(self, number: int) -> None:
        assert self._ended[number].wait(60)

    @contextmanager
    def working(self) -> Iterator[None]:
        from without_durability import work

        async def body(run: Any) -> None:
            number = int(run.holder.workflow)
            self.starts.setdefault(number, time.perf_counter())

            async def effect(step: str) -> dict[str, Any]:
                return value(step, number)

            for step in STEPS:
                await run.step(step, lambda step=step: effect(step), lambda found: found)
            self._ended[number].set()

        async def begin() -> asyncio.Task[Any]:
            return asyncio.ensure_future(work(self._durable, body))

        async def end(worker: asyncio.Task[Any]) -> None:
            worker.cancel()
            with suppress(asyncio.CancelledError):
                await worker

        worker = self._await(begin())
        try:
            yield
        finally:
            time.sleep(0.1)  # what is released and done after the last step is its own, too
            self._await(end(worker))

    def close(self) -> None:
        self._await(self._durable.checkpointer.database.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def its_own(path: Path) -> Any:
    import without_durability_sqlite as own

    database = own.connect(path)
    return own.SqliteDurable(own.SqliteCheckpointer(database), own.SqliteScheduler(database))


def over_ours(path: Path) -> Any:
    from fencepost.compat import without_durability as ours

    database = ours.connect(path)
    return ours.Durable(ours.Checkpointer(database), ours.Scheduler(database))


SIDES: dict[str, Callable[[Path], Side]] = {"by hand": ByHand}
if hasattr(fencepost.App, "workflow"):
    SIDES["fencepost"] = Ours
if HAS_ORIGIN:
    SIDES["without-durability"] = lambda path: Origin(path, its_own)
    SIDES["the same over fencepost"] = lambda path: Origin(path, over_ours)
