"""
Opening a file: its tables are made once, whoever comes first; what cannot be trusted as a store is
refused, and stays what it was to the byte.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

import fencepost
from fencepost import InvalidArgument, NewerSchema, StorageError
from harness_core import Verdict, ack, define, lib, message, put, settle, take
from harness_core import core as opened
from harness_ladder import findings
from harness_outside import Outside
from harness_processes import all_of, at_once, start

pytestmark = pytest.mark.usefixtures("no_process_left")

MINE = """
    CREATE TABLE orders (id INTEGER PRIMARY KEY, paid INTEGER);
    INSERT INTO orders VALUES (7, 1);
    CREATE INDEX orders_paid ON orders (paid);
    PRAGMA user_version = 42;
    PRAGMA application_id = 4711;
"""


def app_database(path: Path, outside: Outside, mode: str = "WAL") -> None:
    path.touch()
    outside.change(path, f"PRAGMA journal_mode = {mode};{MINE}")


def contents(path: Path) -> dict[str, bytes]:
    """Every file beside and with the database; read where no store has it open."""
    return {one.name: one.read_bytes() for one in path.parent.iterdir() if one.is_file()}


# ---- made once -----------------------------------------------------------------------------------


FILES = 10  # of each kind: who comes first is another one each time


@pytest.mark.parametrize("before", ["nothing", "an empty file", "an application's database"])
def test_eight_processes_make_it_once(path: Path, outside: Outside, before: str) -> None:
    """All of them go on to work on it; the application's rows stay."""
    paths = [path.with_name(f"{number}.db") for number in range(FILES)]
    for one in paths:
        if before == "an empty file":
            one.touch()
        elif before == "an application's database":
            app_database(one, outside)
    program = """
say("ready")
sys.stdin.readline()
for number in range(int(sys.argv[2])):
    with opened(path.with_name(f"{number}.db"), hand_us=-1) as core:
        say(put(core, define(core, "q"), b"a", b"b"))
"""
    processes = [start(program, path, FILES) for _ in range(8)]
    at_once(processes)
    said = all_of(processes)
    for number, one in enumerate(paths):
        ids = [each for answers in said for each in answers[number]]
        assert sorted(ids) == list(range(1, 17))
        with opened(one) as core:
            assert findings(core) == ""
        assert outside.rows(one, "SELECT count(*) FROM fencepost_meta") == [[1]]
        if before == "an application's database":
            assert outside.rows(one, "SELECT * FROM orders") == [[7, 1]]


def test_reopening_changes_nothing(path: Path, outside: Outside) -> None:
    with opened(path) as core:
        put(core, define(core, "q"), b"a")
    before = outside.dump(path)
    with opened(path):
        assert outside.dump(path) == before
    assert outside.dump(path) == before


def test_the_applications_own_things_are_not_touched(path: Path, outside: Outside) -> None:
    """Its tables, indexes and rows, and the two numbers in the header that are its own."""
    app_database(path, outside)
    schema = "SELECT sql FROM sqlite_schema WHERE tbl_name NOT LIKE 'fencepost_%' ORDER BY name"
    before = outside.rows(path, schema)
    with opened(path) as core:
        queue = define(core, "q")
        put(core, queue, b"a")
        ack(core, *take(core, queue))
    assert outside.rows(path, schema) == before
    assert outside.rows(path, "SELECT * FROM orders") == [[7, 1]]
    assert outside.rows(path, "PRAGMA user_version") == [[42]]
    assert outside.rows(path, "PRAGMA application_id") == [[4711]]


def test_a_utf_16_database_is_welcome(path: Path, outside: Outside) -> None:
    """The application chose its encoding; our names, keys and lanes survive it."""
    path.touch()
    outside.change(path, f"PRAGMA encoding = 'UTF-16le'; PRAGMA journal_mode = WAL; {MINE}")
    with opened(path) as core:
        queue = define(core, "größe")
        keys, lanes = ["ключ".encode()], ["線".encode()]
        put(core, queue, b"\xff\x00", keys=keys, life=lib.FP_LIFE_LASTING, lanes=lanes)
        (held,) = take(core, queue)
        assert (held.key, held.lane, held.body) == (keys[0], lanes[0], b"\xff\x00")
        assert ack(core, held) == [lib.FP_DONE]
        assert findings(core) == ""


# ---- WAL -----------------------------------------------------------------------------------------


def test_a_database_that_is_not_in_wal_mode_is_turned_only_by_name(
    path: Path, outside: Outside
) -> None:
    """The change lasts, so it has to be asked for; without that nothing is written."""
    app_database(path, outside, "DELETE")
    before = contents(path)
    with pytest.raises(InvalidArgument, match="wal=True"):
        fencepost.open(path)
    assert contents(path) == before
    with fencepost.open(path, wal=True) as store:
        store.queue("q").enqueue("a")
    assert outside.rows(path, "PRAGMA journal_mode") == [["wal"]]
    fencepost.open(path).close()


