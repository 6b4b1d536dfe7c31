"""
What each operation of the core costs, in thousand instructions and WAL pages per row: figures that
a busy machine cannot change. valgrind counts; docs/performance.md has the table.

    python bench/instructions.py [OPERATION …]       all operations, or those named; minutes
    python bench/instructions.py --variants [NAME …] with and without what was chosen
    python bench/instructions.py --flat              claims beside backlogs, outcomes, neighbours
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from _c import BENCH, ROOT, driver

BATCHES = (1, 10, 100, 1000)
ROWS = 1000  # measured of each, in one run


class Operation(NamedTuple):
    """One line of the table; `before` is what SCHEMA.md's trial had found at these batches."""

    title: str
    name: str
    profile: str
    before: str = ""


OPERATIONS = [
    Operation("enqueue", "enqueue", "bulk", "36.1 / 16.1 / 13.6 / 13.9"),
    Operation("enqueue, a job", "enqueue", "job"),
    Operation("enqueue, random 18-byte key", "enqueue_key", "bulk", "51.1 / 27.8 / 24.5 / 22.4"),
    Operation("enqueue, a lane of its own", "enqueue_lane", "bulk"),
    Operation("enqueue, behind the head of a lane", "enqueue_behind", "bulk"),
    Operation("claim, jobs", "claim", "job", "59.4 / 21.2 / 17.9 / 17.2"),
    Operation("claim, bulk", "claim", "bulk", "54.9 / 19.2 / 15.6 / 14.8"),
    Operation("claim, nothing is due", "look", "bulk"),
    Operation("renew, jobs", "renew", "job", "27.6 / 18.9 / 19.2 / 18.8"),
    Operation("renew, bulk", "renew", "bulk", "21.2 / 15.5 / 15.8 / 15.4"),
    Operation("retry, jobs", "retry", "job", "40.2 / 21.0 / 19.2 / 18.4"),
    Operation("retry, bulk", "retry", "bulk", "33.3 / 17.6 / 15.7 / 14.9"),
    Operation("retry with a failure, jobs", "retry_failed", "job"),
    Operation("release, jobs", "release", "job", "40.2 / 21.0 / 19.2 / 18.4"),
    Operation("ack, kept and listed (jobs)", "ack", "job", "44.1 / 17.6 / 16.8 / 16.5"),
    Operation("ack with a result, jobs", "ack_result", "job"),
    Operation("ack, kept", "ack", "kept", "33.2 / 12.7 / 11.0 / 10.6"),
    Operation("ack, not kept", "ack", "bulk", "35.3 / 13.1 / 10.3 / 9.8"),
    Operation("ack of the last in a lane", "ack_lane", "bulk", "- / - / 36.9 / -"),
    Operation("fail, jobs", "fail", "job", "- / - / 20.5 / -"),
    Operation("a send begins", "begin", "job", "- / - / 10.9 / -"),
    Operation("unknown", "unknown", "job", "- / - / 18.7 / -"),
    Operation("confirm", "confirm", "job", "- / - / 16.4 / -"),
    Operation("get by id, pending", "get", "job", "12.1"),
    Operation("get by id, claimed", "get_claimed", "job"),
    Operation("get by id, ended", "get_ended", "job"),
    Operation("cancel, pending", "cancel", "job", "- / - / 33.6 / -"),
    Operation("cancel, leased", "cancel_claimed", "job", "- / - / 44.6 / -"),
    Operation("replay", "replay", "job", "- / - / 34.8 / -"),
    Operation("ack + claim in one commit, jobs", "fused", "job", "79.4 / - / 30.0 / -"),
    Operation("ack + claim apart, jobs", "apart", "job", "103.5 / - / - / -"),
    Operation("purge", "purge", "job", "- / - / - / 12.0"),
    Operation("through the door: enqueue, a job", "door_enqueue", "job", "165 / - / - / -"),
    Operation("through the door: enqueue, bulk", "door_enqueue", "bulk"),
    Operation("through the door: random 18-byte key", "door_enqueue_key", "job"),
    Operation("through the door: ack, kept and listed (jobs)", "door_ack", "job"),
    Operation("a connection that opens the file", "connect", "job"),
]


class Cost(NamedTuple):
    instructions: float  # thousands per row
    pages: float  # per row


def count(program: Path, name: str, profile: str, batch: int, path: Path, *more: int) -> Cost:
    """One operation under valgrind, on `path` if it is there."""
    call = [str(program), name, profile, str(batch), str(ROWS), str(path), *map(str, more)]
    tool = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=/dev/null"]
    done = subprocess.run([*tool, *call], capture_output=True, text=True, check=False)
    collected = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or collected is None:
        raise SystemExit(f"{name}: {done.stderr[-1000:]}")
    if collected[1] == "0":
        raise SystemExit(
            "nothing was counted: valgrind's callgrind.h was not there at compile time"
        )
    _, pages = map(int, done.stdout.split())
    return Cost(int(collected[1]) / ROWS / 1000, pages / ROWS)


@contextmanager
def folder() -> Iterator[Path]:
    """On the disk, and gone afterwards."""
    with tempfile.TemporaryDirectory(dir=".", prefix="bench-") as name:
        yield Path(name)


def costs(program: Path, operation: Operation, batches: Iterable[int] = BATCHES) -> list[Cost]:
    found = []
    for batch in batches:
        with folder() as at:
            found.append(count(program, operation.name, operation.profile, batch, at / "ops.db"))
    return found


