"""
Another process, which looks at a store's file and changes it with another SQLite.

It is started once for all tests, so that a ladder can ask after each rung, and what it says is not
what this process would like to believe of its own file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness_asked import Asked

PROGRAM = """
import json, sqlite3, sys
sys.stdin.reconfigure(encoding="utf-8")

def answer(verb, path, sql):
    mode = "ro" if verb == "dump" else "rw"
    connection = sqlite3.connect(f"file:{path}?mode={mode}", uri=True, isolation_level=None)
    connection.execute("PRAGMA busy_timeout = 10000")
    try:
        if verb == "dump":
            return "\\n".join(connection.iterdump())
        if verb == "script":
            connection.executescript(sql)
            return None
        return connection.execute(sql).fetchall()
    finally:
        connection.close()

for line in sys.stdin:
    try:
        said = {"is": answer(*json.loads(line))}
    except Exception as error:
        said = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(said, default=lambda value: value.hex()), flush=True)
"""


class Outside(Asked):
    """The other process, started once and asked often."""

    def __init__(self) -> None:
        super().__init__("-c", PROGRAM)

    def _ask(self, verb: str, path: Path, sql: str) -> Any:
        said = self.ask(verb, str(path), sql)
        assert "error" not in said, said["error"]
        return said["is"]

    def dump(self, path: Path) -> str:
        """The whole file as SQL."""
        text: str = self._ask("dump", path, "")
        return text

    def rows(self, path: Path, sql: str) -> list[list[Any]]:
        """The rows of one statement; a blob is its hexadecimal text."""
        found: list[list[Any]] = self._ask("rows", path, sql)
        return found

    def change(self, path: Path, sql: str) -> None:
        """Statements, each a commit of its own unless they say otherwise."""
        self._ask("script", path, sql)
