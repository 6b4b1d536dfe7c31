"""
The demo: real data through a durable queue while its workers are killed, and then the count.

The workers are processes of their own (demo_app.py), and they and the demo speak through the file
alone. What is told at the end is counted from the file (demo_count.py).
"""

from __future__ import annotations

import io
import random
import tempfile
import time
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

import fencepost
from fencepost.cli.database import Database
from fencepost.cli.demo_app import BATCH, TABLES, WORK, Quake, app, quakes
from fencepost.cli.demo_count import Count, count
from fencepost.cli.demo_pool import Pool, Watch
from fencepost.cli.ingest import Ingest
from fencepost.cli.output import Column, document, drawn, json_option, printable, table

TOP = 10  # regions shown


class Kill(NamedTuple):
    process: int
    applied: int  # reports that were applied at that moment


@click.command(short_help="Earthquake reports through a queue whose workers get killed.")
@click.option("--database", "path", metavar="PATH", help="A new file; else one in a new folder.")
@click.option("--file", type=click.Path(), help="Other reports: JSON lines with id, mag and place.")
@click.option("--workers", type=click.IntRange(1), default=2, show_default=True)
@click.option("--kills", type=click.IntRange(0), default=4, show_default=True)
@click.option(
    "--lease",
    type=click.FloatRange(0.1),
    default=1.0,
    show_default=True,
    help="Seconds; an hour makes no difference, because a death is noticed at once.",
)
@click.option("--seed", type=int, help="Of the moments of the kills.")
@json_option
@click.pass_obj
def demo(
    database: Database,
    path: str | None,
    file: str | None,
    workers: int,
    kills: int,
    lease: float,
    seed: int | None,
    as_json: bool,
) -> int:
    """
    Real earthquake reports, workers killed with SIGKILL: nothing lost, nothing applied twice.

    The exit code is 1 if the count is off.
    """
    path = _fresh(path or (database.path if database.named else None))
    data = Path(file).read_bytes() if file else _packaged()
    ids = _ids(data)
    console = Console(stderr=as_json, highlight=False)
    start = time.monotonic()

    def say(text: str) -> None:
        told = f"{time.monotonic() - start:5.1f} s  {printable(text)}"
        console.print(told, markup=False, soft_wrap=True)

    bar = _bar(console)
    with app.open(path) as store, drawn(bar):
        queue = store.queue(quakes.name, Quake, lease=lease)
        with store.transaction() as tx:
            for statement in TABLES:
                tx.execute(statement)
        first = _ingest(queue, data)
        say(f"{first.added:,} earthquake reports enqueued in {path}")
        say(f"worker processes: {workers}; kills with SIGKILL to come: {kills}")
        pool = Pool(path, workers)
        task = bar.add_task("applied", total=len(ids))
        watch = Watch(store, pool, lambda applied: bar.update(task, completed=applied))
        killed = []
        for moment in _moments(len(ids), kills, seed):
            killed.append(_kill(watch, pool, moment))
            say(f"killed worker {killed[-1].process} at {killed[-1].applied:,} applied")
        again = _ingest(queue, data)
        say(f"the same reports enqueued again: {again.known:,} known, {again.added} added")
        watch.until(lambda _applied: watch.left() == 0)
        pool.stop()
        found = count(store, ids)
        say("every report is settled; this is what the file says")

    right = found.right and first.added == len(ids) and again.added == 0
    if as_json:
        _tell_json(path, found, first, again, killed, time.monotonic() - start, right=right)
    else:
        _tell(console, found, first, again, len(killed))
        click.echo(f"\nLook at it: fencepost --database {path} stats")
    return 0 if right else 1


def _fresh(path: str | None) -> str:
    """FENCEPOST_DATABASE is a file somebody works with, so only one that was named here counts."""
    if path is None:
        return str(Path(tempfile.mkdtemp(prefix="fencepost-demo-")) / "demo.db")
    if Path(path).exists():
        raise click.UsageError(f"the demo wants a file of its own, and {path} exists")
    return path


def _packaged() -> bytes:
    return (resources.files("fencepost") / "data" / "quakes.jsonl").read_bytes()


def _ids(data: bytes) -> list[str]:
    """Each id once. A usage error for a line that is no report."""
    ids: dict[str, None] = {}
    for number, line in enumerate(data.splitlines(), 1):
        try:
            ids[msgspec.json.decode(line, type=Quake).id] = None
        except msgspec.MsgspecError as error:
            raise click.UsageError(f"line {number} is no report: {error}") from None
    return list(ids)


def _ingest(queue: fencepost.Queue[Quake], data: bytes) -> Ingest:
    run = Ingest(queue, key="id")
    run.read(io.BytesIO(data))
    return run


def _moments(reports: int, kills: int, seed: int | None) -> list[float]:
    """How many reports are to be applied before each kill: spread over the whole, not evenly."""
    dice = random.Random(seed)
    return [reports * (number + dice.uniform(0.5, 1.0)) / (kills + 1) for number in range(kills)]


def _kill(watch: Watch, pool: Pool, moment: float) -> Kill:
    """In the middle of a batch, not right behind the commit that was seen."""
    applied = watch.until(lambda applied: applied >= moment and watch.busy())
    time.sleep(BATCH * WORK / 2)
    return Kill(pool.kill(), applied)


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("         {task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=console,
        transient=True,
    )


def _tell(console: Console, found: Count, first: Ingest, again: Ingest, kills: int) -> None:
    shown = found.regions[:TOP]
    rest = found.regions[TOP:]
    rows: list[tuple[object, ...]] = [(r.name, r.reports, r.strongest, r.place) for r in shown]
    if rest:
        top = max(rest, key=lambda region: region.strongest)
        reports = sum(region.reports for region in rest)
        rows.append((f"{len(rest)} more", reports, top.strongest, top.place))
    table(
        [
            Column("region", style="bold"),
            Column("reports", right=True),
            Column("strongest", right=True, style="yellow"),
            Column("where", wraps=True),
        ],
        rows,
        title="Earthquakes by region",
        console=console,
    )
    table(
        [Column("counted from the file"), Column("", right=True)],
        [
            ("reports", f"{found.reports:,}"),
            ("added at the first ingest", f"{first.added:,}"),
            ("added at the second ingest", f"{again.added:,}"),
            ("workers killed", f"{kills:,}"),
            ("deliveries", f"{found.deliveries:,}"),
            ("redeliveries after kills", f"{found.redeliveries:,}"),
            ("lost", _verdict(found.lost)),
            ("applied twice", _verdict(found.twice)),
        ],
        console=console,
    )


def _verdict(number: int) -> Text:
    return Text(f"{number:,}", style="bold red" if number else "bold green")


def _tell_json(
    path: str,
    found: Count,
    first: Ingest,
    again: Ingest,
    killed: list[Kill],
    seconds: float,
    *,
    right: bool,
) -> None:
    told: dict[str, Any] = {
        "database": path,
        **found._asdict(),
        "regions": [region._asdict() for region in found.regions],
        "added": first.added,
        "added_again": again.added,
        "known_again": again.known,
        "kills": [kill._asdict() for kill in killed],
        "seconds": round(seconds, 3),
        "right": right,
    }
    document(told)
