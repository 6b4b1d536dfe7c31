"""The file as a whole: backups of one that is in use, and the way back."""

from __future__ import annotations

import stat
import subprocess
import sys
from array import array
from collections.abc import Callable
from pathlib import Path

import pytest

import fencepost
from fencepost import InvalidArgument, StorageError, Store
from fencepost._binding.calls import FP
from fencepost.testing import Clock

# Killed with a commit in its log.
LEFT = "import os; store = fencepost.open(path); store.queue('q').enqueue(7); os._exit(0)"


def listed(folder: Path) -> list[str]:
    return sorted(found.name for found in folder.iterdir())


def beside(path: Path) -> list[str]:
    """What lies in the folder of a file, but for what belongs to the store `app.db`."""
    return [name for name in listed(path.parent) if not name.startswith("app.db")]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "copy.db"


# ---- backup --------------------------------------------------------------------------------------


def test_a_backup_is_a_whole_store_for_its_owners_eyes(store: Store, copy: Path) -> None:
    """What was committed is in it, also what is in the WAL only; nothing else lies beside it."""
    queue = store.queue("q", int)
    ids = [put.id for put in queue.enqueue_many(range(500))]
    store.backup(copy)
    assert beside(copy) == ["copy.db"]
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    queue.enqueue(1)
    with fencepost.open(copy) as other:
        assert other.check(full=True) == []
        assert [m.id for m in other.messages("pending", limit=200)] == ids[:200]
        assert other.stats()["totals"]["pending"] == 500
    assert store.check(full=True) == []


def test_a_backup_is_one_moment_while_others_write(path: Path, copy: Path) -> None:
    """Another process commits pairs all the time; no backup has half of one."""
    program = (
        "import sys, fencepost\n"
        "store = fencepost.open(sys.argv[1])\n"
        "queue = store.queue('q', int)\n"
        "print('on', flush=True)\n"
        "while True:\n"
        "    with store.transaction() as tx:\n"
        "        queue.enqueue(1, tx=tx)\n"
        "        queue.enqueue(2, tx=tx)\n"
    )
    with fencepost.open(path) as store:
        store.queue("q", int)
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", program, str(path)]
        with subprocess.Popen(command, stdout=pipe) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"on\n"
            sizes = []
            for _ in range(4):
                store.backup(copy, overwrite=True)
                with fencepost.open(copy) as other:
                    assert other.check(full=True) == []
                    sizes.append(other.queue("q").size())
            writer.kill()
    assert all(size % 2 == 0 for size in sizes)
    assert sizes == sorted(sizes)


def test_a_backup_replaces_nothing_that_it_was_not_asked_to(store: Store, copy: Path) -> None:
    copy.write_text("mine")
    with pytest.raises(InvalidArgument, match="is there already"):
        store.backup(copy)
    assert copy.read_text() == "mine"
    store.backup(copy, overwrite=True)
    assert fencepost.status(copy)["queues"] == {}
    assert beside(copy) == ["copy.db"]


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_a_backup_never_lies_beside_anothers_log(store: Store, copy: Path, suffix: str) -> None:
    """SQLite would play it into the copy, or throw it away."""
    Path(f"{copy}{suffix}").write_text("of another one")
    for overwrite in (False, True):
        with pytest.raises(InvalidArgument, match=f"copy.db{suffix} belongs to"):
            store.backup(copy, overwrite=overwrite)
    assert beside(copy) == [f"copy.db{suffix}"]


