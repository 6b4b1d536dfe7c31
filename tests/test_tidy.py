"""The tree keeps the house rules, and each rule catches what it is for."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import tidy

ROOT = Path(__file__).resolve().parent.parent
VARIANTS = sorted((ROOT / "bench" / "variants").glob("*.patch"))
CHANGELOG = "# Changelog\n\n## Unreleased\n\n- It exists.\n"

Grow = Callable[..., list[str]]


@pytest.fixture
def grow(tmp_path: Path) -> Grow:
    """Make a small tree from `path -> text` and return what tidy says about it."""

    def make(files: dict[str, str]) -> list[str]:
        for name, text in {"CHANGELOG.md": CHANGELOG, **files}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return tidy.findings(tmp_path)

    return make


def test_this_tree_is_tidy() -> None:
    """One list of everything that is wrong, not the first."""
    assert tidy.findings(ROOT) == []


def test_a_tree_in_order_has_no_findings(grow: Grow) -> None:
    """Downward arrows, the public face and a header beside its C file are all as they should be."""
    files = {
        "csrc/base.h": "int base;\n",
        "csrc/fencepost.h": "int face;\n",
        "csrc/err.h": '#include "base.h"\n#include "fencepost.h"\n',
        "csrc/err.c": '#include "err.h"\n',
        "csrc/api.c": '#include "err.h"\n',
        "python/fencepost/__init__.py": "from fencepost import store\n",
        "python/fencepost/store.py": "from fencepost._binding.pack import text\n",
        "python/fencepost/_binding/pack.py": "from fencepost._core import ffi\nprint(ffi)\n",
    }
    assert grow(files) == []


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        ("csrc/base.h", '#include "err.h"\n', "base includes err.h, which is not below it"),
        ("csrc/claim.h", '#include "replay.h"\n', "claim includes replay.h, which is not below it"),
        ("csrc/fencepost.h", '#include "base.h"\n', "the public face includes base.h"),
        ("csrc/cellar.h", "\n", "the room cellar is not in tidy's table of C rooms"),
        ("csrc/err.c", "\n", "a C file without a header"),
        ("csrc/err.h", "\n", "nothing includes this header"),
        ("csrc/api.c", "int f(void) {\n" + "  g();\n" * 69 + "}\n", "a function of 71 lines"),
        ("csrc/api.c", "/* TO" + "DO */\n", "a leftover TO" + "DO"),
        ("csrc/api.c", "\tint a;\n", "a tab"),
        ("csrc/api.c", "int a; \n", "blanks at the end"),
        ("csrc/api.c", "int a;", "the last line does not end"),
        ("csrc/api.c", "//" + "-" * 99 + "\n", "101 columns (at most 100)"),
        ("csrc/api.c", "int a;\n" * 401, "401 lines (at most 400)"),
        ("python/fencepost/store.py", "from . import app\n", "store imports app"),
        ("python/fencepost/jobs.py", "from .inbox import Inbox\n", "jobs imports inbox"),
        ("python/fencepost/queues.py", "from ._core import a\n", "queues imports the core"),
        ("python/fencepost/queues.py", "x = lib.fp_open\n", "queues touches lib"),
        ("python/fencepost/attic.py", "\n", "the room attic is not in tidy's table"),
        ("tests/helper.py", "\n", "nothing imports this module"),
        ("README.md", "see /wo" + "rk/x\n", "names a place of one machine"),
        ("README.md", "from py" + "pi.org\n", "names a place of one machine"),
        ("CHANGELOG.md", "# Changes\n", "begins with another line"),
        ("CHANGELOG.md", "# Changelog\n\n## 1.0.0 (2026-01-31)\n", "the first section is not"),
        ("CHANGELOG.md", CHANGELOG + "\n## 1.0\n", "a section is"),
        ("CHANGELOG.md", CHANGELOG + "- No stop\n", "an entry ends without a full stop"),
        ("CHANGELOG.md", CHANGELOG + "Prose.\n", "neither an entry"),
    ],
)
def test_each_rule_catches_what_it_is_for(grow: Grow, path: str, text: str, words: str) -> None:
    """The one broken file is named, and the words say how."""
    assert any(line.startswith(f"{path}:") and words in line for line in grow({path: text}))


def test_imports_for_types_are_no_arrows(grow: Grow) -> None:
    """A lower room may speak about a higher one in its annotations."""
    text = (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from fencepost.app import App\n"
    )
    files = {"python/fencepost/__init__.py": "from . import store, app\n"}
    assert grow({**files, "python/fencepost/store.py": text, "python/fencepost/app.py": ""}) == []


@pytest.mark.skipif(shutil.which("patch") is None, reason="there is no `patch`")
@pytest.mark.parametrize("change", VARIANTS, ids=lambda change: change.stem)
def test_each_variant_of_the_core_still_fits(change: Path) -> None:
    """One that no longer applies measures nothing, and is missed when it is needed."""
    command = ["patch", "-p1", "--dry-run", "--force", "-i", str(change)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
