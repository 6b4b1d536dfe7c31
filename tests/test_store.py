"""One store: its threads, its processes, a fork, and the end."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import fencepost
from fencepost import (
    Closed,
    ForkedHandle,
)


def test_threads_share_a_store(path: Path) -> None:
    """What eight threads put in comes out of eight threads, each message once."""
    with fencepost.open(path) as store:
        queue = store.queue("q", int)
        seen: list[int] = []

        def produce(first: int) -> None:
            for i in range(first, first + 25):
                queue.enqueue(i)

        def consume() -> None:
            while claims := queue.claim(7):
                seen.extend(c.payload for c in claims)
                assert queue.ack(claims) == []

        for work in ([lambda n=n: produce(n * 25) for n in range(8)], [consume] * 8):
            threads = [threading.Thread(target=one) for one in work]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert sorted(seen) == list(range(200))


def test_closing_is_repeatable_and_later_calls_say_closed(path: Path) -> None:
    store = fencepost.open(path)
    queue = store.queue("q", int)
    queue.enqueue(1)
    (claim,) = queue.claim()
    store.close()
    store.close()
    for call in (lambda: queue.enqueue(2), queue.claim, claim.ack, store.stats, store.check):
        with pytest.raises(Closed):
            call()
    with pytest.raises(Closed), store.transaction():
        pass


def test_closing_while_others_work_is_safe(path: Path) -> None:
    """Threads that work and one that waits for a message: each ends with Closed, nothing else."""
    store = fencepost.open(path)
    queue = store.queue("q", int)
    empty = store.queue("empty", int)
    ended: list[type[BaseException]] = []
    working = threading.Barrier(5)

    def until_closed(call: Callable[[], object]) -> None:
        working.wait()
        try:
            while True:
                call()
        except BaseException as error:
            ended.append(type(error))

    calls = [lambda: queue.enqueue(1), queue.claim, store.stats, lambda: empty.claim(wait=600)]
    threads = [threading.Thread(target=until_closed, args=[call]) for call in calls]
    for thread in threads:
        thread.start()
    working.wait()
    store.close()
    for thread in threads:
        thread.join()
    assert ended == [Closed] * 4


def test_a_store_that_nobody_closed_is_closed_at_the_end(path: Path) -> None:
    """A thread that waits for a message for ever does not keep the process from ending."""
    program = f"""
import threading, fencepost
store = fencepost.open({str(path)!r})
queue = store.queue("q")
queue.claim()
def wait():
    try:
        queue.claim(wait=3600)
    except fencepost.Closed:
        print("closed", flush=True)
threading.Thread(target=wait).start()
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    assert done.stdout == b"closed\n"


def test_a_signal_reaches_python_while_it_waits(path: Path) -> None:
    """A wait in the core is sliced, and a handler that raises ends it."""

    def handler(number: int, frame: object) -> None:
        raise InterruptedError(number)

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with fencepost.open(path) as store:
            sender = threading.Thread(target=lambda: os.kill(os.getpid(), signal.SIGUSR1))
            queue = store.queue("q")
            queue.claim()
            with pytest.raises(InterruptedError):
                sender.start()
                queue.claim(wait=3600)
            sender.join()
            assert queue.claim() == []
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_handle_carried_over_a_fork_says_so(path: Path) -> None:
    """The child is told; it may open the file itself; the parent goes on unharmed."""
    store = fencepost.open(path)
    queue = store.queue("q", int)
    queue.enqueue(1)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with pytest.raises(ForkedHandle, match="fork"):
                queue.enqueue(2)
            with pytest.raises(ForkedHandle):
                store.stats()
            with fencepost.open(path) as own:
                own.queue("q", int).enqueue(3)
            del store, queue
            gc.collect()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    queue.enqueue(4)
    assert [c.payload for c in queue.claim(5)] == [1, 3, 4]
    store.close()


def test_a_transaction_carried_over_a_fork_is_the_parents(path: Path) -> None:
    store = fencepost.open(path)
    queue = store.queue("q", int)
    with store.transaction() as tx:
        queue.enqueue(1, tx=tx)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                with pytest.raises(ForkedHandle):
                    queue.enqueue(2, tx=tx)
                with pytest.raises(ForkedHandle):
                    tx._end(commit=True)
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        queue.enqueue(3, tx=tx)
    assert [c.payload for c in queue.claim(5)] == [1, 3]
    store.close()


def test_a_child_opens_the_file_whatever_its_parents_threads_were_doing(path: Path) -> None:
    """No lock inside SQLite that a thread held at the moment of the fork is left to the child."""
    over = threading.Event()

    def open_and_close() -> None:
        while not over.is_set():
            fencepost.open(path.with_name(threading.current_thread().name)).close()

    fencepost.open(path).close()
    threads = [threading.Thread(target=open_and_close) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(150):
            child = os.fork()
            if child == 0:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(10)  # what waits for ever is killed by it
                fencepost.open(path).close()
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        over.set()
        for thread in threads:
            thread.join()


def test_busy_is_raised_when_the_time_is_up(path: Path, elsewhere: Callable[[str], str]) -> None:
    """With a busy time-out of 0 the file is tried once."""
    with fencepost.open(path) as store:
        store.queue("q").claim()
        program = """
with fencepost.open(path, busy_timeout=0) as store:
    try:
        store.queue("q").enqueue(1)
    except fencepost.Busy:
        print("busy")
"""
        with store.transaction():
            assert elsewhere(program) == "busy\n"
        assert elsewhere(program) == ""


def test_an_open_transaction_does_not_keep_a_process_from_ending(
    path: Path, elsewhere: Callable[[str], str]
) -> None:
    """A daemon thread holds one for ever: the process ends, and it is rolled back."""
    program = """
import threading
store = fencepost.open(path, busy_timeout=3600)
queue, begun = store.queue("q"), threading.Event()
queue.enqueue(1)
def hold():
    with store.transaction() as tx:
        queue.enqueue(2, tx=tx)
        begun.set()
        threading.Event().wait()
threading.Thread(target=hold, daemon=True).start()
begun.wait()
print("ends")
"""
    assert elsewhere(program) == "ends\n"
    with fencepost.open(path) as store:
        assert store.queue("q").size() == 1


def test_processes_open_a_new_file_at_once(path: Path) -> None:
    """It is made once, and all of them work on it."""
    program = f"""
import fencepost
with fencepost.open({str(path)!r}) as store:
    store.queue("q").enqueue(1)
"""
    children = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(4)]
    assert [child.wait() for child in children] == [0] * 4
    with fencepost.open(path) as store:
        assert store.queue("q").size() == 4
        assert store.check(full=True) == []
