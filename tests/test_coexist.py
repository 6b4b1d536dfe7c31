"""
Our SQLite and Python's own on one file in one process: what is committed through either stays.

Each program here runs as it is, and again without the lock shim, where it must go wrong: so it is
the shim that holds the promise, and a test that could not fail would be found out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness_processes import finish, start

pytest.importorskip("fencepost._core_test")

pytestmark = [pytest.mark.hostile, pytest.mark.usefixtures("no_process_left")]

HEAD = """
import sqlite3, subprocess
from harness_core import opened as open_core
if sys.argv[2] == "off":
    lib.fp_locks_pretend(lib.FP_LOCKS_OFF)

def connected(timeout=0):
    return sqlite3.connect(path, timeout=timeout, isolation_level=None)

def elsewhere(sql):
    '''The first value that another process gets, or what it is told.'''
    program = ("import sqlite3, sys\\n"
               "c = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)\\n"
               "try: print(*(c.execute(sys.argv[2]).fetchone() or ['done']))\\n"
               "except sqlite3.Error as error: print(error)")
    command = [sys.executable, "-c", program, str(path), sql]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()

def told(sql, connection):
    try:
        return (connection.execute(sql).fetchone() or ["done"])[0]
    except sqlite3.Error as error:
        return str(error)

IN_LINE = "SELECT count(*) FROM fencepost_due"
BEGIN = "BEGIN IMMEDIATE"
own = open_core(path)
queue = define(own, "q")
"""

GUEST_CLOSES = """
put(own, queue, b"1")
guest = connected()
guest.execute(IN_LINE).fetchall()
guest.close()
put(own, queue, b"2")
say([elsewhere(IN_LINE), elsewhere("PRAGMA integrity_check")])
"""

WE_CLOSE = """
guest = connected()
guest.execute("CREATE TABLE t (a)")
own.close()
guest.execute("INSERT INTO t VALUES (1)")
say([elsewhere("SELECT count(*) FROM t"), elsewhere("PRAGMA integrity_check")])
"""

BOTH_WRITE = """
guest = connected()
with transaction(own) as tx:
    put(own, queue, b"1", tx=tx)
    say(told(BEGIN, guest))
guest.execute(BEGIN)
own.patience = 0
try:
    put(own, queue, b"2")
    say("got it")
except Exception as error:
    say(type(error).__name__)
guest.execute("ROLLBACK")
say([elsewhere(IN_LINE), elsewhere("PRAGMA integrity_check")])
"""

GUEST_DROPS = """
with transaction(own) as tx:
    put(own, queue, b"1", tx=tx)
    guest = connected()
    guest.execute(IN_LINE).fetchall()
    guest.close()
    say(elsewhere(BEGIN))
"""

PROGRAM_DROPS = """
with transaction(own) as tx:
    put(own, queue, b"1", tx=tx)
    for suffix in ("", "-shm"):
        open(f"{path}{suffix}", "rb").close()
    say(elsewhere(BEGIN))
"""

WE_DROP = """
guest = connected()
guest.execute(BEGIN)
guest.execute("CREATE TABLE t (a)")
other = open_core(path, patience=0)
stats(other, queue)
other.close()
own.close()
say(elsewhere(BEGIN))
guest.execute("COMMIT")
say(elsewhere("SELECT count(*) FROM t"))
"""

CASES = {
    "what is committed after a guest has closed stays": (GUEST_CLOSES, [["2", "ok"]]),
    "what a guest commits after we have closed stays": (WE_CLOSE, [["1", "ok"]]),
    "one writes at a time": (BOTH_WRITE, ["database is locked", "Busy", ["1", "ok"]]),
    "a guest that closes drops no lock of ours": (GUEST_DROPS, ["database is locked"]),
    "a program that reads the files drops no lock of ours": (PROGRAM_DROPS, ["database is locked"]),
    "we drop no lock of a guest": (WE_DROP, ["database is locked", "0"]),
}


def said(case: str, path: Path, shim: str) -> list[Any]:
    return finish(start(HEAD + CASES[case][0], path, shim))


@pytest.mark.parametrize("case", CASES)
def test_both_keep_their_locks_and_their_commits(path: Path, case: str) -> None:
    assert said(case, path, "on") == CASES[case][1]


@pytest.mark.parametrize("case", CASES)
def test_without_the_shim_they_do_not(path: Path, case: str) -> None:
    try:
        what_was_said = said(case, path, "off")
    except AssertionError:  # the program ended badly
        return
    assert what_was_said != CASES[case][1]
