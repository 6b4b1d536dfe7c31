"""Workers in the foreground: one, or several under a parent that replaces the killed."""

from __future__ import annotations

import importlib
import json
import logging
import os
import signal
import sys
import time
import traceback
from pathlib import Path

import click

import fencepost
from fencepost._worker.signals import STOPPING, leave
from fencepost.cli.database import Database
from fencepost.cli.output import json_option, printable
from fencepost.cli.supervise import Supervisor, hold

log = logging.getLogger("fencepost.cli")


@click.command(short_help="Run the jobs and handlers of an App.")
@click.argument("target", metavar="MODULE[:APP]")
@click.option("--queues", metavar="A,B", help="Only these queues.")
@click.option("--threads", type=click.IntRange(1), default=8, show_default=True)
@click.option(
    "--grace",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    help="Seconds that running handlers may take when asked to stop.",
)
@click.option("--procs", type=click.IntRange(1), default=1, show_default=True, help="Processes.")
@click.option("--lifeline", type=int, hidden=True)
@json_option
@click.pass_obj
def work(
    database: Database,
    target: str,
    queues: str | None,
    threads: int,
    grace: float,
    procs: int,
    lifeline: int | None,
    as_json: bool,
) -> int:
    """
    Run the jobs and handlers of the App that MODULE:APP names, until SIGTERM or Ctrl-C.

    MODULE is imported from the current folder, too; its App is called `app` if :APP is left out.
    Running handlers may finish within the grace, the rest goes back to the line without losing an
    attempt; a second signal stops at once. With --procs, a process that was killed is replaced.
    """
    _log(as_json=as_json)
    if procs > 1:
        arguments = ["work", target, "--threads", str(threads), "--grace", str(grace)]
        if database.named and database.path:
            arguments = ["--database", database.path, *arguments]
        if queues:
            arguments += ["--queues", queues]
        if as_json:
            arguments.append("--json")
        return Supervisor(arguments, procs, grace, _say).run()
    if lifeline is not None:
        hold(lifeline, grace)
    for number in STOPPING:  # until the worker takes them over: nothing is claimed yet
        signal.signal(number, leave)
    app = _load(target)
    worker = app.worker(
        queues=[name.strip() for name in queues.split(",")] if queues else None,
        threads=threads,
        grace=grace,
        stores=_stores(app, database),
    )
    worker.run()
    for number in STOPPING:  # all is settled; an exception would only disturb the end of Python
        signal.signal(number, lambda _number, _frame: os._exit(0))
    return 0


def _stores(app: fencepost.App, database: Database) -> list[fencepost.Store]:
    """The file that `--database` names, for an App that names none itself."""
    own = app._path
    if own is None:
        return [app.open(database.required())]
    if database.named and database.path and Path(own).resolve() != Path(database.path).resolve():
        raise click.UsageError(f"--database: this App has a file of its own, {own}")
    return []


def _load(target: str) -> fencepost.App:
    """The App that MODULE:APP names; without :APP it is called `app`. The current folder counts."""
    name, _, attribute = target.partition(":")
    if (folder := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, folder)
    try:
        found = getattr(importlib.import_module(name), attribute or "app", None)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = "" if "importlib" in place.filename else f" ({place.filename}, line {place.lineno})"
        raise click.UsageError(f"{name}: {type(error).__name__}: {error}{where}") from error
    if not isinstance(found, fencepost.App):
        raise click.UsageError(f"{target} names no fencepost.App")
    return found


class _Lines(logging.Formatter):
    """One line a record, and a traceback below it where a handler raised."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%H:%M:%S", time.localtime(record.created))
        line = f"{moment} {record.levelname.lower():7} {printable(record.getMessage())}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _Documents(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, object] = {
            "at": record.created,
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            said["traceback"] = self.formatException(record.exc_info)
        return json.dumps(said, default=str)


def _log(*, as_json: bool) -> None:
    """What the worker and the handlers log goes to stderr; as JSON lines to stdout."""
    handler = logging.StreamHandler(sys.stdout if as_json else sys.stderr)
    handler.setFormatter(_Documents() if as_json else _Lines())
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def _say(event: str, **fields: object) -> None:
    told = " ".join([event, *(f"{name} {value}" for name, value in fields.items())])
    log.info(told, extra={"fields": {"event": event, **fields}})
