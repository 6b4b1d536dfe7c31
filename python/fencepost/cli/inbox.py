"""Messages that came in, by the ids their senders gave them."""

from __future__ import annotations

from typing import Any, cast

import click

import fencepost
from fencepost.cli.database import Database
from fencepost.cli.look import STATES, listing, shown
from fencepost.cli.output import json_option, page_options


@click.group()
def inbox() -> None:
    """What came in: list it, show one by its message id."""


@inbox.command("list", short_help="Of one address, without their payload.")
@click.argument("address")
@click.argument("state", type=click.Choice(STATES), default="pending")
@page_options
@json_option
@click.pass_obj
def list_(
    database: Database, address: str, state: str, after: str | None, limit: int, as_json: bool
) -> None:
    """Messages in a STATE (else the pending ones) at ADDRESS; their ids stand under "key"."""
    wanted = cast("fencepost.State", state)
    listing(database, wanted, queue=address, after=after, limit=limit, as_json=as_json)


@inbox.command("show")
@click.argument("address")
@click.argument("message_id")
@click.option("--payload", is_flag=True, help="Also the payload, the headers and the result.")
@json_option
@click.pass_obj
def show(database: Database, address: str, message_id: str, payload: bool, as_json: bool) -> int:
    """One message, by its own id."""
    with database.open() as store:
        found = fencepost.App().inbox(address, cast("type[Any]", Any)).at(store).message(message_id)
    if found is None:
        raise click.ClickException(f"there is no message {message_id} at {address}")
    return shown(database, found.id, payload=payload, as_json=as_json)
