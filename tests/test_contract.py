"""docs/contract.md names tests and pages that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEST = re.compile(r"`(?:(test_\w+\.py)|…)(?:::(\w+))?`")
PAGE = re.compile(r"\]\(([\w/.-]+)\)")


def test_each_row_names_what_is_there() -> None:
    """`…::name` is of the file that was named last."""
    missing: list[str] = []
    rows = [
        line
        for line in (ROOT / "docs" / "contract.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| ") and not line.startswith("| row")
    ]
    for row in rows:
        file = ""
        found = TEST.findall(row)
        for named, test in found:
            file = named or file
            path = ROOT / "tests" / file
            text = path.read_text(encoding="utf-8") if path.is_file() else ""
            if not text or (test and f"def {test}(" not in text):
                missing.append(f"{file}::{test}")
        pages = PAGE.findall(row)
        missing += [page for page in pages if not (ROOT / "docs" / page).is_file()]
        if not found and not pages:
            missing.append(f"nothing in: {row}")
    assert len(rows) > 10
    assert missing == []
