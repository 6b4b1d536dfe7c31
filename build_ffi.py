"""
How the core is built: stock SQLite, our C beside it, and cffi's glue between both and Python.

    python build_ffi.py     fetch SQLite's source into csrc/sqlite/, nothing else
    make build              both extensions in place, only what changed

`fencepost._core` is what wheels carry. `fencepost._core_test` comes from the same sources with
asserts on and faults on demand; editable installs, `--inplace` and sanitizer builds have it, wheels
never do. cffi reads the declarations from the marked regions of csrc/fencepost.h, so there is no
second copy of them to drift.

Settings, all from the environment:

    FENCEPOST_SQLITE_DIR=DIR        take sqlite3.c and sqlite3.h from DIR, unchecked
    FENCEPOST_SYSTEM_SQLITE=1       link with the system's SQLite, 3.51.3 or newer
    FENCEPOST_BUILD_CACHE=DIR       keep SQLite's compiled object in DIR instead of build/sqlite/
    FENCEPOST_WERROR=1              a warning in our C is an error
    FENCEPOST_SANITIZE=address      or `thread`: build everything, SQLite too, under that sanitizer
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import urllib.request
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import Extension
from setuptools.command.bdist_wheel import bdist_wheel as _bdist_wheel
from setuptools.command.build_ext import build_ext as _build_ext
from setuptools.command.editable_wheel import editable_wheel as _editable_wheel
from setuptools.command.sdist import sdist as _sdist
from setuptools.errors import CompileError, SetupError

ROOT = Path(__file__).resolve().parent
CSRC = ROOT / "csrc"
FACES = ["fencepost.h", "fencepost_flow.h", "fencepost_many.h", "fencepost_shelf.h"]  # of cffi

ABI_FLOOR = "cp310"
LIMITED_API = "0x030A0000"
# cffi has no limited API to offer where there is no GIL.
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))

# --- SQLite: one release, one digest for every route ----------------------------------------------

SQLITE_VERSION = "3.53.4"
SQLITE_FLOOR = 3051003  # before it, a WAL reset can lose committed data
SQLITE_DIGESTS = {
    "sqlite3.c": "b1dd5d74ec7f29055a6684fa06fb3c2f6821c87dd38f9a458dfd2e8a1db28189",
    "sqlite3.h": "919e7f2e8ed1d8f56ac17b412b8971c76aa5d1a879752cc6058f75e7d5910e1d",
}
AMALGAMATION = "https://sqlite.org/2026/sqlite-amalgamation-3530400.zip"
AMALGAMATION_DIGEST = "1e71ddf93849c6a6ecf58b827c0692073d2dd7ee40196158068f7b29f422e87d"
AMALGAMATION_TIMEOUT_S = 20
NPM_PACKAGE = "@photostructure/sqlite@2.6.0"  # its SQLite is stock; others patch theirs
NPM_FOLDER = "package/src/upstream/"
NPM_TIMEOUT_S = 180


class SourceUnavailable(SetupError):
    """SQLite's source could not be had; the message lists every route and the ways out."""


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def captured(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def write_atomically(path: Path, data: bytes) -> None:
    """Whoever sees `path` sees all of it, also when two builds write it at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_bytes(data)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def stock(folder: Path) -> bool:
    """Does `folder` hold both files, and exactly those that are pinned?"""
    paths = [(folder / name, wanted) for name, wanted in SQLITE_DIGESTS.items()]
    return all(path.is_file() and digest(path.read_bytes()) == wanted for path, wanted in paths)


def from_amalgamation() -> dict[str, bytes]:
    with urllib.request.urlopen(AMALGAMATION, timeout=AMALGAMATION_TIMEOUT_S) as answer:
        data: bytes = answer.read()
    if digest(data) != AMALGAMATION_DIGEST:
        raise ValueError(f"the archive has the wrong digest ({digest(data)})")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {Path(name).name: name for name in archive.namelist()}
        return {name: archive.read(members[name]) for name in SQLITE_DIGESTS}


def from_npm() -> dict[str, bytes]:
    npm = shutil.which("npm")
    if npm is None:
        raise FileNotFoundError("npm is not installed")
    command = [npm, "pack", NPM_PACKAGE, "--ignore-scripts", "--silent"]
    with tempfile.TemporaryDirectory() as folder:
        done = captured(command, cwd=folder, timeout=NPM_TIMEOUT_S)
        archives = list(Path(folder).glob("*.tgz"))
        if done.returncode != 0 or len(archives) != 1:
            raise OSError(f"npm pack exited with {done.returncode}: {done.stderr.strip()}")
        with tarfile.open(archives[0]) as archive:
            members = {name: archive.extractfile(NPM_FOLDER + name) for name in SQLITE_DIGESTS}
            return {name: member.read() for name, member in members.items() if member}


ROUTES = {"the SQLite project's archive": from_amalgamation, f"npm pack {NPM_PACKAGE}": from_npm}


def fetched(target: Path) -> Path:
    """`target` with the pinned source in it; fetched now unless it is there already."""
    if stock(target):
        return target
    failures = []
    for route, fetch in ROUTES.items():
        try:
            files = fetch()
            for name, wanted in SQLITE_DIGESTS.items():
                if digest(files[name]) != wanted:
                    raise ValueError(f"{name} has the wrong digest ({digest(files[name])})")
        except Exception as error:  # whatever went wrong, the next route may work
            failures.append(f"  - {route}: {error}")
            continue
        for name, data in files.items():
            write_atomically(target / name, data)
        return target
    raise SourceUnavailable(
        f"SQLite {SQLITE_VERSION} is needed and could not be fetched:\n"
        + "\n".join(failures)
        + "\nWays out: install npm or give this build access to the network; put the stock"
        f" sqlite3.c and sqlite3.h of {SQLITE_VERSION} into csrc/sqlite/, or anywhere and set"
        " FENCEPOST_SQLITE_DIR; or set FENCEPOST_SYSTEM_SQLITE=1 to link with an installed one."
    )


def sqlite_dir() -> Path:
    """The folder of sqlite3.c and sqlite3.h, by the first route that works."""
    chosen = os.environ.get("FENCEPOST_SQLITE_DIR")
    folder = Path(chosen or CSRC / "sqlite").resolve()
    if not chosen:
        return fetched(folder)
    missing = [name for name in SQLITE_DIGESTS if not (folder / name).is_file()]
    if missing:
        raise SourceUnavailable(f"FENCEPOST_SQLITE_DIR={chosen} has no {' and no '.join(missing)}")
    return folder


# --- Declarations: cffi reads the header itself ---------------------------------------------------


def region(text: str, mark: str) -> str:
    """The lines between `/* mark begin */` and `/* mark end */`; exactly one such region."""
    lines = text.splitlines()
    begin, end = (
        [number for number, line in enumerate(lines) if line.strip() == f"/* {mark} {edge} */"]
        for edge in ("begin", "end")
    )
    if len(begin) != 1 or len(end) != 1 or begin[0] > end[0]:
        raise SetupError(f"there must be exactly one region '{mark} begin' to '{mark} end'")
    return "\n".join(lines[begin[0] + 1 : end[0]]) + "\n"


def glue(module: str) -> str:
    """The C that cffi writes for `module`, from its face, and what tests have more."""
    from cffi import FFI  # here, because fetching needs setuptools alone

    ffi = FFI()
    for name in [*FACES, "fencepost_test.h"] if module.endswith("_test") else FACES:
        ffi.cdef(region((CSRC / name).read_text(encoding="utf-8"), "cdef"))
    refusal = '#error "Fencepost needs SQLite 3.51.3 or newer"'
    floor = f"#if SQLITE_VERSION_NUMBER < {SQLITE_FLOOR}\n{refusal}\n#endif\n"
    ffi.set_source(module, f'#include <sqlite3.h>\n{floor}#include "fencepost.h"\n')
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "glue.c"
        with contextlib.redirect_stdout(io.StringIO()):  # cffi announces each file it writes
            ffi.emit_c_code(str(written))
        return written.read_text(encoding="utf-8")


# --- Compiling ------------------------------------------------------------------------------------

SQLITE_FLAGS = shlex.split("-O2 -g0 -fPIC -fvisibility=hidden -w")
# Left alone on purpose: DQS and LIKE_DOESNT_MATCH_BLOBS change what applications' schemas mean,
# DEFAULT_WAL_SYNCHRONOUS weakens durability, MAX_EXPR_DEPTH=0 removes a limit. What is enabled is
# there because the applications' own tables and triggers must work through our connection.
SQLITE_OPTIONS = """
    THREADSAFE=1 DEFAULT_MEMSTATUS=0 DEFAULT_FILE_PERMISSIONS=0600 MAX_MMAP_SIZE=0 STRICT_SUBTYPE=1
    OMIT_DEPRECATED OMIT_LOAD_EXTENSION OMIT_SHARED_CACHE USE_ALLOCA
    ENABLE_COLUMN_METADATA ENABLE_DBSTAT_VTAB ENABLE_FTS3 ENABLE_FTS4 ENABLE_FTS5 ENABLE_GEOPOLY
    ENABLE_MATH_FUNCTIONS ENABLE_RTREE
"""
SQLITE_OPTIONS += " ENABLE_LOCKING_STYLE=0" * (sys.platform == "darwin")  # for csrc/locks.c
SQLITE_DEFINES = [f"-DSQLITE_{option}" for option in SQLITE_OPTIONS.split()]
OUR_FLAGS = shlex.split(
    "-std=c11 -D_GNU_SOURCE= -D_DARWIN_C_SOURCE= -O2 -g -fPIC -fvisibility=hidden -Wall -Wextra"
    " -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wundef"
)
RELEASE_FLAGS = ["-DNDEBUG", f"-ffile-prefix-map={ROOT}=."]  # the same wherever it is built
TEST_FLAGS = ["-DFENCEPOST_TEST", "-UNDEBUG"]
SANITIZER_FLAGS = {
    "address": ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"],
    "thread": ["-fsanitize=thread"],
}


def flag_set(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")


def sanitizer() -> str:
    chosen = os.environ.get("FENCEPOST_SANITIZE", "")
    if chosen and chosen not in SANITIZER_FLAGS:
        raise SetupError(f"FENCEPOST_SANITIZE={chosen}: known are {', '.join(SANITIZER_FLAGS)}")
    return chosen


def sanitizer_flags() -> list[str]:
    chosen = SANITIZER_FLAGS.get(sanitizer(), [])
    return ["-O1", "-g", "-fno-omit-frame-pointer", *chosen] if chosen else []


def version_of(command: list[str]) -> str:
    return captured([command[0], "--version"]).stdout


def compile_to(target: Path, command: list[str], source: Path) -> Path:
    """Run `command` on `source`. The object appears under its name only when it is whole."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{os.getpid()}.o")
    call = [*command, "-c", str(source), "-o", str(partial)]
    done = captured(call, cwd=ROOT)
    sys.stderr.write(done.stderr)
    if done.returncode != 0:
        partial.unlink(missing_ok=True)
        raise CompileError(f"{source.name} does not compile:\n{shlex.join(call)}\n{done.stderr}")
    partial.replace(target)
    return target


