"""Deliveries that nobody can answer for: list them, and say what became of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

import fencepost
from fencepost import _operator as operator
from fencepost.cli.database import Database
from fencepost.cli.look import listing
from fencepost.cli.output import each_told, json_option, page_options
from fencepost.cli.words import delivery

DELAY_MAX = 86_400  # seconds


@click.group()
def outbox() -> None:
    """Deliveries in doubt: list, confirm, retry them."""


@outbox.command("list-unknown", short_help="Without their payload, the newest first.")
@click.option("--topic", help="Only of this outbox.")
@page_options
@json_option
@click.pass_obj
def list_unknown(
    database: Database, topic: str | None, after: str | None, limit: int, as_json: bool
) -> None:
    """
    Deliveries whose outcome nobody knows, without their payload, the newest first.

    Each was begun, and was not answered for. It is not sent again unless you say so.
    """
    listing(
        database,
        "unknown",
        queue=topic,
        after=after,
        limit=limit,
        as_json=as_json,
        also=delivery,
    )


_ids = click.argument("ids", metavar="ID…", type=click.IntRange(1), nargs=-1, required=True)


@outbox.command("confirm-delivered", short_help="They have arrived.")
@_ids
@click.option("--note", default="", help="How you know; kept with the message.")
@json_option
@click.pass_obj
def confirm(database: Database, ids: tuple[int, ...], note: str, as_json: bool) -> int:
    """
    They have arrived: they are done, and are not sent again.

    A line for each: confirmed; not unknown (somebody else dealt with it, or it never was); gone.
    The exit code is 0 if all of them were confirmed.
    """
    with database.open() as store:
        answers = operator.confirm(store, [operator.Seen(id_) for id_ in ids], note)
        return each_told(answers, "confirmed", as_json=as_json, also=_as_it_is(store, ids))


@outbox.command("retry", short_help="They have not arrived: send them again.")
@_ids
@click.option(
    "--delay-seconds", type=click.FloatRange(0, DELAY_MAX), default=0.0, help="Due in so many."
)
@click.option("--note", default="", help="How you know; shown until it has arrived.")
@json_option
@click.pass_obj
def retry(
    database: Database, ids: tuple[int, ...], delay_seconds: float, note: str, as_json: bool
) -> int:
    """
    They have not arrived: they are sent again, as the same event, with one attempt more if they
    were used up.

    A line for each: replayed; not unknown (somebody else dealt with it, or it never was); live key
    (another message has its key now); gone. The exit code is 0 if all of them were replayed.
    """
    with database.open() as store:
        seen = [operator.Seen(id_) for id_ in ids]
        answers = operator.retry(store, seen, delay_seconds, note)
        return each_told(answers, "replayed", as_json=as_json, also=_as_it_is(store, ids))


def _as_it_is(store: fencepost.Store, ids: Iterable[int]) -> dict[int, dict[str, Any]]:
    """What is told beside each outcome, of those that are there."""
    found = [message for id_ in ids if (message := store.message(id_)) is not None]
    return {message.id: delivery(message) for message in found}
