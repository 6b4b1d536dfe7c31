"""Calls that stand in line for the turn, in an order the test gives them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from commands import until
from fencepost._binding.calls import Core
from harness_core import ffi, lib

__all__ = ["Counts", "aside", "counts", "since", "stand_in_line", "together"]


def stand_in_line(core: Core, count: int) -> None:
    until(lambda: lib.fp_waiting(core._store) == count)


@contextmanager
def aside(work: Callable[[], object]) -> Iterator[threading.Thread]:
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield thread
    finally:
        thread.join()


class Counts(NamedTuple):
    """What the turns of a handle came to; `largest`: the requests of the largest transaction."""

    commits: int
    members: int
    remade: int
    largest: int
    left: int  # how often the file's lock was left to other processes


def counts(core: Core) -> Counts:
    found = ffi.new("int64_t[5]")
    lib.fp_group_counts(core._store, found)
    return Counts(*found)


def since(core: Core, before: Counts) -> Counts:
    now = counts(core)
    return Counts(
        now.commits - before.commits,
        now.members - before.members,
        now.remade - before.remade,
        now.largest,
        now.left - before.left,
    )


def together(core: Core, *works: Callable[[], Any], meanwhile: Callable[[], object] = int) -> Any:
    """
    Each in a thread of its own, standing in line in this order behind a transaction that then
    ends, so that the first takes the others with it; their answers, or what they raised.
    """
    answers: list[Any] = [None] * len(works)

    def run(at: int) -> None:
        try:
            answers[at] = works[at]()
        except Exception as error:
            answers[at] = error

    begun = core.begin(30)
    threads = []
    for at in range(len(works)):
        threads.append(threading.Thread(target=run, args=(at,)))
        threads[-1].start()
        stand_in_line(core, at + 1)
    meanwhile()
    begun.end(commit=False)
    for thread in threads:
        thread.join()
    return answers
