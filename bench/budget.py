"""
The hot paths' instructions beside those that are written down in budget.json: a change that makes
one of them dearer by more than a twentieth fails here, with its name.

    python bench/budget.py             compare; needs valgrind; a minute
    python bench/budget.py --record    this is what they cost from now on

Instructions depend on the compiler and the processor, and on nothing else: each pair has figures of
its own, and where there are none, nothing is compared and that is said.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from _c import driver
from instructions import OPERATIONS, costs

BATCHES = (1, 100)
TOLERANCE = 0.05
HOT = [
    "enqueue bulk",
    "enqueue_key bulk",
    "claim job",
    "claim bulk",
    "look bulk",
    "renew job",
    "retry job",
    "ack job",
    "ack bulk",
    "begin job",
    "fused job",
    "get job",
]
WRITTEN = Path(__file__).with_name("budget.json")


def builder() -> str:
    """The compiler with its version, and the processor."""
    asked = [os.environ.get("CC", "cc"), "-dumpfullversion", "-dumpversion"]
    version = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    words = subprocess.run([asked[0], "--version"], check=True, capture_output=True, text=True)
    name = "clang" if "clang" in words.stdout else "gcc"
    return f"{name} {version.split('.')[0]}, {platform.machine()}"


def counted() -> dict[str, list[float]]:
    """Thousand instructions per row, of each batch."""
    program = driver("ops")
    found = {}
    for operation in OPERATIONS:
        name = f"{operation.name} {operation.profile}"
        if name in HOT:
            all_costs = costs(program, operation, BATCHES)
            found[name] = [round(cost.instructions, 2) for cost in all_costs]
    return found


def dearer(found: dict[str, list[float]], written: dict[str, list[float]]) -> list[str]:
    """What went over its budget, a line for each."""
    lines = []
    for name, now in found.items():
        for batch, cost, before in zip(BATCHES, now, written[name], strict=True):
            if cost > before * (1 + TOLERANCE):
                by = 100 * (cost / before - 1)
                lines.append(
                    f"{name}, batch {batch}: {cost:.1f}k instructions a row, written down are "
                    f"{before:.1f}k ({by:+.0f} %)"
                )
    return lines


def main() -> None:
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is not installed: instructions cannot be counted here")
    budgets: dict[str, dict[str, list[float]]] = json.loads(WRITTEN.read_text("utf-8"))
    who = builder()
    if "--record" in sys.argv[1:]:
        budgets[who] = counted()
        WRITTEN.write_text(json.dumps(budgets, indent=1, sort_keys=True) + "\n", "utf-8")
    elif who not in budgets:
        print(f"nothing is written down for {who}: nothing is compared")
    else:
        lines = dearer(counted(), budgets[who])
        print("\n".join(lines) or f"{len(HOT)} operations are within their budget ({who})")
        sys.exit(1 if lines else 0)


if __name__ == "__main__":
    main()
