"""
What users get: the sdist builds without reaching out for SQLite, twice to the same bytes; the wheel
keeps to the stable ABI, and passes the tests on each Python that is found, on a PATH without a
compiler; and what is published is built for what is promised.

    make packaged                            each Python that is found: the PATH, pyenv's, and
                                             what `make newer-python` brought
    make packaged ARGS="/some/python3.12"    these

Everything else comes from the package registry.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "packaged"
EPOCH = "1700000000"  # of what is in the archives, whenever they are built
NOWHERE = "http://127.0.0.1:9"  # whoever asks for a file gets none
# What release wheels are built and tested on: pyproject.toml, as cibuildwheel understands it.
PLATFORMS = {
    "linux": ["manylinux_x86_64", "manylinux_aarch64", "musllinux_x86_64", "musllinux_aarch64"],
    "macos": ["macosx_x86_64", "macosx_arm64"],
}
BUILDS = ["build", "setuptools>=80", "cffi>=2.0", "wheel"]
USES = [
    "hypothesis",
    "pytest>=8.2",
    "pytest-asyncio>=1.0",
    "pytest-benchmark>=5.0",
    "pytest-timeout>=2.3",
    "setuptools>=80",
    "typing_extensions",
]
# What a test may run besides Python; no compiler is among them.
PROGRAMS = ["bash", "cat", "env", "kill", "ls", "nm", "sh", "sleep", "stty", "true", "uname"]


def run(command: Sequence[str | Path], *, env: Mapping[str, str] | None = None, cwd: Path) -> None:
    print("$", " ".join(map(str, command)), flush=True)
    subprocess.run(command, check=True, env=env, cwd=cwd)


def environment(python: str | Path, folder: Path, packages: Sequence[str]) -> Path:
    """A new venv's Python, which need not have a pip of its own."""
    run([python, "-m", "venv", "--without-pip", folder], cwd=ROOT)
    made = folder / "bin" / "python"
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", made, "install"]
    quiet = ["--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
    run([*pip, *quiet, *packages], cwd=ROOT)
    return made


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def unpacked(archive: Path, folder: Path) -> Path:
    """The one folder in it."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    (only,) = folder.iterdir()
    return only


def built(python: Path, folder: Path) -> Path:
    """The wheel, from an sdist that was unpacked elsewhere, with nobody to ask for SQLite."""
    wheels = set[str]()
    sdist = OUT / "sdist"
    run([python, "-m", "build", "--no-isolation", "--sdist", "--outdir", sdist, ROOT], cwd=ROOT)
    (archive,) = sdist.glob("*.tar.gz")
    offline = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH, "npm_config_registry": NOWHERE}
    offline |= {f"{scheme}_proxy": NOWHERE for scheme in ("http", "https")}
    for turn in ("first", "second"):
        source = unpacked(archive, folder / turn)
        at = OUT / turn
        wheel_of: list[str | Path] = [python, "-m", "build", "--no-isolation", "--wheel"]
        run([*wheel_of, "--outdir", at, source], env=offline, cwd=folder)
        (wheel,) = at.glob("*.whl")
        wheels.add(digest(wheel))
    if len(wheels) != 1:
        sys.exit("two builds of one sdist differ")
    return wheel


def holds_what_belongs(archive: Path) -> None:
    """All that is committed for users, and SQLite; nothing that was built."""
    asked = ["git", "ls-files"]
    listed = subprocess.run(asked, check=True, cwd=ROOT, capture_output=True, text=True).stdout
    committed = {name for name in listed.splitlines() if not name.startswith(".")}
    with tarfile.open(archive) as tar:
        names = {
            name.partition("/")[2] for name in tar.getnames() if not tar.getmember(name).isdir()
        }
    wanted = committed | {"csrc/sqlite/sqlite3.c", "csrc/sqlite/sqlite3.h"}
    beside = {"PKG-INFO", "setup.cfg"}
    more = {name for name in names - wanted - beside if ".egg-info/" not in name}
    if more or wanted - names:
        sys.exit(f"the sdist has {sorted(more)} too many, and lacks {sorted(wanted - names)}")


def poor_path(folder: Path) -> str:
    """Of a machine without a compiler."""
    folder.mkdir()
    for name in PROGRAMS:
        found = shutil.which(name)
        if found is not None:
            (folder / name).symlink_to(found)
    return str(folder)


def passes(python: str, wheel: Path, sdist: Path, folder: Path, extras: str) -> bool:
    """The installed wheel, on `python`, by the tests that the sdist carries."""
    packages = [f"fencepost[{extras}] @ file://{wheel}", *USES]
    made = environment(python, folder / "venv", packages)
    at = unpacked(sdist, folder / "tests-of-it")
    path = os.pathsep.join([str(made.parent), poor_path(folder / "bin")])
    env = {**os.environ, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    env.pop("PYTHONPATH", None)
    wanted = "not hostile and not long"
    tests = [str(made), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", wanted, "tests"]
    print("$", *tests, flush=True)
    return subprocess.run(tests, check=False, env=env, cwd=at).returncode == 0


def pythons() -> list[str]:
    """The named ones, or one of each version that is found and runs."""
    if sys.argv[1:]:
        return sys.argv[1:]
    folders = [Path(folder) for folder in os.get_exec_path()]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    folders += sorted(pyenv.glob("versions/*/bin"))
    folders.append(ROOT / "build" / "compat" / "python314" / "usr" / "bin")
    found = list[str]()
    for minor in range(10, 15):
        places = (folder / f"python3.{minor}" for folder in folders)
        found += [str(at) for at in places if at.exists() and runs(at)][:1]
    return found


def runs(python: Path) -> bool:
    """A shim may stand for what is not there."""
    return subprocess.run([python, "-c", ""], check=False, capture_output=True).returncode == 0


def builds_for_all_platforms(python: Path) -> None:
    for platform, names in PLATFORMS.items():
        archs = ["--archs", "x86_64,aarch64"] if platform == "linux" else []
        asked = [str(python), "-m", "cibuildwheel", "--print-build-identifiers"]
        asked += ["--platform", platform, *archs]
        done = subprocess.run(asked, check=True, cwd=ROOT, capture_output=True, text=True)
        wanted = {f"{version}-{name}" for version in ("cp310", "cp314") for name in names}
        if set(done.stdout.split()) != wanted:
            sys.exit(f"cibuildwheel would build {done.stdout}")


def main() -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="fencepost-") as name:
        folder = Path(name)
        builder = environment(sys.executable, folder / "builder", BUILDS)
        (folder / "built").mkdir()
        wheel = built(builder, folder / "built")
        audits = ["abi3audit", "auditwheel", "cibuildwheel>=3.2"]
        auditor = environment(sys.executable, folder / "auditor", audits)
        builds_for_all_platforms(auditor)
        run([auditor, "-m", "abi3audit", "--strict", wheel], cwd=folder)
        run([auditor, "-m", "auditwheel", "show", wheel], cwd=folder)
        (sdist,) = (OUT / "sdist").glob("*.tar.gz")
        holds_what_belongs(sdist)
        failed = list[str]()
        for turn, python in enumerate(pythons()):
            at = folder / f"python-{turn}"
            at.mkdir()
            # What has no extra is skipped, and does not fail: so it is on the first.
            if not passes(python, wheel, sdist, at, "cli,web,webhook" if turn else "cli"):
                failed.append(python)
        if failed:
            sys.exit(f"the tests fail on {', '.join(failed)}")
        print(f"{wheel.name}, SHA-256 {digest(wheel)}")


if __name__ == "__main__":
    main()
