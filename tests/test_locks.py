"""Locks that are taken through the shim, beside a program that locks the same file by itself."""

from __future__ import annotations

import errno
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("fencepost._core_test")

from harness_core import lib
from harness_shim import (
    BUSY,
    CHECKPOINTER,
    FREE,
    OURS,
    PENDING,
    READ,
    RESTART,
    WRITE,
    byte,
    classic,
    close,
    elsewhere,
    in_thread,
    lock,
    opened,
)

pytestmark = [pytest.mark.hostile, pytest.mark.usefixtures("nothing_is_left")]


def test_our_locks_and_a_guests_exclude_each_other(path: Path, guest: int) -> None:
    """In one process, in which classic locks would all be one's own."""
    fd = opened(path)
    assert lock(fd, WRITE, PENDING) == 0
    assert not classic(guest, WRITE, PENDING)
    assert not classic(guest, READ, PENDING)
    assert lock(fd, READ, PENDING) == 0
    assert classic(guest, READ, PENDING)
    assert lock(fd, WRITE, PENDING) == BUSY
    assert classic(guest, FREE, PENDING)
    close(fd)


def test_all_descriptors_of_a_file_lock_as_one(path: Path) -> None:
    """What one of them has locked, another one may give back: SQLite takes it for granted."""
    first, second = opened(path), opened(path)
    assert lock(first, WRITE, PENDING) == 0
    assert lock(second, WRITE, PENDING) == 0
    assert elsewhere(path, PENDING) == "busy"
    close(first)
    assert elsewhere(path, PENDING) == "busy"
    assert lock(second, FREE, PENDING) == 0
    assert elsewhere(path, PENDING) == "free"
    close(second)


def test_the_last_close_drops_our_locks(path: Path, guest: int) -> None:
    """Also where the descriptor stays, because a guest has a lock."""
    classic(guest, READ, PENDING + 2)
    fd = opened(path)
    assert lock(fd, WRITE, PENDING) == 0
    close(fd)
    assert elsewhere(path, PENDING) == "free"
    classic(guest, FREE, 0, 0)
    close(opened(path))


@pytest.mark.parametrize("type", [READ, WRITE])
def test_no_close_of_ours_drops_a_guests_lock(path: Path, guest: int, type: int) -> None:
    """A classic lock goes with any close of its file: so ours wait until there is none."""
    assert classic(guest, type, PENDING)
    for _ in range(3):
        close(opened(path))
        close(opened(path, writable=False))
    assert elsewhere(path, PENDING) == "busy"
    assert classic(guest, FREE, PENDING)
    close(opened(path))


def test_everything_ends_before_our_own_bytes(path: Path) -> None:
    """SQLite gives its locks back by unlocking the whole file."""
    fd = opened(path)
    assert lock(fd, READ, PENDING, 510) == 0
    assert byte(path, 5, lib.FP_LOCKS_TAKE) == 0
    assert lock(fd, FREE, 0, 0) == 0
    assert elsewhere(path, PENDING, 510) == "free"
    assert elsewhere(path, OURS + 5) == "busy"
    byte(path, 5, lib.FP_LOCKS_DROP)
    close(fd)


# ---- our own bytes -------------------------------------------------------------------------------


def test_a_byte_of_ours_outlives_the_database(path: Path) -> None:
    """It says that the process lives, whatever it has open."""
    fd = opened(path)
    assert byte(path, 0, lib.FP_LOCKS_TAKE) == 0
    close(fd)
    assert elsewhere(path, OURS) == "busy"
    assert elsewhere(path, 0, OURS) == "free"
    byte(path, 0, lib.FP_LOCKS_DROP)
    assert elsewhere(path, OURS) == "free"
    assert byte(path, 0, lib.FP_LOCKS_TAKE) == -errno.ENOENT


def test_a_byte_is_held_until_its_last_taker_drops_it(path: Path) -> None:
    fd = opened(path)
    for _ in range(2):
        assert byte(path, 7, lib.FP_LOCKS_SHARE) == 0
    byte(path, 7, lib.FP_LOCKS_DROP)
    assert elsewhere(path, OURS + 7) == "busy"
    byte(path, 7, lib.FP_LOCKS_DROP)
    assert elsewhere(path, OURS + 7) == "free"
    byte(path, 7, lib.FP_LOCKS_DROP)
    close(fd)


