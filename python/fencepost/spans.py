"""
Time, where it enters and leaves: seconds, timedeltas and datetimes against int microseconds.

Exact both ways. A float is read as the binary fraction that it is and rounded once, to the nearest
microsecond; integers, timedeltas and datetimes never become a float.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone
from typing import Final

from fencepost._checks import shown
from fencepost.errors import InvalidArgument
from fencepost.values import Span

__all__ = ["gap_us", "lease_us", "moment", "moment_us", "seconds", "shown_moment", "span_us"]

SECOND: Final = 1_000_000
SPAN_MAX: Final = 3_155_760_000 * SECOND  # a hundred years, as in csrc/base.h
MOMENT_MAX: Final = 2**53 - 1  # the year 2255, as in csrc/base.h
EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
MICROSECOND: Final = timedelta(microseconds=1)


def span_us(value: Span, name: str) -> int:
    """
    The span called `name` in microseconds.

    `InvalidArgument`: negative, not a number, or longer than a hundred years.
    """
    if isinstance(value, timedelta):
        us = value // MICROSECOND
    elif isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidArgument(f"{name} is seconds or a timedelta, not {type(value).__name__}")
    elif isinstance(value, int):
        us = value * SECOND
    elif math.isfinite(value):
        top, bottom = value.as_integer_ratio()
        us = (2 * top * SECOND + bottom) // (2 * bottom)
    else:
        raise InvalidArgument(f"{name} is {value}, which is no length of time")
    # A float too small to matter may round to 0 from below: its sign is asked, not the result's.
    if us < 0 or (isinstance(value, float) and value < 0):
        raise InvalidArgument(f"{name} is negative: {shown(value)}")
    if us > SPAN_MAX:
        raise InvalidArgument(f"{name} is longer than a hundred years: {shown(value)}")
    return us


def lease_us(value: Span) -> int:
    """A lease in microseconds. `InvalidArgument` as above, and for one that ends as it begins."""
    us = span_us(value, "lease")
    if us == 0:
        raise InvalidArgument("lease is 0: it would be over at once")
    return us


def gap_us(rate: object) -> int:
    """Between two of so many a second. `InvalidArgument` for fewer than one in a hundred years."""
    if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not rate > 0:
        raise InvalidArgument(f"rate is so many a second, not {shown(rate)}")
    if rate * SPAN_MAX < SECOND:
        raise InvalidArgument(f"rate is fewer than one in a hundred years: {shown(rate)}")
    return round(SECOND / rate)


def seconds(us: int) -> float:
    """A span for people, in seconds."""
    return us / SECOND


def moment_us(value: datetime, name: str) -> int:
    """
    The moment called `name` in microseconds since 1970 UTC.

    `InvalidArgument`: without a zone, before 1970 or after 2255.
    """
    if not isinstance(value, datetime):
        raise InvalidArgument(f"{name} is a datetime with a zone, not {type(value).__name__}")
    if value.utcoffset() is None:
        raise InvalidArgument(
            f"{name} has no zone: {value.isoformat()}; say which, e.g. tzinfo=timezone.utc"
        )
    us = (value - EPOCH) // MICROSECOND
    if not 0 <= us <= MOMENT_MAX:
        raise InvalidArgument(f"{name} is outside 1970..2255: {value.isoformat()}")
    return us


def moment(us: int) -> datetime:
    """The moment in UTC."""
    return EPOCH + timedelta(microseconds=us)


def shown_moment(us: int) -> datetime:
    """The nearest there is: where the file is damaged, one row must not hide the others."""
    return moment(min(max(0, us), MOMENT_MAX))
