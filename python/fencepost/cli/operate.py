"""What an operator does: cancel, pause, prune, back up and bring back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import cast

import click
from click.decorators import FC

import fencepost
from fencepost import _operator as operator
from fencepost.cli.database import Database
from fencepost.cli.output import document, each_told, json_option, printable

SLICE = 1000  # messages that go in one commit, so that nobody waits long
COUNT_MAX = 10_000  # as many as one look counts
PRUNED = ("done", "dead", "cancelled")


def moment(text: str) -> datetime:
    """A moment in ISO 8601 with its zone, as `2026-03-01T12:00:00Z`; without one it is refused."""
    try:
        return operator.moment(text)
    except fencepost.InvalidArgument as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.argument("ids", metavar="ID…", type=click.IntRange(1), nargs=-1, required=True)
@json_option
@click.pass_obj
def cancel(database: Database, ids: tuple[int, ...], as_json: bool) -> int:
    """
    Take messages out of the line, pending or leased.

    A line for each: cancelled; ended (it was before); gone (there is none); moved (it is on a bulk
    queue, where only its holder can find it). A worker that holds one finds its lease lost. The
    exit code is 0 if all of them were cancelled.
    """
    with database.open() as store:
        answers = operator.cancel(store, [operator.Seen(id_) for id_ in ids])
    return each_told(answers, "cancelled", as_json=as_json)


@click.command()
@click.argument("queue")
@json_option
@click.pass_obj
def pause(database: Database, queue: str, as_json: bool) -> None:
    """Hand nothing out of QUEUE until it is resumed. Enqueueing goes on."""
    _set_paused(database, queue, as_json, paused=True)


@click.command()
@click.argument("queue")
@json_option
@click.pass_obj
def resume(database: Database, queue: str, as_json: bool) -> None:
    """Undo `pause`."""
    _set_paused(database, queue, as_json, paused=False)


@click.command()
@click.argument("queue")
@click.option("--concurrency", type=click.IntRange(0), help="Leased at once, over all workers.")
@click.option("--rate", type=click.FloatRange(0), help="Starts in a second, over all workers.")
@click.option("--max-size", type=click.IntRange(0), help="Pending and leased.")
@json_option
@click.pass_obj
def limit(
    database: Database,
    queue: str,
    concurrency: int | None,
    rate: float | None,
    max_size: int | None,
    as_json: bool,
) -> None:
    """Set limits of QUEUE; they hold at once. 0 lifts one, and what is not named stays."""
    said = {"concurrency": concurrency, "rate": rate, "max_size": max_size}
    named = {name: value for name, value in said.items() if value is not None}
    if not named:
        raise click.UsageError("which limit?")
    with database.open() as store:
        store.set_policy(queue, **cast("fencepost.Policy", named))
    if as_json:
        document({"queue": queue, **named})
    else:
        told = ", ".join(
            f"{name} {value:g}" if value else f"no {name}" for name, value in named.items()
        )
        click.echo(f"{printable(queue)}: {told}")


def _set_paused(database: Database, queue: str, as_json: bool, *, paused: bool) -> None:
    with database.open() as store:
        store.pause(queue) if paused else store.resume(queue)
    if as_json:
        document({"queue": queue, "paused": paused})
    else:
        click.echo(f"{printable(queue)} is {'paused' if paused else 'not paused'}")


def prune_options(states: Sequence[str], otherwise: str) -> Callable[[FC], FC]:
    """Which of what has ended is forgotten, as `before` and `states`; and `apply`."""

    def options(command: FC) -> FC:
        for option in (
            click.option("--apply", is_flag=True, help="Do it. Without, it only counts."),
            click.option(
                "--state",
                "states",
                type=click.Choice(states),
                multiple=True,
                help=f"Only these; else {otherwise}.",
            ),
            click.option("--before", type=moment, required=True, help="Ended before this moment."),
        ):
            command = option(command)
        return command

    return options


def pruned(
    purge: Callable[[str, int], int],
    states: Sequence[str],
    before: datetime,
    *,
    apply: bool,
    as_json: bool,
) -> None:
    """Have `purge` forget up to so many of a state, again and again, or once count them; tell."""
    counts: dict[str, int] = {}
    for state in states:
        counts[state] = count = purge(state, SLICE if apply else COUNT_MAX)
        while apply and count:
            count = purge(state, SLICE)
            counts[state] += count
    more = not apply and COUNT_MAX in counts.values()
    if as_json:
        document({"applied": apply, "before": before, "counts": counts, "more": more})
        return
    for name, count in counts.items():
        least = "at least " if not apply and count == COUNT_MAX else ""
        click.echo(f"{name}: {least}{count}")
    click.echo("removed" if apply else "counted only; --apply removes them")


@click.command()
@prune_options(PRUNED, "done, dead and cancelled")
@click.option("--queue", help="Only of this queue.")
@json_option
@click.pass_obj
def prune(
    database: Database,
    before: datetime,
    queue: str | None,
    states: tuple[str, ...],
    apply: bool,
    as_json: bool,
) -> None:
    """
    Forget what has ended before a moment, with its keys. Counts only, unless --apply.

    What is pending, leased or unknown is never touched. Without --apply a state is counted up to
    10,000.
    """
    with database.open() as store:

        def purge(state: str, limit: int) -> int:
            ended = cast("fencepost.State", state)
            return store.purge(ended, before, queue=queue, limit=limit, apply=apply)

        pruned(purge, states or PRUNED, before, apply=apply, as_json=as_json)


@click.command()
@click.argument("dest", type=click.Path())
@click.option("--overwrite", is_flag=True, help="Replace DEST, if it is there.")
@json_option
@click.pass_obj
def backup(database: Database, dest: str, overwrite: bool, as_json: bool) -> None:
    """
    Copy the file to DEST while it is in use. Refuses a DEST that is there.

    DEST gets its name when the copy is whole and on the disk.
    """
    with database.open() as store:
        store.backup(dest, overwrite=overwrite)
    if as_json:
        document({"backup": dest})
    else:
        click.echo(f"backed up to {printable(dest)}")


@click.command()
@click.argument("backup", type=click.Path())
@json_option
@click.pass_obj
def restore(database: Database, backup: str, as_json: bool) -> None:
    """
    Make the file of --database out of BACKUP.

    Stop whatever has the old file open, and move that away first, with its -wal and -shm: what is
    there is refused. Claims from before open nothing in the restored file.
    """
    path = database.required()
    fencepost.restore(backup, path)
    if as_json:
        document({"restored": path})
    else:
        click.echo(f"restored {printable(path)}")
