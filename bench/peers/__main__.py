"""
Fencepost beside its peers, and beside SQLite itself, in one run.

    make bench-peers                               install the peers, run, print, write the JSON
    python -m bench.peers --only hand huey         some of them (and Fencepost)
    python -m bench.peers --markdown               the tables of the last run, for the documents
    python -m bench.peers --document FILE          … into the marked part of FILE
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench._c import ROOT, driver, preload
from bench._rounds import file_system, refuse_test_core
from bench.peers import tables
from bench.peers.install import commands, environment, installed, newest_python
from bench.peers.peer import MODULES
from bench.peers.race import Race
from bench.peers.sizes import REAL

__all__ = ["run"]

BUILD = ROOT / "build" / "peers"
OURS = ("fencepost", "fencepost-job", "hand")


def run(race: Race) -> dict[str, Any]:
    """Everything, in order of worth: what is left when the time is up is left out."""
    with race:
        race.measure_wal("fencepost")
        for sync in ("full", "normal"):
            race.puts_and_takes(sync)
        race.workers(("full", "normal"))
        race.wakeups("normal")
        race.backlog(("normal",))
        return {
            "about": race.about(),
            "failures": race.failures,
            "figures": race.figures,
            "body_bytes": race.body_bytes,
            "jobs": race.sizes.jobs,
            "wal_bytes": race.wal_bytes,
            "cut_short": race.cut_short,
        }


def machine(python: str, folder: Path) -> dict[str, str]:
    """What the figures depend on, and that is no secret."""
    asked = "import platform, sqlite3; print(platform.python_version(), sqlite3.sqlite_version)"
    there = subprocess.run([python, "-c", asked], check=True, capture_output=True, text=True)
    version, sqlite = there.stdout.split()
    return {
        "system": f"{platform.system()} {platform.release().split('-')[0]}, {platform.machine()}",
        "file system": file_system(folder),
        "Python": version,
        "its SQLite": sqlite,
        "this Python's SQLite": sqlite3.sqlite_version,
    }


def measured(options: argparse.Namespace) -> dict[str, Any]:
    began = time.monotonic()
    refuse_test_core()
    missing = installed(BUILD, options.python)
    python = str(BUILD / "venv" / "bin" / "python")
    names = [name for name in MODULES if name not in missing]
    node = None if "plainjob" in missing else BUILD / "node"
    begun = commands(names, python=python, raw=driver("raw"), node=node)
    if options.only:
        begun = {name: begun[name] for name in begun if name in {"raw", *OURS, *options.only}}
    folder = Path(tempfile.mkdtemp(prefix="files-", dir=options.folder))
    library = preload("syncs") if sys.platform == "linux" else None
    try:
        race = Race(
            begun,
            folder,
            REAL,
            env=environment(library),
            until=began + 60 * options.minutes,
            say=lambda text: print(text, file=sys.stderr, flush=True),
        )
        found = {"machine": machine(python, folder), "missing": missing, **run(race)}
    finally:
        shutil.rmtree(folder)
    found["seconds"] = round(time.monotonic() - began)
    return found


def main() -> None:
    BUILD.mkdir(parents=True, exist_ok=True)
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="PEER", help=", ".join([*MODULES, "plainjob"]))
    parser.add_argument("--folder", default=BUILD, help="where the files lie: a real disk, please")
    parser.add_argument("--minutes", type=float, default=8, help="after which it comes to an end")
    parser.add_argument("--python", default=newest_python(), help="what makes the peers' venv")
    parser.add_argument("--json", type=Path, default=BUILD / "figures.json")
    parser.add_argument("--markdown", action="store_true", help="print the last run's tables")
    parser.add_argument("--document", type=Path, help="put them into this file")
    options = parser.parse_args()
    if not options.markdown and not options.document:
        options.json.write_text(json.dumps(measured(options), indent=1), encoding="utf-8")
    found = json.loads(options.json.read_text(encoding="utf-8"))
    if options.document:
        tables.replace(options.document, found)
    else:
        print(tables.markdown(found))


if __name__ == "__main__":
    main()