def test_a_byte_is_exclusive_from_when_a_taker_asks_for_that(path: Path, guest: int) -> None:
    fd = opened(path)
    assert byte(path, 4, lib.FP_LOCKS_SHARE) == 0
    assert classic(guest, READ, OURS + 4)
    assert byte(path, 4, lib.FP_LOCKS_TAKE) == BUSY
    assert classic(guest, FREE, OURS + 4)
    assert byte(path, 4, lib.FP_LOCKS_TAKE) == 0
    assert byte(path, 4, lib.FP_LOCKS_SHARE) == 0
    assert not classic(guest, READ, OURS + 4)
    for _ in range(3):
        assert elsewhere(path, OURS + 4) == "busy"
        byte(path, 4, lib.FP_LOCKS_DROP)
    assert elsewhere(path, OURS + 4) == "free"
    close(fd)


def test_a_byte_is_somebody_elses_or_nobodys(path: Path, guest: int) -> None:
    fd = opened(path)
    assert byte(path, 3, lib.FP_LOCKS_PROBE) == 0
    assert byte(path, 3, lib.FP_LOCKS_TAKE) == 0
    assert byte(path, 3, lib.FP_LOCKS_PROBE) == 0
    byte(path, 3, lib.FP_LOCKS_DROP)
    assert classic(guest, READ, OURS + 3)
    assert byte(path, 3, lib.FP_LOCKS_PROBE) == 1
    assert byte(path, 3, lib.FP_LOCKS_TAKE) == BUSY
    assert byte(path, 3, lib.FP_LOCKS_SHARE) == 0
    byte(path, 3, lib.FP_LOCKS_DROP)
    assert classic(guest, FREE, OURS + 3)
    close(fd)


# ---- a restart of the WAL ------------------------------------------------------------------------


def test_a_restart_keeps_checkpointers_out(path: Path) -> None:
    """Those of other processes, those of a guest, and those of our other threads."""
    fd = opened(path)
    assert lock(fd, WRITE, *RESTART) == 0
    assert elsewhere(path, *CHECKPOINTER) == "busy"
    assert in_thread(lambda: lock(fd, WRITE, *CHECKPOINTER)) == BUSY
    assert lock(fd, FREE, *RESTART) == 0
    assert elsewhere(path, *CHECKPOINTER) == "free"
    assert in_thread(lambda: lock(fd, WRITE, *CHECKPOINTER)) == 0
    close(fd)


def test_there_is_no_restart_beside_a_checkpoint(path: Path, guest: int) -> None:
    """Neither beside a guest's nor beside that of another thread of ours; within one's own, yes."""
    fd = opened(path)
    assert classic(guest, WRITE, *CHECKPOINTER)
    assert lock(fd, WRITE, *RESTART) == BUSY
    assert classic(guest, FREE, *CHECKPOINTER)

    assert in_thread(lambda: lock(fd, WRITE, *CHECKPOINTER)) == 0
    assert lock(fd, WRITE, *RESTART) == BUSY
    assert in_thread(lambda: lock(fd, FREE, *CHECKPOINTER)) == 0

    assert lock(fd, WRITE, *CHECKPOINTER) == 0
    assert lock(fd, WRITE, *RESTART) == 0
    assert lock(fd, FREE, *RESTART) == 0
    assert elsewhere(path, *CHECKPOINTER) == "busy"
    assert lock(fd, FREE, *CHECKPOINTER) == 0
    assert elsewhere(path, *CHECKPOINTER) == "free"
    close(fd)


def test_a_close_ends_checkpoints_and_restarts(path: Path, guest: int) -> None:
    """Also where the descriptor stays, because a guest has the file locked."""
    assert classic(guest, READ, PENDING)
    for one, other in ((CHECKPOINTER, RESTART), (RESTART, CHECKPOINTER)):
        fd = opened(path)
        assert lock(fd, WRITE, *one) == 0
        close(fd)
        fd = opened(path)
        answer = in_thread(partial(lock, fd, WRITE, *other))
        close(fd)
        assert answer == 0
    assert classic(guest, FREE, 0, 0)
    close(opened(path))


def test_a_restart_that_a_reader_prevents_leaves_no_lock(path: Path, guest: int) -> None:
    fd = opened(path)
    assert classic(guest, READ, RESTART[0])
    assert lock(fd, WRITE, *RESTART) == BUSY
    assert elsewhere(path, *CHECKPOINTER) == "free"
    assert classic(guest, FREE, RESTART[0])
    close(fd)
