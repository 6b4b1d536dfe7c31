"""A run drawn in the terminal: a line for each step, with a bar where it stood in time."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from rich.console import Console
from rich.text import Text

from fencepost._workflow.timeline import Bar, Timeline
from fencepost.cli.output import Column, printable, table

STYLES: Final = {
    "done": "green",
    "failed": "red",
    "late": "yellow",
    "retrying": "yellow",
    "cancelled": "dim",
    "open": "cyan",
}
WIDTH_MIN: Final = 12
WIDTH_MAX: Final = 60


def drawn(found: Timeline, console: Console | None = None) -> None:
    """Print it: on a terminal with bars, elsewhere the same lines with figures only."""
    console = console or Console()
    run = found.run
    title = f"{printable(run.id)}  {printable(run.name)}  {run.state}"
    if run.waiting_for:
        title += f", waits for {printable(', '.join(run.waiting_for))}"
    if run.failure is not None:
        title += f"\n{printable(run.failure.kind)}: {printable(run.failure.text)}"
    first, last = run.created_at, run.ended_at or found.at
    columns = [
        Column("step", style="bold"),
        Column("kind"),
        Column("state"),
        Column("took", right=True),
    ]
    rows: list[list[object]] = [
        [bar.name, bar.kind, Text(_fate(bar), STYLES[bar.fate]), _took(bar, found.at)]
        for bar in found.bars
    ]
    if console.is_terminal:
        columns.append(Column("", wraps=False))
        width = _width(console, rows)
        for row, bar in zip(rows, found.bars, strict=True):
            row.append(Text(_bar(bar, first, last, width), STYLES[bar.fate]))
    else:
        columns.append(Column("began"))
        for row, bar in zip(rows, found.bars, strict=True):
            row[2] = _fate(bar)
            row.append(bar.began)
    table(columns, rows, title=title, console=console)


def _width(console: Console, rows: list[list[object]]) -> int:
    """What is left of the line beside the figures."""
    used = sum(max((len(str(row[at])) for row in rows), default=0) for at in range(4))
    return max(WIDTH_MIN, min(WIDTH_MAX, console.width - used - 20))


def _fate(bar: Bar) -> str:
    if bar.fate == "open":
        return "sleeps" if bar.kind == "sleep" else "waits"
    if bar.fate == "retrying":
        return f"failed {bar.attempts} times" if bar.attempts > 1 else "failed once"
    if bar.fate == "done" and bar.attempts > 1:
        return f"done at attempt {bar.attempts}"
    return bar.fate


def _took(bar: Bar, now: datetime) -> str:
    seconds = bar.seconds
    if seconds is not None:
        return span(seconds)
    if bar.due is not None and bar.due > now:
        return f"{span((bar.due - now).total_seconds())} left"
    return f"{span(max(0.0, (now - bar.began).total_seconds()))} so far"


def _bar(bar: Bar, first: datetime, last: datetime, width: int) -> str:
    """Its place between the first moment and the last; an open one goes to the end."""
    whole = max((last - first).total_seconds(), 1e-6)

    def place(moment: datetime) -> int:
        return round(min(1.0, max(0.0, (moment - first).total_seconds() / whole)) * (width - 1))

    begin = place(bar.began)
    end = place(bar.ended or last)
    mark = "█" if bar.ended is not None else "░"
    return " " * begin + mark * (end - begin + 1)


def span(seconds: float) -> str:
    """A length of time as a person says it: 850 µs, 12 ms, 4.2 s, 3 min, 5 h, 2 d."""
    for limit, unit, word in ((1e-3, 1e-6, "µs"), (1, 1e-3, "ms")):
        if seconds < limit:
            return f"{seconds / unit:.0f} {word}"
    for limit, unit, word in ((60, 1, "s"), (3600, 60, "min"), (86_400, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.3g} {word}"
    return f"{seconds / 86_400:.3g} d"
