"""
Every function of the C face is in the ladders, or stands in a list that says why not: a new one
without a case fails here.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from harness_cases import CASES
from harness_core import lib, opened
from harness_looks import LOOKS

pytestmark = pytest.mark.hostile

FACE = ("fencepost.h", "fencepost_flow.h", "fencepost_many.h", "fencepost_shelf.h")
DECLARED = re.compile(r"^[\w ]+[ *](fp_\w+)\(", re.MULTILINE)
SOURCES = Path(__file__).parent.parent / "csrc"

# What no case climbs: the test that does so in its place, or why there is nothing to climb.
EXCEPTIONS = {
    "fp_open": "test_faults.py::test_an_open_that_fails_leaves_the_file_alone",
    "fp_close": "test_faults.py::test_a_close_that_fails_leaves_a_whole_file",
    "fp_backup": "test_copies.py::test_a_copy_that_fails_leaves_nothing_behind",
    "fp_restore": "test_copies.py::test_a_copy_that_fails_leaves_nothing_behind",
    "fp_status": "test_copies.py::test_a_look_from_outside_that_fails_leaves_nothing_behind",
    "fp_wal": "test_wal.py::test_a_copy_that_fails_is_made_later",
    "fp_free": "it answers nothing, and comes after fp_close",
    "fp_nudge": "a number in memory",
    "fp_nudges": "a number in memory",
    "fp_queue_policy": "it touches no file and no memory of its own",
    "fp_schema_version": "a number",
    "fp_sqlite_version": "a text that stands in the library",
}


class Recording:
    """The core's functions, and which of them somebody asked for."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.asked: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("fp_"):
            self.asked.add(name)
        return getattr(self._real, name)


def climbed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The functions that the operations of all cases call."""
    recording = Recording(lib)
    for number, case in enumerate([*CASES, *LOOKS]):
        path = folder / f"{number}.db"
        core = opened(path, normal=lib.FP_UNSYNCED)
        context = case.prepare(core)
        with monkeypatch.context() as patched:
            for module in list(sys.modules.values()):
                if module.__dict__.get("lib") is lib:
                    patched.setattr(module, "lib", recording)
            case.operate(core, context)
        core.close()
        path.unlink()
    return recording.asked


def test_every_function_has_a_case_or_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no reason outlives the case that makes it needless."""
    declared = {name for file in FACE for name in DECLARED.findall((SOURCES / file).read_text())}
    assert len(declared) > 80
    assert declared - climbed(tmp_path, monkeypatch) == set(EXCEPTIONS)


@pytest.mark.parametrize("reason", [one for one in EXCEPTIONS.values() if "::" in one])
def test_what_climbs_in_its_place_is_there(reason: str) -> None:
    file, _, name = reason.partition("::")
    assert f"\ndef {name}(" in Path(__file__).with_name(file).read_text()
