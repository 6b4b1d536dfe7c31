"""Running `fencepost` as a person would: a process of its own, in a folder of its own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    import pytest

T = TypeVar("T")

PATIENCE = 60.0  # seconds until a fact that does not come is a failure

Done: TypeAlias = "subprocess.CompletedProcess[str]"


class Run(Protocol):
    """Runs `python -m fencepost ARGUMENTS` in the test's folder; `code` is what it must say."""

    def __call__(self, *arguments: str, code: int = 0, **env: str) -> Done: ...


def runner(folder: Path) -> Run:
    def run(*arguments: str, code: int = 0, **env: str) -> Done:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-m", "fencepost", *arguments],
            cwd=folder,
            env={**quiet_environment(), **env},
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )
        assert done.returncode == code, (done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done

    return run


def quiet_environment() -> dict[str, str]:
    """Ours, without what would choose a file, colours or a width for the command."""
    noisy = ("FENCEPOST_DATABASE", "FORCE_COLOR", "NO_COLOR", "COLUMNS", "TTY_")
    return {name: value for name, value in os.environ.items() if not name.startswith(noisy)}


def until(fact: Callable[[], T], patience: float = PATIENCE) -> T:
    """What `fact()` says once it is true."""
    end = time.monotonic() + patience
    while not (found := fact()):
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.002)
    return found


def imported(program: Path, patch: pytest.MonkeyPatch) -> ModuleType:
    """A program as a module, known by its name while the test runs: annotations need that."""
    spec = importlib.util.spec_from_file_location(program.stem, program)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    patch.setitem(sys.modules, program.stem, module)
    spec.loader.exec_module(module)
    return module
