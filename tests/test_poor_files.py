"""
Files that are damaged, of a newer version, in use, or no stores at all, and what each way to use a
file makes of them: an answer or a typed error in plain words, and the file stays what it was.
"""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("click")

import fencepost
from fencepost._binding import calls
from fencepost.cli import root

PAGE = 4096

HOLDS = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.executescript(sys.argv[2])
print("held", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def path(path: Path) -> Path:
    """A store of some hundred pages."""
    with fencepost.open(path) as store:
        queue = store.queue("q", str, addressed=True, keep=3600)
        queue.enqueue_many(["x" * 200] * 600)
        queue.ack(queue.claim(100))
    return path


@pytest.fixture
def holding(path: Path) -> Iterator[Callable[[str], None]]:
    """Another process with an SQLite of its own, which runs that and keeps what it has."""
    started: list[subprocess.Popen[str]] = []

    def hold(script: str) -> None:
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", HOLDS, str(path), script]
        started.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True))
        assert started[-1].stdout is not None
        assert started[-1].stdout.readline() == "held\n"

    yield hold
    for process in started:
        process.communicate("\n")


# ---- ways to use a file --------------------------------------------------------------------------


@contextmanager
def opened(path: Path) -> Iterator[fencepost.Store]:
    with fencepost.open(path, create=False, busy_timeout=0.2) as store:
        yield store


def check(path: Path, _: Path) -> object:
    with opened(path) as store:
        return store.check(full=True)


def count(path: Path, _: Path) -> object:
    with opened(path) as store:
        return store.stats()["totals"]["pending"]


def work(path: Path, _: Path) -> object:
    with opened(path) as store:
        queue = store.queue("q", str)
        claims = [claim for _ in range(60) for claim in queue.claim(10)]
        return len({claim.payload for claim in claims} | set(map(str, queue.ack(claims))))


def back_up(path: Path, dest: Path) -> object:
    with opened(path) as store:
        store.backup(dest)
    return "made"


def restore(path: Path, dest: Path) -> object:
    fencepost.restore(path, dest)
    with opened(dest) as store:
        return store.check(full=True)


def look(path: Path, _: Path) -> object:
    return fencepost.status(path)["totals"]["pending"]


def health(path: Path, _: Path) -> object:
    return root.run(["--database", str(path), "health"])


WAYS = (check, count, work, back_up, restore, look, health)


def fate(way: Callable[[Path, Path], object], path: Path) -> object:
    """Its answer, or the kind of its error with its words."""
    dest = path.with_name("dest.db")
    try:
        return way(path, dest)
    except fencepost.Error as error:
        return f"{type(error).__name__}: {error}"
    finally:
        dest.unlink(missing_ok=True)


def fates(path: Path) -> dict[str, object]:
    """Of all ways, each of which leaves the file as it was, and nothing beside it."""
    before = {one.name: one.read_bytes() for one in path.parent.iterdir()}
    found = {}
    for way in WAYS:
        found[way.__name__] = fate(way, path)
        after = {one.name: one.read_bytes() for one in path.parent.iterdir()}
        assert after == before, f"{way.__name__} changed something"
    return found


def page(path: Path, number: int, body: bytes) -> None:
    """That page of the file is another one, from 1 on."""
    with path.open("r+b") as file:
        file.seek((number - 1) * PAGE)
        file.write(body)


# ---- no store, or none of ours -------------------------------------------------------------------

NOISE = random.Random(7).randbytes(PAGE)
POOR: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: path.unlink(), "StorageError: unable to open database file"),
    "garbage": (lambda path: path.write_bytes(NOISE * 20), "StorageError: file is not a database"),
    "half of it": (
        lambda path: os.truncate(path, path.stat().st_size // 2),
        "StorageError: database disk image is malformed",
    ),
    "a page less": (
        lambda path: os.truncate(path, path.stat().st_size - PAGE),
        "StorageError: database disk image is malformed",
    ),
    "no head": (lambda path: page(path, 1, NOISE), "StorageError: file is not a database"),
    "newer": (
        lambda path: change(path, "UPDATE fencepost_meta SET version = 99"),
        "NewerSchema: this file has schema version 99",
    ),
    "without its row": (
        lambda path: change(path, "DELETE FROM fencepost_meta"),
        "StorageError: fencepost_meta is damaged",
    ),
}


def change(path: Path, sql: str) -> None:
    """In another process: a descriptor of ours that closes would drop its locks."""
    program = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.argv[2]).close()"
    subprocess.run([sys.executable, "-c", program, str(path), sql], check=True)


