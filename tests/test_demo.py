"""The demo: what it promises a newcomer, and that it would notice if it were not so."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

import fencepost
from fencepost.cli.demo_app import TABLES
from fencepost.cli.demo_count import count

DATA = resources.files("fencepost") / "data" / "quakes.jsonl"


def demo(folder: Path, *arguments: str, **env: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "fencepost", "demo", *arguments],
        cwd=folder,
        env={**os.environ, **env},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done


def sql(path: Path, *statements: str) -> list[Any]:
    """The rows of each statement, by another process and another SQLite."""
    program = (
        "import json, sqlite3, sys; c = sqlite3.connect(sys.argv[1]);"
        "print(json.dumps([c.execute(s).fetchall() for s in sys.argv[2:]]))"
    )
    command = [sys.executable, "-c", program, str(path), *statements]
    return list(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))


def test_killed_workers_lose_nothing_and_apply_nothing_twice(tmp_path: Path) -> None:
    """What the demo tells is what another SQLite counts in its file; no lease is waited for."""
    said = ["--kills", "3", "--lease", "3600", "--seed", "1", "--json"]
    done = demo(tmp_path, "--database", "demo.db", *said)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    quakes = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]

    applied, regions, strongest = sql(
        tmp_path / "demo.db",
        "SELECT quake, attempt FROM applied",
        "SELECT sum(reports), count(*) FROM region",
        "SELECT strongest, place FROM region ORDER BY strongest DESC LIMIT 1",
    )
    assert sorted(quake for quake, _ in applied) == sorted(quake["id"] for quake in quakes)
    assert regions == [[len(quakes), len(told["regions"])]]
    top = max(quakes, key=lambda quake: quake["mag"])
    assert strongest == [[top["mag"], top["place"]]]

    assert told["right"] is True
    assert (told["lost"], told["twice"]) == (0, 0)
    assert (told["added"], told["added_again"], told["known_again"]) == (1707, 0, 1707)
    assert told["deliveries"] == sum(attempt for _, attempt in applied)
    assert told["redeliveries"] == told["deliveries"] - 1707
    assert len(told["kills"]) == 3
    assert told["redeliveries"] > 0, "no kill hit a worker that held anything"


def test_off_a_terminal_it_tells_plain_lines(tmp_path: Path) -> None:
    lines = [json.dumps({"id": str(n), "mag": n, "place": f"here, R{n % 3}"}) for n in range(60)]
    (tmp_path / "few").write_text("\n".join(lines))
    done = demo(tmp_path, "--database", "demo.db", "--file", "few", "--kills", "1")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["R0", "20", "57.0", "here,", "R0"] in rows
    assert ["lost", "0"] in rows
    assert ["applied", "twice", "0"] in rows


def test_it_would_notice_what_is_lost_or_applied_twice(tmp_path: Path) -> None:
    with fencepost.open(tmp_path / "demo.db") as store:
        with store.transaction() as tx:
            for statement in TABLES:
                tx.execute(statement)
            tx.execute("INSERT INTO region VALUES ('R', 3, 1.0, 'here')")
            tx.executemany(
                "INSERT INTO applied VALUES (?, ?, ?)",
                [("a", 1, 1), ("b", 2, 1), ("b", 3, 2)],
            )
        found = count(store, ["a", "b", "c"])
    assert (found.lost, found.twice, found.right) == (1, 1, False)
    assert (found.deliveries, found.redeliveries) == (3, 1)


def test_a_line_that_is_no_report_is_a_wrong_call(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text('{"id": "a", "mag": 1, "place": "here"}\n{"id": 1}\n')
    done = demo(tmp_path, "--database", "demo.db", "--file", "bad")
    assert done.returncode == 2
    assert done.stderr.startswith("fencepost: line 2 is no report")
    assert not (tmp_path / "demo.db").exists()


def test_it_keeps_off_a_file_that_is_there(tmp_path: Path) -> None:
    """Neither one that is named, nor the one that the environment names for daily work."""
    taken = tmp_path / "app.db"
    taken.write_bytes(b"")
    assert demo(tmp_path, "--database", "app.db").returncode == 2
    (tmp_path / "one").write_text('{"id": "a", "mag": 1, "place": "here"}')
    done = demo(
        tmp_path,
        *("--file", "one", "--kills", "0", "--json"),
        FENCEPOST_DATABASE=str(taken),
        TMPDIR=str(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["database"] != str(taken)
    assert taken.read_bytes() == b""


def test_its_workers_die_with_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fencepost", "demo", "--database", "demo.db"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
    log = tmp_path / "demo.db.log"
    end = time.monotonic() + 60
    while not log.exists() or log.read_text().count("working") < 2:
        assert time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    while log.read_text().count("stopped") < 2:
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("place", "region"),
    [
        ("4km W of Castaic, CA", "California"),
        ("South of Alaska", "Alaska"),
        ("300km SE of Kodiak, Alaska", "Alaska"),
        ("Banda Sea", "Banda Sea"),
    ],
)
def test_a_region_is_what_the_place_ends_with(place: str, region: str) -> None:
    from fencepost.cli.demo_app import Quake

    assert Quake("a", 1.0, place).region == region
