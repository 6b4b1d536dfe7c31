"""Deliveries that nobody can answer for: list them, and say what became of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

import fencepost
from fencepost.cli.database import Database
from fencepost.cli.look import listing
from fencepost.cli.output import Column, document, json_option, page_options, table
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

    def act(store: fencepost.Store, message: fencepost.Message) -> str:
        return "confirmed" if store.confirm([message], note=note) else "not unknown"

    return _each(database, ids, act, "confirmed", as_json=as_json)


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

    def act(store: fencepost.Store, message: fencepost.Message) -> str:
        (answer,) = store.replay([message], delay=delay_seconds, note=note)
        dealt_with = answer.outcome in ("superseded", "not dead")
        return "not unknown" if dealt_with else answer.outcome

    return _each(database, ids, act, "replayed", as_json=as_json)


def _each(
    database: Database,
    ids: Sequence[int],
    act: Callable[[fencepost.Store, fencepost.Message], str],
    success: str,
    *,
    as_json: bool,
) -> int:
    answers: dict[int, str] = {}
    now: dict[int, fencepost.Message] = {}
    with database.open() as store:
        for id_ in ids:
            message = store.message(id_)
            if message is None:
                answers[id_] = "gone"
            elif message.state != "unknown":
                answers[id_] = "not unknown"
            else:
                answers[id_] = act(store, message)
            found = store.message(id_)
            if found is not None:
                now[id_] = found
    if as_json:
        told = {id_: delivery(message) for id_, message in now.items()}
        document(
            [{"id": id_, "outcome": said, **told.get(id_, {})} for id_, said in answers.items()]
        )
    else:
        table([Column("id", right=True, style="bold"), Column("outcome")], list(answers.items()))
    return 0 if set(answers.values()) == {success} else 1
