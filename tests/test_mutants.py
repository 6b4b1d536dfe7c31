"""The table of mutants does not rot: each still fits the code, and says who ought to notice."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from mutants import ROOT, Mutant, mutated, read_table

MUTANTS = read_table()
LEAST = 80


def test_there_are_mutants_of_every_sort() -> None:
    """In C, in its SQL, and in Python; no two of them break the same promise."""
    names = Counter(mutant.name for mutant in MUTANTS)
    assert [name for name, count in names.items() if count > 1] == []
    assert {mutant.file.rpartition(".")[2] for mutant in MUTANTS} == {"c", "h", "py"}
    assert len(MUTANTS) >= LEAST


def test_every_mutant_fits_the_code() -> None:
    """Its old text is there once, its new one is code, and the tests that are to notice exist."""
    assert [words for mutant in MUTANTS for words in amiss(mutant)] == []


def amiss(mutant: Mutant) -> Iterator[str]:
    text = mutated(mutant, ROOT)
    if text is None:
        yield f"{mutant.name}: not exactly once in {mutant.file}{elsewhere(mutant)}: {mutant.old!r}"
    elif mutant.file.endswith(".py"):
        ast.parse(text, mutant.name)
    if mutant.old == mutant.new or not mutant.tests:
        yield f"{mutant.name}: it changes nothing, or nobody is to notice"
    for name in mutant.tests:
        if not (ROOT / "tests" / name).is_file():
            yield f"{mutant.name}: there is no tests/{name}"


def elsewhere(mutant: Mutant) -> str:
    """Files are renamed, and their lines with them."""
    code = [*ROOT.glob("csrc/*.[ch]"), *ROOT.glob("python/fencepost/**/*.py")]
    found = [path for path in code if mutant.old in path.read_text(encoding="utf-8")]
    return "".join(f", but in {path.relative_to(ROOT)}" for path in found)
