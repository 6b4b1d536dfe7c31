"""Records as `without-durability` asks for them; the numbers are the contract's rows."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import fencepost
from fencepost.testing import Clock
from harness_durable import (
    BUDGET,
    MINUTE,
    Checkpointer,
    Cursor,
    Database,
    Durable,
    Fenced,
    claimed,
    connect,
    migrate,
)
from harness_worker import NOON


@pytest.fixture
def database(durable: Durable) -> Database:
    """Its time is turned by `clock`."""
    return durable.checkpointer.database


@pytest.fixture
def records(durable: Durable) -> Checkpointer:
    return durable.checkpointer


# ---- the file ------------------------------------------------------------------------------------


async def test_a_file_is_opened_made_and_migrated_any_number_of_times(tmp_path: Path) -> None:
    """A1, A6: a path or its text; folders are made, too."""
    path = tmp_path / "folder" / "w.db"
    for _ in range(2):
        database = connect(str(path))
        await migrate(database)
        await migrate(database)
        await Checkpointer(database).supply("w", "key", 1)
        await database.aclose()
    assert path.stat().st_mode & 0o077 == 0  # G-A14


async def test_calls_after_the_end_say_so(tmp_path: Path) -> None:
    """A5"""
    database = connect(tmp_path / "w.db")
    await database.aclose()
    with pytest.raises(fencepost.Closed):
        await Checkpointer(database).load("w")
    await database.aclose()


async def test_who_is_cancelled_leaves_at_once_and_its_call_is_finished(
    database: Database, records: Checkpointer
) -> None:
    """A4: what then fails is told to the loop."""
    inside, go = threading.Event(), threading.Event()
    told: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    asyncio.get_running_loop().set_exception_handler(lambda _, said: told.put_nowait(said))

    def slow(_: fencepost.Store) -> None:
        inside.set()
        assert go.wait(60)
        raise KeyError("late")

    calling = asyncio.ensure_future(database.run(slow))
    await asyncio.to_thread(inside.wait, 60)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await records.supply("w", "meanwhile", 1)  # nobody is kept out by it
    go.set()
    assert isinstance((await told.get())["exception"], KeyError)


# ---- records -------------------------------------------------------------------------------------


async def test_reading_creates_nothing(
    records: Checkpointer, unchanged: Callable[[], None]
) -> None:
    """A30: of a workflow that nobody knows."""
    unchanged()
    assert await records.load("nobody") == {}
    assert await records.history("nobody") == {}
    unchanged()


async def test_records_come_in_the_order_in_which_they_were_first_written(
    records: Checkpointer,
) -> None:
    """A30, A32: whichever of the three writers it was; who is late changes nothing."""
    held = await claimed(records)
    await records.supply("w", "z", "supplied")
    await records.record(held, "a", "recorded")
    await records.transact(held, "m", lambda cursor: "transacted")
    entry = await records.append("w", "sent")
    there = {"z": "supplied", "a": "recorded", "m": "transacted", entry.key: "sent"}
    assert [*(await records.load("w")).items()] == [*there.items()]
    for key in ("z", "a", "m"):
        assert await records.supply("w", key, "late") == there[key]
        recorded = await records.record(held, key, "late")
        assert (recorded.value, recorded.first) == (there[key], False)
        assert await records.transact(held, key, lambda cursor: "late") == there[key]
    assert [*(await records.load("w")).items()] == [*there.items()]


async def test_a_history_has_the_moments_of_the_writes_that_won(
    records: Checkpointer, clock: Clock
) -> None:
    """A31: with a zone, by the store's clock."""
    await records.supply("w", "first", 1)
    clock.advance(60)
    await records.supply("w", "second", 2)
    await records.supply("w", "first", 3)
    history = await records.history("w")
    assert [*history] == [*await records.load("w")]
    assert history["first"].value == 1
    assert history["first"].at == NOON
    assert history["second"].at == NOON + MINUTE
    assert history["first"].at.utcoffset() == timedelta()


