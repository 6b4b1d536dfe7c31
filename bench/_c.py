"""
The C drivers of bench/c, linked with the release core, compiled on demand.

A driver is built from csrc as `fencepost._core` is, with the same flags and the same SQLite
object, and no Python in it: what it costs is what the statements cost.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent
sys.path.insert(0, str(ROOT))

import setuptools  # noqa: E402, F401  before distutils, which is a part of it

import build_ffi  # noqa: E402

__all__ = ["BENCH", "ROOT", "driver", "preload"]


def compiler() -> list[str]:
    """The command that build_ext would use."""
    from distutils.ccompiler import new_compiler
    from distutils.sysconfig import customize_compiler

    found: Any = new_compiler()
    customize_compiler(found)
    return list(found.compiler_so)


def newer(one: Path, other: Path) -> bool:
    return one.stat().st_mtime > other.stat().st_mtime


def driver(name: str, csrc: Path = build_ffi.CSRC) -> Path:
    """
    The program of bench/c/`name`.c, up to date; with another `csrc`, of a changed core.

    Of the house's own core it takes the very objects that `fencepost._core` is linked from.
    """
    ours = csrc == build_ffi.CSRC
    command, sqlite = compiler(), build_ffi.sqlite_dir()
    flags = build_ffi.our_flags(["-isystem", str(sqlite)], test=False)
    folder = ROOT / "build" / "bench" / ("core" if ours else csrc.parent.name)
    program = folder / name
    variant = f"fencepost._core-{build_ffi.sanitizer() or 'plain'}-{sys.implementation.cache_tag}"
    core = ROOT / "build" / "objects" / variant if ours else folder / "objects"
    with build_ffi.one_build_at_a_time():
        made = build_ffi.objects(command, sorted(csrc.glob("*.c")), flags, core)
        made.append(build_ffi.sqlite_object(command, sqlite))
        inputs = [*made, *csrc.glob("*.h"), *(BENCH / "c").iterdir()]
        if program.exists() and all(newer(program, one) for one in inputs):
            return program
        for source in (BENCH / "c" / "stage.c", BENCH / "c" / f"{name}.c"):
            target = folder / f"{name}-{source.stem}.o"
            made.append(build_ffi.compile_to(target, [*command, *flags, f"-I{csrc}"], source))
        link = [command[0], *build_ffi.sanitizer_flags(), *map(str, made), "-o", str(program)]
        subprocess.run([*link, "-lpthread", "-lm"], check=True)
    return program


def preload(name: str) -> Path:
    """The library of bench/c/`name`.c, to be named in LD_PRELOAD, up to date."""
    source, library = BENCH / "c" / f"{name}.c", ROOT / "build" / "bench" / f"{name}.so"
    with build_ffi.one_build_at_a_time():
        if not library.exists() or newer(source, library):
            library.parent.mkdir(parents=True, exist_ok=True)
            flags = ["-std=gnu11", "-O2", "-shared", "-fPIC", str(source), "-o", str(library)]
            subprocess.run([compiler()[0], *flags], check=True)
    return library
