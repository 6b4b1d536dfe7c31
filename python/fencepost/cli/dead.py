"""Dead letters: what they are, and putting them back in line, one or many."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import TypedDict, get_args

import click

import fencepost
from fencepost import _operator as operator
from fencepost.cli.database import Database
from fencepost.cli.look import listing, shown
from fencepost.cli.operate import moment
from fencepost.cli.output import Column, document, json_option, page_options, table

PAGE = 200
KINDS = get_args(fencepost.FailureKind)


class Which(TypedDict):
    """What `Store.messages` is asked for."""

    queue: str | None
    kind: str | None
    failure: fencepost.FailureKind | None
    since: datetime | None
    before: datetime | None


@click.group()
def dead() -> None:
    """Dead letters: list them, show one, put them back in line."""


def _filters(command: click.decorators.FC) -> click.decorators.FC:
    for option in (
        click.option("--before", type=moment, help="Died before this moment."),
        click.option("--since", type=moment, help="Died at this moment or later."),
        click.option(
            "--failure",
            type=click.Choice(KINDS),
            metavar="KIND",
            help=f"Only of this kind of failure: {', '.join(KINDS)}.",
        ),
        click.option("--kind", metavar="JOB", help="Only of this job."),
        click.option("--queue", help="Only of this queue."),
    ):
        command = option(command)
    return command


@dead.command("list", short_help="Without their payload, the newest first.")
@_filters
@page_options
@json_option
@click.pass_obj
def list_(
    database: Database,
    queue: str | None,
    kind: str | None,
    failure: fencepost.FailureKind | None,
    since: datetime | None,
    before: datetime | None,
    after: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """Dead letters without their payload, the newest first."""
    which = Which(queue=queue, kind=kind, failure=failure, since=since, before=before)
    listing(database, "dead", after=after, limit=limit, as_json=as_json, **which)


@dead.command("show")
@click.argument("id", type=click.IntRange(1))
@click.option("--payload", is_flag=True, help="Also the payload, the headers and the result.")
@json_option
@click.pass_obj
def show(database: Database, id: int, payload: bool, as_json: bool) -> int:
    """One dead letter."""
    return shown(database, id, payload=payload, as_json=as_json, state="dead")


@dead.command("replay", short_help="Back in line: those named, or all that a filter finds.")
@click.argument("ids", metavar="[ID…]", type=click.IntRange(1), nargs=-1)
@click.option("--all", "every", is_flag=True, help="All of them, as far as the filters say.")
@_filters
@click.option("--delay", type=click.FloatRange(0), default=0.0, help="Due in so many seconds.")
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="So many due a second.")
@click.option("--dry-run", is_flag=True, help="Say what would happen, and do nothing.")
@json_option
@click.pass_obj
def replay(
    database: Database,
    ids: tuple[int, ...],
    every: bool,
    queue: str | None,
    kind: str | None,
    failure: fencepost.FailureKind | None,
    since: datetime | None,
    before: datetime | None,
    delay: float,
    rate: float | None,
    dry_run: bool,
    as_json: bool,
) -> int:
    """
    Put dead letters back in line, under their own id, with their attempts counted anew.

    Either the IDs that are named, or --all that the filters find. A line for each: replayed;
    superseded (somebody else did it since it was read); live key (another message has its key now);
    not dead; gone. The exit code is 0 if all of them were replayed.
    """
    if bool(ids) == every:
        raise click.UsageError("name the messages, or say --all")
    which = Which(queue=queue, kind=kind, failure=failure, since=since, before=before)
    if ids and any(which.values()):
        raise click.UsageError("a filter goes with --all, not with an ID")
    answers: list[operator.Outcome] = []
    with database.open() as store:
        started = time.monotonic()
        for page in [[operator.Seen(id_) for id_ in ids]] if ids else _pages(store, which):
            # Each page begins where the one before it ends: the rate holds over all of them.
            ahead = 0.0 if rate is None else len(answers) / rate - (time.monotonic() - started)
            wait = delay + max(0.0, ahead)
            answers += operator.replay(store, page, delay=wait, rate=rate, apply=not dry_run)
    counts = Counter(answer.outcome for answer in answers)
    if as_json:
        told = [answer._asdict() for answer in answers]
        document({"applied": not dry_run, "counts": counts, "messages": told})
    else:
        table([Column("id", right=True, style="bold"), Column("outcome")], answers)
        said = ", ".join(f"{count} {outcome}" for outcome, count in counts.items()) or "none"
        click.echo(f"{'nothing done; would be: ' if dry_run else ''}{said}", err=True)
    return 0 if set(counts) <= {"replayed"} else 1


def _pages(store: fencepost.Store, which: Which) -> Iterator[list[fencepost.Message]]:
    """
    All that the filter finds. The page behind one is found by its place, not by what is left, so
    that it may be replayed in between; what cannot be replayed is met once.
    """
    after: str | None = None
    while True:
        page = store.messages("dead", after=after, limit=PAGE, **which)
        yield list(page)
        after = page.next
        if after is None:
            return
