"""What became of messages, as the core tells it of those that have ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from fencepost._binding import pack
from fencepost._binding.pack import Packed

__all__ = ["NOWHERE", "Result", "results"]

NOWHERE: Final = -1


class Result(NamedTuple):
    """Its state in the core's number, or NOWHERE; how it failed; its result, encoded."""

    id: int
    state: int
    failure: tuple[bytes | None, ...]  # kind, code, text
    result: bytes | None


def results(ended: Packed) -> Iterator[Result]:
    """Of each of fp_watch's records."""
    at = 0
    for record in pack.records(ended):
        found, at = pack.parts(ended.blob, at, [*record[10:15], record[16]])
        yield Result(record[0], record[3], tuple(found[2:5]), found[5])
