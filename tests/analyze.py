"""
Static analysis of our C, file by file: gcc's -fanalyzer, clang-tidy and cppcheck, as many of them
as are installed. Ends with 1 if one of them finds something, and with 2 if none is there.

    make analyze
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from build_ffi import OUR_FLAGS, sqlite_dir  # noqa: E402 - the path comes first

# -fanalyzer loses count of what a loop has filled: bell.c's words, which it fills to the last.
GCC = ["-fanalyzer", "-Werror", "-Wno-analyzer-use-of-uninitialized-value"]
CPPCHECK = ["--enable=warning,portability,performance", "--inline-suppr", "--error-exitcode=1"]


def newest(name: str) -> str | None:
    """`name`, or the highest `name-VERSION` on the path."""
    versions = [f"{name}-{version}" for version in range(30, 10, -1)]
    return next(filter(None, map(shutil.which, [name, *versions])), None)


def commands(source: Path) -> list[list[str]]:
    language = [*OUR_FLAGS, "-isystem", str(sqlite_dir())]
    found = []
    compiler = os.environ.get("CC", "cc")
    said = subprocess.run([compiler, "--version"], check=True, capture_output=True, text=True)
    if "Free Software Foundation" in said.stdout:
        found.append([compiler, *GCC, *language, "-c", str(source), "-o", os.devnull])
    tidy, cppcheck = newest("clang-tidy"), newest("cppcheck")
    if tidy is not None:
        found.append([tidy, "--quiet", str(source), "--", *language])
    if cppcheck is not None:
        found.append(
            [cppcheck, "--quiet", "--std=c11", *CPPCHECK, f"-I{ROOT / 'csrc'}", str(source)]
        )
    return found


def clean(source: Path) -> bool:
    good = True
    for command in commands(source):
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            good = False
            print(f"{source.name}: {Path(command[0]).name}\n{done.stdout}{done.stderr}", flush=True)
    return good


def main() -> None:
    sources = sorted((ROOT / "csrc").glob("*.c"))
    tools = [Path(command[0]).name for command in commands(sources[0])]
    if not tools:
        print("neither gcc nor clang-tidy nor cppcheck is installed")
        sys.exit(2)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        good = list(pool.map(clean, sources))
    print(f"{len(sources)} files, {', '.join(tools)}: {good.count(False)} with findings")
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
