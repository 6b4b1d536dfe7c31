"""What the build promises: pinned sources, one set of declarations, no leaked symbol."""

from __future__ import annotations

import importlib
import importlib.machinery
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from setuptools.errors import SetupError

import build_ffi

ROOT = Path(__file__).resolve().parent.parent
WHOLE = "/* cdef begin */\nint a(void);\n/* cdef end */\n"


def built(module: str) -> Path:
    """The extension file that `fencepost` would import, found without importing it."""
    import fencepost

    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        path = Path(fencepost.__path__[0]) / f"{module}{suffix}"
        if path.exists():
            return path
    raise FileNotFoundError(f"{module} is not built: make build")


def exports(path: Path) -> list[str]:
    darwin = sys.platform == "darwin"
    call = ["nm", *(["-gU"] if darwin else ["-D", "--defined-only"]), str(path)]
    printed = subprocess.run(call, capture_output=True, text=True, check=True).stdout
    names = [line.split()[-1] for line in printed.splitlines()]
    return [name.removeprefix("_") if darwin else name for name in names]


@pytest.mark.skipif(shutil.which("nm") is None, reason="there is no nm")
@pytest.mark.parametrize("module", ["_core", pytest.param("_core_test", marks=pytest.mark.hostile)])
def test_the_built_file_exports_its_init_function_alone(module: str) -> None:
    """One leaked sqlite3 symbol, and import order decides which SQLite two modules share."""
    assert exports(built(module)) == [f"PyInit_{module}"]


def core(name: str) -> Any:
    return importlib.import_module(f"fencepost.{name}")


def test_the_core_carries_the_pinned_sqlite() -> None:
    built = core("_core")
    version = built.ffi.string(built.lib.fp_sqlite_version())
    assert version == build_ffi.SQLITE_VERSION.encode()


@pytest.mark.hostile
def test_the_release_build_has_no_faults_to_offer() -> None:
    """What only the test build declares is missing from the other, and nothing else differs."""
    released, hostile = (set(dir(core(name).lib)) for name in ("_core", "_core_test"))
    assert released < hostile
    assert "fp_fault_step" in hostile - released


def test_every_package_is_listed() -> None:
    """A folder of Python that pyproject.toml does not name is missing from the wheel."""
    listed = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for path in (ROOT / "python").rglob("*.py"):
        package = ".".join(path.parent.relative_to(ROOT / "python").parts)
        assert f'"{package}"' in listed, f"{package} is not among [tool.setuptools] packages"


def test_a_region_is_the_lines_between_its_marks() -> None:
    assert build_ffi.region(WHOLE, "cdef") == "int a(void);\n"


@pytest.mark.parametrize(
    "text",
    ["", WHOLE + WHOLE, "/* cdef begin */\n", "/* cdef end */\n/* cdef begin */\n"],
    ids=["none", "two", "open", "reversed"],
)
def test_anything_but_one_region_is_refused(text: str) -> None:
    with pytest.raises(SetupError, match="exactly one region 'cdef begin'"):
        build_ffi.region(text, "cdef")


def test_source_with_another_digest_is_not_stock(tmp_path: Path) -> None:
    for name in build_ffi.SQLITE_DIGESTS:
        (tmp_path / name).write_text("/* patched */\n")
    assert not build_ffi.stock(tmp_path)


def test_a_route_with_the_wrong_bytes_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error lists every route with its reason, and the ways out; nothing is left behind."""

    def no_npm() -> dict[str, bytes]:
        raise FileNotFoundError("npm is not installed")

    def forged() -> dict[str, bytes]:
        return dict.fromkeys(build_ffi.SQLITE_DIGESTS, b"forged")

    monkeypatch.setattr(build_ffi, "ROUTES", {"site": forged, "npm": no_npm})
    with pytest.raises(build_ffi.SourceUnavailable) as caught:
        build_ffi.fetched(tmp_path / "sqlite")
    words = str(caught.value)
    assert "site: sqlite3.c has the wrong digest" in words
    assert "npm: npm is not installed" in words
    assert "FENCEPOST_SQLITE_DIR" in words
    assert "FENCEPOST_SYSTEM_SQLITE" in words
    assert not (tmp_path / "sqlite").exists()


def test_a_trusted_folder_must_hold_both_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FENCEPOST_SQLITE_DIR", str(tmp_path))
    (tmp_path / "sqlite3.c").touch()
    with pytest.raises(build_ffi.SourceUnavailable, match=r"has no sqlite3\.h"):
        build_ffi.sqlite_dir()


def test_what_is_written_atomically_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "new" / "file"
    build_ffi.write_atomically(target, b"one")
    build_ffi.write_atomically(target, b"two")
    assert target.read_bytes() == b"two"
    assert list(target.parent.iterdir()) == [target]


def test_a_sanitizer_must_be_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_SANITIZE", "wishes")
    with pytest.raises(SetupError, match="known are address, thread"):
        build_ffi.sanitizer()


# ---- with a SQLite of the system's ---------------------------------------------------------------


def compiled(source: Path, *flags: str) -> str:
    """What a compiler says of it; nothing is written."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no compiler")
    command = [compiler, "-fsyntax-only", *flags, str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def system_flags(headers: Path) -> list[str]:
    return [
        *build_ffi.our_flags(["-DFENCEPOST_SYSTEM_SQLITE", "-isystem", str(headers)], test=False),
        "-Werror",
    ]


SYSTEM = sorted(
    path.name for path in (ROOT / "csrc").glob("*.c") if "SYSTEM_SQLITE" in path.read_text("utf-8")
)


@pytest.mark.parametrize("name", SYSTEM)
def test_what_is_other_with_a_sqlite_of_the_systems_compiles(name: str) -> None:
    assert compiled(ROOT / "csrc" / name, *system_flags(build_ffi.sqlite_dir())) == ""


@pytest.mark.parametrize(("version", "refused"), [(3051002, True), (3051003, False)])
def test_a_sqlite_that_can_lose_commits_is_refused(
    tmp_path: Path, version: int, refused: bool
) -> None:
    """The floor is the first release whose WAL reset is safe."""
    text = build_ffi.glue("fencepost._core")
    begin = text.index("#include <sqlite3.h>")
    source = tmp_path / "head.c"
    source.write_text(text[begin : text.index("#endif", begin)] + "#endif\nint end;\n")
    (tmp_path / "sqlite3.h").write_text(f"#define SQLITE_VERSION_NUMBER {version}\n")
    said = compiled(source, *system_flags(tmp_path))
    assert ("Fencepost needs SQLite 3.51.3 or newer" in said) == refused, said
    assert bool(said) == refused, said
