"""
When recurring work is due: cron expressions in a zone, and intervals.

A rule answers with moments in microseconds since 1970 UTC, each strictly after the one it is asked
from, and of which nothing is remembered.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final, NamedTuple, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fencepost._checks import shown
from fencepost.errors import InvalidArgument
from fencepost.jobs import Job
from fencepost.spans import SECOND, moment, moment_us, seconds, span_us
from fencepost.values import Span

__all__ = ["Cron", "Interval", "Rule", "Schedule", "cron", "every", "following", "latest"]

INTERVAL_MIN_US: Final = SECOND // 10
LOOK_BACK_US: Final = 60 * SECOND  # the first stretch in which `latest` looks
MISSED: Final = ("latest", "all", "skip")  # as the file numbers them


class Rule(Protocol):
    """`words` and `zone` are how the file shows it."""

    words: str
    zone: str

    def after(self, us: int) -> int | None:
        """The first moment after that one; None: there is none any more."""


class Cron:
    """
    A cron expression of five fields, read in a zone as Debian's cron reads it.

    Where neither the minute nor the hour begins with a star, it means times of a local day: each
    fires once a day, in an hour that is missing at the first minute behind it, in an hour that
    comes twice the first time. Otherwise it follows real time: hourly is once in each real hour.
    """

    def __init__(self, expression: str, zone: ZoneInfo) -> None:
        self.words = expression
        self.zone = zone.key
        self._zone = zone

    def after(self, us: int) -> int | None:
        from cronsim import CronSim  # whoever has no schedules need not wait for it

        for found in CronSim(self.words, moment(us).astimezone(self._zone)):
            found_us = moment_us(found, "a moment of the schedule")
            if found_us > us:  # else the second pass of an hour, whose first one it was for
                return found_us
        return None


class Interval:
    """Each so often, counted from its last moment, so that it does not drift."""

    zone = "UTC"

    def __init__(self, us: int) -> None:
        self.words = f"every {seconds(us):g} s"
        self._us = us

    def after(self, us: int) -> int | None:
        return us + self._us

    def latest(self, after_us: int, upto_us: int) -> int | None:
        count = (upto_us - after_us) // self._us
        return after_us + count * self._us if count > 0 else None


def latest(rule: Rule, after_us: int, upto_us: int) -> int | None:
    """The last moment after the one and not after the other, without going through all of them."""
    if isinstance(rule, Interval):
        return rule.latest(after_us, upto_us)
    back = LOOK_BACK_US
    while True:
        start = max(after_us, upto_us - back)
        found, following = None, rule.after(start)
        while following is not None and following <= upto_us:
            found, following = following, rule.after(following)
        if found is not None or start == after_us:
            return found
        back *= 2


class Schedule(NamedTuple):
    """One job by one rule. Its name in the file changes with the rule, which then begins anew."""

    job: Job[[], Any]
    rule: Rule
    missed: str

    @property
    def name(self) -> str:
        return f"{self.job.name} {self.rule.words} {self.rule.zone}"


def cron(expression: object, tz: object, missed: object) -> Rule:
    """`InvalidArgument` for what is no expression, no zone, or no way to treat missed moments."""
    if missed not in MISSED:
        raise InvalidArgument(f"missed is {', '.join(map(repr, MISSED))}, not {shown(missed)}")
    if not isinstance(tz, str):
        raise InvalidArgument(f'tz is the name of a zone, as "Europe/Paris", not {shown(tz)}')
    if not isinstance(expression, str) or len(expression.split()) != 5:
        raise InvalidArgument(
            "a cron expression has five fields (minute, hour, day, month, weekday), and"
            f" {shown(expression)} has not"
        )
    from cronsim import CronSim, CronSimError

    try:
        zone = ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidArgument(f"there is no time zone {shown(tz)}") from None
    words = " ".join(expression.split())
    try:
        CronSim(words, moment(0).astimezone(zone))
        rule = Cron(words, zone)
        never = rule.after(0) is None
    except CronSimError as error:
        raise InvalidArgument(f"cron expression {shown(expression)}: {error}") from None
    if never:
        raise InvalidArgument(f"cron expression {shown(expression)} is never due")
    return rule


def every(interval: Span) -> Rule:
    """`InvalidArgument` for less than a tenth of a second."""
    us = span_us(interval, "interval")
    if us < INTERVAL_MIN_US:
        least = timedelta(microseconds=INTERVAL_MIN_US).total_seconds()
        raise InvalidArgument(f"interval is at least {least:g} s, not {seconds(us):g}")
    return Interval(us)


def following(words: str, zone: str, last_us: int, now_us: int) -> int | None:
    """When a schedule that the file tells so is due next; None: by no rule that is known here."""
    try:
        if words.startswith("every "):
            rule = every(float(words.removeprefix("every ").removesuffix(" s")))
        else:
            rule = cron(words, zone, "latest")
    except (InvalidArgument, ValueError):
        return None
    return rule.after(latest(rule, last_us, now_us) or last_us)
