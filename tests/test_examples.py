"""Each example runs as it stands."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

import pytest

from commands import until

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
DATA = str(resources.files("fencepost") / "data" / "quakes.jsonl")


def test_quickstart_sends_and_stops_when_it_is_told(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / "quickstart.py")]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "to ann@example.com: hello\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_the_shop_passes_its_own_tests(tmp_path: Path) -> None:
    """With the plugin, whether or not Fencepost is installed."""
    plugin = ["-pno:fencepost", "-pfencepost._pytest", "-pno:asyncio", "-Werror"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        *plugin,
        "--rootdir=.",
        "-c/dev/null",
        "-pno:cacheprovider",
    ]
    command.append(str(EXAMPLES / "shop" / "test_shop.py"))
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_ingest_counts_each_report_once_however_often_it_comes(tmp_path: Path) -> None:
    def run(*files: str) -> list[str]:
        command = [sys.executable, str(EXAMPLES / "ingest.py"), *files]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    first = run(DATA, DATA)
    again = run(DATA)
    sums = [line for line in first if "reports" in line]
    assert sum(int(line.split()[1]) for line in sums) == 1707
    assert [line for line in again if "reports" in line] == sums
    assert [line for line in again if "known" in line] == [
        "quakes.jsonl: 0 new, 1000 known",
        "quakes.jsonl: 0 new, 707 known",
    ]


def test_the_shop_loses_and_repeats_nothing_while_its_workers_are_killed(tmp_path: Path) -> None:
    """Twice, as somebody would who killed it half-way: the second run finds all of it done."""

    def run() -> dict[str, int]:
        command = [sys.executable, str(EXAMPLES / "orders" / "shop.py"), "300", "2"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        lines = [line.rsplit(maxsplit=1) for line in done.stdout.splitlines()]
        return {words.strip(): int(number) for words, number in lines}

    for _ in range(2):
        said = run()
        assert (said["orders paid once"], said["orders paid twice"]) == (300, 0)
        assert (said["receipts sent"], said["receipts sent twice"]) == (300, 0)
    assert said["workers killed"] == 0


def test_webhooks_between_two_files_are_counted_once(tmp_path: Path) -> None:
    """The receiver fails at random, and senders are killed in the middle."""
    pytest.importorskip("httpx")
    command = [sys.executable, str(EXAMPLES / "webhooks" / "shop.py"), "80", "2"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    lines = [line.rsplit(maxsplit=1) for line in done.stdout.splitlines()]
    said = {words.strip(): int(number) for words, number in lines}
    assert said == {
        "receipts counted once": 80,
        "receipts counted twice": 0,
        "workers killed": 2,
    }


class Agent:
    """The commands of examples/agent, and workers of it that can be killed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._program = [sys.executable, str(EXAMPLES / "agent" / "agent.py")]
        self.calls = folder / "calls.txt"

    def said(self, *arguments: str) -> str:
        command = [*self._program, *arguments]
        done = subprocess.run(command, cwd=self._folder, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    @contextmanager
    def work(self) -> Iterator[subprocess.Popen[bytes]]:
        """A worker, killed at the end."""
        with subprocess.Popen([*self._program, "work"], cwd=self._folder) as worker:
            try:
                yield worker
            finally:
                worker.kill()

    def made(self) -> int:
        return len(self.calls.read_text().splitlines()) if self.calls.exists() else 0


def test_the_agent_is_killed_in_its_fan_out_and_pays_for_nothing_twice(tmp_path: Path) -> None:
    """
    It waits for the approval; then its worker is killed between its twenty tasks. Of what was asked
    twice there is no more than was under way.
    """
    agent = Agent(tmp_path)
    id_ = agent.said("start", "sort my photos")
    other = agent.said("start", "nothing")
    with agent.work():
        until(lambda: agent.said("show", id_).startswith("pending approval"))
        assert agent.said("cancel", other) == "True"
    assert agent.said("approve", id_) == "True"
    assert agent.said("refuse", id_) == "False"
    planned = agent.made()
    with agent.work():
        until(lambda: agent.made() > planned)
    with agent.work() as worker:
        until(lambda: agent.said("show", id_).startswith("done"))
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
    steps = agent.said("show", id_)
    assert steps.count("step task") == 20
    assert "transact publish" in steps
    assert agent.said("show", other).startswith("cancelled")
    asked = [line for line in agent.calls.read_text().splitlines() if not line.endswith("nothing")]
    assert len(set(asked)) == 22
    assert len(asked) <= 22 + 20
