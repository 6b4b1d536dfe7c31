"""
The door as any other program uses it: plain INSERTs by another SQLite, in another process.

The core's clock is turned by hand to a moment that no wall clock will show for a long time, so that
what the door takes for now is the last moment that the file was given, and both write the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness_asked import Asked

FAR = 4_000_000_000_000_000  # in the year 2096

PROGRAM = """
import json, sqlite3, sys
sys.stdin.reconfigure(encoding="utf-8")
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA busy_timeout = 10000")
connection.execute("PRAGMA synchronous = OFF")
connection.execute("PRAGMA trusted_schema = 0")

def value(said):
    return bytes.fromhex(said["hex"]) if isinstance(said, dict) else said

for line in sys.stdin:
    sql, sets = json.loads(line)
    try:
        for row in sets:
            connection.execute(sql, [value(one) for one in row])
        said = None
    except sqlite3.Error as error:
        said = str(error)
    print(json.dumps(said), flush=True)
"""


class Refused(Exception):
    """What the door said, without its name."""


class Door(Asked):
    """The other program. It holds the file open, and no transaction."""

    def __init__(self, path: Path) -> None:
        super().__init__("-c", PROGRAM, str(path))

    def run(self, sql: str, *sets: Any) -> None:
        """One statement, once for each set of parameters, each a commit of its own."""
        rows = [[{"hex": v.hex()} if isinstance(v, bytes) else v for v in row] for row in sets]
        said = self.ask(sql, rows or [[]])
        if said is not None:
            raise Refused(said.removeprefix("fencepost: "))

    def insert(self, view: str, conflict: str = "", /, **columns: Any) -> None:
        names = ", ".join(columns)
        marks = ", ".join("?" * len(columns))
        self.run(f"INSERT {conflict} INTO {view} ({names}) VALUES ({marks})", columns.values())

    def enqueue(self, **columns: Any) -> None:
        self.insert("fencepost_enqueue", **columns)

    def settle(self, id: int, token: int | None, verb: str, **columns: Any) -> None:
        self.insert("fencepost_settle", id=id, token=token, verb=verb, **columns)
