"""Runs of workflows: list them, draw one, tell it things, let it go on, end it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any, cast, get_args

import click

import fencepost
from fencepost._operator import run_told, timeline_told
from fencepost._workflow.runfile import OVER, RunFile
from fencepost._workflow.timeline import timeline
from fencepost.cli.database import Database
from fencepost.cli.operate import prune_options, pruned
from fencepost.cli.output import Column, document, json_option, page_options, printable, table
from fencepost.cli.timeline import drawn
from fencepost.workflow import ATTEMPTS, QUEUE

STATES = get_args(fencepost.RunState)
PAGE = 200  # runs that the store lists at once


@click.group()
def workflow() -> None:
    """Runs of workflows: look at them, tell them things, end them."""


@workflow.command("list", short_help="Runs, the newest first.")
@click.argument("state", type=click.Choice(STATES), required=False)
@click.option("--name", help="Only of this workflow.")
@page_options
@json_option
@click.pass_obj
def list_(
    database: Database,
    state: str | None,
    name: str | None,
    after: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """Runs in a STATE (else all of them), the newest first."""
    found: list[fencepost.RunInfo] = []
    wanted = cast("fencepost.RunState | None", state)
    with database.open() as store:
        while len(found) < limit:
            slice_ = min(PAGE, limit - len(found))
            page = store.runs(wanted, name=name, after=after, limit=slice_)
            found += page
            after = page.next
            if after is None:
                break
    if as_json:
        document({"runs": [run_told(run) for run in found], "next": after})
        return
    table(
        [
            Column("id", style="bold"),
            Column("workflow"),
            Column("state"),
            Column("waits for", wraps=True),
            Column("begun"),
            Column("ended"),
            Column("failure", wraps=True),
        ],
        [
            [
                run.id,
                run.name,
                run.state,
                ", ".join(run.waiting_for),
                run.created_at,
                run.ended_at,
                None if run.failure is None else f"{run.failure.kind}: {run.failure.text}",
            ]
            for run in found
        ],
    )
    if after is not None:
        click.echo(f"next: --after {after}", err=True)


_id = click.argument("id")


@workflow.command("show", short_help="A timeline of its steps.")
@_id
@click.option("--payload", is_flag=True, help="Also what the steps returned, and the result.")
@json_option
@click.pass_obj
def show(database: Database, id: str, payload: bool, as_json: bool) -> None:
    """One run: how it is, and what it has done, drawn on a line of time."""
    with database.open() as store:
        found = timeline(store._file, id)
        values = _values(store, id) if payload else None
    if as_json:
        document({**timeline_told(found), **({} if values is None else {"values": values})})
        return
    drawn(found)
    for name, value in (values or {}).items():
        click.echo(f"{printable(name)}: {printable(json.dumps(value, ensure_ascii=False))}")


def _values(store: fencepost.Store, id: str) -> dict[str, Any]:
    """What is recorded, as the JSON that it is."""
    run = RunFile(store._file, id)
    found = {record.key: _read(record.value) for record in run.records()}
    found["result"] = _read(run.row().result)
    return found


def _read(value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return repr(value)


@workflow.command("signal", short_help="Supply what it waits for.")
@_id
@click.argument("name")
@click.argument("value", metavar="JSON")
@json_option
@click.pass_obj
def signal(database: Database, id: str, name: str, value: str, as_json: bool) -> int:
    """
    Signal NAME of a run with a JSON value ("ann" with its quotes). The first one wins.

    The exit code is 1 if there was one already, or the time for it was over.
    """
    body = _encoded(value)

    def act(run: RunFile) -> bool:
        return run.signal(None, name, body)

    first = _at(database, id, act)
    _say(as_json, id, "signalled" if first else "had that signal, or its time was over", first)
    return 0 if first else 1


@workflow.command("send", short_help="A message that it receives.")
@_id
@click.argument("value", metavar="JSON")
@json_option
@click.pass_obj
def send(database: Database, id: str, value: str, as_json: bool) -> None:
    """Send a JSON value to a run, which receives its messages in order."""
    body = _encoded(value)
    _at(database, id, lambda run: run.send(None, body))
    _say(as_json, id, "has the message", True)


@workflow.command("resume", short_help="What has failed or is parked, once more.")
@_id
@json_option
@click.pass_obj
def resume(database: Database, id: str, as_json: bool) -> None:
    """Once more from the step that failed, with attempts counted anew."""
    _at(database, id, RunFile.resume)
    _say(as_json, id, "goes on", True)


@workflow.command("fork", short_help="A new run from a chosen step.")
@_id
@click.argument("step")
@click.option("--as", "new", metavar="ID", required=True, help="The id of the new run.")
@click.option("--queue", default=QUEUE, show_default=True, help="The queue of its workflow.")
@json_option
@click.pass_obj
def fork(database: Database, id: str, step: str, new: str, queue: str, as_json: bool) -> None:
    """A new run with the same arguments and what was recorded before STEP, which is run anew."""
    _at(database, id, lambda run: run.fork(_queue(run, queue), step, new, ATTEMPTS))
    _say(as_json, new, "begins", True)


def _queue(run: RunFile, name: str) -> int:
    number = run.file.find(name)
    if not number:
        raise click.UsageError(f"there is no queue {name}; name that of the workflow with --queue")
    return number


@workflow.command("cancel", short_help="End it, and its children.")
@_id
@json_option
@click.pass_obj
def cancel(database: Database, id: str, as_json: bool) -> int:
    """
    Cancel a run: nothing further of it begins. Its children are cancelled with it, and so are the
    jobs of theirs that have not begun. What is under way ends, and is recorded.

    The exit code is 1 if it had ended before.
    """
    done = _at(database, id, lambda run: run.cancel(None))
    _say(as_json, id, "is cancelled" if done else "had ended", done)
    return 0 if done else 1


@workflow.command("delete", short_help="Forget it, whatever it does.")
@_id
@json_option
@click.pass_obj
def delete(database: Database, id: str, as_json: bool) -> None:
    """Forget a run and its records. What it is doing just now is not recorded any more."""
    records = _at(database, id, RunFile.delete)
    if as_json:
        document({"id": id, "done": True, "records": records})
    else:
        click.echo(f"{printable(id)} is gone, with {records} records")


@workflow.command("prune", short_help="Forget what ended before a moment.")
@prune_options(OVER, "done and cancelled")
@json_option
@click.pass_obj
def prune(
    database: Database, before: datetime, states: tuple[str, ...], apply: bool, as_json: bool
) -> None:
    """
    Forget runs that ended before a moment, with their records. Counts only, unless --apply.

    Without --apply a state is counted up to 10,000.
    """
    with database.open() as store:

        def purge(state: str, limit: int) -> int:
            ended = cast("fencepost.RunState", state)
            return store.purge_runs(ended, before, limit=limit, apply=apply)

        pruned(purge, states or ("done", "cancelled"), before, apply=apply, as_json=as_json)


# ---- what they share -----------------------------------------------------------------------------


def _encoded(text: str) -> bytes:
    """The value in the codec that a store has unless it is given another."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise click.UsageError(f"{text} is no JSON ({error}); text stands in quotes") from None
    return fencepost.App().codec.encode(value)


def _at(database: Database, id: str, act: Callable[[RunFile], Any]) -> Any:
    with database.open() as store:
        return act(RunFile(store._file, id))


def _say(as_json: bool, id: str, words: str, done: bool) -> None:
    if as_json:
        document({"id": id, "done": done})
    else:
        click.echo(f"{printable(id)} {words}")
