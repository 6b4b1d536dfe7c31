"""
Both SQLites on one file, in threads and in processes, opening and closing all the time, while some
are killed and others fork: what was acknowledged is counted, and the file is whole.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

import fencepost
from harness_outside import Outside
from harness_processes import FORKS_BESIDE_THREADS

# A guest leaves checkpoints to Fencepost, as `check` advises: this Python's SQLite may be one that
# damages a file when two processes have it.
PROGRAM = """
import os, random, sqlite3, sys, threading, time
import fencepost
path, acknowledged, seconds, forks = sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4]
end = time.monotonic() + seconds
acks = os.open(acknowledged, os.O_WRONLY | os.O_APPEND)
ROUND = 10

def ours(word=b"o", rounds=None):
    while time.monotonic() < end and rounds != 0:
        with fencepost.open(path, durability="normal") as store:
            queue = store.queue("q")
            for _ in range(ROUND):
                queue.enqueue(1)
                os.write(acks, word)
        rounds = None if rounds is None else rounds - 1

def guest():
    while time.monotonic() < end:
        one = sqlite3.connect(path, timeout=60, isolation_level=None)
        one.execute("PRAGMA wal_autocheckpoint=0")
        one.execute("PRAGMA synchronous=OFF")
        for _ in range(ROUND):
            one.execute("BEGIN IMMEDIATE")
            one.execute("UPDATE counter SET n = n + 1")
            one.execute("INSERT INTO own (words) VALUES (hex(randomblob(40)))")
            one.execute("COMMIT")
            os.write(acks, b"g")
        one.close()

failures = []
def kept(body):
    try:
        body()
    except BaseException as error:
        failures.append(repr(error))

threads = [threading.Thread(target=kept, args=(body,)) for body in (ours, guest, ours, guest)]
for thread in threads:
    thread.start()
while forks == "forks" and time.monotonic() < end:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            ours(rounds=1)
            time.sleep(random.random() * 0.2)
            status = 0
        finally:
            os._exit(status)
    time.sleep(0.05)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        failures.append("a child")
for thread in threads:
    thread.join()
sys.exit("; ".join(failures) or None)
"""


class Storm:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.acks = path.with_name("acknowledged")
        self.acks.touch()
        self.kills = 0
        with fencepost.open(path) as store:
            store.queue("q")
            with store.transaction() as tx:
                tx.execute("CREATE TABLE counter (n INTEGER NOT NULL)")
                tx.execute("INSERT INTO counter VALUES (0)")
                tx.execute("CREATE TABLE own (id INTEGER PRIMARY KEY, words TEXT UNIQUE)")

    def start(self, seconds: float, *, forks: bool = False) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", PROGRAM, str(self.path), str(self.acks), str(seconds)]
        return subprocess.Popen(
            [*command, "forks" if forks else ""], stderr=subprocess.PIPE, text=True
        )

    def run(self, seconds: float) -> None:
        """One process that forks and one that does not, both to their end; two that are killed."""
        end = time.monotonic() + seconds
        steady = [self.start(seconds, forks=FORKS_BESIDE_THREADS), self.start(seconds)]
        victims = [self.start(seconds + 60) for _ in range(2)]
        while time.monotonic() < end:
            time.sleep(0.3 + random.random() * 0.4)
            place = random.randrange(2)
            self.kill(victims[place])
            victims[place] = self.start(seconds + 60)
        for victim in victims:
            self.kill(victim)
        for process in steady:
            _, words = process.communicate(timeout=120)
            assert process.returncode == 0, words

    def kill(self, victim: subprocess.Popen[str]) -> None:
        with closing(victim.stderr):  # type: ignore[type-var]
            victim.send_signal(signal.SIGKILL)
            victim.wait()
        self.kills += 1

    def audit(self, outside: Outside) -> None:
        """Each thread that was killed may have committed one that it could not tell of."""
        said = self.acks.read_bytes()
        ours, guests = said.count(b"o"), said.count(b"g")
        (numbers,) = outside.rows(
            self.path,
            "SELECT (SELECT count(*) FROM fencepost_due), n, (SELECT count(*) FROM own)"
            " FROM counter",
        )
        print(f"{ours} of ours, {guests} of guests, {self.kills} kills; in the file: {numbers}")
        assert ours <= numbers[0] <= ours + 2 * self.kills
        assert guests <= numbers[1] <= guests + 2 * self.kills
        assert numbers[1] == numbers[2]
        assert outside.rows(self.path, "PRAGMA integrity_check") == [["ok"]]
        with fencepost.open(self.path) as store:
            assert store.check(full=True) == []
        assert ours > 0 < guests


def test_what_both_acknowledge_is_there(path: Path, outside: Outside) -> None:
    storm = Storm(path)
    storm.run(4)
    storm.audit(outside)


@pytest.mark.long
def test_what_both_acknowledge_is_there_after_a_minute(path: Path, outside: Outside) -> None:
    storm = Storm(path)
    storm.run(60)
    storm.audit(outside)
