"""The README and the guides are programs: their blocks run, in their order, in one folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness_pages import run_blocks

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
READING = '{"sensor": "roof", "celsius": 21.5}\n'


def test_every_block_runs(tmp_path: Path) -> None:
    (tmp_path / "readings.jsonl").write_text(READING)
    assert run_blocks(README, tmp_path) > 4


@pytest.mark.parametrize("page", ["testing", "async", "workflows"])
def test_every_block_of_a_guide_runs(page: str, tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    assert run_blocks(ROOT / "docs" / f"{page}.md", tmp_path) > 1


def test_it_names_files_that_are_there() -> None:
    text = README.read_text(encoding="utf-8")
    house = text[text.index("## The house") :]
    named = re.findall(r"^    (\S+)  ", house, re.MULTILINE) + re.findall(r"\]\((\S+?)\)", text)
    assert len(named) > 7
    assert [name for name in named if not (ROOT / name).exists()] == []
