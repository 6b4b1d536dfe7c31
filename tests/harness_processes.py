"""Processes of their own: programs that see the tests' harness, and print one JSON a line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HEAD = """
import json, os, sys
from pathlib import Path
from harness_core import *
from harness_core import core as opened, tx as transaction
path = Path(sys.argv[1])

def say(value):
    os.write(1, (json.dumps(value) + "\\n").encode())
"""

# The allocator of AddressSanitizer may be locked in the child by a thread that it does not have.
FORKS_BESIDE_THREADS = "libasan" not in os.environ.get("LD_PRELOAD", "")
forks_beside_threads = pytest.mark.skipif(
    not FORKS_BESIDE_THREADS, reason="AddressSanitizer does not survive it"
)

_started: list[subprocess.Popen[str]] = []


def start(program: str, path: Path, *arguments: object) -> subprocess.Popen[str]:
    """Runs `program`; it finds `path`, the words of harness_core, `say` and its arguments."""
    folders = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": folders}
    command = [sys.executable, "-c", HEAD + program, str(path), *map(str, arguments)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment
    )
    _started.append(process)
    return process


def end_all() -> None:
    """Ends what a test that went wrong has left running."""
    while _started:
        with _started.pop() as process:
            process.kill()


def heard(process: subprocess.Popen[str]) -> Any:
    """The next thing that it says."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "the process ended"
    return json.loads(line)


def finish(process: subprocess.Popen[str]) -> list[Any]:
    """Waits for its end, which must be a good one; all that it said since."""
    out, words = process.communicate(timeout=120)
    assert process.returncode == 0, words
    return [json.loads(line) for line in out.splitlines()]


def at_once(processes: list[subprocess.Popen[str]]) -> None:
    """Lets them go together, once each has said that it is ready."""
    for process in processes:
        assert heard(process) == "ready"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()


def all_of(processes: list[subprocess.Popen[str]]) -> list[list[Any]]:
    """What each has said; all have ended, also where one of them went wrong."""
    ended = [(*process.communicate(timeout=120), process.returncode) for process in processes]
    for _, words, code in ended:
        assert code == 0, words
    return [[json.loads(line) for line in out.splitlines()] for out, _, _ in ended]


def stopped_meanwhile(program: str, path: Path, step: int, work: Callable[[], object]) -> list[str]:
    """
    Runs `program`, which has `lib` and `path`, until that statement step; there it stands still
    while `work` is done, and goes on. What it printed; nothing: it ended before that step.
    """
    head = "import sys, fencepost\nfrom fencepost._binding.lib import lib\npath = sys.argv[1]\n"
    head += f"lib.fp_fault_stop({step})\n"
    command = [sys.executable, "-c", head + program, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        how = os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        stopped = how is not None and how.si_code == os.CLD_STOPPED
        if stopped:
            try:
                work()
            finally:
                os.kill(child.pid, signal.SIGCONT)
        said = child.communicate()[0].split()
    assert child.returncode == 0
    return said if stopped else []
