"""
Build the C driver under the sanitizer that FENCEPOST_SANITIZE names: build.py TARGET

The core is compiled as for `fencepost._core_test`; no Python is in the program, so that every
report, and every leak, is ours.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

import setuptools  # noqa: E402, F401  before distutils, which is a part of it

import build_ffi  # noqa: E402


def compiler() -> list[str]:
    """The command that build_ext would use."""
    from distutils.ccompiler import new_compiler
    from distutils.sysconfig import customize_compiler

    found: Any = new_compiler()
    customize_compiler(found)
    return list(found.compiler_so)


def main() -> None:
    target = Path(sys.argv[1]).absolute()
    command = compiler()
    sqlite = build_ffi.sqlite_dir()
    flags = build_ffi.our_flags(["-isystem", str(sqlite), f"-I{build_ffi.CSRC}"], test=True)
    sources = [*build_ffi.CSRC.glob("*.c"), *Path(__file__).parent.glob("*.c")]
    with build_ffi.one_build_at_a_time():
        objects = build_ffi.objects(command, sorted(sources), flags, Path(f"{target}.objects"))
        objects.append(build_ffi.sqlite_object(command, sqlite))
        link = [command[0], *build_ffi.sanitizer_flags(), *map(str, objects), "-o", str(target)]
        subprocess.run([*link, "-lpthread", "-lm"], check=True)


if __name__ == "__main__":
    main()