@pytest.mark.parametrize(("spoil", "words"), POOR.values(), ids=POOR)
def test_what_is_no_whole_store_is_refused_everywhere(
    path: Path,
    capsys: pytest.CaptureFixture[str],
    spoil: Callable[[Path], object],
    words: str,
) -> None:
    """In the same words, whichever way it is used; nothing is made of it, and nothing changed."""
    spoil(path)
    found = fates(path)
    assert found.pop("health") == 1
    assert words.partition(": ")[2] in capsys.readouterr().out
    assert {way: said for way, said in found.items() if not str(said).startswith(words)} == {}


# ---- damaged in the middle -----------------------------------------------------------------------


def root_page(path: Path, table: str) -> int:
    with sqlite3.connect(path) as connection:
        sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
        (number,) = connection.execute(sql, (table,)).fetchone()
    connection.close()
    return int(number)


@pytest.mark.parametrize("body", [NOISE, bytes(PAGE)], ids=["noise", "zeros"])
@pytest.mark.parametrize("table", ["fencepost_message", "fencepost_due", "fencepost_worker"])
def test_a_damaged_page_is_found_and_not_spread(path: Path, table: str, body: bytes) -> None:
    """`check` finds it first of all, restore refuses it, and what needs the page is an error."""
    page(path, root_page(path, table), body)
    found = fates(path)
    findings = found["check"]
    assert isinstance(findings, list)
    assert findings[0].startswith("SQLite's check of the file: ")
    assert str(found["restore"]).startswith("StorageError: ")
    assert "malformed" in str(found["work"])
    assert found["look"] == 500 or "malformed" in str(found["look"])


def test_a_finding_hides_no_other(path: Path) -> None:
    """Damage in the line ends the recount, which says so; SQLite's own check is another one."""
    page(path, root_page(path, "fencepost_due"), NOISE)
    with fencepost.open(path) as store:
        (damage,) = store.check()
        assert damage.startswith("The file is damaged: database disk image is malformed [")
        assert store.check(full=True)[-1] == damage


# ---- in use --------------------------------------------------------------------------------------


def test_a_file_that_somebody_writes_to_is_looked_at_and_copied(
    path: Path, holding: Callable[[str], None]
) -> None:
    """Who writes waits, and is told that it is busy; all that reads does as ever."""
    holding("BEGIN IMMEDIATE; UPDATE fencepost_tally SET pending = 7 WHERE queue = 1")
    answers = {way.__name__: fate(way, path) for way in WAYS}
    work = str(answers.pop("work"))
    assert work.startswith("Busy: the file is busy: another process")
    expected = {"check": [], "count": 500, "back_up": "made", "restore": [], "look": 500}
    assert answers == {**expected, "health": 0}


def test_a_file_that_somebody_has_locked_is_busy(
    path: Path,
    holding: Callable[[str], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whole, for itself: every way says so, and waits for it only so long."""
    monkeypatch.setattr(calls, "COPY_PATIENCE", 0.2)
    holding("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; CREATE TABLE mine (x)")
    answers = {way.__name__: fate(way, path) for way in WAYS}
    assert answers.pop("health") == 1
    assert "locked" in capsys.readouterr().out
    assert {way for way, said in answers.items() if not str(said).startswith("Busy: ")} == set()


# ---- half restored -------------------------------------------------------------------------------


def test_what_a_broken_restore_left_is_in_nobodys_way(path: Path, tmp_path: Path) -> None:
    """A part under its own name; a file of the wanted name with half of its pages is refused."""
    copy, dest = tmp_path / "copy.db", tmp_path / "dest.db"
    with opened(path) as store:
        store.backup(copy)
    part = tmp_path / "dest.db.0badcafe.part"
    part.write_bytes(copy.read_bytes()[: 10 * PAGE])
    dest.write_bytes(copy.read_bytes()[: 10 * PAGE])
    with pytest.raises(fencepost.StorageError, match="malformed"):
        fencepost.open(dest)
    with pytest.raises(fencepost.InvalidArgument, match="there already"):
        fencepost.restore(copy, dest)
    dest.unlink()
    fencepost.restore(copy, dest)
    with opened(dest) as store:
        assert store.check(full=True) == []
        assert store.stats()["totals"]["pending"] == 500
    assert part.stat().st_size == 10 * PAGE


@pytest.mark.parametrize("log", [NOISE, bytes(PAGE)], ids=["noise", "zeros"])
def test_a_log_of_rubbish_beside_it_is_no_part_of_it(path: Path, log: bytes) -> None:
    """What SQLite's check sums do not vouch for is not played in."""
    path.with_name("app.db-wal").write_bytes(log)
    answers = {way.__name__: fate(way, path) for way in WAYS if way is not work}
    expected = {"check": [], "count": 500, "back_up": "made", "restore": [], "look": 500}
    assert answers == {**expected, "health": 0}