def sqlite_object(compiler: list[str], source: Path) -> Path:
    """SQLite compiled, from a cache in the project: editable builds work in temporary folders."""
    command = [*compiler, *SQLITE_FLAGS, *sanitizer_flags(), *SQLITE_DEFINES]
    inputs = [
        digest((source / "sqlite3.c").read_bytes()),
        *command,
        version_of(command),
        sysconfig.get_platform(),
        *(os.environ.get(name, "") for name in ("ARCHFLAGS", "MACOSX_DEPLOYMENT_TARGET")),
    ]
    key = digest("\0".join(inputs).encode())[:24]
    cache = Path(os.environ.get("FENCEPOST_BUILD_CACHE") or ROOT / "build" / "sqlite").resolve()
    target = cache / key / "sqlite3.o"
    if target.is_file():
        return target
    return compile_to(target, command, source / "sqlite3.c")


def objects(compiler: list[str], sources: list[Path], flags: list[str], folder: Path) -> list[Path]:
    """`sources` compiled into `folder`, by names that carry all they depend on; no others stay."""
    headers = b"\0".join(path.read_bytes() for path in sorted(CSRC.glob("*.h")))
    common = "\0".join([*compiler, *flags, version_of(compiler)]).encode() + headers

    def one(source: Path) -> Path:
        key = digest(common + str(source).encode() + source.read_bytes())[:16]
        target = folder / f"{source.stem}-{key}.o"
        return target if target.is_file() else compile_to(target, [*compiler, *flags], source)

    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        made = list(pool.map(one, sources))
    for old in set(folder.glob("*.o")) - set(made):
        old.unlink(missing_ok=True)
    return made


