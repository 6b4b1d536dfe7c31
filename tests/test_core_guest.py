"""The caller's own SQL at the core's face: what it must not leave behind on our connection."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fencepost._binding.calls import Core, OpenTx, checked
from fencepost._binding.guest import Guest
from fencepost.errors import InvalidArgument, StorageError
from harness_core import core as opened
from harness_core import define, lib, put, stats, tx
from harness_ladder import disarm, memory
from harness_outside import Outside


@pytest.fixture
def core(path: Path) -> Iterator[Core]:
    with opened(path) as one:
        yield one
    disarm()


def run(begun: OpenTx, sql: str) -> Any:
    with Guest(begun, sql) as guest:
        return guest.run(1, b"")


def pragma(core: Core, name: str) -> int:
    return core._number(lib.fp_pragma, f"PRAGMA {name}".encode())


@pytest.mark.hostile
@pytest.mark.parametrize("name", ["query_only", "trusted_schema", "ignore_check_constraints"])
def test_a_second_statement_is_not_in_force_either(core: Core, name: str) -> None:
    """Some PRAGMAs need not be run: SQLite obeys as soon as it has read them."""
    queue = define(core, "q")
    before = pragma(core, name)
    with tx(core) as begun, pytest.raises(InvalidArgument, match="more than one statement"):
        run(begun, f"SELECT 1; PRAGMA {name} = {1 - before}")
    assert pragma(core, name) == before
    put(core, queue)
    assert stats(core, queue).pending == 1


@pytest.mark.hostile
def test_what_was_written_without_an_answer_is_not_committed(
    core: Core, path: Path, outside: Outside
) -> None:
    """
    A statement that could not hand over its rows has failed, and is not in the file later.

    Climbs until no allocation fails any more.
    """
    with tx(core) as begun:
        run(begun, "CREATE TABLE t (a)")
    rung = hits = 1
    while hits > 0:
        answer = None
        begun = core.begin(30)
        memory(1)(rung)
        with suppress(StorageError):
            answer = run(begun, "INSERT INTO t VALUES (1), (2), (3) RETURNING a, a || 'text'")[0]
        hits = lib.fp_fault_hits()
        disarm()
        with suppress(InvalidArgument):  # SQLite, or we, had to roll it back
            begun.end(commit=True)
        there = outside.rows(path, "SELECT count(*) FROM t")
        assert there == [[0 if answer is None else 3]], f"rung {rung}"
        with tx(core) as begun:
            run(begun, "DELETE FROM t")
        rung += 1
    assert rung > 20


LONG = "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 3000000)"


@pytest.mark.hostile
def test_a_transaction_in_use_is_not_ended_under_its_thread(core: Core) -> None:
    """Not by another thread; once its own is through with it, it may be rolled back by any."""
    begun: list[OpenTx] = []
    define(core, "q")  # so that the head is known, and BEGIN is one step
    steps = lib.fp_steps()

    def use() -> None:
        begun.append(core.begin(30))
        run(begun[0], "CREATE TABLE t (a)")
        run(begun[0], f"{LONG} SELECT count(*) FROM c")

    thread = threading.Thread(target=use)
    thread.start()
    while lib.fp_steps() < steps + 5:  # BEGIN; each statement is prepared, and run
        time.sleep(0.001)
    place = begun[0].place[0]
    with pytest.raises(InvalidArgument, match="another thread, which is using it"):
        checked(lib.fp_tx_end, place, False)
    thread.join()
    begun[0].end(commit=False)
    with tx(core) as other, pytest.raises(StorageError, match="no such table"):
        run(other, "SELECT * FROM t")


def test_a_transaction_of_another_thread_is_refused_by_the_core_itself(core: Core) -> None:
    """Whatever Python makes of owners, none of its calls runs in two threads at once."""
    queue = define(core, "q")
    with tx(core) as begun:
        refused: list[BaseException] = []

        def use() -> None:
            for call in (partial(put, core, queue, tx=begun), partial(run, begun, "SELECT 1")):
                try:
                    call()
                except BaseException as error:
                    refused.append(error)

        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
        assert [type(error) for error in refused] == [InvalidArgument, InvalidArgument]
        assert all("belongs to another thread" in str(error) for error in refused)
        put(core, queue, tx=begun)
    assert stats(core, queue).pending == 1
