"""
Everything that Fencepost has, in one file, under processes that are killed at any moment.

What each of them was told stands in an observer's book (storm_app). Afterwards a clean worker ends
what is left, and the file, the application's own rows and the book must tell the same story.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import harness_storm
import storm_app
from fencepost._binding.calls import FP
from fencepost.values import State
from harness_outside import Outside
from harness_storm import LIVES, tend
from harness_worker import until
from storm_app import Book, House

pytestmark = pytest.mark.hostile

KEPT = ("default", "receipts", "payments")  # queues whose outcomes stay


def blow(path: Path, book: Book, kills: int) -> list[list[str]]:
    """One storm. Who was killed, how and where."""
    seed = random.SystemRandom().randrange(10**9)
    print(f"seed {seed}")
    storm_app.build(path, book)
    command = [sys.executable, harness_storm.__file__, path, book.path, kills, seed]
    folders = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        list(map(str, command)),
        check=True,
        env={**os.environ, "PYTHONPATH": folders},
        stdout=subprocess.PIPE,
    )
    killed: list[list[str]] = json.loads(done.stdout)
    return killed


def report(killed: Iterable[list[str]]) -> str:
    """What was killed where: a line a life."""
    lives: dict[str, Counter[str]] = {}
    for life, how, where in killed:
        lives.setdefault(life, Counter())[f"{how} {where}"] += 1
    lines = [f"{sum(map(Counter.total, lives.values()))} killed"]
    for life, places in sorted(lives.items()):
        told = ", ".join(f"{place} {count}" for place, count in places.most_common())
        lines.append(f"  {life} {places.total()}: {told}")
    return "\n".join(lines)


def drain(us: House) -> None:
    """All there is comes to its end, with a worker and an operator that nobody kills."""
    store = us.app.store
    queue = store.queue("bulk", int), store.queue("plain", int)

    def ended() -> bool:
        tend(us)
        for claim in (claim for one in queue for claim in one.claim(100)):
            with us.app.transaction() as tx:
                storm_app.note_end(tx, "bulk", claim.id, claim.token)
                claim.ack(tx=tx)
        totals = store.stats()["totals"]
        states: tuple[State, ...] = ("dead", "unknown")
        return not any(totals[one] for one in ("pending", "waiting", "leased", *states))

    with us.app.worker(threads=4):
        until(ended)
    assert store.check(full=True) == []


def weather(path: Path, outside: Outside, kills: int) -> list[list[str]]:
    """One storm, and what must be true after it."""
    book = Book(path.with_name("book"))
    killed = blow(path, book, kills)
    us = storm_app.house(path, book, recurring=False)
    with us.app.store:
        drain(us)
    judge(Evidence(path, book, outside))
    return killed


class Evidence:
    """What the book, the application's rows and our tables say, read by another SQLite."""

    def __init__(self, path: Path, book: Book, outside: Outside) -> None:
        self.lines: dict[str, list[str]] = {}
        self.broke = []
        for word, *rest in book.read():
            self.lines.setdefault(word, []).extend(rest)
            if word == "broke" or (word == "warned" and "again in" in " ".join(rest)):
                self.broke.append(" ".join(rest))
        self._path, self._outside = path, outside
        self.sent = self.by_kind("SELECT what, id FROM sent")
        self.ended = self.by_kind("SELECT what, name FROM ended")
        names = ("done", "done", "dead", "unknown", "cancelled")
        self.state = {
            str(number): names[state - 3]
            for number, state in self.rows("SELECT id, state FROM fencepost_outcome")
        }

    def rows(self, sql: str) -> list[list[Any]]:
        return self._outside.rows(self._path, sql)

    def by_kind(self, sql: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for what, name in self.rows(sql):
            found.setdefault(what, []).append(str(name))
        return found

    def told(self, word: str) -> list[str]:
        return self.lines.get(word, [])

    def column(self, sql: str) -> list[str]:
        return [str(one) for (one,) in self.rows(sql)]


def once(names: Iterable[str]) -> set[str]:
    """Each of them is there once."""
    counts = Counter(names)
    twice = [name for name, count in counts.items() if count > 1]
    assert not twice, f"twice: {twice}"
    return set(counts)


def judge(found: Evidence) -> None:
    assert found.broke == []
    ended = {what: once(names) for what, names in found.ended.items()}
    cancelled = ended.get("cancelled", set())

    # Messages that keep nothing: those that were sent, and no others, have ended once.
    for what in ("numbers", "bulk"):
        assert ended[what] == once(found.sent[what]), what

    # Jobs: a row and an outcome are one commit; so are a cancellation and its row.
    for what in ("pay", "shaky", "later"):
        sent, own = once(found.sent[what]), ended.get(what, set())
        assert not own & cancelled, "done, and cancelled"
        assert own | (sent & cancelled) == sent, f"{what}: lost"
        assert {found.state[one] for one in own} <= {"done"}
        assert {found.state[one] for one in sent & cancelled} <= {"cancelled"}
    kinds = "SELECT m.id FROM fencepost_message m JOIN fencepost_kind k ON k.id = m.kind"
    for what in ("pay", "shaky", "later"):
        there = set(found.column(f"{kinds} WHERE k.name = '{what}'"))
        assert there == set(found.sent[what]), "a message without its row"
    keyed = found.column("SELECT key FROM fencepost_message WHERE key LIKE 'k%'")
    assert once(keyed)

    # What came in twice is one; what follows from it is in the counts of jobs and receipts.
    came = set(found.column("SELECT name FROM sent WHERE what = 'payments'"))
    assert ended["payments"] == came == once(found.column(of_queue("payments", "key", cut=2)))

    # What left: never twice unless an operator said so, and what nobody can answer for is said.
    went, again = Counter(found.told("went")), Counter(found.told("resends"))
    assert all(count <= 1 + again[one] for one, count in went.items()), "sent again by itself"
    receipts, confirmed = once(found.sent["receipts"]), set(found.told("confirms"))
    assert set(found.column(of_queue("receipts", "id"))) == receipts
    assert {found.state[one] for one in receipts} == {"done"}
    assert ended["receipts"] <= set(went)
    assert receipts - ended["receipts"] <= confirmed

    judge_runs(found, ended, cancelled)
    judge_acknowledged(found, ended)
    judge_order(found)
    judge_counts(found)


def of_queue(name: str, column: str, cut: int = 1) -> str:
    queue = f"(SELECT id FROM fencepost_queue WHERE name = '{name}')"
    return f"SELECT substr({column}, {cut}) FROM fencepost_message WHERE queue = {queue}"


def judge_runs(found: Evidence, ended: dict[str, set[str]], cancelled: set[str]) -> None:
    """Each has ended; its bill was written once, with what it had drawn the first time."""
    runs = found.rows(
        "SELECT r.id, r.state, k.name, r.result FROM fencepost_run r"
        " JOIN fencepost_kind k ON k.id = r.kind"
    )
    orders = {run: state for run, state, kind, _ in runs if kind == "order"}
    assert set(found.told("started")) <= set(orders)
    assert set(orders.values()) <= {FP.RUN_DONE, FP.RUN_CANCELLED}
    gone = {run for run, state in orders.items() if state == FP.RUN_CANCELLED}
    assert gone == cancelled & set(orders)
    billed = found.rows("SELECT name, lane FROM ended WHERE what = 'order'")
    drawn_of = dict(map(tuple, billed))
    for run, state, kind, result in runs:
        if kind == "order" and state == FP.RUN_DONE:
            drawn, said, parts, _ = json.loads(bytes.fromhex(result))
            assert drawn_of[run] == drawn, "what was recorded ran again"
            assert said in ("at once late", "told late")
            assert parts[0] in ended["part"]
    assert ended["order"] <= set(orders)


def judge_acknowledged(found: Evidence, ended: dict[str, set[str]]) -> None:
    """What somebody was told is so."""
    sent = set().union(*map(set, found.sent.values()))
    assert set(found.told("sent")) <= sent
    assert set(found.told("ended")) <= ended["bulk"]
    assert set(found.told("cancelled")) <= ended.get("cancelled", set())
    assert {found.state[one] for one in found.told("done")} <= {"done"}
    tokens = found.told("claimed") + found.column("SELECT token FROM ended WHERE token > 0")
    assert once(found.told("claimed"))
    assert not set(tokens) & sent, "a token was an id"


def judge_order(found: Evidence) -> None:
    strict = "SELECT CAST(name AS INTEGER) AS id, max(CAST(name AS INTEGER)) OVER"
    strict += " (PARTITION BY lane ORDER BY rowid) AS latest FROM ended WHERE what = 'pay'"
    strict += " AND lane IS NOT NULL"
    assert found.rows(f"SELECT count(*) FROM ({strict}) WHERE id < latest") == [[0]], "overtaken"
    ticked = found.column("SELECT due FROM ticked")
    assert sorted(once(ticked)) == ticked, "a schedule went back"


def judge_counts(found: Evidence) -> None:
    """The tally is what a recount by another hand says."""
    states = {"done": "3, 4", "dead": "5", "unknown": "6", "cancelled": "7"}
    for name, numbers in states.items():
        wrong = found.rows(
            f"SELECT t.queue, t.{name} FROM fencepost_tally t WHERE t.queue > 0 AND t.{name} !="
            f" (SELECT count(*) FROM fencepost_outcome o WHERE o.queue = t.queue"
            f" AND o.state IN ({numbers}))"
        )
        assert wrong == [], name
    assert found.rows("SELECT count(*) FROM fencepost_due") == [[0]]
    assert found.rows("PRAGMA integrity_check") == [["ok"]]


# ---- storms --------------------------------------------------------------------------------------


def test_a_storm_loses_nothing_and_ends_nothing_twice(path: Path, outside: Outside) -> None:
    """Some tens of processes die, half of them at a step of the core, the others at any moment."""
    killed = weather(path, outside, 40)
    assert {how for _, how, _ in killed} == {"at", "after"}


@pytest.mark.long
def test_a_thousand_kills_lose_nothing_and_end_nothing_twice(path: Path, outside: Outside) -> None:
    killed = weather(path, outside, 1000)
    print(report(killed))
    assert len(killed) >= 1000
    assert {life for life, _, _ in killed} == {life.__name__ for life in LIVES}
