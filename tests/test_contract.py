"""docs/contract.md has every row of what is promised, and names tests and pages that are there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
TEST = re.compile(r"`(?:(test_\w+\.py)|…)(?:::(\w+))?`")
PAGE = re.compile(r"\]\(([\w/.-]+)(?:#([\w-]+))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)

# From the first to the last of each block of the contract; what is between two blocks was never
# given a number.
PROMISED = {
    "A": [(1, 14), (20, 23), (30, 48), (60, 72), (80, 84), (90, 108), (120, 129)],
    "B": [(1, 12), (20, 28), (30, 44), (50, 57), (60, 62), (70, 72), (80, 88)],
    "C": [(1, 26), (40, 49), (60, 66)],
    "G-A": [(1, 18)],
    "G-B": [(1, 9)],
    "G-C": [(1, 10)],
}
SCENARIOS = ["H6", "H8", "H11", "H12", "H13", "H15"]


def rows() -> list[str]:
    text = (DOCS / "contract.md").read_text(encoding="utf-8")
    return [
        line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| row")
    ]


def anchors(page: Path) -> set[str]:
    """As they are made of headings: in small letters, with dashes for blanks."""
    found = HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in found}


def missing_tests(row: str) -> Iterator[str]:
    """`…::name` is of the file that was named last."""
    file = ""
    for named, test in TEST.findall(row):
        file = named or file
        path = ROOT / "tests" / file
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        if not text or (test and f"def {test}(" not in text):
            yield f"{file}::{test}"


def missing_pages(row: str) -> Iterator[str]:
    for name, anchor in PAGE.findall(row):
        page = DOCS / name
        if not page.is_file() or (anchor and anchor not in anchors(page)):
            yield f"{name}#{anchor}"


def test_each_row_names_what_is_there() -> None:
    missing: list[str] = []
    for row in rows():
        missing += [*missing_tests(row), *missing_pages(row)]
        if not TEST.search(row) and not PAGE.search(row):
            missing.append(f"nothing in: {row}")
    assert missing == []


def test_each_promise_has_its_row() -> None:
    """Once, and in a row of its own."""
    wanted = [
        f"{letter}{number}"
        for letter, blocks in PROMISED.items()
        for first, last in blocks
        for number in range(first, last + 1)
    ]
    there = [row.split("|")[1].strip() for row in rows()]
    numbered = [name for name in there if re.fullmatch(r"(G-)?[ABC]\d+|H\d+", name)]
    assert sorted(numbered) == sorted([*wanted, *SCENARIOS])
