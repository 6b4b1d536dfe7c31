"""
What a step gives back, carried through the file: a workflow sees on its first pass what it would
see on any later one.

A result is encoded, and decoded as the function says (its annotation, or `returns=`); one that does
not come back equal is refused at once. An error that a workflow caught comes back as its class, if
that can be found by its name in what is imported, with its arguments as far as they are plain.
"""

from __future__ import annotations

import sys
import typing
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec

from fencepost._verdicts import text_of
from fencepost.codec import Codec, check_type
from fencepost.errors import InvalidArgument, JobFailed, PayloadError, PermanentError
from fencepost.spans import moment, moment_us
from fencepost.values import Failure

__all__ = ["Raised", "failure_of", "raised_as", "read_due", "read_moment", "roundtrip"]
__all__ += ["returns_of", "write_moment", "write_raised"]

T = TypeVar("T")

PLAIN: Final = (str, int, float, bool, type(None))


def returns_of(fn: Callable[..., Any], codec: Codec) -> Any:
    """
    What a function says it returns; Any where it says nothing. `InvalidArgument` for an annotation
    that cannot be read or decoded.
    """
    fn = getattr(fn, "func", fn)  # of a partial
    if not hasattr(fn, "__annotations__"):
        return Any
    try:
        returns = typing.get_type_hints(fn, include_extras=True).get("return", Any)
    except (NameError, TypeError) as error:
        raise InvalidArgument(f"the annotations of {_named(fn)} cannot be read: {error}") from error
    try:
        check_type(codec, returns)
    except InvalidArgument as error:
        raise InvalidArgument(f"the result of {_named(fn)}: {error}; or say returns=") from error
    return returns


def roundtrip(codec: Codec, value: object, returns: Any, what: str) -> tuple[bytes, Any]:
    """The value as bytes, and as it comes back. `PayloadError` if it does not come back equal."""
    body = codec.encode(value)
    try:
        back = codec.decode(body, returns)
    except PayloadError as error:
        raise PayloadError(f"{what} is not what it says it returns: {error}") from error
    if not _same(codec, value, back, body, returns):
        raise PayloadError(
            f"{what} does not survive: a {type(value).__name__} comes back as another"
            f" {type(back).__name__}; annotate what the function returns, or say returns="
        )
    return body, back


def _same(codec: Codec, value: object, back: object, body: bytes, returns: Any) -> bool:
    if returns is Any and type(back) is not type(value):
        return False
    try:
        if back == value:
            return True
    except Exception:  # what cannot be compared is compared by what is written
        return type(back) is type(value) and codec.encode(back) == body
    # Classes that compare by identity are equal if they are written alike.
    if type(back) is not type(value) or type(value).__eq__ is not object.__eq__:
        return False
    return codec.encode(back) == body


def _named(fn: Callable[..., Any]) -> str:
    return getattr(fn, "__qualname__", None) or repr(fn)


# ---- errors --------------------------------------------------------------------------------------


class Raised(msgspec.Struct, omit_defaults=True):
    """An error as a record has it."""

    module: str
    name: str  # of the class, within its module
    text: str
    args: list[Any] | None = None  # where they are plain
    code: str | None = None  # what a PermanentError said
    due_us: int = 0  # of an attempt: when the next one is


def write_raised(error: BaseException, due_us: int = 0) -> bytes:
    kind = type(error)
    code = error.code if isinstance(error, PermanentError) else None
    said = Raised(
        kind.__module__,
        kind.__qualname__,
        _writable(text_of(error)),
        list(error.args) if all(isinstance(one, PLAIN) for one in error.args) else None,
        None if code is None else _writable(text_of(code)),
        due_us,
    )
    try:
        return msgspec.json.encode(said)
    except Exception:  # plain, and yet not to be written: half a surrogate pair, a very long number
        said.args = None
        return msgspec.json.encode(said)


def _writable(text: str) -> str:
    """What is no UTF-8 is spelled out: an error is never replaced by the one of writing it."""
    return text.encode("utf-8", "backslashreplace").decode()


def read_raised(value: bytes | None) -> Raised:
    return _read(value, Raised)


def _read(value: bytes | None, type: type[T]) -> T:
    """What we wrote ourselves. `PayloadError` if it is that no more: the row is damaged."""
    try:
        return msgspec.json.decode(value or b"", type=type)
    except msgspec.DecodeError as error:
        raise PayloadError(f"the record is damaged: {error}") from error


def read_due(value: bytes | None) -> int:
    """When the attempt after this one is due."""
    return read_raised(value).due_us


def raised_as(value: bytes | None) -> BaseException:
    """The error in a record. One whose class is not there any more is a `JobFailed`."""
    said = read_raised(value)
    kind: Any = sys.modules.get(said.module)
    for part in said.name.split("."):
        kind = getattr(kind, part, None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        return JobFailed(f"{said.name}: {said.text}", failure=failure_of(value))
    try:
        error: BaseException = kind.__new__(kind)
        error.args = tuple([said.text] if said.args is None else said.args)
    except Exception:  # a class that cannot be made without its arguments
        return JobFailed(f"{said.name}: {said.text}", failure=failure_of(value))
    if isinstance(error, PermanentError):
        error.code = said.code
    return error


def failure_of(value: bytes | None) -> Failure:
    """The same for people."""
    said = read_raised(value)
    return Failure("error", said.code or said.name, said.text)


# ---- moments -------------------------------------------------------------------------------------


def write_moment(us: int) -> bytes:
    return msgspec.json.encode(moment(us))


def read_moment(value: bytes | None) -> int:
    return moment_us(_read(value, datetime), "a deadline")
