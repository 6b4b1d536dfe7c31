"""
The calls that SQLite makes of the lock shim, and the same file as other programs see it: in this
process by classic locks, as any other SQLite takes them, and from another one.
"""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from harness_core import lib

__all__ = ["BUSY", "CHECKPOINTER", "FREE", "OURS", "PENDING", "READ", "RESTART", "WRITE", "byte"]
__all__ += ["classic", "classic_at", "close", "descriptors", "elsewhere", "guest_of", "in_thread"]
__all__ += ["lock", "nothing_left", "opened"]

T = TypeVar("T")

PENDING = 1 << 30  # where SQLite's own locks on a database begin
FREE, READ, WRITE = fcntl.F_UNLCK, fcntl.F_RDLCK, fcntl.F_WRLCK
BUSY = -errno.EAGAIN
CHECKPOINTER, RESTART = (121, 1), (124, 4)
OURS = 1 << 62  # where our own bytes begin

ELSEWHERE = """
import fcntl, sys
path, start, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with open(path, "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, count, start)
    except OSError:
        print("busy")
    else:
        print("free")
"""


def elsewhere(path: Path, start: int, count: int = 1) -> str:
    """May another process lock that?"""
    command = [sys.executable, "-c", ELSEWHERE, str(path), str(start), str(count)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def opened(path: Path, *, writable: bool = True) -> int:
    fd: int = lib.fp_locks_open(os.fsencode(path), writable)
    return fd


def lock(fd: int, type: int, start: int, count: int = 1) -> int:
    answer: int = lib.fp_locks_lock(fd, type, start, count)
    return answer


def close(fd: int) -> int:
    answer: int = lib.fp_locks_close(fd)
    return answer


def byte(path: Path, offset: int, verb: int) -> int:
    answer: int = lib.fp_locks_byte(os.fsencode(path), offset, verb)
    return answer


def in_thread(call: Callable[[], T]) -> T:
    """What another thread of this process is answered."""
    answers: list[T] = []
    thread = threading.Thread(target=lambda: answers.append(call()))
    thread.start()
    thread.join()
    return answers[0]


def classic(fd: int, type: int, start: int, count: int = 1) -> bool:
    """A lock as any other SQLite in this process takes it."""
    try:
        fcntl.fcntl(fd, fcntl.F_SETLK, struct.pack("hhqqi4x", type, os.SEEK_SET, start, count, 0))
    except OSError:
        return False
    return True


def classic_at(path: Path, type: int, start: int) -> bool:
    fd = os.open(path, os.O_RDWR)
    try:
        return classic(fd, type, start)
    finally:
        os.close(fd)


def descriptors() -> int:
    """How many this process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@contextmanager
def guest_of(path: Path) -> Iterator[int]:
    """A descriptor that our SQLite knows nothing of."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def nothing_left() -> Iterator[None]:
    """What is done within leaves no descriptor, no memory, and nothing that the shim knows."""
    gc.collect()  # of handles that other tests have dropped
    before = lib.fp_locks_held(), descriptors(), lib.fp_memory_live()
    yield
    gc.collect()
    assert (lib.fp_locks_held(), descriptors(), lib.fp_memory_live()) == before
