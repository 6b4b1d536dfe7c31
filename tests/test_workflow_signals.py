"""Signals from other processes, before, during and after the wait: none is lost, one wins."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import fencepost
from fencepost import App, Run
from harness_processes import all_of, at_once, start
from harness_worker import until

pytestmark = pytest.mark.usefixtures("no_process_left")

ROUNDS = 500
EARLY = 200  # of them, that wait before anybody signals

SIGNALLER = """
import random
app = fencepost.App(path)

@app.workflow
async def waits(run: fencepost.Run, n: int) -> str: ...

say("ready")
sys.stdin.readline()
left = list(range(ROUNDS))
random.Random(NAME).shuffle(left)
while left:
    n = left.pop()
    try:
        first = waits.handle(f"run {n}").signal("go", NAME)
    except fencepost.Gone:
        # Not begun yet, or ended: by the other one's signal, for ours was not said before.
        if waits_ended(app, n):
            first = False
        else:
            left.insert(0, n)
            continue
    say([n, first])
app.store.close()
"""

ENDED = """
def waits_ended(app, n):
    rows = app.store._file
    from fencepost._workflow.runfile import RunFile
    try:
        return RunFile(rows, f"run {n}").info().ended_at is not None
    except fencepost.Gone:
        return False
"""


def test_none_is_lost_and_the_first_one_wins(path: Path) -> None:
    """
    Two processes signal each of 500 runs. Some wait for it already, the others begin meanwhile,
    half of all with a step to do before they wait. Each run goes on with the one value that was
    told it was the first.
    """
    app = App(path)

    @app.workflow
    async def waits(run: Run, n: int) -> str:
        if n % 2:
            await run.step("before", str, n)
        return await run.wait("go", str)

    app.store.queue("touched").enqueue(1)  # the file is there
    names = ("ann", "bob")
    processes = []
    for name in names:
        program = f"import fencepost\nROUNDS = {ROUNDS}\nNAME = {name!r}\n{ENDED}\n{SIGNALLER}"
        processes.append(start(program, path))
    with app.worker(threads=2):
        with app.transaction() as tx:
            for n in range(EARLY):
                waits.options(id=f"run {n}", tx=tx).start(n)
        until(lambda: len(app.store.runs("waiting", limit=200)) == EARLY)
        at_once(processes)
        for begin in range(EARLY, ROUNDS, 50):
            with app.transaction() as tx:
                for n in range(begin, begin + 50):
                    waits.options(id=f"run {n}", tx=tx).start(n)
        said = all_of(processes)
        until(lambda: not waiting(app))
    winners = {
        n: name for name, answers in zip(names, said, strict=True) for n, first in answers if first
    }
    firsts = Counter(n for answers in said for n, first in answers if first)
    assert firsts == Counter(range(ROUNDS)), "each has one that was the first"
    for n in range(ROUNDS):
        assert waits.handle(f"run {n}").result(1) == winners[n]
    assert app.store.check(full=True) == []
    app.store.close()


def waiting(app: App) -> list[fencepost.RunInfo]:
    states: tuple[fencepost.RunState, ...] = ("running", "sleeping", "waiting")
    return [run for state in states for run in app.store.runs(state)]
