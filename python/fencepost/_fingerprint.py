"""
When two messages under one id are the same message: a digest of what is compared.

JSON is compared as what it says: objects without the order of their names, arrays in order, text as
it is, numbers by how they are written (1.0 is not 1, and no digit is lost). A body that is no JSON,
or has a name twice in one object, is compared byte by byte.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

__all__ = ["fingerprint"]


class _Written(str):
    """A number as it was written: told apart from text."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class _Twice(ValueError):
    pass


def fingerprint(body: bytes, headers: Mapping[str, str]) -> bytes:
    """32 bytes, equal for equal bodies with equal headers."""
    try:
        said = repr(
            json.loads(
                body,
                object_pairs_hook=_unordered,
                parse_int=_Written,
                parse_float=_Written,
                parse_constant=_Written,
            )
        )
        read = b"j" + said.encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        read = b"b" + body
    beside = repr(sorted(headers.items())).encode("utf-8", "surrogatepass")
    return sha256(len(beside).to_bytes(8, "big") + beside + read).digest()


def _unordered(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(sorted(pairs, key=lambda pair: pair[0]))
    if len(found) != len(pairs):
        raise _Twice
    return found
