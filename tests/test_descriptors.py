"""Which descriptors the shim keeps, which it uses again, and when it really closes them."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("fencepost._core_test")

from harness_core import lib
from harness_shim import (
    FREE,
    PENDING,
    READ,
    WRITE,
    byte,
    classic,
    classic_at,
    close,
    descriptors,
    elsewhere,
    lock,
    opened,
)

pytestmark = [pytest.mark.hostile, pytest.mark.usefixtures("nothing_is_left")]


def test_what_cannot_be_closed_yet_is_used_again(path: Path, guest: int) -> None:
    """While a guest has a lock, a thousand rounds need no more descriptors than one."""
    assert classic(guest, READ, PENDING)
    before = descriptors()
    for _ in range(1000):
        fds = [opened(path) for _ in range(3)]
        assert len(set(fds)) == 3
        for fd in fds:
            close(fd)
    assert descriptors() == before + 3
    assert classic(guest, FREE, PENDING)
    close(opened(path))


def test_what_could_not_be_closed_goes_when_others_come(tmp_path: Path) -> None:
    """Hundreds of files that guests had locked; a few of them with each file that is new."""
    guests = [os.open(tmp_path / f"{i}.db", os.O_RDWR | os.O_CREAT) for i in range(300)]
    for i, guest in enumerate(guests):
        assert classic(guest, READ, PENDING)
        close(opened(tmp_path / f"{i}.db"))
    assert lib.fp_locks_held() >= 600
    for guest in guests:
        os.close(guest)
    for i in range(150):
        close(opened(tmp_path / f"new{i}.db"))


def test_thousands_of_descriptors_and_hundreds_of_files(tmp_path: Path) -> None:
    paths = [tmp_path / f"{i}.db" for i in range(300)]
    fds = [(opened(path), path) for path in paths for _ in range(10)]
    for fd, _ in fds[::10]:
        assert lock(fd, WRITE, PENDING) == 0
    assert elsewhere(paths[170], PENDING) == "busy"
    for fd, _ in fds:
        close(fd)


def test_an_unlinked_file_is_let_go(path: Path, guest: int) -> None:
    """Whoever has it is the last one who can."""
    assert classic(guest, READ, PENDING)
    fd = opened(path)
    path.unlink()
    close(fd)


def test_a_file_that_may_only_be_read_is_opened_for_writing_if_it_can_be(path: Path) -> None:
    """Its descriptor takes the locks of all, and those that exclude need to be able to write."""
    path.touch()
    reader = opened(path, writable=False)
    writer = opened(path)
    assert lock(writer, WRITE, PENDING) == 0
    close(reader)
    close(writer)


STREAMS = """
import os, sys
from harness_core import lib
for fd in range(3):
    os.close(fd)
fd = lib.fp_locks_open(sys.argv[1].encode(), 1)
found = [os.readlink(f"/proc/self/fd/{low}") for low in range(3)]
sys.exit(0 if fd > 2 and found == ["/dev/null"] * 3 else 1)
"""


def test_closed_standard_streams_are_filled(path: Path) -> None:
    """Or whoever prints would write into the file that got their number."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", STREAMS, str(path)]
    assert subprocess.run(command, env=environment, check=False).returncode == 0


