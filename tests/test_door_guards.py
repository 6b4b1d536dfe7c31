"""What the door refuses, and that a refusal leaves nothing, however the INSERT was spelled."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost import InvalidArgument
from fencepost._binding.calls import Core
from fencepost._binding.guest import Guest
from harness_core import Held, Verdict, define, lib, message, opened, put, take
from harness_door import Door, Refused
from harness_ladder import findings
from harness_outside import Outside

SECOND = 1_000_000
MIB = 1 << 20


@pytest.fixture
def core(path: Path) -> Iterator[Core]:
    """By the real clock, as the door is."""
    one = opened(path, hand_us=-1)
    define(one, "plain", lib.FP_PROFILE_QUEUE)
    define(one, "jobs", lib.FP_PROFILE_JOB)
    define(one, "small", lib.FP_PROFILE_QUEUE, max_size=2)
    yield one
    assert findings(one) == ""
    one.close()


@pytest.fixture
def door(core: Core, path: Path) -> Iterator[Door]:
    with Door(path) as one:
        yield one


TEXTS: list[Any] = ["", 7, b"k", "a\0b", 1.5]
REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("the file gives the id", {"id": 7}),
    *(("there is no such queue", {"queue": queue}) for queue in (None, "none", b"plain", "")),
    *(("a kind is text", {"queue": "jobs", "kind": kind}) for kind in [*TEXTS, "x" * 256]),
    ("asks for a kind", {"queue": "jobs"}),
    ("only a queue of jobs", {"kind": "job"}),
    *(("a body is TEXT or BLOB", {"body": body}) for body in (None, 7, 1.5)),
    *(("headers are TEXT", {"headers": headers}) for headers in (7, b"x" * 65537, "ä" * 32769)),
    *(("a key is text", {"key": key}) for key in [*TEXTS, "x" * 1025, "ä" * 513]),
    ("the life of a key", {"life": "lasting"}),
    *(("the life of a key", {"key": "k", "life": life}) for life in ("", "LIVE", 1, b"live")),
    *(("a lane is text", {"lane": lane}) for lane in [*TEXTS, "x" * 256, "ä" * 128]),
    *(("a priority is", {"priority": priority}) for priority in (128, -129, 1.0, "1")),
    *(("a delay is seconds", {"delay": delay}) for delay in (-1, 3155760001, "1", float("inf"))),
    *(("due is seconds", {"due": due}) for due in (-0.1, 9007199255, "2030-01-01")),
    ("delay and due at once", {"delay": 1, "due": 1}),
    *(("max_attempts is", {"max_attempts": number}) for number in (-1, 1_000_001, "5", 2.0)),
]
AT_THE_LIMIT: list[dict[str, Any]] = [
    {"body": "ä"},
    {"body": b""},
    {"queue": "jobs", "kind": "ä" * 127 + "x"},
    {"headers": b"x" * 65536},
    {"key": "ä" * 512},
    {"key": "k", "life": "live"},
    {"lane": "ä" * 127 + "x"},
    {"priority": -128},
    {"priority": 127},
    {"delay": 3155760000},
    {"due": 0},
    {"due": 9007199254},
    {"max_attempts": 0},
    {"max_attempts": 1_000_000},
]


@pytest.mark.parametrize("conflict", ["", "OR IGNORE", "OR REPLACE", "OR FAIL"])
def test_what_the_core_would_refuse_is_refused_in_words(
    path: Path, core: Core, door: Door, outside: Outside, conflict: str
) -> None:
    """An OR IGNORE of the caller's would overrule a constraint of a table, but no guard."""
    before = outside.dump(path)
    for words, columns in REFUSED:
        with pytest.raises(Refused, match=words):
            door.insert("fencepost_enqueue", conflict, **{"queue": "plain", "body": "", **columns})
    assert outside.dump(path) == before
    for columns in AT_THE_LIMIT:
        door.insert("fencepost_enqueue", conflict, **{"queue": "plain", "body": "", **columns})
    assert len(take(core, [1, 2], 20)) == len(AT_THE_LIMIT) - 2  # those are due much later


CLAIM = 10**6  # stands for the claim's own number


