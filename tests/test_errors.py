"""The errors: their words, and their way from process to process."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

import fencepost
from fencepost import Busy, StorageError
from fencepost.errors import BY_CODE


def test_errors_come_through_pickle() -> None:
    """A process pool hands them from one process to another."""
    failure = fencepost.Failure("error", None, "no")
    for error in (
        StorageError("disk I/O error", statement="x", sqlite_code=10),
        fencepost.Conflict("taken", id=7),
        fencepost.JobFailed("no", failure=failure),
        fencepost.PermanentError("no", code="410"),
        fencepost.RetryLater("no", delay=5, whole_queue=True),
        Busy("busy"),
    ):
        back = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
        assert type(back) is type(error)
        assert str(back) == str(error)
        assert vars(back) == vars(error)


def test_the_words_of_a_storage_error() -> None:
    error = StorageError("unable to open database file", statement="open", sqlite_code=14)
    assert str(error) == "unable to open database file [open, sqlite 14]"
    assert str(StorageError("no such table: t; in: SELECT 1", sqlite_code=1)).endswith("SELECT 1")
    assert str(StorageError("odd")) == "odd"


def test_every_code_of_the_core_has_its_exception() -> None:
    """The codes are those before the answers of a batch in csrc/fencepost.h."""
    header = Path(__file__).parent.parent / "csrc" / "fencepost.h"
    if not header.exists():
        pytest.skip("no source tree")
    first = header.read_text().split("answers per item")[0].split("enum {")[1]
    assert set(re.findall(r"\bFP_[A-Z]+\b(?= =)", first)) - {"FP_OK"} == set(BY_CODE)
