"""A run, as tables in Markdown, which a terminal shows as well as a page does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.peers.aims import aims
from bench.peers.found import HAND, OUR_JOB, OURS, Found

__all__ = ["markdown", "replace"]

BEGIN, END = "<!-- bench.peers: begin -->\n", "<!-- bench.peers: end -->\n"
SYNCS = ("full", "normal")
OPERATIONS = {
    "put": "put one",
    "threads 4": "… from 4 threads",
    "threads 16": "… from 16 threads",
    "many": "put, 1000 a commit",
    "take": "claim + ack one",
    "take from many": "… of 100,000",
    "work": "worker, no-op",
}
NONE = "\N{EN DASH}"
Row = Sequence[str]


def figure(value: float | None, unit: str = "") -> str:
    if value is None:
        return NONE
    if value >= 10_000:
        return f"{value / 1000:.3g}k{unit}"
    return f"{value:,.0f}{unit}" if value >= 100 else f"{value:.3g}{unit}"


def table(heads: Row, rows: Iterable[Row]) -> Iterator[str]:
    for row in (heads, ["---"] * len(heads), *rows):
        yield f"| {' | '.join(row)} |"
    yield ""


def grid(found: Found, sync: str, cell: Callable[[str, str], str]) -> Iterator[str]:
    """A row for each queue that has anything to say; bold, where this is its default."""
    rows: list[Row] = []
    for name, about in found.about.items():
        cells = [cell(operation, name) for operation in OPERATIONS]
        if set(cells) != {NONE}:
            bold = "**" if about["default"] == sync else ""
            rows.append([f"{bold}{found.title(name)}{bold}", *cells])
    return table(["", *OPERATIONS.values()], rows)


def rates(found: Found, sync: str) -> Iterator[str]:
    def cell(operation: str, name: str) -> str:
        rate = found.rate(sync, operation, name)
        failed = found.failed(sync, operation, name)
        words = f"; {failed} refused" if failed else ""
        cpu = figure(found.cpu(sync, operation, name))
        return NONE if rate is None else f"{figure(rate)} ({cpu}{words})"

    yield f"Messages per second, in parentheses CPU µs per message, `synchronous={sync.upper()}`;"
    yield "**bold** where that is the default:"
    yield ""
    yield from grid(found, sync, cell)


def ratios(found: Found, sync: str) -> Iterator[str]:
    def cell(operation: str, name: str) -> str:
        ours = OURS if found.rate(sync, operation, OURS) else OUR_JOB
        times = [found.times(sync, operation, name, other) for other in (HAND, ours)]
        return NONE if times == [None, None] else " / ".join(map(figure, times))

    yield f"How many times as fast as the hand-written one / as Fencepost's queue, {sync.upper()}:"
    yield ""
    yield from grid(found, sync, cell)


def wakeups(found: Found) -> Iterator[Row]:
    for name in found.about:
        late = [found.late_ms(name, part) for part in (0.5, 0.99, 1)]
        if None not in late:
            yield [found.title(name), *map(figure, late), figure(found.idle(name), " %")]


def identities(found: Found) -> Iterator[Row]:
    for name, about in found.about.items():
        waits = [
            figure(found.waits("full", operation, name))
            for operation in ("put", "threads 16", "take", "work")
        ]
        default = about["default"].upper()
        yield [found.title(name), about["version"], default, *waits, about["acks"]]
    for name, why in found.run["missing"].items():
        yield [name, f"missing: {why}", *[NONE] * 6]


def aimed(found: Found) -> Iterator[Row]:
    for aim in aims(found):
        sign = "≤" if aim.at_most else "≥"
        asked, reached = f"{sign} {aim.asked:g}{aim.unit}", figure(aim.found, aim.unit)
        yield [aim.words, asked, reached, "met" if aim.met else "**missed**"]


def lines(found: Found) -> Iterator[str]:
    run = found.run
    yield "; ".join(f"{what} {value}" for what, value in run["machine"].items()) + "."
    yield f"A message is {run['body_bytes']:.0f} bytes of JSON; a worker finds {run['jobs']:,}."
    yield ""
    for sync in SYNCS:
        yield from rates(found, sync)
    for sync in SYNCS:
        yield from ratios(found, sync)
    yield "From a commit in one process to the handler in another, in milliseconds (NORMAL), and"
    yield "what a worker that waits takes of one core:"
    yield ""
    yield from table(["", "p50", "p99", "worst", "idle"], wakeups(found))
    yield "Who they are; how often one message waits for the disk at FULL; and what becomes of it"
    yield "when its worker dies:"
    yield ""
    waits = ["put", "put, 16 threads", "claim + ack", "worker"]
    yield from table(["", "version", "default", *waits, "a worker dies"], identities(found))
    yield "What was asked for:"
    yield ""
    yield from table(["", "asked", "found", ""], aimed(found))
    for name, each in run["failures"].items():
        for what, why in each.items():
            yield f"- {name}, {what}: {why}"
    if run["cut_short"]:
        yield "- The time was up before the last round."


def markdown(run: dict[str, Any]) -> str:
    return "\n".join(lines(Found(run)))


def replace(document: Path, run: dict[str, Any]) -> None:
    """What is between the marks becomes this run's tables."""
    before, rest = document.read_text(encoding="utf-8").split(BEGIN)
    _, after = rest.split(END)
    text = f"{before}{BEGIN}\n{markdown(run)}\n{END}{after}"
    document.write_text(text, encoding="utf-8")
