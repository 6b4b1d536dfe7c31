"""
Build what is fuzzed, and fuzz it.

    make fuzz                      ten minutes, half of them for each target
    make fuzz ARGS=60              an hour
    make fuzz ARGS="2 damage"      two minutes of one target
    build/fuzz/fuzz-damage FILE    one input, whose stacks are whole

A target is one C file beside this one that says what an input means. libFuzzer (clang) looks for
inputs that crash it, or reach what none has reached; those stay in build/fuzz/NAME. What crashed
is build/fuzz/crash-…; mend it, and keep the input in corpus/NAME: tests/test_fuzz.py runs all that
is kept through the same code, built by any compiler.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import build_ffi  # noqa: E402 - the path comes first
from driver.build import compiler  # noqa: E402

TARGETS = ("buffers", "damage")
OUT = ROOT / "build" / "fuzz"
MINUTES = 10.0
INPUT_BYTES_MAX = 512
INPUT_SECONDS_MAX = 20

# What was freed is watched for a while only, with short stacks: twice as many inputs a second.
CHEAP = "quarantine_size_mb=8:malloc_context_size=2"

# SQLite is watched for bad reads only: its coverage and its arithmetic are not ours. A damaged page
# may say that a row has a gigabyte, which a chain of pages in a circle then has: that takes time.
SQLITE = ["-fsanitize=address", "-fno-omit-frame-pointer"]
SQLITE += ["-DSQLITE_MAX_LENGTH=1000000", "-DSQLITE_MAX_SQL_LENGTH=1000000"]
OURS = [
    *("-O1", "-fno-omit-frame-pointer", "-fsanitize=fuzzer-no-link,address,undefined"),
    "-fno-sanitize-recover=undefined",
]


def newest_clang() -> str:
    names = ["clang", *(f"clang-{version}" for version in range(30, 10, -1))]
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        sys.exit("libFuzzer needs clang, and there is none on the PATH")
    return found


def linked(name: str, target: Path, command: list[str], core: list[Path], link: list[str]) -> Path:
    """The program of one target out of the core's objects and the C files of this folder."""
    others = {f"{other}.c" for other in TARGETS} - {f"{name}.c"}
    if "-fsanitize=fuzzer,address,undefined" in link:
        others.add("replay.c")  # libFuzzer has a main of its own
    sources = [path for path in HERE.glob("*.c") if path.name not in others]
    objects = build_ffi.objects(command[:1], sorted(sources), command[1:], OUT / f"{target.name}.o")
    every = [str(path) for path in [*objects, *core]]
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    subprocess.run([command[0], *link, *every, "-o", str(partial), "-lpthread", "-lm"], check=True)
    return partial.replace(target)


def include() -> list[str]:
    return ["-isystem", str(build_ffi.sqlite_dir())]


def fuzzers(names: list[str]) -> list[Path]:
    clang = newest_clang()
    flags = [*build_ffi.our_flags(include(), test=True), *OURS]
    sources = sorted(build_ffi.CSRC.glob("*.c"))
    with build_ffi.one_build_at_a_time():
        core = build_ffi.objects([clang], sources, flags, OUT / "core.o")
        core.append(build_ffi.sqlite_object([clang, *SQLITE], build_ffi.sqlite_dir()))
        command = [clang, *flags, f"-I{build_ffi.CSRC}"]
        link = ["-fsanitize=fuzzer,address,undefined"]
        return [linked(name, OUT / f"fuzz-{name}", command, core, link) for name in names]


def replayer(name: str) -> Path:
    """
    The program that runs kept inputs, by the compiler of the extensions. Its core is compiled as
    that of `fencepost._core_test` is, and so is there already where that was built.
    """
    command = compiler()
    flags = build_ffi.our_flags(include(), test=True)
    folder = f"fencepost._core_test-plain-{sys.implementation.cache_tag}"
    with build_ffi.one_build_at_a_time():
        core = build_ffi.objects(
            command, sorted(build_ffi.CSRC.glob("*.c")), flags, ROOT / "build" / "objects" / folder
        )
        core.append(build_ffi.sqlite_object(command, build_ffi.sqlite_dir()))
        ours = [*command, *flags, f"-I{build_ffi.CSRC}"]
        return linked(name, OUT / f"replay-{name}", ours, core, [])


@contextmanager
def memory_folder() -> Iterator[str]:
    """A folder for files that live for milliseconds: in memory, where there is such a place."""
    memory = Path("/dev/shm")  # noqa: S108
    place = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as folder:
        yield folder


def fuzz(program: Path, name: str, minutes: float) -> int:
    """One process, until the time is over or an input crashes."""
    found = OUT / name
    found.mkdir(parents=True, exist_ok=True)
    options = {
        "max_total_time": int(minutes * 60),
        "max_len": INPUT_BYTES_MAX,
        "len_control": 5,
        "timeout": INPUT_SECONDS_MAX,
        "artifact_prefix": f"{OUT}/",
        "print_final_stats": 1,
    }
    arguments = [f"-{option}={value}" for option, value in options.items()]
    with memory_folder() as folder:
        return subprocess.run(
            [program, *arguments, found, HERE / "corpus" / name],
            check=False,
            env={"ASAN_OPTIONS": CHEAP, **os.environ, "TMPDIR": folder},
        ).returncode


def main() -> None:
    words = sys.argv[1:]
    minutes = float(words.pop(0)) if words and words[0][0].isdigit() else MINUTES
    names = words or list(TARGETS)
    for name, program in zip(names, fuzzers(names), strict=True):
        if fuzz(program, name, minutes / len(names)) != 0:
            sys.exit(f"{name}: see above; the input is in {OUT}")


if __name__ == "__main__":
    main()
