"""docs/orders.md is true: its table is what a death leaves, its numbers are the program's."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

import fencepost
from commands import imported, until
from fencepost.testing import override

ROOT = Path(__file__).resolve().parent.parent
SHOP = ROOT / "examples" / "orders" / "shop.py"
WALK = (ROOT / "docs" / "orders.md").read_text(encoding="utf-8")
DEATH = re.compile(
    r"^\| [^|]+ \| `(\w+) (\w+)` \| (\d) \| (\d) \| ([\w ]+) \| ([\w ]+) \|$", re.MULTILINE
)
NUMBER = re.compile(r"^ {4}(\w[\w ]+?)  +(\d+)$", re.MULTILINE)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return imported(SHOP, monkeypatch)


def state_of(store: fencepost.Store, queue: str) -> str:
    """Of the one message there; never two."""
    states = [state for state in get_args(fencepost.State) if store.messages(state, queue=queue)]
    assert len(states) <= 1
    return states[0] if states else "not asked for"


@pytest.mark.parametrize(
    ("queue", "point", "paid", "outside", "event", "receipt"),
    DEATH.findall(WALK),
    ids=lambda word: word,
)
def test_the_walk_is_true_step_by_step(
    shop: Any, queue: str, point: Any, paid: str, outside: str, event: str, receipt: str
) -> None:
    """What the death of a worker leaves; and after it all ends as if nobody had died."""
    with override(shop.app) as kit:
        shop.bring_in(1)
        with kit.crash_at(point, queue):
            kit.drain(limit=1 if queue == "payments" else 2)
        assert (orders_paid(shop), len(shop.went_out())) == (int(paid), int(outside))
        found = state_of(kit.store, "payments"), state_of(kit.store, "receipts")
        assert found == (event, receipt)
        kit.drain(until_idle=True)
        begun = (queue, point) in (("receipts", "begun"), ("receipts", "sent"))
        assert state_of(kit.store, "receipts") == ("unknown" if begun else "done")
        shop.compare()
        kit.drain(until_idle=True)
        assert (orders_paid(shop), len(shop.went_out())) == (1, 1)
        assert state_of(kit.store, "receipts") == "done"


def orders_paid(shop: Any) -> int:
    with shop.app.transaction() as tx:
        [(paid,)] = tx.execute("SELECT sum(paid) FROM orders")
    return int(paid)


def test_every_death_has_its_row() -> None:
    assert len(DEATH.findall(WALK)) == 7


def test_the_program_may_be_killed_at_any_time(tmp_path: Path) -> None:
    """With all its workers, again and again, wherever it is; its numbers are those of the page."""
    chance = random.Random(5)
    orders = 200
    command = [sys.executable, str(SHOP), f"{orders}", "1"]
    receipts = tmp_path / "receipts.txt"
    for _ in range(5):
        kill_at(command, tmp_path, lines(receipts) + chance.randrange(1, 30))
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    said = {words.strip(): int(n) for words, n in map(split, done.stdout.splitlines())}
    told = {words: int(n) for words, n in NUMBER.findall(WALK) if words != "workers killed"}
    assert len(told) == 4
    assert told.items() <= said.items()


def kill_at(command: list[str], folder: Path, receipts: int) -> None:
    """The program and what it has started, when so many receipts are outside."""
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, start_new_session=True
    ) as process:
        until(lambda: lines(folder / "receipts.txt") >= receipts or process.poll() is not None)
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0


def split(line: str) -> tuple[str, str]:
    words, _, number = line.rpartition(" ")
    return words, number
