"""The pages that are read: every block of code runs, every name is there, and none is left out."""

from __future__ import annotations

import importlib
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import fencepost
from harness_pages import FENCE, ROOT, parse, run_blocks
from harness_pages import blocks as blocks_of

README = ROOT / "README.md"
DOCS = ROOT / "docs"
PAGES = [README, *sorted(DOCS.glob("*.md"))]
DECISIONS = sorted(DOCS.glob("decisions/*.md"))
NEEDED = {
    "dashboard": ("fastapi", "uvicorn"),
    "door": ("sqlalchemy",),
    "testing": ("sqlalchemy",),
}
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")
FILE = re.compile(
    r"(?<![\w/.])(?:bench|csrc|docs|examples|python|tests|_[a-z]+)/[\w/.-]+\.[a-z]+\b"
)
MEMBER = re.compile(r"\b([A-Z]\w+)\.([a-z]\w*)")  # `Store.backup`
MODULE = re.compile(r"fencepost(?:\.\w+)+")


def stem(page: Path) -> str:
    return page.stem


@pytest.mark.parametrize("page", PAGES, ids=stem)
def test_every_block_runs(page: Path, tmp_path: Path) -> None:
    """Or is marked with where it runs, or why it cannot (harness_pages)."""
    for needed in ("click", *NEEDED.get(page.stem, ())):
        pytest.importorskip(needed)
    run_blocks(page, tmp_path)


@pytest.mark.parametrize("page", [*PAGES, *DECISIONS], ids=stem)
def test_every_fence_is_one(page: Path) -> None:
    """
    So that no block is lost because its fence is spelled otherwise. Blocks of decisions need not
    run, but are what they say they are.
    """
    text = page.read_text(encoding="utf-8")
    assert 2 * len(FENCE.findall(text)) == len(re.findall(r"^ *(?:```|~~~)", text, re.MULTILINE))
    for block in blocks_of(page):
        if not block.mark.startswith("of "):
            parse(block)


@pytest.mark.parametrize("page", [*PAGES, *DECISIONS], ids=stem)
def test_what_it_names_is_there(page: Path) -> None:
    """Pages that it leads to, files, modules and what is in them."""
    text = page.read_text(encoding="utf-8")
    rooms = (ROOT, ROOT / "python" / "fencepost")  # a page may speak of `_worker/loop.py`
    missing = [
        name for name in FILE.findall(text) if not any((room / name).exists() for room in rooms)
    ]
    missing += [name for name in LINK.findall(text) if not (page.parent / name).exists()]
    missing += [name for name in CODE.findall(text) if MODULE.fullmatch(name) and not found(name)]
    assert missing == []


@pytest.mark.parametrize("page", [*PAGES, *DECISIONS], ids=stem)
def test_members_and_commands_are_those_that_there_are(page: Path) -> None:
    """`Store.backup`, `fencepost dead list --queue`."""
    pytest.importorskip("click")
    spans = CODE.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    members = [pair for span in spans for pair in MEMBER.findall(span)]
    commands = [span for span in spans if span.startswith("fencepost ") and "…" not in span]
    missing = [f"{owner}.{name}" for owner, name in members if not has_member(owner, name)]
    assert missing + [command for command in commands if not is_command(command)] == []


def has_member(owner: str, name: str) -> bool:
    """Also of a class that is not ours: those are not looked at."""
    found = getattr(fencepost, owner, None)
    return found is None or hasattr(found, name) or name in getattr(found, "__annotations__", {})


def is_command(words: str) -> bool:
    """With the options that it has; what else it is given may be anything."""
    from fencepost.cli.root import cli

    command: Any = cli
    for word in re.sub(r" --database \S+", "", words).split()[1:]:
        if hasattr(command, "commands"):
            command = command.commands.get(word)
        elif word.startswith("--") and not any(word in one.opts for one in command.params):
            return False
    return command is not None


def found(name: str) -> bool:
    """A module, or something in one. One that needs a library that is not here counts."""
    module, _, rest = name.partition(".")
    it: object = importlib.import_module(module)
    for part in rest.split("."):
        module = f"{module}.{part}"
        if not hasattr(it, part):
            try:
                importlib.import_module(module)
            except ModuleNotFoundError as error:
                return error.name != module
        it = getattr(it, part)
    return True


def test_the_readme_leads_to_every_page() -> None:
    assert {page.name for page in PAGES[1:]} <= {
        Path(name).name for name in LINK.findall(README.read_text(encoding="utf-8"))
    }


def test_the_list_of_decisions_has_each_of_them_once() -> None:
    listed = LINK.findall((DOCS / "decisions" / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == [page.name for page in DECISIONS if page.name != "README.md"]


def test_the_readme_names_rooms_that_are_there() -> None:
    text = README.read_text(encoding="utf-8")
    house = text[text.index("## The house") :]
    named = re.findall(r"^    (\S+)  ", house, re.MULTILINE)
    assert len(named) > 5
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize(
    "block",
    [
        "```bash\necho hello\n```\n",
        "```python\nprint('of no name')\n```\n",
        "```python\n# wrong.py\nassert False\n```\n",
        "```sh\nfalse\n```\n",
        "```sh\nfencepost --database nowhere.db stats\n```\n",
        "```sql\n-- shop.db\nSELECT * FROM nowhere\n```\n",
        "<!-- for later -->\n```sh\ntrue\n```\n",
        "<!-- not run: it is wrong -->\n```python\ndef\n```\n",
        "<!-- of examples/quickstart.py -->\n```python\nimport another\n```\n",
        "<!-- run by tests/test_queue.py -->\n```python\nimport fencepost\n```\n",
    ],
)
def test_a_block_that_is_not_true_is_noticed(block: str, tmp_path: Path) -> None:
    page = tmp_path / "a_page.md"
    page.write_text(block, encoding="utf-8")
    with pytest.raises((AssertionError, SyntaxError, sqlite3.Error)):
        run_blocks(page, tmp_path)
