"""Stores that are opened and closed again and again leave nothing, and neither do answers."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("fencepost._core_test")

import fencepost
from fencepost import StorageError, Store
from harness_core import lib
from harness_shim import nothing_left

pytestmark = pytest.mark.hostile

SUFFIXES = ("", "-wal", "-shm")


def alone(path: Path) -> None:
    with fencepost.open(path) as store:
        store.queue("q").enqueue(1)


def beside_a_guest(path: Path) -> None:
    """It is open while we close, so that we have to keep what we cannot close yet."""
    with fencepost.open(path) as store:
        store.queue("q").enqueue(1)
        guest = sqlite3.connect(path)
        guest.execute("SELECT count(*) FROM fencepost_due").fetchall()
    guest.close()


def deleted_beside_a_guest(path: Path) -> None:
    with fencepost.open(path) as store:
        store.queue("q").enqueue(1)
        guest = sqlite3.connect(path)
        guest.execute("SELECT count(*) FROM fencepost_due").fetchall()
    with closing(guest):
        for suffix in SUFFIXES:
            path.with_name(path.name + suffix).unlink(missing_ok=True)


def dropped(path: Path) -> None:
    """Nobody closes it but the garbage collector."""
    fencepost.open(path).queue("q").enqueue(1)
    gc.collect()


WAYS: list[Callable[[Path], None]] = [alone, beside_a_guest, deleted_beside_a_guest, dropped]


def mappings() -> int:
    return len(Path("/proc/self/maps").read_text().splitlines())


def resident_kib() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def rounds(folder: Path, way: Callable[[Path], None], count: int, files: int) -> None:
    """`count` rounds over `files` files, each of which is deleted when another takes its turn."""
    for number in range(count):
        path = folder / f"{number % files}.db"
        way(path)
        if files > 1:
            for suffix in SUFFIXES:
                path.with_name(path.name + suffix).unlink(missing_ok=True)
    alone(folder / "last.db")  # others are swept up when a file is new
    alone(folder / "the very last.db")


@pytest.mark.parametrize("files", [1, 10])
@pytest.mark.parametrize("way", WAYS)
def test_rounds_leave_nothing(tmp_path: Path, way: Callable[[Path], None], files: int) -> None:
    rounds(tmp_path, way, 5, files)
    before = mappings()
    with nothing_left():
        rounds(tmp_path, way, 20, files)
    assert mappings() <= before + 3  # of Python's own memory


def ask(store: Store) -> None:
    """What is answered with rows, with none, and with an error; in threads and in a coroutine."""
    queue = store.queue("q", int)
    queue.enqueue_many(range(3))
    store.messages("pending")
    assert queue.ack(queue.claim(3)) == []
    assert queue.claim() == []
    store.stats()
    store.check()
    assert store.message(10**9) is None
    with store.transaction() as tx:
        tx.execute("SELECT 1 UNION SELECT 2")
        with pytest.raises(StorageError):
            tx.execute("SELECT nothing")

    async def beside() -> None:
        await queue.aio.enqueue(1)
        (claim,) = await queue.aio.claim()
        await claim.ack()
        assert await queue.aio.claim() == []

    asyncio.run(beside())


def test_answers_leave_no_memory(store: Store) -> None:
    """
    What the core handed over is given back, whatever came of it. What it keeps for the next call
    may come now and then; what is lost comes each time.
    """
    ask(store)
    before, rounds = lib.fp_memory_live(), 12
    for _ in range(rounds):
        ask(store)
    gc.collect()
    assert lib.fp_memory_live() - before < rounds


@pytest.mark.long
@pytest.mark.parametrize("files", [1, 10])
@pytest.mark.parametrize("way", WAYS)
def test_thousands_of_rounds_leave_nothing(
    tmp_path: Path, way: Callable[[Path], None], files: int
) -> None:
    """Ten thousand in all."""
    rounds(tmp_path, way, 100, files)
    before, resident = mappings(), resident_kib()
    with nothing_left():
        rounds(tmp_path, way, 1250, files)
    assert mappings() <= before + 10
    assert resident_kib() <= resident + 8192
