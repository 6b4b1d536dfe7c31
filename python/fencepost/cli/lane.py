"""Lanes that stand still behind a dead or unknown message: list them, let them go on."""

from __future__ import annotations

import click

from fencepost.cli.database import Database
from fencepost.cli.output import Column, document, json_option, page_options, table

PAGE = 200


@click.group()
def lane() -> None:
    """Lanes that stand still: list them, let them go on."""


@lane.command("list", short_help="Those that stand still, by name.")
@click.argument("queue")
@page_options
@json_option
@click.pass_obj
def list_(database: Database, queue: str, after: str | None, limit: int, as_json: bool) -> None:
    """
    Lanes of QUEUE that stand still, by name, with the message that each stands still for.

    They go on when they are released, or when an unknown one is confirmed or sent again.
    """
    with database.open() as store:
        found = store.halted_lanes(queue, after=after or "", limit=min(limit, PAGE))
    if as_json:
        document([one._asdict() for one in found])
    else:
        table([Column("lane", style="bold"), Column("message", right=True)], found)


@lane.command("release", short_help="Let them go on.")
@click.argument("queue")
@click.argument("lanes", metavar="LANE…", nargs=-1, required=True)
@json_option
@click.pass_obj
def release(database: Database, queue: str, lanes: tuple[str, ...], as_json: bool) -> int:
    """
    Let lanes of QUEUE go on without the message that they stand still for; that one stays what it
    is.

    A line for each: released; not halted (it did not stand still). The exit code is 0 if all of
    them were released.
    """
    with database.open() as store:
        told = [
            (name, "released" if store.release_lane(queue, name) else "not halted")
            for name in lanes
        ]
    if as_json:
        document([{"lane": name, "outcome": said} for name, said in told])
    else:
        table([Column("lane", style="bold"), Column("outcome")], told)
    return 0 if all(said == "released" for _, said in told) else 1
