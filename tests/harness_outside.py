"""
Another process, which looks at a store's file and changes it with another SQLite.

A test process that has the file open must never open it with a second SQLite of its own; this one
does it for all of them, one line of JSON a question, so that a ladder can ask after each rung.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from typing_extensions import Self

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


class Outside:
    """The other process, started once and asked often."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )

    def _ask(self, verb: str, path: Path, sql: str) -> Any:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps([verb, str(path), sql]) + "\n")
        process.stdin.flush()
        said = json.loads(process.stdout.readline())
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()