@pytest.mark.parametrize("conflict", ["", "OR IGNORE", "OR REPLACE"])
def test_what_cannot_be_said_of_a_claim_is_refused_in_words(
    path: Path, core: Core, door: Door, outside: Outside, conflict: str
) -> None:
    put(core, 2, b"{}")
    (held,) = take(core, 2)
    refused: list[tuple[str, dict[str, Any]]] = [
        *(("a verb is", {"verb": verb}) for verb in (None, "ACK", "later", 1)),
        *(("an id is", {"id": id_}) for id_ in (None, "1", 1.0)),
        *(("a token is", {"token": token}) for token in (None, 0, "2", 2.0)),
        ("a delay is seconds", {"verb": "retry", "delay": -1}),
        ("a delay goes with", {"delay": 1}),
        ("a result is", {"result": 7}),
        ("a result goes with", {"verb": "fail", "result": b""}),
        *(("a failure goes with", {part: "x"}) for part in ("failure_kind", "failure_text")),
        *(("a failure_kind is", {"verb": "fail", "failure_kind": k}) for k in ("", 7, "x" * 65)),
        *(("a failure_code is", {"verb": "fail", "failure_code": code}) for code in (7, "ä" * 33)),
        *(("a failure_text is", {"verb": "fail", "failure_text": t}) for t in (b"", "ä" * 501)),
        ("lease_end is", {"lease_end": "soon"}),
        ("lease lost", {"id": held.id + 100}),
        ("lease lost", {"token": held.token + 1}),
    ]
    before = outside.dump(path)
    for words, columns in refused:
        own = {"id": held.id, "token": held.token, "verb": "ack"}
        with pytest.raises(Refused, match=words):
            door.insert("fencepost_settle", conflict, **{**own, **columns})
    assert outside.dump(path) == before
    door.insert("fencepost_settle", conflict, id=held.id, token=held.token, verb="ack")
    after = outside.dump(path)
    door.settle(held.id, held.token, "ack")  # again: no error, and no change
    door.settle(held.id, held.token, "fail", failure_text="too late")
    assert outside.dump(path) == after


def test_a_full_queue_and_a_taken_key_are_told(path: Path, core: Core, door: Door) -> None:
    for body in ("1", "2"):
        door.enqueue(queue="small", body=body, key=f"key {body}")
    for conflict in ("", "OR IGNORE", "OR REPLACE"):
        with pytest.raises(Refused, match="the queue is full"):
            door.insert("fencepost_enqueue", conflict, queue="small", body="3")
        with pytest.raises(Refused, match="another message has this key"):
            door.insert("fencepost_enqueue", conflict, queue="small", body="3", key="key 1")
        door.insert("fencepost_enqueue", conflict, queue="small", body="1", key="key 1")
    assert core.size(None, 3) == 2


def test_many_rows_are_one_statement_all_or_none(path: Path, core: Core, door: Door) -> None:
    """INSERT … SELECT and several VALUES; the last one of a batch takes the others with it."""
    door.run(
        "INSERT INTO fencepost_enqueue (queue, body, lane)"
        " VALUES ('plain', 'a', 'x'), ('plain', 'b', 'x'), ('plain', 'c', NULL)"
    )
    with pytest.raises(Refused, match="a priority is"):
        door.run(
            "INSERT OR IGNORE INTO fencepost_enqueue (queue, body, priority)"
            " VALUES ('plain', 'd', 0), ('plain', 'e', 'high')"
        )
    claims = take(core, 1, 10)
    assert [held.body for held in claims] == [b"a", b"c"]
    assert len({held.enqueued_at for held in claims}) == 1
    many = " UNION ALL ".join(
        f"SELECT {held.id}, {held.token}, 'ack', {held.lease_end}" for held in claims
    )
    door.run(f"INSERT INTO fencepost_settle (id, token, verb, lease_end) {many}")
    assert [held.body for held in take(core, 1, 10)] == [b"b"]


def test_what_is_rolled_back_never_was(
    path: Path, core: Core, door: Door, outside: Outside
) -> None:
    """To a savepoint, too; the number of a message that never was goes to the next one."""
    (held,) = [put(core, 1, b"a"), take(core, 1)][1]
    before = outside.dump(path)
    for begin, back in (("BEGIN IMMEDIATE", "ROLLBACK"), ("SAVEPOINT s", "ROLLBACK TO s")):
        door.run(begin)
        door.enqueue(queue="plain", body="b", key="k", lane="x")
        door.settle(held.id, held.token, "ack")
        door.run(back)
        if back != "ROLLBACK":
            door.run("RELEASE s")
        assert outside.dump(path) == before
    door.run("BEGIN IMMEDIATE")
    door.run("CREATE TABLE mine (id INTEGER PRIMARY KEY)")
    door.run("INSERT INTO mine VALUES (7)")
    door.enqueue(queue="plain", body="b")
    door.run("COMMIT")
    assert outside.rows(path, "SELECT * FROM mine") == [[7]]
    assert [one.body for one in take(core, 1)] == [b"b"]


