"""
Would a test notice? Each mutant of tests/mutants/*.toml breaks one promise in one place; the tests
that are named beside it have to fail.

    python tests/mutants.py                  all of them, which takes the better part of an hour
    python tests/mutants.py lease csrc/key   those with one of these words in their name or file
    python tests/mutants.py --list           what must hold, and nothing is run

It works in a copy of the tree under build/mutants and rebuilds there what a mutant has changed. In
the end the tests that noticed run once without any mutant: one that fails then has shown nothing.
Ends with 1 if a mutant survived without a reason, is stale (its old text is not there exactly
once), does not build, or was shown by nothing.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

if sys.version_info >= (3, 11):
    import tomllib
else:  # pytest has brought it
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "tests" / "mutants"
WORK = ROOT / "build" / "mutants"

LEFT_OUT = shutil.ignore_patterns(
    "build", "dist", "temp", "node_modules", ".*", "__pycache__", "*.so", "*.egg-info"
)
BUILD = ["-W", "ignore", "-c", "from setuptools import setup; setup()", "-q"]
BUILD += ["build_ext", "--inplace"]
PYTEST = ["-m", "pytest", "-x", "-q", "--tb=no", "-rfE", "-p", "no:cacheprovider"]
PYTEST += ["-o", "faulthandler_timeout=50"]  # who hangs in C is named, too
TEST_LIMIT_S = 60
MUTANT_LIMIT_S = 600
NICE = 10


class Mutant(NamedTuple):
    name: str  # the promise that it breaks
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    survives: str  # why no test can notice; empty: one must


def read_table(folder: Path = TABLE) -> list[Mutant]:
    """All mutants, file by file."""
    found = []
    for path in sorted(folder.glob("*.toml")):
        rows: list[dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]
        for row in rows:
            tests, why = tuple(row.pop("tests")), row.pop("survives", "")
            found.append(Mutant(**row, tests=tests, survives=why))
    return found


def mutated(mutant: Mutant, root: Path) -> str | None:
    """The file's text with the promise broken; None: the mutant is stale."""
    path = root / mutant.file
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return text.replace(mutant.old, mutant.new) if text.count(mutant.old) == 1 else None


class Result(NamedTuple):
    word: str  # noticed, SURVIVED, stale, does not build
    by: str = ""  # the test that noticed, as pytest names it


# --- The copy -------------------------------------------------------------------------------------


