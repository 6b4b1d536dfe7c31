"""Looking at a file: counts, lists, one message. Payloads only when they are asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast, get_args

import click

import fencepost
from fencepost._operator import content_told, message_told
from fencepost.cli.database import Database
from fencepost.cli.output import Column, document, json_option, page_options, printable, table
from fencepost.cli.words import counted

STATES = get_args(fencepost.State)
PAGE = 200  # messages that the store lists at once
LOCKS = {
    "ofd": "of open file descriptions; another SQLite in one process is kept out",
    "classic": "of processes; another SQLite in one process is not kept out",
}


@click.command()
@json_option
@click.pass_obj
def stats(database: Database, as_json: bool) -> None:
    """
    Counts and ages by queue.

    What is waiting stands behind another one of its lane; late are the seconds for which the first
    one in line has been due. JSON also says how many jobs are queued, running, succeeded, failed,
    and how many deliveries are pending, sending, sent, failed, delivery_unknown.
    """
    with database.open() as store:
        found = store.stats()
    if as_json:
        document({**found, **counted(found)})
        return
    counts = ["pending", "waiting", "leased", "done", "dead"]
    counts += [state for state in ("unknown", "cancelled") if found["totals"][state]]
    table(
        [
            Column("queue", style="bold"),
            *(Column(name, right=True) for name in counts),
            Column("late, s", right=True),
            Column("paused"),
        ],
        [
            [name, *(queue[state] for state in counts), queue["oldest_age"], queue["paused"]]
            for name, queue in found["queues"].items()
        ],
    )


@click.command()
@click.option("--full", is_flag=True, help="Also SQLite's own check of the whole file.")
@json_option
@click.pass_obj
def check(database: Database, full: bool, as_json: bool) -> int:
    """
    Whether the file is healthy, and what it lives beside.

    Each finding is a line; with any, the exit code is 1. Advice alone is no finding.
    """
    with database.open() as store:
        findings = store.check(full=full)
        beside = store.surroundings()
    if as_json:
        document({"findings": findings, "surroundings": beside._asdict()})
        return 1 if findings else 0
    for words in findings:
        click.echo(printable(words))
    click.echo(f"{len(findings)} findings" if findings else "healthy")
    click.echo(f"locks: {LOCKS[beside.locks]}")
    click.echo(f"SQLite: {beside.sqlite}; Python's own: {beside.python_sqlite or 'none'}")
    for words in beside.advice:
        click.echo(f"advice: {words}")
    return 1 if findings else 0


@click.command("list", short_help="Messages in a state, without their payload.")
@click.argument("state", type=click.Choice(STATES), default="pending")
@click.option("--queue", help="Only of this queue.")
@page_options
@json_option
@click.pass_obj
def list_(
    database: Database,
    state: str,
    queue: str | None,
    after: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """
    Messages in a STATE (else the pending ones), without their payload.

    Those in line by due time; the others by when they ended. What is done is listed where
    its queue keeps it: queues of jobs do, others with the policies `keep` and `listed`.
    """
    listing(
        database,
        cast("fencepost.State", state),
        queue=queue,
        after=after,
        limit=limit,
        as_json=as_json,
    )


@click.command()
@click.argument("id", type=click.IntRange(1))
@click.option("--payload", is_flag=True, help="Also the payload, the headers and the result.")
@json_option
@click.pass_obj
def show(database: Database, id: int, payload: bool, as_json: bool) -> int:
    """One message."""
    return shown(database, id, payload=payload, as_json=as_json)


def listing(
    database: Database,
    state: fencepost.State,
    *,
    after: str | None,
    limit: int,
    as_json: bool,
    also: Callable[[fencepost.Message], dict[str, Any]] = lambda message: {},
    **filters: Any,
) -> None:
    """
    Print the messages in a state; `filters` as in `Store.messages`; `also` is what else JSON says
    of each.
    """
    found: list[fencepost.Message] = []
    with database.open() as store:
        while len(found) < limit:
            slice_ = min(PAGE, limit - len(found))
            page = store.messages(state, after=after, limit=slice_, **filters)
            found += page
            after = page.next
            if after is None:
                break
    if as_json:
        document({"messages": [message_told(one) | also(one) for one in found], "next": after})
        return
    table(
        [
            Column("id", right=True, style="bold"),
            Column("queue"),
            Column("key"),
            Column("lane"),
            Column("state"),
            Column("attempt", right=True),
            Column("due" if state in ("pending", "leased") else "ended"),
            Column("failure", wraps=True),
        ],
        [
            [m.id, m.queue, m.key, m.lane, m.state, m.attempt, m.due or m.settled_at, _failure(m)]
            for m in found
        ],
    )
    if after is not None:
        click.echo(f"next: --after {after}", err=True)


def shown(
    database: Database,
    id: int,
    *,
    payload: bool,
    as_json: bool,
    state: fencepost.State | None = None,
) -> int:
    """Print one message, if it is in that state."""
    with database.open() as store:
        message = store.message(id)
        content = store.content(id) if payload and message else None
    if message is None:
        raise click.ClickException(f"there is no message {id}")
    if state is not None and message.state != state:
        raise click.ClickException(f"message {id} is {message.state}, not {state}")
    told = message_told(message)
    if content:
        told |= content_told(content)
    if as_json:
        document(told)
        return 0
    told["failure"] = _failure(message)
    if content and told["envelope"] is None:
        del told["envelope"]
    for name in ("headers", "envelope", "payload", "result"):
        if name in told:
            told[name] = json.dumps(told[name], ensure_ascii=False)
    table([Column("field", style="bold"), Column("value", wraps=True)], list(told.items()))
    return 0


def _failure(message: fencepost.Message) -> str | None:
    failure = message.failure
    if failure is None:
        return None
    return f"{failure.kind}: {failure.text}" if failure.text else failure.kind
