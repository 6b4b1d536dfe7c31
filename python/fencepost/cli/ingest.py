"""
JSON lines into a queue: streaming, a batch a commit, bad lines set aside.

Memory is that of one batch, however long the file is. A line that cannot be taken is told by its
number and stops nobody. Run twice with `--key`, the second run adds nothing.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

import fencepost
from fencepost.cli.database import Database
from fencepost.cli.output import complain, document, drawn, json_option, printable

BATCH_LINES = 1000
BATCH_BYTES = 8 << 20
LINE_BYTES = 64 << 20  # a payload may have four times that, and may grow when it is written out
KEY_BYTES = 1024  # as in csrc/base.h

_BOM = b"\xef\xbb\xbf"


class Line(NamedTuple):
    number: int  # from 1
    text: bytes
    value: Any


class Ingest:
    """
    One run into one queue: what it has added, found already there, and set aside.

    `aside(number, text, why)` is told of each line that was not taken, `progress(lines, bytes)` of
    each batch that is committed.
    """

    def __init__(
        self,
        queue: fencepost.Queue[Any],
        *,
        key: str | None = None,
        aside: Callable[[int, bytes, str], None] = lambda _number, _text, _why: None,
        progress: Callable[[int, int], None] = lambda _lines, _bytes: None,
    ) -> None:
        self.added = self.known = self.set_aside = 0
        self._queue = queue
        self._path = key.split(".") if key is not None else []
        self._aside = aside
        self._progress = progress

    @property
    def lines(self) -> int:
        return self.added + self.known + self.set_aside

    def read(self, source: BinaryIO) -> None:
        """
        Enqueue every line of `source`, in order; blank ones are passed over.

        Waits while the queue is full. Each batch is one commit, so what was counted is in the file
        also when this raises (`Busy`, `StorageError`, `InvalidArgument` for what is no queue of
        plain messages) or is interrupted.
        """
        batch: list[Line] = []
        held = seen = 0
        for number, text in _lines(source):
            seen += len(text)
            held += len(text)
            if (line := self._parsed(number, text)) is not None:
                batch.append(line)
            if len(batch) >= BATCH_LINES or held >= BATCH_BYTES:
                self._put(batch)
                self._progress(self.lines, seen)
                batch, held = [], 0
        self._put(batch)
        self._progress(self.lines, seen)

    def _parsed(self, number: int, text: bytes) -> Line | None:
        if len(text) > LINE_BYTES:
            self._reject(number, text, f"longer than {LINE_BYTES} bytes")
            return None
        if text.isspace():
            return None
        try:
            value = msgspec.json.decode(text)
            if self._path:
                self._key(value)
        except RecursionError:
            self._reject(number, text, "nested too deeply")
        except (msgspec.MsgspecError, ValueError) as error:
            self._reject(number, text, str(error))
        else:
            return Line(number, text, value)
        return None

    def _key(self, value: Any) -> str:
        for name in self._path:
            if not isinstance(value, dict) or name not in value:
                raise ValueError(f"no field {'.'.join(self._path)}")
            value = value[name]
        if type(value) not in (str, int):
            raise ValueError(f"field {'.'.join(self._path)} is neither text nor a whole number")
        key = str(value)
        if not 0 < len(key.encode()) <= KEY_BYTES:
            raise ValueError(f"field {'.'.join(self._path)} is empty or over {KEY_BYTES} bytes")
        return key

    def _put(self, batch: list[Line]) -> None:
        """One commit; where the store refuses it, by halves, down to the line that is to blame."""
        if not batch:
            return
        key = self._key if self._path else None
        while True:
            try:
                answers = self._queue.enqueue_many((b.value for b in batch), key=key, wait=1)
            except fencepost.QueueFull:
                if len(batch) == 1:
                    continue
            except (fencepost.Conflict, fencepost.PayloadError) as error:
                if len(batch) == 1:
                    self._reject(batch[0].number, batch[0].text, str(error))
                    return
            except fencepost.InvalidArgument:  # of the queue; or more than it may ever hold
                if len(batch) == 1:
                    raise
            else:
                created = sum(answer.created for answer in answers)
                self.added += created
                self.known += len(answers) - created
                return
            middle = len(batch) // 2
            self._put(batch[:middle])
            self._put(batch[middle:])
            return

    def _reject(self, number: int, text: bytes, why: str) -> None:
        self.set_aside += 1
        self._aside(number, text, why)


def _lines(source: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers. Of one that is too long, only the first LINE_BYTES + 1 bytes."""
    number = 0
    while text := source.readline(LINE_BYTES + 1):
        number += 1
        rest = text
        while not rest.endswith(b"\n") and rest:
            rest = source.readline(LINE_BYTES)
        yield number, text.removeprefix(_BOM) if number == 1 else text


@click.command(short_help="Put JSON lines into a queue, a message each.")
@click.argument("queue")
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--key", metavar="FIELD", help="Once per value of this field; a.b goes inwards.")
@click.option("--rejects", type=click.Path(), help="Keep the lines that were set aside here.")
@json_option
@click.pass_obj
def ingest(
    database: Database, queue: str, file: str, key: str | None, rejects: str | None, as_json: bool
) -> int:
    """
    Put each line of FILE (JSON lines; - is standard input) into QUEUE as one message.

    Lines that cannot be taken are told by number on stderr, and kept with --rejects; then the
    exit code is 1.
    """
    if rejects and file != "-" and Path(rejects).exists() and Path(rejects).samefile(file):
        raise click.UsageError("--rejects would overwrite the file that is read")
    console = Console(stderr=True)
    with contextlib.ExitStack() as stack:
        source = sys.stdin.buffer if file == "-" else stack.enter_context(Path(file).open("rb"))
        kept = stack.enter_context(Path(rejects).open("wb")) if rejects else None
        store = stack.enter_context(database.open(create=True))
        bar = _bar(console)
        task = bar.add_task(queue, total=_size(source), lines=0, rate="")
        start = time.monotonic()

        def aside(number: int, text: bytes, why: str) -> None:
            if console.is_terminal:
                console.print(f"line {number}: {printable(why)}", markup=False, soft_wrap=True)
            else:
                complain(f"line {number}: {why}")
            if kept:
                kept.write(text if text.endswith(b"\n") else text + b"\n")

        def progress(lines: int, done: int) -> None:
            rate = lines / max(time.monotonic() - start, 1e-6)
            bar.update(task, completed=done, lines=lines, rate=f"{rate:,.0f}/s")

        run = Ingest(store.queue(queue), key=key, aside=aside, progress=progress)
        try:
            with drawn(bar):
                run.read(source)
        finally:
            _summary(queue, run, time.monotonic() - start, as_json=as_json)
    return 1 if run.set_aside else 0


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[lines]:,} lines  {task.fields[rate]}", markup=False),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )


def _size(source: BinaryIO) -> int | None:
    """Bytes of a regular file; None for a pipe, which has no end that could be known."""
    status = os.fstat(source.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _summary(queue: str, run: Ingest, seconds: float, *, as_json: bool) -> None:
    if as_json:
        document(
            {
                "queue": queue,
                "lines": run.lines,
                "added": run.added,
                "known": run.known,
                "set_aside": run.set_aside,
                "seconds": round(seconds, 3),
            }
        )
        return
    rate = run.lines / max(seconds, 1e-6)
    click.echo(
        f"{run.lines:,} lines in {seconds:.1f} s ({rate:,.0f}/s):"
        f" {run.added:,} added, {run.known:,} known, {run.set_aside:,} set aside"
    )