class Copy:
    """A tree like the checkout's, with its own build, which mutants change and leave."""

    def __init__(self, work: Path = WORK) -> None:
        self.tree = work / "tree"
        self.clean = work / "clean"  # what was built without a mutant
        self.moment = int(time.time())
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(self.tree / "python"),
            "FENCEPOST_BUILD_CACHE": str(ROOT / "build" / "sqlite"),
        }

    def make(self) -> None:
        """As the checkout is now. Its objects stay from the time before, and save the building."""
        self.tree.mkdir(parents=True, exist_ok=True)
        for path in self.tree.iterdir():
            if path.name != "build":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(ROOT, self.tree, ignore=LEFT_OUT, dirs_exist_ok=True)
        if said := self.build():
            sys.exit(f"the tree does not build without a mutant:\n{said}")
        shutil.rmtree(self.clean, ignore_errors=True)
        self.copy_built(self.tree, self.clean)

    def copy_built(self, source: Path, target: Path) -> None:
        """Builds put new files in place of old ones, and write into none: links will do."""
        shutil.rmtree(target / "build" / "objects", ignore_errors=True)
        shutil.copytree(
            source / "build" / "objects", target / "build" / "objects", copy_function=os.link
        )
        for path in (source / "python" / "fencepost").glob("*.so"):
            at = target / path.relative_to(source)
            at.parent.mkdir(parents=True, exist_ok=True)
            at.unlink(missing_ok=True)
            os.link(path, at)

    def build(self) -> str:
        """What the build said if it failed."""
        done = self.run(BUILD, MUTANT_LIMIT_S)
        return "" if done.returncode == 0 else done.stdout

    def run(self, arguments: list[str], limit_s: float) -> subprocess.CompletedProcess[str]:
        """Python with these arguments. -SIGKILL: its time was over, and all it has started ends."""
        command = [sys.executable, *arguments]
        with subprocess.Popen(
            command,
            cwd=self.tree,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as child:
            try:
                said, _ = child.communicate(timeout=limit_s)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                said, _ = child.communicate()
            return subprocess.CompletedProcess(command, child.returncode, said)

    @contextmanager
    def holding(self, mutant: Mutant, text: str) -> Iterator[None]:
        path = self.tree / mutant.file
        before, times = path.read_text(encoding="utf-8"), path.stat()
        path.write_text(text, encoding="utf-8")
        self.moment += 1  # what Python has compiled goes by the second and the length
        os.utime(path, (self.moment, self.moment))
        try:
            yield
        finally:
            path.write_text(before, encoding="utf-8")
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            if path.suffix != ".py":
                self.copy_built(self.clean, self.tree)

    def test(self, tests: list[str], *options: str) -> subprocess.CompletedProcess[str]:
        limit = ["--timeout", str(TEST_LIMIT_S)]
        return self.run([*PYTEST, *limit, *options, *tests], MUTANT_LIMIT_S)


# --- A mutant -------------------------------------------------------------------------------------

FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
CRASHED = re.compile(r'File ".*/(tests/test_\w+\.py)", line \d+ in (test_\w+)')


def who_noticed(said: str) -> str:
    if failed := FAILED.search(said):
        return failed[1]
    crashed = CRASHED.search(said)
    return f"{crashed[1]}::{crashed[2]}" if crashed else "a crash, or the limit of time"


def tried(mutant: Mutant, copy: Copy) -> Result:
    text = mutated(mutant, copy.tree)
    if text is None:
        return Result("stale")
    with copy.holding(mutant, text):
        if not mutant.file.endswith(".py") and (said := copy.build()):
            return Result("does not build", said.strip().splitlines()[-1])
        done = copy.test([f"tests/{name}" for name in mutant.tests])
    if done.returncode == 0:
        return Result("SURVIVED")
    return Result("noticed", who_noticed(done.stdout))


def show(mutant: Mutant, result: Result, took_s: float) -> None:
    by = result.by.removeprefix("tests/")
    word = "survives" if result.word == "SURVIVED" and mutant.survives else result.word
    print(f"{word:14} {took_s:4.0f} s  {mutant.name}\n{'':23}{mutant.file}  {by}", flush=True)


def shown_by_nothing(results: list[tuple[Mutant, Result]], copy: Copy) -> list[Mutant]:
    """Those whose test fails without them, too."""
    noticed = {result.by for _, result in results if "::" in result.by}
    if not noticed:
        return []
    done = copy.test(sorted(noticed), "--maxfail=1000")
    failing = set(FAILED.findall(done.stdout))
    return [mutant for mutant, result in results if result.by in failing]


def bad_ones(results: list[tuple[Mutant, Result]], copy: Copy) -> Iterator[str]:
    for mutant, result in results:
        if result.word == "SURVIVED" and mutant.survives:
            print(f"survives, as it may: {mutant.name}\n    {mutant.survives}")
        elif result.word != "noticed":
            yield f"{result.word}: {mutant.name}"
    for mutant in shown_by_nothing(results, copy):
        yield f"its test fails without it, too: {mutant.name}"


def chosen(mutants: list[Mutant], words: list[str]) -> list[Mutant]:
    return [m for m in mutants if not words or any(w in f"{m.file} {m.name}" for w in words)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Would a test notice?")
    parser.add_argument("words", nargs="*", help="of the names or files of those to try")
    parser.add_argument("--list", action="store_true", help="show them and run nothing")
    asked = parser.parse_args()
    mutants = chosen(read_table(), asked.words)
    if asked.list:
        for mutant in mutants:
            print(f"{mutant.name}  ({mutant.file})")
        return
    os.nice(NICE)
    WORK.mkdir(parents=True, exist_ok=True)
    with (WORK / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        copy = Copy()
        copy.make()
        results = []
        for mutant in mutants:
            start = time.monotonic()
            results.append((mutant, tried(mutant, copy)))
            show(*results[-1], time.monotonic() - start)
        bad = list(bad_ones(results, copy))
    count = sum(result.word == "noticed" for _, result in results)
    print(f"{len(results)} mutants, {count} noticed")
    if bad:
        sys.exit("\n".join(bad))


if __name__ == "__main__":
    main()
