"""Watching a file: is it healthy, figures for Prometheus, a live table; all of it payload-free."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

import fencepost
from fencepost._operator import STATES, bounded, ended
from fencepost.cli.database import Database
from fencepost.cli.output import cell, document, json_option, printable

HEADINGS = ("pending", "waiting", "leased", "dead", "unknown", "late, s", "next, s", "ended/s")


# ---- health --------------------------------------------------------------------------------------


@click.command(short_help="Readable, and within the limits that are given?")
@click.option("--max-late", type=click.FloatRange(0), help="Seconds a message may have been due.")
@click.option("--max-dead", type=click.IntRange(0), help="Dead letters there may be, in all.")
@click.option("--max-unknown", type=click.IntRange(0), help="Unknown outcomes there may be.")
@json_option
@click.pass_obj
def health(
    database: Database,
    max_late: float | None,
    max_dead: int | None,
    max_unknown: int | None,
    as_json: bool,
) -> int:
    """
    Whether the file can be read and is within the limits that are given.

    Exit code 0: healthy; 1: it is not, and each reason is a line; 2: the call was wrong. Nothing is
    written or created, and paused queues are never late. `check` recounts the whole file.
    """
    path = database.required()
    reasons: list[str] = []
    totals: dict[str, int] | None = None
    try:
        told = fencepost.status(path)
    except fencepost.Error as error:
        reasons.append(str(error))
    else:
        totals = told["totals"]
        reasons += _late(told, max_late)
        for state, most in (("dead", max_dead), ("unknown", max_unknown)):
            if most is not None and told["totals"][state] > most:
                reasons.append(f"{told['totals'][state]} messages are {state}")
    if as_json:
        document({"healthy": not reasons, "reasons": reasons, "totals": totals})
    else:
        for reason in reasons or ["healthy"]:
            click.echo(printable(reason))
    return 1 if reasons else 0


def _late(told: dict[str, Any], most: float | None) -> Iterator[str]:
    for name, queue in told["queues"].items():
        age = queue["oldest_age"]
        if most is not None and age is not None and age > most and not queue["paused"]:
            yield f"the queue {name} has been late for {age:.1f} s"


# ---- metrics -------------------------------------------------------------------------------------


class Family(NamedTuple):
    """A metric: its help, and the samples of a queue by their further labels."""

    name: str
    help: str
    field: str


GAUGES = (
    Family(
        "oldest_age_seconds", "For how long the first message in line has been due.", "oldest_age"
    ),
    Family("lapsed", "Leases that ran out and were not taken over, up to 1000.", "lapsed"),
    Family("paused", "1 while nothing is handed out.", "paused"),
)


@click.command(short_help="Counts and ages as Prometheus reads them.")
@click.option(
    "--queues",
    "most",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Queues with labels of their own; the others are summed up.",
)
@json_option
@click.pass_obj
def metrics(database: Database, most: int, as_json: bool) -> None:
    """
    Counts and ages as Prometheus reads them, for a textfile collector or a scrape.

    Labels are `queue` and `state`, and nothing that a message says. Nothing is written or created.
    """
    told = bounded(fencepost.status(database.required()), most)
    if as_json:
        document(told)
        return
    click.echo(_text(told))


def _text(told: dict[str, Any]) -> str:
    lines = _family("messages", "Messages by queue and state.")
    for name, queue in told["queues"].items():
        lines += [
            f'fencepost_messages{{queue="{_label(name)}",state="{state}"}} {queue[state]}'
            for state in STATES
        ]
    for family in GAUGES:
        lines += _family(family.name, family.help)
        for name, queue in told["queues"].items():
            value = float(queue[family.field] or 0)
            lines.append(f'fencepost_{family.name}{{queue="{_label(name)}"}} {value:g}')
    lines += _family("info", "Versions.")
    schema, sqlite = told["schema_version"], _label(told["sqlite_version"])
    lines.append(f'fencepost_info{{schema="{schema}",sqlite="{sqlite}"}} 1')
    return "\n".join(lines)


def _family(name: str, help_: str) -> list[str]:
    return [f"# HELP fencepost_{name} {help_}", f"# TYPE fencepost_{name} gauge"]


def _label(text: str) -> str:
    """As the text format quotes it; what no terminal should get is written out first."""
    return printable(text).replace("\\", "\\\\").replace('"', '\\"')


# ---- top -----------------------------------------------------------------------------------------


@click.command(short_help="The queues, live.")
@click.option(
    "--every", type=click.FloatRange(0.1), default=1.0, show_default=True, help="Seconds."
)
@click.option("--times", type=click.IntRange(1), help="Look so often, and end.")
@json_option
@click.pass_obj
def top(database: Database, every: float, times: int | None, as_json: bool) -> None:
    """
    The queues, live: what is in line, how late it is, and how much ends in a second.

    Until Ctrl-C. Where the output is no terminal, it is printed once, or --times.
    """
    console = Console()
    with database.open() as store:
        looks = _looks(store, every, times if times or console.is_terminal else 1)
        if as_json:
            for told in looks:
                document(told)
            return
        with Live(console=console, auto_refresh=False, screen=False) as live:
            for told in looks:
                live.update(_drawn(told), refresh=True)


def _looks(store: fencepost.Store, every: float, times: int | None) -> Iterator[dict[str, Any]]:
    """What `stats` says, and for each queue `per_second`: what has ended since the last look."""
    before: dict[str, Any] = {}
    then = 0.0
    count = 0
    while times is None or count < times:
        if count:
            time.sleep(every)
        told, now = store.stats(), time.monotonic()
        for name, queue in told["queues"].items():
            fresh = ended(queue) - ended(before.get(name, queue))
            queue["per_second"] = max(0, fresh) / (now - then) if before else None
        before, then = told["queues"], now
        count += 1
        yield told


def _drawn(told: dict[str, Any]) -> Table:
    """Within 80 columns; where that is not enough, a queue's name goes on below itself."""
    grid = Table(
        title=Text(f"{printable(told['path'])}  {cell(told['time'])}"),
        header_style="bold",
        box=SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    grid.add_column("queue", style="bold", overflow="fold")
    for name in HEADINGS:
        grid.add_column(name, justify="right", no_wrap=True)
    for name, queue in told["queues"].items():
        late, dead = queue["oldest_age"], queue["dead"]
        row = [queue[state] for state in ("pending", "waiting", "leased")]
        grid.add_row(
            Text(printable(name) + (" (paused)" if queue["paused"] else "")),
            *(Text(cell(value)) for value in row),
            Text(cell(dead), style="red" if dead else ""),
            Text(cell(queue["unknown"]), style="yellow" if queue["unknown"] else ""),
            Text(cell(late), style="yellow" if late and late > 60 else ""),
            Text(cell(queue["next_due_in"])),
            Text(cell(queue["per_second"])),
        )
    return grid
