"""
Ends of all sorts: of a loop, of a thread's work, of a process, by a fork, a signal or a kill.
Nothing is lost, and nothing waits for ever.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fencepost
from commands import quiet_environment, until
from fencepost import Busy, Store
from harness_aio import line, run_on, spin, waiting

PROGRAM = Path(__file__).parent / "programs" / "p09_async.py"


# ---- loops and threads ---------------------------------------------------------------------------


def test_several_loops_share_one_store(real: Store) -> None:
    """In threads of their own, on either library; each gets its own answers."""
    pytest.importorskip("uvloop")
    queue = real.queue("q", int)
    before = set(threading.enumerate())
    found: list[list[int]] = [[] for _ in range(4)]

    async def calls(at: int) -> None:
        many = await asyncio.gather(*(queue.aio.enqueue(at) for _ in range(200)))
        found[at] = [one.id for one in many]

    loops = ["asyncio", "uvloop", "asyncio", "uvloop"]
    threads = [
        threading.Thread(target=lambda at=at: run_on(loops[at], calls(at))) for at in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(ids == sorted(ids) for ids in found)
    payload_of = {claim.id: claim.payload for claim in queue.claim(1000)}
    assert payload_of == {id_: at for at in range(4) for id_ in found[at]}
    ours = [one.name for one in set(threading.enumerate()) - before]
    assert ours == ["fencepost-writes-1"]


@pytest.mark.hostile
def test_a_loop_that_is_closed_meanwhile_stops_nobody(real: Store) -> None:
    """What it had called lands, claims go back, and other loops go on."""
    queue = real.queue("q", int)
    queue.enqueue(0)
    loop = asyncio.new_event_loop()
    begun = real._file.core.begin(30)
    tasks = [
        loop.create_task(queue.aio.claim()),
        loop.create_task(queue.aio.enqueue(1)),
        loop.create_task(queue.aio.enqueue(2)),
        loop.create_task(queue.aio.claim(wait=3600)),
    ]
    bridge = real._file.bridge
    loop.run_until_complete(spin(lambda: waiting(real) + len(bridge.writers._line) == 4))
    loop.close()
    begun.end(commit=True)

    async def after() -> list[int]:
        claims: list[Any] = []
        while len(claims) < 3:
            claims += await queue.aio.claim(9, wait=3600)
        return sorted(claim.payload for claim in claims)

    assert run_on("asyncio", after()) == [0, 1, 2]
    for task in tasks:
        task._log_destroy_pending = False  # type: ignore[attr-defined]


def test_threads_go_when_there_is_nothing_to_do(
    path: Path, monkeypatch: pytest.MonkeyPatch, run_async: Any
) -> None:
    """A store that nobody closed keeps none of them, and none of them keeps it; they come again."""
    monkeypatch.setattr("fencepost._binding.waiters.LINGER", 0.01)  # of stores that are opened now
    monkeypatch.setattr("fencepost._binding.watch.LINGER", 0.01)
    before = set(threading.enumerate())

    def ours() -> set[threading.Thread]:
        return set(threading.enumerate()) - before

    async def calls(store: Store) -> None:
        queue = store.queue("q", int)
        task = asyncio.create_task(queue.aio.claim(wait=3600))
        await spin(lambda: bool(line(store, queue).waiting))
        await queue.aio.enqueue(1)
        await task
        await store.aio.stats()

    store = fencepost.open(path)
    for _ in range(2):
        run_async(calls(store))
        until(lambda: not ours())
    dead = weakref.ref(store)
    del store

    def gone() -> bool:
        gc.collect()
        return dead() is None

    until(gone)


def test_no_thread_to_be_had_is_told(
    real: Store, monkeypatch: pytest.MonkeyPatch, run_async: Any
) -> None:
    """And the next call tries again."""
    queue = real.queue("q", int)
    queue.enqueue(0)
    start = threading.Thread.start

    async def calls() -> None:
        monkeypatch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(RuntimeError, match="can't start"):
            await queue.aio.enqueue(1)
        with pytest.raises(RuntimeError, match="can't start"):
            await real.aio.stats()
        with pytest.raises(RuntimeError, match="can't start"):
            await real._file.bridge.end(1, None)
        assert not real._file.bridge.watch._ending
        monkeypatch.setattr(threading.Thread, "start", start)
        await queue.aio.enqueue(2)
        await real.aio.stats()
        claims = await queue.aio.claim(9)
        monkeypatch.setattr(threading.Thread, "start", no_thread)
        assert await queue.aio.claim(wait=3600) == []  # nobody would wake it
        monkeypatch.setattr(threading.Thread, "start", start)
        assert [claim.payload for claim in claims] == [0, 2]

    run_async(calls())


def no_thread(_thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_busy_is_told_when_the_patience_is_over(path: Path, run_async: Any) -> None:
    """Each of them, in the words that a thread would get; afterwards all is well."""

    async def calls() -> None:
        with fencepost.open(path) as holder, fencepost.open(path, busy_timeout=0) as store:
            queue = store.queue("q", int)
            queue.enqueue(0)
            with holder.transaction():
                found = await asyncio.gather(
                    *(queue.aio.enqueue(n) for n in range(3)), return_exceptions=True
                )
            assert [type(one) for one in found] == [Busy] * 3
            assert "write lock" in str(found[0])
            assert (await queue.aio.enqueue(4)).created
            assert await queue.aio.size() == 2

    run_async(calls())


def test_patience_begins_anew_with_each_try(
    path: Path, monkeypatch: pytest.MonkeyPatch, run_async: Any
) -> None:
    """Whoever has waited long for a message is not told `Busy` because of that."""

    async def calls() -> None:
        with fencepost.open(path) as holder, fencepost.open(path, busy_timeout=0) as store:
            queue, bridge = store.queue("q", int), store._file.bridge
            again: list[int] = []
            put = bridge.writers.put

            def noted(waiters: Any, *, first: bool = False) -> None:
                again.extend([len(waiters)] if first else [])
                put(waiters, first=first)

            monkeypatch.setattr(bridge.writers, "put", noted)
            task = asyncio.create_task(queue.aio.claim(wait=3600))
            await spin(lambda: bool(line(store, queue).waiting))
            store._file.core.patience = 30
            holder.queue("q", int).enqueue(7, delay=0.2)
            with holder.transaction():
                await spin(lambda: bool(again))
            (claim,) = await task
            assert claim.payload == 7

    run_async(calls())


# ---- processes -----------------------------------------------------------------------------------


def run_program(program: str, folder: Path, *, code: int = 0) -> str:
    command = [sys.executable, "-c", "import asyncio, fencepost\n" + program]
    done = subprocess.run(
        command,
        cwd=folder,
        env=quiet_environment(),
        capture_output=True,
        encoding="utf-8",
        timeout=100,
        check=False,
    )
    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


def test_a_child_of_a_fork_is_told_and_its_app_goes_on(tmp_path: Path) -> None:
    """It has none of the threads: waiting for one of them would be for ever."""
    program = """
