"""What is asked of plain arguments before they are laid out."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeVar

from fencepost.errors import InvalidArgument

__all__ = ["flag", "function", "identity", "is_coroutine", "name_bytes", "one_by_one", "path_bytes"]
__all__ += ["several", "short", "shown", "whole"]

T = TypeVar("T")

ID_MAX: Final = 2**63 - 1
SHOWN: Final = 80  # characters of a value in a message


def shown(value: object) -> str:
    """The value as a message shows it: not all of a long one, and no error of its own."""
    try:
        text = repr(value)
    except Exception:
        text = f"a {type(value).__name__}"
    return short(text)


def short(text: str) -> str:
    """As much of it as a message has room for."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def name_bytes(name: object, what: str) -> bytes:
    """A name, key or lane as UTF-8. `InvalidArgument` if it is not text."""
    if not isinstance(name, str):
        raise InvalidArgument(f"{what} is text, not {type(name).__name__}")
    try:
        return name.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"{what} cannot be written as UTF-8: {error}") from None


def path_bytes(path: object) -> bytes:
    """A path as the system has it. `InvalidArgument` for what is none."""
    try:
        encoded = os.fsencode(path)  # type: ignore[arg-type]
    except (TypeError, UnicodeEncodeError) as error:
        raise InvalidArgument(f"{shown(path)} is no path: {error}") from None
    if b"\0" in encoded:
        raise InvalidArgument("the path has a NUL in it")
    return encoded


def whole(number: object, what: str, low: int, high: int) -> int:
    """A whole number between the two, both included. `InvalidArgument` if it is none."""
    if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= high:
        raise InvalidArgument(f"{what} is a whole number from {low} to {high}, not {shown(number)}")
    return number


def identity(number: object) -> int:
    """A message's id. `InvalidArgument` for what cannot be one; there need be none of it."""
    return whole(number, "a message's id", -ID_MAX, ID_MAX)


def flag(value: object, what: str) -> bool:
    """True or False. `InvalidArgument` for anything else, which may mean either."""
    if not isinstance(value, bool):
        raise InvalidArgument(f"{what} is True or False, not {shown(value)}")
    return value


def one_by_one(values: Iterable[T], what: str) -> Iterator[T]:
    """Each of them. `InvalidArgument` if there are no several; what it raises is its own."""
    try:
        return iter(values)
    except TypeError:
        raise InvalidArgument(f"{what} are several, not {shown(values)}") from None


def several(values: Iterable[T], what: str, kind: type[Any] = object) -> list[T]:
    """All of them. `InvalidArgument` if there are no several, or one is of another kind."""
    found = list(one_by_one(values, what))
    for value in found if kind is not object else ():
        if not isinstance(value, kind):
            raise InvalidArgument(f"{what} are of type {kind.__name__}, not {shown(value)}")
    return found


def function(value: object, what: str) -> None:
    """`InvalidArgument` unless it can be called."""
    if not callable(value):
        raise InvalidArgument(f"{what} is a function, not {shown(value)}")


def is_coroutine(fn: object) -> bool:
    """Whether what it returns is to be awaited; also of an object that is called as a function."""
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(
        getattr(type(fn), "__call__", None)  # noqa: B004 - asked what it is, not whether it is
    )