def test_a_backup_cannot_be_its_own_file(store: Store, path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(path)
    for name in (path, link):
        with pytest.raises(InvalidArgument, match="is the file itself"):
            store.backup(name, overwrite=True)
    with pytest.raises(InvalidArgument):
        store.backup("")
    with pytest.raises(InvalidArgument):
        store.backup("x" * 5000)
    with pytest.raises(StorageError, match="cannot be made"):
        store.backup(tmp_path / "nowhere" / "copy.db")
    store.queue("q").enqueue(1)


# ---- restore -------------------------------------------------------------------------------------


def test_claims_from_before_open_nothing_in_a_restored_file(
    store: Store, clock: Clock, copy: Path, tmp_path: Path
) -> None:
    """
    Those that the backup knows, and those made after it: in the new file all of them are lost, and
    the messages are handed out once more, with tokens above all of the old ones.
    """
    queue = store.queue("q", int, addressed=True, lease=60)
    queue.enqueue_many([1, 2, 3])
    before = queue.claim(2)
    store.backup(copy)
    later = queue.claim(1)
    dest = tmp_path / "new" / "back.db"
    dest.parent.mkdir()
    fencepost.restore(copy, dest)
    with clock.open(dest) as back:
        again = back.queue("q", int)
        old = array("q", [n for claim in (*before, *later) for n in (claim.id, claim.token)])
        assert back._file.core.settle(None, old) == [FP.LOST] * 3
        assert back.queue("q").size() == 3
        clock.advance(60)
        claims = [again.claim()[0] for _ in range(3)]  # what has lapsed is handed out alone
        assert {claim.id for claim in claims} == {claim.id for claim in (*before, *later)}
        assert min(claim.token for claim in claims) > max(c.token for c in (*before, *later))
        assert again.enqueue(4).id > 2**40
        assert again.ack(claims) == []
        assert back.check(full=True) == []
    assert listed(dest.parent) == ["back.db"]
    assert beside(copy) == ["copy.db", "new"], "the backup is as it was"


def test_a_file_may_be_restored_again_and_again(store: Store, copy: Path, tmp_path: Path) -> None:
    last = store.queue("q").enqueue(1).id
    store.backup(copy)
    for turn in range(3):
        dest = tmp_path / f"back-{turn}.db"
        fencepost.restore(copy, dest)
        copy = dest
        with fencepost.open(dest) as back:
            id_ = back.queue("q").enqueue(1).id
        assert id_ - last > 2**39
        last = id_


@pytest.mark.parametrize("name", ["back.db", "back.db-wal", "back.db-shm", "back.db-journal"])
def test_restore_refuses_what_is_there(store: Store, copy: Path, tmp_path: Path, name: str) -> None:
    """A file of that name, and a stale log that would be played into the new one."""
    store.backup(copy)
    (tmp_path / name).write_text("old")
    with pytest.raises(InvalidArgument, match=name):
        fencepost.restore(copy, tmp_path / "back.db")
    assert beside(copy) == sorted([name, "copy.db"])
    assert (tmp_path / name).read_text() == "old"


def test_restore_refuses_what_is_no_whole_store(store: Store, copy: Path, tmp_path: Path) -> None:
    dest = tmp_path / "back.db"
    store.queue("q", str).enqueue_many(["x" * 200] * 2000)
    store.backup(copy)
    body = bytearray(copy.read_bytes())
    body[40 * 4096 : 60 * 4096] = bytes(20 * 4096)
    copy.write_bytes(body)
    with pytest.raises(StorageError, match="damaged") as told:
        fencepost.restore(copy, dest)
    assert "\n" not in str(told.value)
    copy.write_bytes(b"no database" * 1000)
    with pytest.raises(StorageError, match=r"not a database.*copy\.db"):
        fencepost.restore(copy, dest)
    copy.write_bytes(b"")
    with pytest.raises(InvalidArgument, match="no tables of Fencepost"):
        fencepost.restore(copy, dest)
    with pytest.raises(StorageError, match=r"none\.db"):
        fencepost.restore(tmp_path / "none.db", dest)
    with pytest.raises(InvalidArgument, match="is the file itself"):
        fencepost.restore(copy, copy)
    assert beside(copy) == ["copy.db"]


def test_restore_reads_what_stands_in_the_backups_own_log(
    elsewhere: Callable[[str], str], path: Path, tmp_path: Path
) -> None:
    """Of a file that was copied with its -wal, as a snapshot of a disk has them."""
    elsewhere(LEFT)
    assert Path(f"{path}-wal").stat().st_size > 0
    fencepost.restore(path, tmp_path / "back.db")
    with fencepost.open(tmp_path / "back.db") as back:
        assert back.queue("q").size() == 1


# ---- when the world fails ------------------------------------------------------------------------


@pytest.mark.hostile
@pytest.mark.parametrize("times", [1, 1 << 30], ids=["once", "for good"])
@pytest.mark.parametrize("fault", ["steps", "memory"])
@pytest.mark.parametrize("what", ["backup", "restore"])
def test_a_copy_that_fails_leaves_nothing_behind(
    path: Path, copy: Path, tmp_path: Path, what: str, fault: str, times: int
) -> None:
    """At each step, and at allocations all over it; where it survives that, it made all of it."""
    dest = tmp_path / "back.db"
    with fencepost.open(path) as store:
        store.queue("q", addressed=True).enqueue_many([1, 2])
        store.queue("q").claim()
        store.backup(copy)

        def operate() -> None:
            if what == "backup":
                store.backup(dest)
            else:
                fencepost.restore(copy, dest)

        def looked() -> None:
            if beside(path) != ["copy.db"]:
                assert beside(path) == ["back.db", "copy.db"]
                with fencepost.open(dest) as back:
                    assert back.check(full=True) == []
                    assert back.queue("q").size() == 2
                dest.unlink()

        assert climb(operate, fault, times, looked) > 5
        assert store.check(full=True) == []


@pytest.mark.hostile
@pytest.mark.parametrize("times", [1, 1 << 30], ids=["once", "for good"])
@pytest.mark.parametrize("fault", ["steps", "memory"])
def test_a_look_from_outside_that_fails_leaves_nothing_behind(
    store: Store, path: Path, fault: str, times: int
) -> None:
    """In the same way; where it survives, it says the same."""
    store.queue("q").enqueue(1)
    said, there = fencepost.status(path)["totals"], listed(path.parent)

    def operate() -> None:
        assert fencepost.status(path)["totals"] == said

    def looked() -> None:
        assert listed(path.parent) == there

    assert climb(operate, fault, times, looked) > 1


def climb(operate: Callable[[], None], fault: str, times: int, looked: Callable[[], None]) -> int:
    """How often it failed, each time of what was done to it."""
    from harness_core import lib
    from harness_ladder import disarm, told

    arm, stride = (lib.fp_fault_step, 1) if fault == "steps" else (lib.fp_fault_memory, 37)
    rung, hits, failures = 0, 1, list[StorageError]()
    while hits:
        arm(rung, times)
        try:
            operate()
        except StorageError as error:
            failures.append(error)
        finally:
            hits = lib.fp_fault_hits()
            disarm()
        looked()
        rung += stride
    # SQLite's own check of a backup takes a failed allocation for damage.
    false = [error for error in failures if fault == "memory" and "is damaged" in str(error)]
    assert [error for error in failures if not told(error) and error not in false] == []
    return len(failures)


KILLED = """
import os, sys
from pathlib import Path
folder, what = Path(sys.argv[1]), sys.argv[2]
import fencepost
from fencepost._binding.lib import lib

def live(at):
    store = fencepost.open(folder / "app.db") if what == "backup" else None
    lib.fp_fault_kill(at)
    if store:
        store.backup(folder / "back.db")
    else:
        fencepost.restore(folder / "copy.db", folder / "back.db")
    os._exit(0)

at = 0
while True:
    pid = os.fork()
    if pid == 0:
        live(at)
    _, status = os.waitpid(pid, 0)
    print(at, os.WTERMSIG(status), (folder / "back.db").exists(), flush=True)
    if not os.WIFSIGNALED(status):
        break
    at += 1
"""


@pytest.mark.hostile
@pytest.mark.parametrize("what", ["backup", "restore"])
def test_a_copy_whose_maker_is_killed_has_no_name(
    path: Path, copy: Path, tmp_path: Path, what: str
) -> None:
    """At each of its steps; what it leaves is a part of another name, and the next one succeeds."""
    with fencepost.open(path) as store:
        store.queue("q", addressed=True).enqueue_many([1, 2])
        store.queue("q").claim()
        store.backup(copy)
    command = [sys.executable, "-c", KILLED, str(tmp_path), what]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    *killed, last = [line.split()[1:] for line in done.stdout.splitlines()]
    assert len(killed) > 5
    assert all(line == ["9", "False"] for line in killed)
    assert last == ["0", "True"]
    with fencepost.open(tmp_path / "back.db") as back:
        assert back.check(full=True) == []
        assert back.queue("q").size() == 2
    parts = [name for name in listed(tmp_path) if ".part" in name]
    assert all(name.startswith("back.db.") for name in parts)
