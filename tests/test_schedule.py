"""When recurring work is due: expressions in a zone, intervals, and the days when clocks change."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from fencepost._worker.schedule import cron, every, latest
from fencepost.spans import moment, moment_us

SECOND = 1_000_000


def us(text: str) -> int:
    return moment_us(datetime.fromisoformat(text), "a moment")


def moments(expression: str, first: str, last: str, tz: str = "Europe/Berlin") -> list[str]:
    """All moments of the expression between two local ones, as their zone shows them."""
    zone = ZoneInfo(tz)
    rule = cron(expression, tz, "latest")
    at = moment_us(datetime.fromisoformat(first).replace(tzinfo=zone), "first")
    end = moment_us(datetime.fromisoformat(last).replace(tzinfo=zone), "last")
    found = []
    while (following := rule.after(at)) is not None and following <= end:
        assert following > at
        at = following
        found.append(moment(at).astimezone(zone).isoformat()[:22])
    return found


# ---- H6: when clocks change ----------------------------------------------------------------------


def test_h6_daily_over_a_missing_hour_fires_once_each_day() -> None:
    """On 29 March 2026 02:00 is followed by 03:00: half past two is then the first minute after."""
    assert moments("30 2 * * *", "2026-03-28T00:00", "2026-03-31T00:00") == [
        "2026-03-28T02:30:00+01",
        "2026-03-29T03:00:00+02",
        "2026-03-30T02:30:00+02",
    ]
    assert len(moments("15,30,45 2 * * *", "2026-03-29T00:00", "2026-03-30T00:00")) == 1


def test_h6_daily_over_a_doubled_hour_fires_once_each_day() -> None:
    """On 25 October 2026 it is half past two twice: the first one counts."""
    assert moments("30 2 * * *", "2026-10-24T00:00", "2026-10-27T00:00") == [
        "2026-10-24T02:30:00+02",
        "2026-10-25T02:30:00+02",
        "2026-10-26T02:30:00+01",
    ]
    between = us("2026-10-25T02:15:00+01:00")
    following = cron("30 2 * * *", "Europe/Berlin", "latest").after(between)
    assert following == us("2026-10-26T02:30:00+01:00"), "asked from within the second pass"


@pytest.mark.parametrize(
    ("first", "last", "hours"),
    [("2026-03-29T00:00", "2026-03-30T00:00", 23), ("2026-10-25T00:00", "2026-10-26T00:00", 25)],
)
def test_h6_hourly_fires_once_in_each_real_hour(first: str, last: str, hours: int) -> None:
    found = [datetime.fromisoformat(f"{text}:00") for text in moments("0 * * * *", first, last)]
    assert len(found) == hours
    assert found == [found[0] + n * timedelta(hours=1) for n in range(hours)]


@pytest.mark.parametrize("tz", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"])
@pytest.mark.parametrize("hour", range(4))
def test_h6_a_time_of_day_is_once_a_day_all_year(tz: str, hour: int) -> None:
    found = moments(f"30 {hour} * * *", "2026-01-01T00:00", "2027-01-01T00:00", tz)
    assert len(found) == len({text[:10] for text in found}) == 365


def test_the_last_moment_is_found_without_going_through_all_of_them() -> None:
    rule = cron("* 3 * * *", "Europe/Berlin", "latest")
    start, now = us("2020-01-01T00:00:00+01:00"), us("2026-05-01T12:00:00+02:00")
    assert latest(rule, start, now) == us("2026-05-01T03:59:00+02:00")
    assert latest(rule, now - 1, now) is None
    tick = every(10)
    assert latest(tick, 0, 95 * SECOND) == 90 * SECOND
    assert latest(tick, 0, 9 * SECOND) is None