def our_flags(include: list[str], *, test: bool) -> list[str]:
    """How our C is compiled, in the release build and in the test build."""
    flags = [*OUR_FLAGS, *sanitizer_flags(), *(TEST_FLAGS if test else RELEASE_FLAGS)]
    if flag_set("FENCEPOST_WERROR"):
        flags.append("-Werror")
    return [*flags, *include]


@contextlib.contextmanager
def one_build_at_a_time() -> Iterator[None]:
    """Two builds in one tree take turns, so that the second finds what the first one made."""
    (ROOT / "build").mkdir(exist_ok=True)
    with (ROOT / "build" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# --- setuptools -----------------------------------------------------------------------------------


class build_ext(_build_ext):
    """Builds `_core`, and `_core_test` beside it where developers work."""

    def finalize_options(self) -> None:
        names = ["fencepost._core"]
        if self.editable_mode or self.inplace or sanitizer():
            names.append("fencepost._core_test")
        limited = not FREE_THREADED
        self.distribution.ext_modules = [Extension(n, [], py_limited_api=limited) for n in names]
        super().finalize_options()
        if self.inplace and not self.editable_mode:
            # Away from build/lib, which a later wheel would sweep up, the test build included.
            self.build_lib = str(ROOT / "build" / "inplace")
        self.force = True  # linking is cheap; what is stale is decided by content, not by time

    def run(self) -> None:
        with one_build_at_a_time():
            super().run()

    def build_extension(self, ext: Extension) -> None:
        compiler: list[str] = list(self.compiler.compiler_so)
        variant = f"{ext.name}-{sanitizer() or 'plain'}-{sys.implementation.cache_tag}"
        folder = ROOT / "build" / "objects" / variant

        system = flag_set("FENCEPOST_SYSTEM_SQLITE")
        include = ["-DFENCEPOST_SYSTEM_SQLITE"] if system else ["-isystem", str(sqlite_dir())]
        flags = our_flags(include, test=ext.name.endswith("_test"))
        made = objects(compiler, sorted(CSRC.glob("*.c")), flags, folder)
        made.append(self.glue_object(ext, compiler, [*flags, "-w"], folder / "glue"))
        if not system:
            made.append(sqlite_object(compiler, sqlite_dir()))

        ext.sources = []
        ext.extra_objects = [str(path) for path in made]
        sqlite = ["-lsqlite3"] if system else []
        ext.extra_link_args = [*sqlite, *sanitizer_flags(), "-lpthread", "-lm"]
        super().build_extension(ext)

    def glue_object(self, ext: Extension, compiler: list[str], flags: list[str], at: Path) -> Path:
        """The C that cffi wrote: not ours, so its warnings are not either."""
        text = glue(ext.name)
        source = at / f"{ext.name.rpartition('.')[2]}.c"
        write_atomically(source, text.encode())
        api = "-D_CFFI_NO_LIMITED_API" if FREE_THREADED else f"-DPy_LIMITED_API={LIMITED_API}"
        python = [f"-I{folder}" for folder in self.include_dirs]
        flags = [flag for flag in flags if flag != "-Werror"]
        return objects(compiler, [source], [*flags, api, f"-I{CSRC}", *python], at)[0]

    def copy_file(self, infile: Any, outfile: Any, *args: Any, **kwargs: Any) -> Any:
        """Under a running program the old file stays whole: the new one takes its name at once."""
        partial = Path(f"{outfile}.{os.getpid()}.new")
        answer = super().copy_file(infile, str(partial), *args, **kwargs)
        if partial.exists():
            partial.replace(outfile)
        return answer


class bdist_wheel(_bdist_wheel):
    """One wheel for every Python from the floor on."""

    def finalize_options(self) -> None:
        self.py_limited_api = False if FREE_THREADED else ABI_FLOOR
        super().finalize_options()


class editable_wheel(_editable_wheel):
    def finalize_options(self) -> None:
        """A folder on the path, which type checkers can follow; not a finder, which they cannot."""
        super().finalize_options()
        self.package_dir = {"": "python"}


class sdist(_sdist):
    """Carries SQLite's source, so that whoever builds from it needs no network."""

    def run(self) -> None:
        fetched(CSRC / "sqlite")
        super().run()


if __name__ == "__main__":
    try:
        print(f"SQLite {SQLITE_VERSION} is in {os.path.relpath(sqlite_dir())}")
    except SourceUnavailable as error:
        sys.exit(str(error))
