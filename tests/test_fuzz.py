"""
What the fuzzers have found (tests/fuzz): each kept input once broke something, or was the first to
reach it. It goes through the same code again, built by an ordinary compiler; `make fuzz` looks for
new ones.
"""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from driver.build import compiler
from fuzz import build

pytestmark = [
    pytest.mark.hostile,
    pytest.mark.skipif(
        shutil.which(compiler()[0]) is None,
        reason=f"no C compiler: {compiler()[0]} is not on the PATH",
    ),
]


@pytest.mark.parametrize("name", build.TARGETS)
def test_no_kept_input_breaks_anything(name: str) -> None:
    """Each call is answered or refused in words, nothing leaks, and the file stays sound."""
    inputs = sorted((build.HERE / "corpus" / name).iterdir())
    assert inputs
    with build.memory_folder() as folder:
        done = subprocess.run(
            [build.replayer(name), *inputs],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "TMPDIR": folder},
        )
    assert done.returncode == 0, "\n".join(done.stderr.splitlines()[-3:])
    assert len(done.stderr.splitlines()) == len(inputs)