import os, warnings
warnings.simplefilter("ignore")
app = fencepost.App("app.db")
store = fencepost.open("app.db")

@app.job
def job(n: int) -> int: return n

async def calls(n):
    return (await asyncio.gather(*(job.aio.enqueue(n) for _ in range(9))))[-1]

async def refused():
    queue = store.queue("q", int)
    for call in (queue.aio.enqueue(1), queue.aio.claim(wait=9), store.aio.stats()):
        try:
            await call
        except fencepost.ForkedHandle:
            print("refused", flush=True)

asyncio.run(calls(1))
asyncio.run(store.queue("q", int).aio.enqueue(0)) and None
if os.fork() == 0:
    asyncio.run(refused())
    asyncio.run(calls(2))
    os._exit(0)
assert os.wait()[1] == 0
asyncio.run(calls(3))
print(app.store.stats()["queues"]["default"]["pending"])
"""
    assert run_program(program, tmp_path).split() == ["refused"] * 3 + ["27"]


@pytest.mark.parametrize(
    "end",
    [
        "asyncio.run(main())",
        "loop = asyncio.new_event_loop(); loop.run_until_complete(main())",
        "import uvloop; loop = uvloop.new_event_loop(); loop.run_until_complete(main())",
    ],
)
def test_the_interpreter_ends_whoever_waits(tmp_path: Path, end: str) -> None:
    """With a claim that waits, a result that will not come, and writes that nobody awaited."""
    if "uvloop" in end:
        pytest.importorskip("uvloop")
    program = f"""
