"""
The peers, installed into an environment of their own, never into the user's.

What is there already stays as it is. What does not install is said, and is missing from the run.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench._c import ROOT

__all__ = ["PYTHON_PEERS", "commands", "environment", "installed", "newest_python"]

PYTHON_PEERS = ("honker", "huey", "litequeue", "localqueue", "persist-queue", "simplebroker")
FLOORS = {"litequeue": "litequeue>=0.14"}  # older releases have another interface
NEWEST = 15
NODE_PEERS = ("plainjob", "better-sqlite3")
BENEATH_US = ("cffi", "msgspec")
INSTALL_MAX = 300  # seconds for one of them
HERE = Path(__file__).resolve().parent


def tried(command: Sequence[str | Path]) -> str | None:
    """None if it went well, else the last that it said."""
    try:
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=INSTALL_MAX
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    said = (done.stderr.strip() or done.stdout.strip() or "-").splitlines()
    errors = [line for line in said if line.startswith("ERROR")]
    return None if done.returncode == 0 else (errors or said)[-1]


def newest_python() -> str:
    """Some peers ask for a newer Python than ours; our core runs on all that come after its own."""
    for minor in range(NEWEST, sys.version_info.minor, -1):
        found = shutil.which(f"python3.{minor}")
        if found is not None and tried([found, "-c", "import venv, sqlite3"]) is None:
            return found
    return sys.executable


def installed(folder: Path, interpreter: str, say: Callable[[str], None] = print) -> dict[str, str]:
    """Why each one that is missing is missing. `folder` gets a `venv` and a `node`."""
    missing: dict[str, str] = {}
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        say(f"making {python.parent.parent}")
        subprocess.run([interpreter, "-m", "venv", python.parent.parent], check=True)
    for name in (*BENEATH_US, *PYTHON_PEERS):
        there = f"from importlib.metadata import version; version({name!r})"
        if tried([python, "-c", there]) is None:
            continue
        say(f"installing {name}")
        # Ready-made only: a package that would need another compiler is said to be missing.
        quiet = ["--quiet", "--disable-pip-version-check", "--prefer-binary"]
        only = ["--only-binary", "honker,localqueue"]
        why = tried([python, "-m", "pip", "install", *quiet, *only, FLOORS.get(name, name)])
        if why is not None:
            missing[name] = f"does not install: {why}"
    why = node_modules(folder / "node", say)
    if why is not None:
        missing["plainjob"] = why
    return missing


def node_modules(folder: Path, say: Callable[[str], None]) -> str | None:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return "Node is missing"
    if not (folder / "node_modules" / "better-sqlite3").exists():
        say("installing plainjob")
        folder.mkdir(parents=True, exist_ok=True)
        quiet = ["--no-audit", "--no-fund", "--loglevel=error"]
        why = tried([npm, "install", "--prefix", str(folder), *quiet, *NODE_PEERS])
        if why is not None:
            shutil.rmtree(folder)
            return f"does not install: {why}"
    works = "require(process.argv[1] + '/node_modules/better-sqlite3')(':memory:')"
    why = tried([node, "-e", works, str(folder.resolve())])
    return None if why is None else f"better-sqlite3 does not start: {why}"


def commands(
    names: Sequence[str], *, python: str, raw: Path, node: Path | None
) -> dict[str, list[str]]:
    """How the process of each is begun."""
    begun = {"raw": [str(raw)]}
    for name in names:
        begun[name] = [python, "-m", "bench.peers.child", name]
    if node is not None:
        begun["plainjob"] = ["node", str(HERE / "plainjob.mjs"), str(node / "node_modules")]
    return begun


def environment(library: Path | None) -> Mapping[str, str]:
    """Fencepost is the built tree; calls that wait for the disk are counted."""
    paths = {"PYTHONPATH": f"{ROOT}:{ROOT / 'python'}", "PYTHONUNBUFFERED": "1"}
    return paths if library is None else {**paths, "LD_PRELOAD": str(library)}