async def test_null_is_a_record(records: Checkpointer) -> None:
    """A7: and what is not there is none."""
    held = await claimed(records)
    assert (await records.record(held, "nothing", None)).first
    assert await records.load("w") == {"nothing": None}
    assert not (await records.record(held, "nothing", 1)).first


async def test_values_cross_the_codec_on_the_pass_that_wrote_them(records: Checkpointer) -> None:
    """A21, A22"""
    held = await claimed(records)
    assert (await records.record(held, "a", (1, 2))).value == [1, 2]
    assert await records.transact(held, "b", lambda cursor: {1: "x"}) == {"1": "x"}
    assert await records.supply("w", "c", (3,)) == [3]
    assert (await records.append("w", (4,))).value == [4]
    with pytest.raises(ValueError, match="JSON compliant"):
        await records.record(held, "d", float("nan"))
    assert len(await records.load("w")) == 4


async def test_a_codec_is_the_stores(database: Database) -> None:
    """A20, A23"""

    class Shout:
        def encode(self, value: object) -> str:
            return str(value).upper()

        def decode(self, encoded: str) -> object:
            return f"{encoded}!"

    records = Checkpointer(database, Shout())
    assert await records.supply("w", "a", "hi") == "HI!"
    assert await records.load("w") == {"a": "HI!"}


async def test_a_long_history_is_read_page_by_page(records: Checkpointer) -> None:
    """G-A10: and comes whole."""
    keys = [f"step {number}" for number in range(2_100)]
    await asyncio.gather(*(records.supply("w", key, key) for key in keys))
    found = await records.load("w")
    assert sorted(found) == sorted(keys)
    assert all(key == value for key, value in found.items())


@pytest.mark.parametrize("workflow", ["ä", "a b", "a/b:c", "'; --", "w" * 1024])
async def test_any_text_is_a_workflow(records: Checkpointer, workflow: str) -> None:
    """A14"""
    held = await claimed(records, workflow)
    await records.record(held, "a", 1)
    assert await records.load(workflow) == {"a": 1}
    assert await records.load(f"{workflow[:-1]}_") == {}


@pytest.mark.parametrize(
    "key", ["child:1", "parent:x", "key:", "key:child:1", "signal:a", "ä", "a b"]
)
async def test_any_name_is_a_step(records: Checkpointer, key: str) -> None:
    """A72: also one that begins like a name of the core's own."""
    held = await claimed(records)
    assert (await records.record(held, key, 1)).first
    assert await records.supply("w", key, 2) == 1
    assert await records.load("w") == {key: 1}


async def test_nobody_can_take_the_place_of_a_message(records: Checkpointer) -> None:
    """G-A11: a key of the inbox is the store's to give."""
    with pytest.raises(ValueError, match="inbox"):
        await records.supply("w", "inbox:00000000000000000001", 1)


async def test_messages_have_keys_of_their_own_in_their_order(records: Checkpointer) -> None:
    """A44, A47: 20 digits; no claim is asked for, and concurrent ones do not meet."""
    one = await records.append("w", "a")
    prefix, digits = one.key.split(":")
    assert (prefix, len(digits)) == ("inbox", 20)
    sent = await asyncio.gather(*(records.append("w", number) for number in range(50)))
    later = await records.append("w", "z")
    found = await records.load("w")
    assert sorted(found) == [*found]
    assert [next(iter(found)), next(reversed(found))] == [one.key, later.key]
    assert {entry.key: entry.value for entry in sent} == dict([*found.items()][1:-1])


async def test_a_value_is_there_for_other_processes_when_it_was_told(
    records: Checkpointer, elsewhere: Callable[[str], str]
) -> None:
    """A2, A39: durable before `record` returns."""
    await records.record(await claimed(records), "a", 1)
    seen = elsewhere(
        "import sqlite3\n"
        "print(*sqlite3.connect(path).execute('SELECT key, value FROM fencepost_record'))"
    )
    assert seen == "('a', b'1')\n"


# ---- effects -------------------------------------------------------------------------------------


