"""Another process, started once and asked often: a line of JSON a question, and one an answer."""

from __future__ import annotations

import json
import subprocess
import sys
from types import TracebackType
from typing import Any

from typing_extensions import Self


class Asked:
    """Runs Python with these arguments; it ends when its input does."""

    def __init__(self, *arguments: str, env: dict[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            env=env,
        )

    def ask(self, *question: Any) -> Any:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(question) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

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
