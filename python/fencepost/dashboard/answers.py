"""What the API answers: JSON that is inert wherever it lands, and errors in words."""

from __future__ import annotations

import json
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from fencepost._operator import as_json
from fencepost.errors import (
    Busy,
    Closed,
    Error,
    ForkedHandle,
    Gone,
    InvalidArgument,
    NewerSchema,
    StorageError,
)

__all__ = ["Refused", "answer", "in_words", "lost", "refusal"]

# Within JSON these stand in strings alone, where an escape means the same.
INERT: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "'": "\\u0027"})
DAMAGE: Final = (11, 26)  # SQLITE_CORRUPT and SQLITE_NOTADB, without their extension

# By what the asker can do; the first that fits.
KINDS: Final[tuple[tuple[type[Exception], int, str], ...]] = (
    (Busy, 503, "busy"),
    (InvalidArgument, 400, "invalid"),
    (NewerSchema, 503, "newer_schema"),
    (Gone, 404, "gone"),
    (Closed, 503, "closed"),
    (ForkedHandle, 503, "forked"),
    (StorageError, 503, "storage"),
    (Error, 500, "error"),
)


class Refused(Exception):
    """An answer that is none: its status, its type (a word that stays), its sentence."""

    def __init__(self, status: int, type: str, message: str) -> None:
        super().__init__(message)
        self.status, self.type, self.message = status, type, message


def in_words(error: Error) -> Refused:
    """What the store said, as it is told."""
    status, type_ = next((status, word) for kind, status, word in KINDS if isinstance(error, kind))
    if isinstance(error, StorageError) and (error.sqlite_code or 0) & 0xFF in DAMAGE:
        type_ = "damaged"
    return Refused(status, type_, str(error))


def answer(value: Any, status: int = 200) -> Response:
    """JSON without a character that could be markup, and without one that is not ASCII."""
    text = json.dumps(value, default=as_json, allow_nan=False).translate(INERT)
    return Response(text, status, media_type="application/json")


def refusal(refused: Refused) -> Response:
    made = answer({"error": {"type": refused.type, "message": refused.message}}, refused.status)
    if refused.type == "busy":
        made.headers["Retry-After"] = "1"
    return made


def lost(request: Request, error: Exception) -> Response:
    """What no route answers to."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 405:
        refused = Refused(405, "method", f"this is not asked with {request.method}")
    else:
        refused = Refused(404, "no_such_address", "there is nothing at this address")
    return refusal(refused)