# ---- moments -------------------------------------------------------------------------------------


def test_a_moment_is_kept_to_the_microsecond(path: Path, core: Core, door: Door) -> None:
    """`due` and `delay` are seconds, whole or with a fraction."""
    now = time.time_ns() // 1000
    moments = [now + 3600 * SECOND, now + 3600 * SECOND + 123_457, 4_102_444_800_000_001]
    for moment in moments:
        due = moment / SECOND if moment % SECOND else moment // SECOND
        door.enqueue(queue="plain", body="", due=due)
    assert sorted(dues(core)) == sorted(moments)
    door.enqueue(queue="plain", body="", delay=7200.25, priority=1)
    waited = dues(core)[0] - now - 7_200_250_000
    assert 0 <= waited < 60 * SECOND or -1000 < waited < 0  # the door's clock has milliseconds


def dues(core: Core) -> list[int]:
    found = [message(core, id_) for id_ in range(1, 10)]
    return [one.due for one in sorted(filter(None, found), key=lambda one: -one.id)]


def test_time_never_runs_backwards_in_the_door(path: Path, core: Core, door: Door) -> None:
    """What the file was given last is later than any wall clock: so is what comes in next."""
    core.hand(4_000_000_000_000_000)
    put(core, 1, b"a")
    door.enqueue(queue="plain", body="b")
    door.enqueue(queue="plain", body="c", delay=1)
    held = take(core, 1, 5)
    assert [one.body for one in held] == [b"a", b"b"]
    assert {one.enqueued_at for one in held} == {4_000_000_000_000_000}
    core.hand(4_000_000_001_000_000)
    assert [one.body for one in take(core, 1, 5)] == [b"c"]
    door.enqueue(
        queue="plain", body="d", due=time.time() + 100, priority=1
    )  # by the wall that is behind
    core.hand(4_000_001_000_000_000)
    (later,) = take(core, 1)
    assert -60 < (later.due - 4_000_000_001_000_000) / SECOND - 100 < 60


def test_what_the_door_puts_in_or_back_is_due_for_the_core_at_once(core: Core, door: Door) -> None:
    """The wall clock may be ahead of the file's by a step: the file is told what time it was."""
    put(core, 1, b"a")
    (held,) = take(core, 1)
    core.hand(1_000_000)  # a clock that stands behind
    door.enqueue(queue="plain", body="b", priority=1)
    assert [one.body for one in take(core, 1)] == [b"b"]
    door.settle(held.id, held.token, "retry", delay=0, lease_end=held.lease_end)
    (claim,) = take(core, 1)
    assert claim.id == held.id
    core.hand(-1)


# ---- other doors, other files --------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="needs SQLite's command line")
def test_the_command_line_of_sqlite_is_a_client_like_any_other(path: Path, core: Core) -> None:
    put(core, 1, b"a", priority=-1)
    (held,) = take(core, 1)
    sql = f"""
        BEGIN IMMEDIATE;
        INSERT INTO fencepost_enqueue (queue, kind, body) VALUES ('jobs', 'pack', '{{"order":7}}');
        SELECT id FROM fencepost_enqueue;
        INSERT INTO fencepost_settle (id, token, verb) VALUES ({held.id}, {held.token}, 'ack');
        COMMIT;
    """
    command = ["sqlite3", "-batch", "-bail", str(path)]
    done = subprocess.run(command, input=sql, capture_output=True, text=True, check=True)
    (job,) = take(core, 2)
    assert (done.stdout.strip(), job.body) == (str(job.id), b'{"order":7}')
    assert message(core, held.id) is None
    wrong = "INSERT OR IGNORE INTO fencepost_enqueue (queue, body) VALUES ('plain', 7)"
    done = subprocess.run(command, input=wrong, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "fencepost: a body is TEXT or BLOB" in done.stderr


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
def test_in_a_utf_16_file_bodies_are_blobs_and_limits_stay(
    path: Path, outside: Outside, encoding: str
) -> None:
    """A text would be stored as UTF-16; names are found again, and no longer than may be."""
    path.touch()
    outside.change(path, f"PRAGMA encoding = '{encoding}'; CREATE TABLE mine (a)")
    core = opened(path, wal=True, hand_us=-1)
    queue = core.queue_define(None, "Grüße".encode(), lib.FP_PROFILE_QUEUE, {})
    with Door(path) as door:
        for columns in ({"body": "text"}, {"body": b"", "headers": "{}"}):
            with pytest.raises(Refused, match="not in UTF-8"):
                door.enqueue(queue="Grüße", **columns)
        with pytest.raises(Refused, match="a lane is"):
            door.enqueue(queue="Grüße", body=b"", lane="\N{EURO SIGN}" * 86)
        said = {"key": "\N{ROCKET}", "lane": "\N{EURO SIGN}" * 85, "headers": b"{}"}
        door.enqueue(queue="Grüße", body=b"\0\xff", **said)
    (held,) = take(core, queue)
    assert (held.key, held.lane) == ("\N{ROCKET}".encode(), ("\N{EURO SIGN}" * 85).encode())
    assert (held.body, held.headers) == (b"\0\xff", b"{}")
    assert findings(core) == ""
    core.close()


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM fencepost_tally WHERE queue = 0",
        "DELETE FROM fencepost_tally WHERE queue = 1",
        "UPDATE fencepost_tally SET last = -5 WHERE queue = 0",
        "UPDATE fencepost_tally SET last = 0 WHERE queue = 0",
    ],
)
def test_a_damaged_file_takes_nothing_in(path: Path, outside: Outside, damage: str) -> None:
    """Neither silently, nor over what is there."""
    one = opened(path)
    put(one, define(one, "plain", lib.FP_PROFILE_QUEUE), b"a", b"b")
    one.close()
    outside.change(path, damage)
    before = outside.dump(path)
    with Door(path) as door:
        for conflict in ("", "OR IGNORE", "OR REPLACE"):
            with pytest.raises(Refused, match="damaged"):
                door.insert("fencepost_enqueue", conflict, queue="plain", body="c")
    assert outside.dump(path) == before


