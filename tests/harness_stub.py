"""
The public names as tests/data has them on two pages, beside the package's own.

Mypy is asked for the type of each name twice, in one program: as the page says it, and as the
package has it. What it answers is compared word by word.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
CACHE: Final = ROOT / "build" / "mypy-pages"
# By what they are modules of.
PAGES: Final = {
    "": "fencepost.pyi",
    ".testing": "testing.pyi",
    ".dashboard": "dashboard.pyi",
}
SAID: Final = "said"  # the package's name, as the pages are imported
ANSWER: Final = re.compile(r"asked\.py:(\d+): \w+: (.*)")
FIELDS: Final = re.compile(r"TypedDict\((\w+), \{([^{}]*)\}\)")
REVEALED: Final = 'Revealed type is "'
PLACE: Final = re.compile(
    r"\b(?:fencepost|said|builtins|typing|typing_extensions|datetime|collections)(?:\.\w+)*\.(?=\w)"
)


class Name(NamedTuple):
    """A public name on a page: of a class, a function, or a member of one."""

    name: str
    expression: str  # what has its type, with `{}` in place of the package's name


class Differing(NamedTuple):
    name: str
    said: str
    found: str


class Page:
    """One page, read. `module`: what it is a module of, as PAGES has it."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.text = (ROOT / "tests" / "data" / PAGES[module]).read_text(encoding="utf-8")
        self.body = ast.parse(self.text).body
        self.classes = {node.name: node for node in self.body if isinstance(node, ast.ClassDef)}

    def words(self) -> set[str]:
        """All that it defines, private ones too."""
        found = {node.name for node in self.body if isinstance(node, ast.FunctionDef)}
        found |= {ast.unparse(node.target) for node in self.body if isinstance(node, ast.AnnAssign)}
        return found | set(self.classes)

    def members(self, name: str) -> list[str]:
        """Of a class and its bases on the page, in their order."""
        node = self.classes.get(name)
        if node is None:
            return []
        found = [one for base in node.bases for one in self.members(_plain(base))]
        for line in node.body:
            if isinstance(line, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found.append(line.name)
            elif isinstance(line, ast.AnnAssign):
                found.append(ast.unparse(line.target))
        return list(dict.fromkeys(found))

    def names(self) -> Iterator[Name]:
        """What there is to ask about."""
        place = f"{{}}{self.module}"
        for node in self.body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                yield Name(node.name, f"{place}.{node.name}")
            if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
                continue
            members = self.members(node.name)
            bases = [_plain(base) for base in node.bases]
            if "NamedTuple" in bases or "__init__" in members:  # who calls it is the user
                yield Name(node.name, f"{place}.{node.name}")
            if "TypedDict" in bases:
                yield Name(node.name, f'cast("{place}.{node.name}", 0)')
                continue
            for member in members:
                if not member.startswith("_"):
                    one = f'cast("{place}.{node.name}{_parameters(node)}", 0)'
                    yield Name(f"{node.name}.{member}", f"{one}.{member}")


def _parameters(node: ast.ClassDef) -> str:
    """[..., Any] for a class that is generic in `P` and `R`."""
    for base in node.bases:
        if isinstance(base, ast.Subscript) and isinstance(base.value, ast.Name):
            inside = base.slice
            letters = inside.elts if isinstance(inside, ast.Tuple) else [inside]
            words = [ast.unparse(letter) for letter in letters]
            if all(word in ("P", "R", "T") for word in words):
                return f"[{', '.join('...' if word == 'P' else 'Any' for word in words)}]"
    return ""


def _plain(base: ast.expr) -> str:
    return ast.unparse(base.value if isinstance(base, ast.Subscript) else base)


def differences(pages: list[Page], folder: Path) -> list[Differing]:
    """Where pages and package are not of the same type. `folder` is for the program."""
    package = folder / SAID
    package.mkdir()
    (package / "py.typed").touch()
    for page in pages:
        text = page.text.replace("\nfrom fencepost import", f"\nfrom {SAID} import")
        (package / f"{page.module[1:] or '__init__'}.pyi").write_text(text, encoding="utf-8")
    names = [name for page in pages for name in page.names()]
    lines = [f"import fencepost.testing, {SAID}.testing", "from typing import Any, cast"]
    for name in names:
        lines += [f"reveal_type({name.expression.format(who)})" for who in (SAID, "fencepost")]
    answers = _asked(lines, folder)
    found: list[Differing] = []
    for number, name in enumerate(names):
        said, ours = (answers.get(2 * number + 3 + which, "") for which in (0, 1))
        if said != ours:
            found.append(Differing(name.name, said, ours))
    return found


def _asked(lines: list[str], folder: Path) -> dict[int, str]:
    """What mypy says of each line, numbered from 1, without the places where things are defined."""
    (folder / "asked.py").write_text("\n".join(lines) + "\n")
    options = ["--strict", "--config-file=", "--no-error-summary", f"--cache-dir={CACHE}"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "asked.py"],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    answers: dict[int, str] = {}
    for line in done.stdout.splitlines():
        answer = ANSWER.match(line)
        assert answer is not None, line
        number = int(answer[1])
        answers[number] = answers.get(number, "") + _bare(answer[2])
    return answers


def _bare(answer: str) -> str:
    """
    Where a name was defined is nobody's business, nor is how mypy numbers type variables, nor
    whether it writes any parameters as it read them or as its cache has them. A pair of overloads,
    for type[T] and for TypeForm[T], is what the pages write as the latter alone.
    """
    answer = answer.replace("[*Any, **Any]", "...")
    text = FIELDS.sub(_in_order, re.sub(r"`-?\d+", "", PLACE.sub("", answer)))
    if not text.startswith(REVEALED):
        return text
    shapes = text.removeprefix(REVEALED).removesuffix('"')
    if shapes.startswith("Overload("):
        shapes = shapes[len("Overload(") : -1].replace("type[T]", "TypeForm[T]")
    return " or ".join(dict.fromkeys(shapes.removeprefix("def ").split(", def ")))


def _in_order(fields: re.Match[str]) -> str:
    """Those of a TypedDict, which mypy names in this order or in that."""
    several = re.split(r", (?=')", fields[2])
    return f"{fields[1]}({', '.join(sorted(several))})"
