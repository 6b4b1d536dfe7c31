"""docs/limits.md has the numbers of csrc/base.h and of the Python above it, and all of them."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROW = re.compile(r"^\| [^|]+ \| (-?[\d,]+) \| [^|]*\| `([\w.]+)` \|$", re.MULTILINE)
SAID = re.compile(r"\b(\w+_(?:MAX|MIN))(?: = |\s+INT64_C\()(-?\d+)")
FINAL = re.compile(r"^(\w+_(?:MAX|MIN)(?:_US)?)(?:: Final)? = [^#\n]*(#.*)?$", re.MULTILINE)

# No caller meets these: they pace a thread, lay out a table, or are what an int64 can be.
INSIDE = {
    "ANSWER_BYTES_MAX",
    "ATTEMPT_MAX",
    "BEAT_MAX_US",
    "BEAT_MIN_US",
    "ENTRIES_MAX",
    "ID_MAX",
    "INT_MAX",
    "INT_MIN",
    "NANOSECONDS_MAX",
    "PAUSE_MAX",
    "RETRY_AFTER_MAX",
    "RETRY_AFTER_MIN",
    "TIMES_MAX",
    "VERDICTS_MAX",
    "WIDTH_MAX",
    "WIDTH_MIN",
}


def on_the_page() -> dict[str, int]:
    page = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    return {name: int(number.replace(",", "")) for number, name in ROW.findall(page)}


def test_the_page_has_each_limit_of_the_core() -> None:
    core = (ROOT / "csrc" / "base.h").read_text(encoding="utf-8")
    numbers = {name: number for name, number in on_the_page().items() if "." not in name}
    assert numbers == {name: int(number) for name, number in SAID.findall(core)}
    assert len(numbers) > 15


def test_the_page_has_the_numbers_of_python() -> None:
    for name, number in on_the_page().items():
        module, _, constant = name.rpartition(".")
        if module.startswith("fencepost.relay.rabbitmq"):
            pytest.importorskip("aio_pika")
        if module.startswith("fencepost.dashboard"):
            pytest.importorskip("starlette")
        if module:
            assert getattr(importlib.import_module(module), constant) == number, name


def test_no_limit_of_python_is_left_out() -> None:
    """But what is the core's as well, and what stays inside."""
    told = {name.rpartition(".")[2] for name in on_the_page()}
    for path in sorted((ROOT / "python" / "fencepost").rglob("*.py")):
        for name, comment in FINAL.findall(path.read_text(encoding="utf-8")):
            of_the_core = "as in csrc/" in comment
            assert of_the_core or name in told | INSIDE, f"{name} of {path.name}"
