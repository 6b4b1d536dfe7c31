"""
Processes that are killed at the k-th step of an operation.

One process forks all of them, before it has opened anything; each child opens a file of its own,
prepares the case, and is killed inside the operation, or says that it is done.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from harness_asked import Asked

PREPARED, DONE = "prepared", "done"


class Fate(NamedTuple):
    """What a child had said before its end, and whether it was killed."""

    said: list[str]
    killed: bool


Say = Callable[[str], object]


def live(say: Say, path: Path, name: str, at: int) -> None:
    """In the child: up to the case, then through it with death at its `at`-th step; -1: none."""
    from harness_cases import CASES
    from harness_core import lib, opened

    (case,) = [one for one in CASES if one.name == name]
    core = opened(path)
    context = case.prepare(core)
    say(PREPARED)
    if at < -1:
        return
    lib.fp_fault_kill(at)
    case.operate(core, context)
    lib.fp_fault_kill(-1)
    say(DONE)


def child(life: Callable[..., None], path: Path, *asked: Any) -> Fate:
    """In the server: forks, and waits for the end."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            life(lambda word: os.write(writing, f"{word}\n".encode()), path, *asked)
        except BaseException as error:
            os.write(writing, f"{type(error).__name__}: {error}\n".encode())
        finally:
            # Without closing the file: where a kill leaves the WAL behind, so does this.
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read().splitlines()
    _, status = os.waitpid(pid, 0)
    return Fate(said, os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL)


class Killer(Asked):
    """The server, started once and asked often; `program` ends in `serve`."""

    def __init__(self, program: str = __file__) -> None:
        folders = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        super().__init__(program, env={**os.environ, "PYTHONPATH": folders})

    def run(self, path: Path, *asked: Any) -> Fate:
        return Fate(*self.ask(str(path), *asked))


def serve(life: Callable[..., None]) -> None:
    import harness_cases  # so that no child has to

    assert harness_cases.CASES
    for line in sys.stdin:
        path, *asked = json.loads(line)
        print(json.dumps(child(life, Path(path), *asked)), flush=True)


if __name__ == "__main__":
    serve(live)
