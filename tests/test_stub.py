"""
The public names are those of tests/data/*.pyi, of the same types; and what users write, checks.

Whoever changes a public name changes its page, and the other way round.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from commands import quiet_environment
from harness_stub import CACHE, PAGES, ROOT, Page, differences

pytest.importorskip("mypy")

ALIASES = {"Row", "Span", "State", "StrPath", "Tx", "Accepted", "Point"}  # not asked about
ALIASES |= {"FailureKind"}
OURS = {"Clock", "Crash"}  # of fencepost.testing: for our own tests


def test_each_name_is_there_and_of_its_type(tmp_path: Path) -> None:
    assert differences([Page(module) for module in PAGES], tmp_path) == []


@pytest.mark.parametrize("module", PAGES)
def test_nothing_is_public_that_is_not_said(module: str) -> None:
    """Names of the module, and members of its classes."""
    page = Page(module)
    package = importlib.import_module(f"fencepost{module}")
    assert set(package.__all__) - page.words() - ALIASES - OURS == set()
    for name in page.classes.keys() & set(package.__all__):
        bases = [base for base in getattr(package, name).__mro__ if "fencepost" in base.__module__]
        ours = {member for base in bases for member in vars(base) if not member.startswith("_")}
        assert (name, ours - set(page.members(name))) == (name, set())


def test_the_comparison_sees_what_differs(tmp_path: Path) -> None:
    """Another type, another kind of parameter, a name that is only on the page."""
    pages = [Page(module) for module in PAGES]
    pages[0].text = pages[0].text.replace(
        "    def status(self) -> Status: ...\n",
        "    def status(self) -> int: ...\n",
    )
    pages[1].text = pages[1].text.replace("self, span: Span | datetime, /", "self, span: Span")
    found = {one.name: one for one in differences(pages, tmp_path)}
    assert (found["Handle.status"].said, found["Handle.status"].found[:11]) == (
        "() -> int",
        "() -> tuple",
    )
    assert found["Kit.advance"].said == "(span: float | timedelta)"
    told = {"Handle.status", "WorkflowHandle.status", "Kit.advance"}
    assert set(found) == told


def checks(*command: str, folder: str) -> None:
    environment = {**quiet_environment(), "MYPYPATH": f"{ROOT}/python"}
    environment["PYTHONPATH"] = f"{ROOT}/python"
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT / folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_shop_passes_mypy() -> None:
    """As a project of its own; the other examples are checked with the package."""
    options = ["--strict", "--config-file=", f"--cache-dir={CACHE}"]
    checks("mypy", *options, ".", folder="examples/shop")


def test_the_examples_pass_pyright() -> None:
    pytest.importorskip("pyright")
    checks("pyright", "--pythonpath", sys.executable, ".", folder="examples")
