"""What is asked of plain arguments before they are laid out."""

from __future__ import annotations

from fencepost.errors import InvalidArgument

__all__ = ["name_bytes", "whole"]


def name_bytes(name: object, what: str) -> bytes:
    """A name, key or lane as UTF-8. `InvalidArgument` if it is not text."""
    if not isinstance(name, str):
        raise InvalidArgument(f"{what} is text, not {type(name).__name__}")
    try:
        return name.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"{what} cannot be written as UTF-8: {error}") from None


def whole(number: object, what: str, low: int, high: int) -> int:
    """A whole number between the two, both included. `InvalidArgument` if it is none."""
    if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= high:
        raise InvalidArgument(f"{what} is a whole number from {low} to {high}, not {number!r}")
    return number
