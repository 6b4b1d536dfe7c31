"""An App over forks and in new processes: what was declared is there, and the file is its own."""

from __future__ import annotations

import gc
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fencepost
from fencepost import App, ForkedHandle
from harness_outside import Outside
from harness_processes import forks_beside_threads

IN_LINE = "SELECT count(*) FROM fencepost_due"


def in_child(body: Callable[[], Any]) -> int:
    """A child of a fork that runs `body`, and says by its exit whether that went well."""
    number = os.fork()
    if number == 0:
        status = 1
        try:
            body()
            status = 0
        except BaseException as error:  # it would unwind into the test runner
            os.write(2, repr(error).encode())
        finally:
            os._exit(status)
    return number


def ended_well(child: int) -> bool:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_an_app_opens_its_file_anew_in_a_child(app: App) -> None:
    """Jobs, queues and workers go on there; handles from before say that they are the parent's."""

    @app.job
    def double(n: int) -> int:
        return 2 * n

    queue = app.queue("q", int)
    handle = double.enqueue(1)
    queue.enqueue(1)
    before = app.store

    def body() -> None:
        queue.enqueue(2)
        with app.worker():
            assert double.enqueue(21).result(30) == 42
        for use in (handle.status, before.stats, before.close):
            with pytest.raises(ForkedHandle, match="fork"):
                use()
        assert app.store is not before

    assert ended_well(in_child(body))
    assert app.store is before
    assert handle.status().state == "done"
    assert sorted(claim.payload for claim in queue.claim(5)) == [1, 2]


def test_a_child_that_is_forked_inside_a_transaction_is_told_so(path: Path) -> None:
    """The transaction is the parent's: in the child nobody has one open, nor waits for it."""
    store = fencepost.open(path)
    queue = store.queue("q")
    queue.enqueue("before")

    def body() -> None:
        for use in (lambda: queue.enqueue("in the child"), queue.size, queue.claim, store.close):
            with pytest.raises(ForkedHandle, match="fork"):
                use()
        with fencepost.open(path) as own:
            assert own.queue("q").size() == 1

    with store.transaction() as tx:
        queue.enqueue("in it", tx=tx)
        assert ended_well(in_child(body))
    assert queue.size() == 2
    store.close()


def test_what_was_inherited_can_be_dropped(path: Path, outside: Outside) -> None:
    """By the child's garbage collector, too: the parent keeps its locks and its log."""
    store = fencepost.open(path)
    store.queue("q").enqueue("before")
    held = [store]

    def body() -> None:
        held.clear()
        gc.collect()

    with store.transaction() as tx:
        store.queue("q").enqueue("in it", tx=tx)
        del store
        assert ended_well(in_child(body))
    assert path.with_name("app.db-wal").exists()
    held[0].queue("q").enqueue("after")
    assert outside.rows(path, IN_LINE) == [[3]]
    assert outside.rows(path, "PRAGMA integrity_check") == [["ok"]]
    held[0].close()


@forks_beside_threads
def test_children_of_a_busy_program(path: Path) -> None:
    """Threads open, use and close files of their own while others fork: nobody waits for ever."""
    app = App(path)
    queue = app.queue("q", int)
    queue.enqueue(0)
    stop = threading.Event()
    put = [0, 0]

    def open_and_close(place: int) -> None:
        while not stop.is_set():
            with fencepost.open(path) as own:
                own.queue("q", int).enqueue(1)
                put[place] += 1

    threads = [threading.Thread(target=open_and_close, args=(place,)) for place in range(2)]
    for thread in threads:
        thread.start()
    try:
        children = 0
        for _ in range(25):
            assert ended_well(in_child(lambda: queue.enqueue(2)))
            children += 1
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert queue.size() == 1 + sum(put) + children
    assert app.store.check(full=True) == []
    app.store.close()


def test_multiprocessing_by_fork(app: App) -> None:
    queue = app.queue("q", int)
    queue.enqueue(1)
    process = multiprocessing.get_context("fork").Process(target=queue.enqueue, args=(2,))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert [claim.payload for claim in queue.claim(3)] == [1, 2]


def put_one(path: Path) -> None:
    """For multiprocessing, which finds it by its name."""
    App(path).queue("q", int).enqueue(5)


@pytest.mark.parametrize("way", ["spawn", "forkserver"])
def test_multiprocessing_afresh(path: Path, way: str) -> None:
    context: Any = multiprocessing.get_context(way)
    with fencepost.open(path) as store:
        store.queue("q", int).enqueue(1)
        process = context.Process(target=put_one, args=(path,))
        process.start()
        process.join()
        assert process.exitcode == 0
        assert store.queue("q").size() == 2


LISTS = """
import os, sys
for number in os.listdir("/proc/self/fd"):
    try:
        target = os.readlink(f"/proc/self/fd/{number}")
    except OSError:
        continue
    if sys.argv[1] in target:
        sys.exit(1)
"""


def by_subprocess(command: list[str]) -> int:
    return subprocess.run(command, close_fds=False, check=False).returncode


def by_spawn(command: list[str]) -> int:
    child = os.posix_spawn(command[0], command, os.environ)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def by_fork(command: list[str]) -> int:
    child = os.fork()
    if child == 0:
        os.execv(command[0], command)  # noqa: S606 - as programs do that fork by hand
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("run", [by_subprocess, by_spawn, by_fork])
def test_a_program_that_is_executed_gets_nothing(
    path: Path, outside: Outside, run: Callable[[list[str]], int]
) -> None:
    """By vfork, by posix_spawn, by fork: no descriptor; and the transaction goes on."""
    store = fencepost.open(path)
    with store.transaction() as tx:
        store.queue("q").enqueue("a", tx=tx)
        assert run([sys.executable, "-c", LISTS, str(path)]) == 0
        assert run([sys.executable, "-c", "import os; os.closerange(3, 100)"]) == 0
    assert outside.rows(path, IN_LINE) == [[1]]
    store.close()