@pytest.mark.hostile
@pytest.mark.parametrize(("durability", "level"), [("full", 2), ("normal", 1)])
def test_commits_are_synced_unless_they_are_not_to_be(
    path: Path, durability: Literal["full", "normal"], level: int
) -> None:
    """By the level that SQLite itself says it is at; on macOS with a full sync."""
    with fencepost.open(path, durability=durability) as store:
        said = {name: pragma(store, name) for name in ("synchronous", "fullfsync")}
    assert said == {"synchronous": level, "fullfsync": 1}


def pragma(store: fencepost.Store, name: str) -> int:
    """Asked on the writing connection, past what a caller's SQL may ask."""
    core = store._file.core
    return core._number(lib.fp_pragma, f"PRAGMA {name}".encode())


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
def test_an_applications_database_may_be_in_utf_16(
    path: Path, outside: Outside, encoding: str
) -> None:
    """Names, keys, lanes and failures come back as they were, and are found again."""
    path.touch()
    outside.change(path, f"PRAGMA encoding = '{encoding}'; PRAGMA journal_mode = WAL;{MINE}")
    word = "Grüße \N{ROCKET}".encode()
    with opened(path) as core:
        queue = core.queue_define(None, word, lib.FP_PROFILE_JOB, {"jitter_milli": 0})
        assert core.queue_find(None, word)[0] == queue
        one, two = put(
            core, queue, b"\0\xff", b"", keys=[word, word * 2], lanes=[word, word], life=1
        )
        assert put(core, queue, b"\0\xff", keys=[word], life=1) == [one]
        (held,) = take(core, queue, 5)
        assert (held.key, held.lane, held.body) == (word, word, b"\0\xff")
        settle(core, Verdict(held.id, held.token, lib.FP_FAIL, 0, None, word, word, word))
        found = message(core, one)
        assert found is not None
        assert (found.key, found.failure_kind, found.failure_text) == (word, word, word)
        assert [claim.id for claim in take(core, queue, 5)] == [two]
        assert findings(core) == ""


# ---- newer ---------------------------------------------------------------------------------------


def test_a_newer_schema_is_refused_and_left_alone(path: Path, outside: Outside) -> None:
    with opened(path):
        pass
    outside.change(path, "UPDATE fencepost_meta SET version = 2")
    before = contents(path)
    with pytest.raises(NewerSchema, match="version 2"):
        fencepost.open(path)
    assert contents(path) == before


def test_a_running_handle_notices_a_newer_schema_before_it_writes(
    path: Path, outside: Outside
) -> None:
    """Whatever it does next, looks included."""
    with opened(path) as core:
        queue = define(core, "q")
        put(core, queue, b"a", b"b")
        (held,) = take(core, queue)
        outside.change(path, "UPDATE fencepost_meta SET version = 2")
        before = outside.dump(path)
        for use in (
            lambda: put(core, queue, b"c"),
            lambda: take(core, queue),
            lambda: ack(core, held),
            lambda: core.cancel(None, [held.id]),
            core.stats,
            core.now,
            lambda: core.begin(1),
            lambda: core.retain(10),
        ):
            with pytest.raises(NewerSchema):
                use()
        assert outside.dump(path) == before
        outside.change(path, "UPDATE fencepost_meta SET version = 1")
        assert ack(core, held) == [lib.FP_DONE]


def test_a_newer_schema_need_not_have_our_columns(path: Path, outside: Outside) -> None:
    """All that is asked of every version to come is where it says which one it is."""
    with opened(path) as core:
        define(core, "q")
        outside.change(
            path,
            "UPDATE fencepost_meta SET version = 2;"
            "ALTER TABLE fencepost_meta RENAME COLUMN boot_id TO boot;"
            "ALTER TABLE fencepost_tally RENAME COLUMN time TO moment",
        )
        for use in (lambda: put(core, 1, b"c"), core.stats):
            with pytest.raises(NewerSchema, match="version 2"):
                use()
    with pytest.raises(NewerSchema, match="version 2"):
        fencepost.open(path)


def test_damaged_tables_are_told(path: Path, outside: Outside) -> None:
    """A file whose head is gone is no store any more: it says so, and nothing is made anew."""
    with opened(path):
        pass
    outside.change(path, "DELETE FROM fencepost_meta")
    with pytest.raises(StorageError, match="damaged"):
        fencepost.open(path)
    outside.change(path, "DROP TABLE fencepost_due")
    with pytest.raises(StorageError):
        fencepost.open(path)


