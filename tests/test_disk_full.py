"""
A worker whose disk is full, breaks or cannot be synced goes on by itself once it is whole again.

The full one is a real one, and small: a file system in memory, in a name space of the test's own.
The others are the crash disk of the test build.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness_processes import HEAD

pytestmark = pytest.mark.hostile

STORY = """
import logging, sqlite3, threading
from collections import Counter
from fencepost import App, Context, Run, StorageError
from harness_ladder import FOR_EVER, disarm
from harness_worker import AT_ONCE, until

filler = path.with_name("filler")

def fill():
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pass

SPOIL = {
    "really full": fill,
    "full": lambda: lib.fp_fault_write(0, FOR_EVER, 1),
    "broken": lambda: lib.fp_fault_write(0, FOR_EVER, 0),
    "unsynced": lambda: lib.fp_fault_sync(0, FOR_EVER),
    "unreadable": lambda: lib.fp_fault_io(0, FOR_EVER),
}
how = sys.argv[2]
if how != "really full":
    lib.fp_crash_install()

class Heard(logging.Handler):
    def emit(self, record):
        said.append(record.getMessage())

said = []
logging.getLogger("fencepost").addHandler(Heard())
app = App(path)
at_gate, gate = threading.Semaphore(0), threading.Event()
began = Counter()

@app.job(context=True, backoff=AT_ONCE)
def pay(ctx: Context, n: int) -> int:
    began[n] += 1
    at_gate.release()
    assert gate.wait(60)
    ctx.tx.execute("INSERT INTO paid VALUES (?)", [n])
    return n

@app.job
def mark(n: int) -> int:
    began[~n] += 1
    return n

# Records use no attempt; a commit with rows of its own does, as a job's: one for all this time.
@app.workflow(max_attempts=2, backoff=AT_ONCE)
async def flow(run: Run, n: int) -> int:
    return await run.step("one", abs, n) + await run.transact("two", lambda tx: 1)

with app.transaction() as tx:
    tx.execute("CREATE TABLE paid (n INTEGER)")
    pays = [pay.options(tx=tx).enqueue(n) for n in range(8)]
    marks = [mark.options(tx=tx).enqueue(n) for n in range(8)]
    flows = [flow.options(id=f"r{n}", tx=tx).start(n) for n in range(4)]

with app.worker(threads=4):
    for _ in range(3):
        assert at_gate.acquire(timeout=60)
    SPOIL[how]()
    gate.set()
    until(lambda: sum("again in" in one for one in said) >= 2)
    words = []
    while not words:
        try:
            marks.append(mark.enqueue(len(marks)))
        except StorageError as error:
            words.append(str(error))
    tries = sum("again in" in one for one in said)
    filler.unlink(missing_ok=True)
    disarm()
    for all_ in (pays, marks, flows):
        for n, handle in enumerate(all_):
            assert handle.result(60) == (n + 1 if all_ is flows else n), n

with app.store as store, store.transaction() as tx:
    assert sorted(tx.execute("SELECT n FROM paid")) == [(n,) for n in range(8)]
    kinds = "kind IN (SELECT id FROM fencepost_kind WHERE name = 'mark')"
    ((there,),) = tx.execute(f"SELECT count(*) FROM fencepost_message WHERE {kinds}")
    assert there == len(marks), "what was refused is there"
with App(path).store as store:
    assert store.check(full=True) == []
assert max(began.values()) <= 2
say([words[0], tries, [one for one in said if "again in" in one][:3]])
"""


def told(path: Path, how: str, *before: str) -> tuple[str, int, list[str]]:
    """The words of a refused call, how often the worker tried, and what it said of that."""
    folders = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [*before, sys.executable, "-c", HEAD + STORY, str(path), how],
        env={**os.environ, "PYTHONPATH": folders},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    words, tries, said = json.loads(done.stdout)
    return words, tries, said


WORDS = {
    "full": "database or disk is full",
    "broken": "disk I/O error",
    "unsynced": "disk I/O error",
    "unreadable": "disk I/O error",
}


@pytest.mark.parametrize("how", WORDS)
def test_a_worker_waits_until_its_disk_is_whole_again(path: Path, how: str) -> None:
    """It says why, backs off, loses and repeats nothing; what was refused is not there."""
    words, tries, said = told(path, how)
    assert WORDS[how] in words
    assert tries < 50
    assert all(WORDS[how] in one for one in said)


SMALL = 'mount -t tmpfs -o size=1m tmpfs "$0" && exec "$@"'


def test_a_worker_waits_until_a_real_disk_has_room_again(tmp_path: Path) -> None:
    """The same where the kernel says that there is no space left."""
    apart = ["unshare", "-rm", "sh", "-c", SMALL, str(tmp_path)]
    if not shutil.which("unshare") or subprocess.run([*apart, "true"], check=False).returncode:
        pytest.skip("no name space of our own is to be had here")
    words, _, _ = told(tmp_path / "app.db", "really full", *apart)
    assert "disk is full" in words or "disk I/O error" in words