def table(names: list[str]) -> None:
    program = driver("ops")
    print(f"200-byte bodies, {ROWS} rows, batch {' / '.join(map(str, BATCHES))}\n")
    print(
        "| operation | k instructions per row | the trial | WAL pages per row |\n|---|---|---|---|"
    )
    for operation in OPERATIONS:
        if names and operation.name not in names:
            continue
        found = costs(program, operation)
        instructions = " / ".join(f"{cost.instructions:.1f}" for cost in found)
        pages = " / ".join(f"{cost.pages:.3g}" for cost in found)
        print(f"| {operation.title} | {instructions} | {operation.before} | {pages} |", flush=True)


# What was chosen against what: bench/variants has the one change as a patch of csrc. A patch names
# the text of its day; when that has moved on, the decision page keeps what it measured.
LINE = ["enqueue job", "claim job", "renew job", "ack job"]
VARIANTS = {
    "worker-index-unused": LINE,
    "worker-index": LINE,
    "hold-by-message": LINE,
    "hold-by-batch": LINE,
    "strict": ["enqueue bulk", "enqueue_key bulk", "claim bulk", "ack job"],
    "check-in": ["enqueue bulk", "claim bulk"],
    "short-key": ["enqueue_key bulk"],
    "no-outcome-kind": ["ack kept", "ack job"],
    "no-message-kind": ["enqueue bulk", "claim bulk"],
    "inner-join": ["claim bulk", "claim job"],
    "no-trouble-since": ["replay job"],
    "two-counters": ["enqueue bulk", "claim bulk"],
    "forgetful-head": ["enqueue bulk", "claim bulk", "ack bulk"],
    "no-asleep": ["enqueue bulk"],
    "time-at-each-settle": ["renew bulk", "ack bulk", "ack job"],
    "no-places": ["renew job", "ack job"],
    "no-shim": ["enqueue bulk", "fused job", "look bulk"],
    "no-look-at-the-place": ["enqueue bulk", "fused job", "look bulk"],
}


@contextmanager
def patched(variant: str) -> Iterator[Path]:
    """A copy of csrc with the variant's change in it."""
    change = BENCH / "variants" / f"{variant}.patch"
    with tempfile.TemporaryDirectory() as name:
        csrc = Path(name) / variant / "csrc"
        shutil.copytree(ROOT / "csrc", csrc, ignore=shutil.ignore_patterns("sqlite"))
        call = ["patch", "-p1", "--no-backup-if-mismatch", "-i", str(change)]
        done = subprocess.run(call, cwd=csrc.parent, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{variant}: csrc has moved on since this patch\n{done.stdout}")
        yield csrc


def variants(names: list[str]) -> None:
    """Each variant beside the core as it is, on the operations that it is about."""
    base = driver("ops")
    print("k instructions and pages per row, batch 1 and 100\n")
    print("| variant | operation | as it is | with the variant |\n|---|---|---|---|")
    for variant in names or VARIANTS:
        with patched(variant) as csrc:
            program = driver("ops", csrc)
            for words in VARIANTS[variant]:
                one = Operation(words, *words.split())
                before, after = (
                    ", ".join(f"{cost.instructions:.1f} ({cost.pages:.3f})" for cost in found)
                    for found in (costs(made, one, (1, 100)) for made in (base, program))
                )
                print(f"| {variant} | {words} | {before} | {after} |", flush=True)


class Scene(NamedTuple):
    """What stands in the file beside the claimed messages."""

    title: str
    backlog: int
    kept: int = 0
    levels: int = 1
    neighbours: int = 0
    held: int = 0


SCENES = [
    Scene("1,000 in line", 6_000),  # the others are claimed
    Scene("100,000 in line", 100_000),
    Scene("1,000,000 in line", 1_000_000),
    Scene("1,000,000 outcomes kept", 6_000, kept=1_000_000),
    Scene("a neighbour queue of 1,000", 6_000, neighbours=1_000),
    Scene("a neighbour queue of 1,000,000", 6_000, neighbours=1_000_000),
    Scene("16 levels of priority, 6,250 on each", 100_000, levels=16),
    Scene("16 levels, 62,500 on each", 1_000_000, levels=16),
    Scene("16 levels, the upper 15 all leased", 6_000, levels=16, held=1_000),
    Scene("a million of each", 1_000_000, kept=1_000_000, levels=16, neighbours=1_000_000),
]


def flat() -> None:
    """Claims cost the same, whatever else stands in the file. Each file is built once."""
    program = driver("ops")
    print(f"claim, bulk, 200-byte bodies, {ROWS} rows, batch {' / '.join(map(str, BATCHES))}\n")
    print("| beside | k instructions per row | times the first |\n|---|---|---|")
    first: list[Cost] = []
    for scene in SCENES:
        with folder() as at:
            path = at / "ops.db"
            build = [str(program), "look", "bulk", "1", "0", str(path), *map(str, scene[1:])]
            subprocess.run(build, check=True, capture_output=True)
            found = [count(program, "claim_there", "bulk", batch, path) for batch in BATCHES]
        first = first or found
        instructions = " / ".join(f"{cost.instructions:.1f}" for cost in found)
        pairs = zip(found, first, strict=True)
        ratios = " / ".join(f"{cost.instructions / one.instructions:.2f}" for cost, one in pairs)
        print(f"| {scene.title} | {instructions} | {ratios} |", flush=True)


def main() -> None:
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is not installed: instructions cannot be counted here")
    words = sys.argv[1:]
    if "--variants" in words:
        variants([word for word in words if word != "--variants"])
    elif "--flat" in words:
        flat()
    else:
        table(words)


if __name__ == "__main__":
    main()