async def test_an_effect_and_its_record_are_one(
    records: Checkpointer, elsewhere: Callable[[str], str]
) -> None:
    """A41: once over all passes; its cursor is one of `sqlite3`'s in all that it says."""
    held = await claimed(records)

    def effect(cursor: Cursor) -> list[Any]:
        cursor.execute("CREATE TABLE mine (id INTEGER PRIMARY KEY, name TEXT)")
        cursor.execute("INSERT INTO mine (name) VALUES (?)", ("a",))
        assert (cursor.rowcount, cursor.lastrowid) == (1, 1)
        cursor.executemany("INSERT INTO mine (name) VALUES (?)", [("b",), ("c",)])
        assert cursor.rowcount == 2
        found = cursor.execute("SELECT name FROM mine ORDER BY id")
        first = found.fetchone()
        return [first, *cursor, cursor.fetchall(), cursor.fetchone()]

    told = [["a"], ["b"], ["c"], [], None]
    assert await records.transact(held, "step", effect) == told
    assert await records.transact(held, "step", effect) == told
    seen = elsewhere(
        "import sqlite3\nprint(*sqlite3.connect(path).execute('SELECT count(*) FROM mine'))"
    )
    assert seen == "(3,)\n"


@pytest.mark.parametrize("fault", ["raises", "no JSON", "writes ours"])
async def test_an_effect_that_fails_leaves_nothing(
    records: Checkpointer, fault: str, unchanged: Callable[[], None]
) -> None:
    """A12, A41, A42: neither what it wrote nor a record; its own error is what is raised."""
    held = await claimed(records)
    unchanged()

    def effect(cursor: Cursor) -> object:
        cursor.execute("CREATE TABLE mine (id)")
        if fault == "raises":
            raise KeyError(fault)
        if fault == "writes ours":
            cursor.execute("DELETE FROM fencepost_record")
        return object()

    with pytest.raises((KeyError, TypeError, fencepost.InvalidArgument)):
        await records.transact(held, "step", effect)
    unchanged()
    assert await records.transact(held, "step", lambda cursor: 1) == 1


async def test_an_effect_enqueues_with_its_record(records: Checkpointer) -> None:
    """All of it, or none: jobs, sends and rows."""
    queue = records.database.store.queue("q")
    held = await claimed(records)

    def effect(cursor: Cursor) -> object:
        return queue.enqueue("job", tx=cursor.tx).created

    def fails(cursor: Cursor) -> object:
        queue.enqueue("job", tx=cursor.tx)
        raise KeyError

    with pytest.raises(KeyError):
        await records.transact(held, "step", fails)
    assert queue.size() == 0
    assert await records.transact(held, "step", effect) is True
    assert await records.transact(held, "step", effect) is True
    assert queue.size() == 1


async def test_reads_do_not_wait_for_an_effect(records: Checkpointer) -> None:
    """G-A5"""
    held = await claimed(records)
    await records.record(held, "a", 1)
    inside, go = threading.Event(), threading.Event()

    def effect(cursor: Cursor) -> object:
        inside.set()
        return go.wait(60)

    waiting = asyncio.ensure_future(records.transact(held, "b", effect))
    await asyncio.to_thread(inside.wait, 60)
    assert await records.load("w") == {"a": 1}
    go.set()
    assert await waiting is True


# ---- the end -------------------------------------------------------------------------------------


async def test_what_is_discarded_is_gone_and_its_pass_is_fenced(records: Checkpointer) -> None:
    """A45: messages count, too; the workflow is free at once, and its tokens go on rising."""
    held = await claimed(records)
    await records.record(held, "a", 1)
    await records.append("w", 2)
    await records.supply("other", "a", 1)
    assert await records.discard("w") == 2
    assert await records.load("w") == {}
    with pytest.raises(Fenced):
        await records.record(held, "b", 1)
    assert not await records.renew(held, MINUTE)
    assert not await records.extend(held, BUDGET, MINUTE)
    assert (await claimed(records)).token > held.token
    assert await records.load("other") == {"a": 1}


async def test_discarding_nothing_writes_nothing(
    records: Checkpointer, unchanged: Callable[[], None]
) -> None:
    """A45"""
    await records.supply("w", "a", 1)
    unchanged()
    assert await records.discard("nobody") == 0
    unchanged()
