"""`fencepost work`: starting, stopping, and what becomes of processes that are killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from commands import Run, quiet_environment, runner, until

APP = """
import os, signal, time
import fencepost

app = fencepost.App("app.db")

@app.job
def note(text: str) -> str:
    with open("notes", "a") as notes:
        notes.write(f"{text} {os.getpid()}\\n")
    return text

@app.job
def wait() -> None:
    with open("notes", "a") as notes:
        notes.write(f"waiting {os.getpid()}\\n")
    time.sleep(600)

deadly = app.queue("deadly", str, lease=0.5, max_attempts=2, listed=True)

@deadly.handler()
def die(batch: fencepost.Batch[str]) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
"""

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with an application in it: shop.py and its app.db."""
    (tmp_path / "shop.py").write_text(APP)
    return tmp_path


@pytest.fixture
def run(shop: Path) -> Run:
    return runner(shop)


@pytest.fixture
def start(shop: Path) -> Iterator[Start]:
    """Starts `fencepost ARGUMENTS` in the shop; what still runs at the end is killed."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        with (shop / "said").open("wb") as said:
            process = subprocess.Popen(
                [sys.executable, "-m", "fencepost", *arguments],
                cwd=shop,
                env=quiet_environment(),
                stdout=said,
                stderr=said,
            )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
    for _, child in notes(shop):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(child), signal.SIGKILL)


def enqueue(shop: Path, *calls: str) -> None:
    """Each call, such as `note.enqueue('a')`, by a process of its own."""
    command = [sys.executable, "-c", f"from shop import *; {'; '.join(calls)}"]
    subprocess.run(command, cwd=shop, check=True)


def notes(shop: Path) -> list[list[str]]:
    """What the jobs wrote so far: (text, process) each."""
    path = shop / "notes"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_work_runs_jobs_until_it_is_told_to_stop(shop: Path, start: Start, number: int) -> None:
    enqueue(shop, "note.enqueue('one')", "note.enqueue('two')")
    worker = start("work", "shop:app", "--threads", "2")
    until(lambda: len(notes(shop)) == 2)
    worker.send_signal(number)
    assert worker.wait(30) == 0


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("nowhere:app", "nowhere: ModuleNotFoundError"),
        ("shop:nothing", "shop:nothing names no fencepost.App"),
        ("shop:note", "shop:note names no fencepost.App"),
        ("broken:app", "broken: ZeroDivisionError: division by zero ("),
        ("nowhere", "nowhere: ModuleNotFoundError"),
    ],
)
def test_work_says_in_one_line_why_there_is_no_app(
    shop: Path, run: Run, target: str, words: str
) -> None:
    (shop / "broken.py").write_text("\n1 / 0\n")
    stderr = run("work", target, code=2).stderr
    assert stderr.startswith(f"fencepost: {words}")
    assert stderr.count("\n") == 1


def test_an_app_with_a_file_takes_no_other_one(run: Run) -> None:
    assert "app.db" in run("--database", "other.db", "work", "shop:app", code=2).stderr


def test_an_app_without_a_file_takes_the_one_that_is_named(shop: Path, start: Start) -> None:
    (shop / "shop.py").write_text(APP.replace('App("app.db")', "App()"))
    enqueue(shop, "note.at(app.open('given.db')).enqueue('here')")
    worker = start("--database", "given.db", "work", "shop:app")
    until(lambda: notes(shop))
    worker.terminate()
    assert worker.wait(30) == 0


def test_an_app_without_a_file_wants_one_to_be_named(shop: Path, run: Run) -> None:
    (shop / "shop.py").write_text(APP.replace('App("app.db")', "App()"))
    assert "--database" in run("work", "shop:app", code=2).stderr


def test_a_killed_process_of_several_is_replaced(shop: Path, start: Start) -> None:
    """A message that kills its worker is dead after its attempts, and the others go on."""
    enqueue(shop, "deadly.enqueue('x')", *(f"note.enqueue('{n}')" for n in range(20)))
    parent = start("work", "shop:app", "--procs", "2", "--threads", "1", "--json")
    until(lambda: len({text for text, _ in notes(shop)}) == 20)
    until(lambda: dead(shop))
    parent.terminate()
    assert parent.wait(60) == 0
    events = [json.loads(line) for line in (shop / "said").read_text().splitlines()]
    ended = [event["code"] for event in events if event.get("event") == "ended"]
    assert ended[:2] == [-9, -9]
    assert set(ended[2:]) <= {0, -15}  # one that had not begun yet ends by the signal itself


def dead(shop: Path) -> list[Any]:
    command = [sys.executable, "-m", "fencepost", "--database", "app.db", "list", "dead", "--json"]
    told = subprocess.run(command, cwd=shop, check=True, capture_output=True, text=True).stdout
    return list(json.loads(told)["messages"])


def test_children_die_with_a_parent_that_is_killed(shop: Path, start: Start) -> None:
    """The lifeline: SIGKILL gives the parent no chance to tell them."""
    enqueue(shop, "wait.enqueue()", "wait.enqueue()")
    parent = start("work", "shop:app", "--procs", "2", "--threads", "1", "--grace", "0.1")
    until(lambda: len(notes(shop)) == 2)
    parent.kill()
    for _, process in notes(shop):
        until(lambda process=process: gone(int(process)))  # type: ignore[misc]


def gone(process: int) -> bool:
    """Ended; where nobody reaps orphans, it stays a zombie."""
    if Path("/proc/self/stat").exists():  # small images have no ps
        try:
            told = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
        except (FileNotFoundError, ProcessLookupError):
            return True
        return told.rpartition(")")[2].split()[0] == "Z"
    command = ["ps", "-o", "stat=", "-p", str(process)]
    state = subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip()
    return state == "" or state.startswith("Z")


def test_a_terminal_interrupts_the_parent_alone(shop: Path, start: Start) -> None:
    """Ctrl-C goes to a group of processes: children in it would be told twice, which is at once."""
    enqueue(shop, "note.enqueue('here')")
    parent = start("work", "shop:app", "--procs", "2")
    ((_, child),) = until(lambda: notes(shop))
    assert os.getpgid(int(child)) != os.getpgid(parent.pid)
    parent.send_signal(signal.SIGINT)
    assert parent.wait(60) == 0


def test_children_that_cannot_start_are_not_started_again(run: Run) -> None:
    run("work", "nowhere:app", "--procs", "2", code=2)


def test_a_stop_while_the_program_is_still_imported_is_a_clean_end(
    shop: Path, start: Start
) -> None:
    """Nothing was claimed yet, so there is nothing to give back: exit 0, and no traceback."""
    (shop / "slow.py").write_text(
        "import pathlib, time\npathlib.Path('importing').touch()\ntime.sleep(600)\n"
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        process = start("work", "slow:app")
        until((shop / "importing").exists)
        (shop / "importing").unlink()
        process.send_signal(number)
        assert process.wait(30) == 0
        assert "Traceback" not in (shop / "said").read_text()


def test_a_signal_while_python_ends_is_a_clean_end(shop: Path, start: Start) -> None:
    """All is settled by then. It must not be raised in whatever is put away just then."""
    (shop / "twice.py").write_text(
        "import atexit, os, signal\nfrom shop import app, note\n"
        "atexit.register(lambda: os.kill(os.getpid(), signal.SIGTERM))\n"
    )
    enqueue(shop, "note.enqueue('one')")
    worker = start("work", "twice:app")
    until(lambda: len(notes(shop)) == 1)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 0
    assert "Traceback" not in (shop / "said").read_text()
