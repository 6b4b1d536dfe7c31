"""
How the command line speaks: tables on a terminal, plain columns into a pipe, JSON when asked.

What comes out of a file is somebody else's text. On its way to a terminal it passes `printable`,
and it is never read as markup.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, Literal, NamedTuple

import click
from rich.box import ROUNDED
from rich.cells import cell_len
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from fencepost._operator import Outcome, as_json

json_option = click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")


def page_options(command: click.decorators.FC) -> click.decorators.FC:
    """Where a listing goes on, as `after`, and how long it is, as `limit`."""
    after = click.option("--after", metavar="CURSOR", help="Go on behind a page: its `next`.")
    limit = click.option("--limit", type=click.IntRange(1), default=50, show_default=True)
    return after(limit(command))


class Column(NamedTuple):
    name: str
    right: bool = False
    style: str = ""
    wraps: bool = False  # where a terminal is narrow; what does not wrap is never cut either


def printable(text: str) -> str:
    """The text with everything that is not a visible character or a space written out."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def cell(value: object) -> str:
    """One value as a person reads it; nothing is a dash."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, float):
        return f"{value:.1f}"
    return printable(str(value))


def table(
    columns: Sequence[Column],
    rows: Iterable[Sequence[object]],
    *,
    title: str = "",
    console: Console | None = None,
) -> None:
    """
    Print rows: a table on a terminal that is wide enough for it; elsewhere columns padded with
    spaces, a line a row.

    A value that is a `Text` keeps its own style.
    """
    console = console or Console()
    rows = list(rows)
    cells = [[column.name for column in columns], *([cell(value) for value in row] for row in rows)]
    widths = [max(map(len, texts)) for texts in zip(*cells, strict=True)]
    if console.is_terminal and _least_width(columns, cells) <= console.width:
        grid = Table(title=Text(title) if title else None, header_style="bold", box=ROUNDED)
        for column in columns:
            side: Literal["left", "right"] = "right" if column.right else "left"
            grid.add_column(column.name, justify=side, style=column.style, no_wrap=not column.wraps)
        for row in rows:
            grid.add_row(*(v if isinstance(v, Text) else Text(cell(v)) for v in row))
        console.print(grid)
        return
    if title:
        print(f"\n{title}", file=console.file)
    for row in cells:
        padded = (
            text.rjust(width) if column.right else text.ljust(width)
            for text, width, column in zip(row, widths, columns, strict=True)
        )
        print("  ".join(padded).rstrip(), file=console.file)


def _least_width(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> int:
    """What the table takes with its borders when all that wraps is wrapped at each space."""
    widths = [
        max(cell_len(piece) for text in texts for piece in (text.split() if wraps else [text]))
        for (_, _, _, wraps), texts in zip(columns, zip(*cells, strict=True), strict=True)
    ]
    return sum(widths) + 3 * len(widths) + 1


@contextlib.contextmanager
def drawn(bar: Progress) -> Iterator[None]:
    """The bar on a terminal; elsewhere nothing, not even the line end that older riches leave."""
    with bar if bar.console.is_terminal else contextlib.nullcontext():
        yield


def document(value: object) -> None:
    """Print one JSON document on one line. Everything that is not plain ASCII is escaped."""
    print(json.dumps(value, default=as_json), flush=True)


def each_told(
    answers: Sequence[Outcome],
    success: str,
    *,
    as_json: bool,
    also: Mapping[int, dict[str, Any]] | None = None,
) -> int:
    """
    A line for each message; the exit code: 0 if all of them are a success. In JSON beside each what
    `also` has of it.
    """
    if as_json:
        document([answer._asdict() | (also or {}).get(answer.id, {}) for answer in answers])
    else:
        table([Column("id", right=True, style="bold"), Column("outcome")], answers)
    return 0 if {answer.outcome for answer in answers} == {success} else 1


def complain(text: str) -> None:
    """One plain line on stderr."""
    print(f"fencepost: {printable(text)}", file=sys.stderr)