# ---- refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", ":memory:", "a\0b"])
def test_names_of_no_file_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgument):
        fencepost.open(name)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="folder"):
        fencepost.open(tmp_path)


def test_what_is_no_plain_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidArgument, match="plain file"):
        fencepost.open(tmp_path / "pipe")


def test_a_second_hard_link_is_refused_and_a_symbolic_one_is_not(path: Path) -> None:
    """Two names have two WALs; a symbolic link is followed before."""
    fencepost.open(path).close()
    link = path.with_name("link.db")
    link.symlink_to(path)
    with fencepost.open(link) as store, fencepost.open(path) as same:
        store.queue("q").enqueue("a")
        assert same.queue("q").size() == 1
    twin = path.with_name("twin.db")
    twin.hardlink_to(path)
    before = contents(path)
    for name in (path, twin):
        with pytest.raises(InvalidArgument, match="hard link"):
            fencepost.open(name)
    assert contents(path) == before


@pytest.mark.parametrize("size", [1, 100, 5000])
def test_garbage_is_told_and_left_alone(path: Path, size: int) -> None:
    path.write_bytes(b"garbage " * size)
    before = contents(path)
    with pytest.raises(StorageError, match="not a database"):
        fencepost.open(path)
    assert contents(path) == before


def test_a_database_cut_short_is_told(path: Path) -> None:
    """Its second half is gone; it is refused or found damaged, and never made anew."""
    with opened(path) as core:
        put(core, define(core, "q"), *[b"x" * 500] * 1000)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    before = path.read_bytes()
    with pytest.raises(StorageError), opened(path) as core:
        for _ in range(1001):
            take(core, 1)
    assert path.read_bytes() == before


def test_what_is_missing_is_not_made_unless_asked(tmp_path: Path) -> None:
    for name in ("none.db", "no/folder/none.db"):
        with pytest.raises(StorageError, match="unable to open"):
            fencepost.open(tmp_path / name, create=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["file/app.db", "file/folder/app.db"])
def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(StorageError, match="cannot be made|unable to open"):
        fencepost.open(tmp_path / name)


@pytest.fixture
def folder_for_all() -> Iterator[Path]:
    """Not below pytest's own folder: each run that starts closes that one to all but its user."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


READ_ONLY = """
import os, sys
import fencepost
if os.getuid() == 0:
    os.setgid(65534), os.setuid(65534)
try:
    fencepost.open(sys.argv[1])
except fencepost.StorageError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("there", "words"),
    [(0, "unable to open"), (0o444, "read-only"), (0o666, "its folder must be writable")],
)
def test_a_folder_that_may_only_be_read_is_told(
    folder_for_all: Path, there: int, words: str
) -> None:
    """Nobody's user can neither make the file nor open the one that is there."""
    closed = folder_for_all / "closed"
    closed.mkdir()
    if there:
        fencepost.open(closed / "app.db").close()
        (closed / "app.db").chmod(there)
    closed.chmod(0o555)
    command = [sys.executable, "-c", READ_ONLY, str(closed / "app.db")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert words in done.stdout
    assert str(closed / "app.db") in done.stdout
    assert [one.name for one in closed.iterdir()] == (["app.db"] if there else [])


def test_a_file_that_may_only_be_read_is_refused_and_gets_no_company(folder_for_all: Path) -> None:
    """A WAL that somebody else has made beside it could not be written by its owner."""
    folder_for_all.chmod(0o777)
    path = folder_for_all / "app.db"
    fencepost.open(path).close()
    path.chmod(0o444)
    command = [sys.executable, "-c", READ_ONLY, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"the file is read-only: {path}" in done.stdout
    assert [one.name for one in folder_for_all.iterdir()] == ["app.db"]


# ---- permissions ---------------------------------------------------------------------------------


def test_what_is_made_is_its_owners_alone(tmp_path: Path) -> None:
    """Files 0600, folders 0700, whatever the umask would let through."""
    before = os.umask(0)
    try:
        path = tmp_path / "new" / "deeper" / "app.db"
        with opened(path) as core:
            put(core, define(core, "q"), b"a")
            modes = {one.name: one.stat().st_mode & 0o777 for one in path.parent.iterdir()}
        assert modes == {"app.db": 0o600, "app.db-wal": 0o600, "app.db-shm": 0o600}
        assert path.parent.stat().st_mode & 0o777 == 0o700
        assert path.parent.parent.stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)


def test_what_was_there_keeps_its_mode(path: Path, outside: Outside) -> None:
    app_database(path, outside)
    path.chmod(0o640)
    with opened(path) as core:
        put(core, define(core, "q"), b"a")
        modes = {one.stat().st_mode & 0o777 for one in path.parent.glob("app.db*")}
    assert modes == {0o640}