@contextmanager
def read_only(path: Path) -> Iterator[None]:
    """Nobody may write to a program that runs, whoever they are."""
    shutil.copy(shutil.which("sleep") or "", path)
    process = subprocess.Popen([path, "600"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def test_who_opened_for_reading_keeps_the_locks_until_it_closes(path: Path) -> None:
    """Only a writable descriptor can take locks that exclude, and it cannot take over any."""
    with read_only(path):
        assert opened(path) == -errno.ETXTBSY
        reader = opened(path, writable=False)
        assert lock(reader, READ, PENDING) == 0
    assert opened(path) == -errno.EACCES
    assert not classic_at(path, WRITE, PENDING)
    close(reader)
    writer = opened(path)
    assert lock(writer, WRITE, PENDING) == 0
    close(writer)


@pytest.mark.parametrize("refused", [False, True])
def test_a_writer_takes_over_from_a_reader_that_has_closed(path: Path, refused: bool) -> None:
    """Also where a guest keeps us from closing it; and one that was refused is fit then."""
    with read_only(path):
        reader = opened(path, writable=False)
        guest = os.open(path, os.O_RDONLY)
        assert classic(guest, READ, PENDING)
    if refused:
        assert opened(path) == -errno.EACCES
    close(reader)
    writer = opened(path)
    assert lock(writer, WRITE, PENDING + 1) == 0
    close(writer)
    os.close(guest)
    close(opened(path))


def test_a_standard_streams_number_is_not_used_again(path: Path, guest: int) -> None:
    """SQLite closes such a descriptor and opens anew, until it gets a higher one."""
    assert classic(guest, READ, PENDING)
    saved = os.dup(0)
    os.close(0)
    low = opened(path)
    close(low)
    second = opened(path)
    assert low == 0
    assert second > 2
    close(second)
    assert classic(guest, FREE, PENDING)
    close(opened(path))
    os.dup2(saved, 0)
    os.close(saved)


def test_a_descriptor_that_the_program_closed_is_no_longer_ours(path: Path, tmp_path: Path) -> None:
    """Its number may mean another file by now; what was locked through it is gone."""
    fd = opened(path)
    assert lock(fd, WRITE, PENDING) == 0
    os.close(fd)
    again = opened(tmp_path / "other.db")
    assert again == fd
    assert lock(again, WRITE, PENDING) == 0
    assert elsewhere(path, PENDING) == "free"
    assert elsewhere(tmp_path / "other.db", PENDING) == "busy"
    close(again)
    close(opened(path))


def test_a_kept_descriptor_that_the_program_closed_is_left_alone(path: Path, guest: int) -> None:
    """It may be the program's own by now: neither handed out as ours, nor closed."""
    assert classic(guest, READ, PENDING)
    kept = [opened(path) for _ in range(2)]
    for fd in kept:
        close(fd)
    for fd in kept:
        os.close(fd)
    own = [os.open(os.devnull, os.O_RDONLY) for _ in kept]
    assert sorted(own) == sorted(kept)
    again = opened(path)
    assert again not in own
    assert lock(again, READ, PENDING) == 0
    close(again)
    assert classic(guest, FREE, 0, 0)
    close(opened(path))
    for fd in own:
        os.close(fd)


@pytest.mark.parametrize("suffix", ["-wal", "-journal", "-mj0123456AB"])
def test_a_database_may_be_called_like_a_log(tmp_path: Path, suffix: str) -> None:
    """It is locked all the same, from its first lock on."""
    path = tmp_path / f"my{suffix}"
    fd = opened(path)
    assert lock(fd, WRITE, PENDING) == 0
    assert elsewhere(path, PENDING) == "busy"
    close(fd)


@pytest.mark.parametrize("rung", range(2))
def test_without_memory_nothing_is_opened(path: Path, rung: int) -> None:
    """Nor when SQLite tries again to read only, as it does: the file would seem to be read-only."""
    path.touch()
    lib.fp_fault_memory(rung, 1)
    assert opened(path) == -errno.ENOMEM
    assert lib.fp_fault_hits() == 1
    assert opened(path, writable=False) == -errno.ENOMEM
    fd = opened(path, writable=False)
    assert fd > 2
    lib.fp_fault_memory(0, 1)
    assert byte(path, 1, lib.FP_LOCKS_TAKE) == -errno.ENOMEM
    lib.fp_fault_memory(-1, 0)
    assert byte(path, 1, lib.FP_LOCKS_PROBE) == 0
    close(fd)


def test_a_table_that_cannot_grow_still_finds_everything(tmp_path: Path) -> None:
    """Every second allocation fails, the slots of the tables among them."""
    fds = []
    for i in range(40):
        lib.fp_fault_memory(2, 1)
        fds.append((opened(tmp_path / f"{i}.db"), tmp_path / f"{i}.db"))
        lib.fp_fault_memory(-1, 0)
    for fd, path in fds:
        assert lock(fd, WRITE, PENDING) == 0
        assert not classic_at(path, WRITE, PENDING)
    for fd, _ in fds:
        close(fd)


def test_strangers_are_counted(path: Path, guest: int) -> None:
    """Descriptors of the file that are not our SQLite's."""
    fd = opened(path)
    assert lib.fp_locks_strangers(os.fsencode(path)) == 1
    other = os.open(path, os.O_RDONLY)
    assert lib.fp_locks_strangers(os.fsencode(path)) == 2
    os.close(other)
    close(fd)
