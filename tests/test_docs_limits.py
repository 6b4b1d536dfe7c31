"""docs/limits.md has the numbers of csrc/base.h, and all of them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROW = re.compile(r"^\| [^|]+ \| (-?[\d,]+) \| [^|]*\| `(\w+)` \|$", re.MULTILINE)
SAID = re.compile(r"\b(\w+_(?:MAX|MIN))(?: = |\s+INT64_C\()(-?\d+)")


def test_the_page_has_each_limit_of_the_core() -> None:
    page = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    core = (ROOT / "csrc" / "base.h").read_text(encoding="utf-8")
    numbers = {name: int(number.replace(",", "")) for number, name in ROW.findall(page)}
    assert numbers == {name: int(number) for name, number in SAID.findall(core)}
    assert len(numbers) > 15
