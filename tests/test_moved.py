"""A file that is not where it was when the store was opened: nothing is acknowledged into it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fencepost
from fencepost import StorageError, Store
from harness_outside import Outside

WORDS = "replaced, renamed or deleted while it was open"
IN_LINE = "SELECT count(*) FROM fencepost_due"


def replace(path: Path) -> None:
    copy = path.with_name("copy.db")
    shutil.copy(path, copy)
    copy.replace(path)


def leave_a_link(path: Path) -> None:
    moved = path.rename(path.with_name("renamed.db"))
    path.symlink_to(moved)


MOVES: dict[str, Callable[[Path], Any]] = {
    "replaced by a copy": replace,
    "renamed": lambda path: path.rename(path.with_name("renamed.db")),
    "renamed, and a link left": leave_a_link,
    "deleted": lambda path: path.unlink(),
    "its folder renamed": lambda path: path.parent.rename(path.parent.with_name("elsewhere")),
}
BESIDE: dict[str, Callable[[Path], Any]] = {
    "its log deleted": lambda path: path.with_name(f"{path.name}-wal").unlink(),
    "the index of its log deleted": lambda path: path.with_name(f"{path.name}-shm").unlink(),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "app.db"


def until_refused(call: Callable[[], Any]) -> str:
    """What it says in the end; where it is looked for now and then only."""
    while True:
        try:
            call()
        except StorageError as error:
            return str(error)


@pytest.mark.parametrize("move", MOVES)
def test_a_file_that_has_moved_takes_nothing(path: Path, move: str) -> None:
    """Neither puts nor settlements; reading is refused a little later, and closing is not."""
    store = fencepost.open(path)
    queue = store.queue("q")
    queue.enqueue("before")
    (claim,) = queue.claim()
    MOVES[move](path)
    with pytest.raises(StorageError, match=WORDS):
        queue.enqueue("after")
    with pytest.raises(StorageError, match=WORDS):
        claim.ack()
    assert WORDS in until_refused(store.stats)
    store.close()


def test_what_is_refused_is_not_written(path: Path, outside: Outside) -> None:
    """A copy in the file's place has the same log beside it: there, it would be seen."""
    store = fencepost.open(path)
    store.queue("q").enqueue("before")
    replace(path)
    time.sleep(0.002)  # a look at the place is good for a millisecond
    with pytest.raises(StorageError, match=WORDS):
        store.queue("q").enqueue("after")
    assert outside.rows(path, IN_LINE) == [[1]]
    store.close()


@pytest.mark.parametrize("move", MOVES)
def test_a_transaction_that_the_file_is_taken_from_is_refused(path: Path, move: str) -> None:
    """It began in time, and ends too late: nothing of it is acknowledged."""
    store = fencepost.open(path)
    with pytest.raises(StorageError, match=WORDS), store.transaction() as tx:
        store.queue("q").enqueue("in it", tx=tx)
        MOVES[move](path)
    store.close()


@pytest.mark.parametrize("move", BESIDE)
def test_a_log_that_is_taken_away_is_noticed_soon(path: Path, move: str) -> None:
    store = fencepost.open(path)
    queue = store.queue("q")
    queue.enqueue("before")
    BESIDE[move](path)
    assert WORDS in until_refused(lambda: queue.enqueue("after"))
    assert WORDS in until_refused(store.stats)
    store.close()


def test_the_file_that_took_its_place_is_unharmed(path: Path, outside: Outside) -> None:
    """Not even the old handle's close deletes the log of the new one."""
    old = fencepost.open(path)
    old.queue("q").enqueue("old")
    old.close()
    old = fencepost.open(path)
    old.queue("q").enqueue("old")
    for beside in path.parent.glob("app.db-*"):
        beside.unlink()
    replace(path)
    with fencepost.open(path) as new:
        before = new.queue("q").size()
        new.queue("q").enqueue("new")
        with pytest.raises(StorageError, match=WORDS):
            old.queue("q").enqueue("lost")
        old.close()
        new.queue("q").enqueue("newer")
        assert outside.rows(path, IN_LINE) == [[before + 2]]
        assert new.check(full=True) == []


def test_what_was_acknowledged_before_the_copy_is_in_it(path: Path, outside: Outside) -> None:
    """Scenario H14 (c): replaced by a copy while it works; what was acknowledged stays."""
    store = fencepost.open(path)
    acknowledged = put_until_refused(store, path)
    store.close()
    assert outside.rows(path, IN_LINE)[0][0] >= acknowledged
    assert outside.rows(path, "PRAGMA integrity_check") == [["ok"]]


def put_until_refused(store: Store, path: Path) -> int:
    queue = store.queue("q")
    for number in range(1000):
        if number == 500:
            replace(path)
        try:
            queue.enqueue(number)
        except StorageError:
            return number
    raise AssertionError("nobody noticed")