app = fencepost.App("app.db")

@app.job
def job(n: int) -> int: return n

async def main():
    queue = app.queue("q", int)
    handle = await job.aio.enqueue(1)
    global tasks
    tasks = [asyncio.create_task(one) for one in (
        queue.aio.claim(wait=3600), handle.result(), *(job.aio.enqueue(n) for n in range(9)))]
    for task in tasks:
        task._log_destroy_pending = False
    await asyncio.sleep(0.05)

{end}
print("over", flush=True)
"""
    assert run_program(program, tmp_path) == "over\n"
    with fencepost.open(tmp_path / "app.db") as store:
        assert store.check(full=True) == []
        assert store.stats()["totals"]["pending"] == 10


def test_ctrl_c_ends_a_wait(tmp_path: Path) -> None:
    """At once; what was written stays written."""
    program = """
import asyncio, fencepost
async def main():
    async with fencepost.open("app.db").aio as store:
        queue = store.queue("q", int)
        await queue.enqueue(1, delay=3600)
        task = asyncio.create_task(queue.claim(wait=3600))
        await asyncio.sleep(0.05)
        print("waits", flush=True)
        await task
try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(
        command, cwd=tmp_path, env=quiet_environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waits\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "interrupted\n"
        assert process.wait(60) == 0
    with fencepost.open(tmp_path / "app.db") as store:
        assert store.queue("q").size() == 1


@pytest.mark.parametrize("library", ["asyncio", "uvloop"])
def test_five_thousand_coroutines_end_well(tmp_path: Path, library: str) -> None:
    """The whole program: each is done or cancelled, and the keys answer for what was cancelled."""
    pytest.importorskip(library)
    program = f"""
import sys
sys.path.insert(0, {str(PROGRAM.parent)!r})
import p09_async as p, {library}
loop = {library}.new_event_loop()
loop.run_until_complete(p.main())
loop.run_until_complete(p.by_hand())
p.app.store.close()
"""
    lines = run_program(program, tmp_path).splitlines()
    done, cancelled = (int(word) for word in lines[0].split()[1::2])
    assert (done + cancelled, cancelled <= 500) == (5000, True)
    assert lines[1] in {f"{how} {sum(n * n for n in range(5000))}" for how in HOW}
    assert lines[2].startswith("another message owns the key: ")
    claimed = [line.split() for line in lines[3:]]
    assert [int(n) for n, _token in claimed] == list(range(len(claimed)))
    with fencepost.open(tmp_path / "many.db") as store:
        assert store.check(full=True) == []
        assert store.stats()["queues"]["events"]["pending"] == 5000 - len(claimed)


HOW = ("was written", "was not written", "done")


def test_a_kill_loses_nothing_that_was_answered(
    tmp_path: Path, elsewhere: Callable[[str], str]
) -> None:
    """SIGKILL among thousands of calls: what a coroutine was told is there, all of it."""
    program = """
import asyncio, fencepost
async def main():
    queue = fencepost.open("app.db").queue("q", int)
    async def one(n):
        await queue.aio.enqueue(n)
        print(n, flush=True)
    await asyncio.gather(*(one(n) for n in range(5000)))
asyncio.run(main())
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(
        command, cwd=tmp_path, env=quiet_environment(), stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(500)]
        process.kill()
        told += process.stdout.read().splitlines(keepends=True)
    numbers = {int(line) for line in told if line.endswith(b"\n")}
    assert len(numbers) >= 500
    with fencepost.open(tmp_path / "app.db") as store:
        there = {claim.payload for claim in store.queue("q", int).claim(10_000)}
        assert numbers <= there
        assert store.check(full=True) == []
