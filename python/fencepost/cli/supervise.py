"""
Worker processes that die with their parent, and the parent that replaces those that were killed.

Every child holds the reading end of one pipe, whose writing end only the parent has: the lifeline.
However the parent ends, SIGKILL included, the children read its end there and stop. Children are
executed afresh, never forked from a process that holds a store.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

RESTART_SECONDS = 1.0  # a process that keeps dying is started at most this often
CANNOT_START = 2  # the exit code of a child whose own call was wrong: no other try will be better

# A child that was told to stop before it listened had begun nothing, either.
STOPPED_WELL = (0, -signal.SIGTERM)


class Lifeline:
    """The pipe. Closed by hand, it stops the children as the parent's death would."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()

    def start(
        self, arguments: Sequence[str], output: BinaryIO | None = None
    ) -> subprocess.Popen[bytes]:
        """
        Execute `fencepost ARGUMENTS --lifeline FD`; `output` takes what it prints, if not ours.

        It has a session of its own, because Ctrl-C on a terminal goes to the whole foreground
        group: the child would be told to stop twice, and twice means at once.
        """
        return subprocess.Popen(
            [sys.executable, "-m", "fencepost", *arguments, "--lifeline", str(self._read)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[self._read],
            start_new_session=True,
        )

    def close(self) -> None:
        os.close(self._read)
        os.close(self._write)


def hold(lifeline: int, grace: float) -> None:
    """In the child: once the parent is gone, stop as at SIGTERM, and for certain after `grace`."""

    def watch() -> None:
        os.read(lifeline, 1)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(grace + 5)
        os._exit(1)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()


class Supervisor:
    """
    Keeps `count` processes going until SIGTERM or SIGINT, or until each has ended by itself.

    A child that was killed or ended with an error is replaced, at most once a second; one that
    ended well was asked to, and is not. `say` is told what happens: started, ended, stopping.
    """

    def __init__(
        self, arguments: Sequence[str], count: int, grace: float, say: Callable[..., None]
    ) -> None:
        self._arguments = arguments
        self._grace = grace
        self._say = say
        self._lifeline = Lifeline()
        self._running: dict[subprocess.Popen[bytes], float] = {}  # since when
        self._starts = [0.0] * count  # when the next are to be started
        self._stopping = False
        self._kill_at = float("inf")
        self._code = 0

    def run(self) -> int:
        """The exit code: 0; 1 if a child did not stop well; 2 if they cannot even start."""
        with _signals(signal.SIGCHLD, signal.SIGTERM, signal.SIGINT) as arrived:
            while self._running or self._starts:
                self._start()
                for number in arrived(self._patience()):
                    if number != signal.SIGCHLD:
                        self._stop()
                self._collect()
                if time.monotonic() >= self._kill_at:
                    self._kill_at = float("inf")
                    self._tell(signal.SIGKILL)
        self._lifeline.close()
        return self._code

    def _start(self) -> None:
        now = time.monotonic()
        for moment in [start for start in self._starts if start <= now]:
            self._starts.remove(moment)
            process = self._lifeline.start(self._arguments)
            self._running[process] = now
            self._say("started", process=process.pid)

    def _collect(self) -> None:
        for process, since in list(self._running.items()):
            code = process.poll()
            if code is None:
                continue
            del self._running[process]
            self._say("ended", process=process.pid, code=code)
            if code == CANNOT_START and not self._stopping:
                self._code = code
                self._stop()
            elif self._stopping:
                self._code = self._code or int(code not in STOPPED_WELL)
            elif code != 0:
                self._starts.append(since + RESTART_SECONDS)

    def _stop(self) -> None:
        """Ask all to stop. Asked a second time, a worker stops at once."""
        self._say("stopping")
        self._stopping = True
        self._starts.clear()
        self._kill_at = time.monotonic() + self._grace + 5
        self._tell(signal.SIGTERM)

    def _tell(self, number: signal.Signals) -> None:
        for process in self._running:
            process.send_signal(number)

    def _patience(self) -> float | None:
        """Seconds until something is to be done that no signal will announce."""
        nearest = min([self._kill_at, *self._starts])
        return None if nearest == float("inf") else max(0.0, nearest - time.monotonic())


@contextlib.contextmanager
def _signals(*numbers: signal.Signals) -> Iterator[Callable[[float | None], bytes]]:
    """A function that waits at most so long and returns the numbers of the signals that came."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write)
    before = [signal.signal(number, lambda _number, _frame: None) for number in numbers]

    def arrived(patience: float | None) -> bytes:
        ready, _, _ = select.select([read], [], [], patience)
        return os.read(read, 4096) if ready else b""

    try:
        yield arrived
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
        signal.set_wakeup_fd(-1)
        os.close(read)
        os.close(write)
