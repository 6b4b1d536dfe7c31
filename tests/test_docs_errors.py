"""docs/errors.md is the list of errors.py: each once, under who raises it, with its base."""

from __future__ import annotations

import re
from pathlib import Path

from fencepost import errors

PAGE = Path(__file__).resolve().parent.parent / "docs" / "errors.md"
ROW = re.compile(r"^\| `(\w+)` \| (?:an? `(\w+)`: )?(.+?) \| (.+?) \|$", re.MULTILINE)


def test_each_error_has_its_row() -> None:
    calls, handlers = PAGE.read_text(encoding="utf-8").split("## What a handler says")
    raised = [row[0] for row in ROW.findall(calls)]
    said = [row[0] for row in ROW.findall(handlers)]
    assert sorted(raised + said) == sorted(errors.__all__)
    assert all(issubclass(getattr(errors, name), errors.Error) for name in raised)
    assert not any(issubclass(getattr(errors, name), errors.Error) for name in said)


def test_a_row_names_the_base_that_is_more_than_error() -> None:
    for name, base, *_ in ROW.findall(PAGE.read_text(encoding="utf-8")):
        nearest = getattr(errors, name).__bases__[0].__name__
        assert base == ("" if nearest in ("Error", "Exception") else nearest), name