def test_a_claim_that_was_renewed_is_found_without_the_end_of_its_lease(
    path: Path, core: Core, door: Door
) -> None:
    """In a bulk queue by going through what is out, as long as the lease lasts."""
    put(core, 1, *[b"x"] * 50)
    held: list[Held] = take(core, 1, 50, lease_us=30 * SECOND)
    core.settle(None, [renewed(held[20], 3600 * SECOND)])
    door.settle(held[20].id, held[20].token, "ack", lease_end=held[20].lease_end)
    door.settle(held[21].id, held[21].token, "retry", delay=0)
    assert core.size(None, 1) == 49
    assert [one.id for one in take(core, 1, 5)] == [held[21].id]


def renewed(held: Held, lease_us: int) -> Verdict:
    return Verdict(held.id, held.token, lib.FP_RENEW, lease_us)


def test_an_application_may_alter_its_own_tables_beside_the_door(
    path: Path, core: Core, door: Door
) -> None:
    """SQLite looks through all triggers and views of the file when it renames anything."""
    statements = (
        "CREATE TABLE mine (a, b, c)",
        "CREATE VIEW theirs AS SELECT a FROM mine",
        "ALTER TABLE mine RENAME COLUMN b TO other",
        "ALTER TABLE mine RENAME TO yours",
        "DROP VIEW theirs",
        "DROP TABLE yours",
    )
    for sql in statements:
        door.run(sql)
    begun = core.begin(30)
    for sql in statements:
        with Guest(begun, sql) as guest:
            guest.run(1, b"")
    begun.end(commit=True)
    door.enqueue(queue="plain", body="a")


def test_an_applications_own_trigger_uses_the_door(path: Path, core: Core, door: Door) -> None:
    """For each of its rows, in the same commit; a transaction of our own may not fire it."""
    door.run("CREATE TABLE mine (id INTEGER PRIMARY KEY, name TEXT)")
    door.run(
        "CREATE TRIGGER told AFTER INSERT ON mine BEGIN INSERT INTO fencepost_enqueue"
        " (queue, kind, body, key) VALUES ('jobs', 'greet', NEW.name, NEW.id); END"
    )
    with pytest.raises(Refused, match="a key is text"):
        door.run("INSERT INTO mine (name) VALUES ('\"ann\"')")
    door.run("DROP TRIGGER told")
    door.run(
        "CREATE TRIGGER told AFTER INSERT ON mine BEGIN INSERT INTO fencepost_enqueue"
        " (queue, kind, body, key) VALUES ('jobs', 'greet', NEW.name, 'row ' || NEW.id); END"
    )
    door.run("INSERT INTO mine (name) VALUES ('\"ann\"'), ('\"bob\"')")
    assert [held.body for held in take(core, 2, 5)] == [b'"ann"', b'"bob"']
    begun = core.begin(30)
    with pytest.raises(InvalidArgument, match="is for connections of other libraries"):
        Guest(begun, "INSERT INTO mine (name) VALUES ('eve')")
    begun.end(commit=False)
