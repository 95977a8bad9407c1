"""Count business time: pure functions over a calendar.

Business time is measured in elapsed seconds between opening and closing, so a day on which the
clocks change has an hour more or less if the change is within its hours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo

import holidays

from workflows.engine.policy.policies import BusinessHours

#: No deadline lies further ahead, whatever the calendar.
MAX_DAYS: Final = 3660


def due(hours: BusinessHours, start: datetime, seconds: float) -> datetime:
    """Return the earliest moment at which `seconds` of business time have passed since `start`.

    The result is at most MAX_DAYS ahead.
    """
    if seconds <= 0:
        return start
    left = timedelta(seconds=seconds)
    for opens, closes in _intervals(hours, start):
        if left <= closes - opens:
            return opens + left
        left -= closes - opens
    return start + timedelta(days=MAX_DAYS)


def elapsed(hours: BusinessHours, start: datetime, end: datetime) -> float:
    """Return the seconds of business time from `start` to `end`, the inverse of `due`."""
    total = timedelta()
    for opens, closes in _intervals(hours, start):
        if opens >= end:
            break
        total += min(closes, end) - opens
    return total.total_seconds()


def is_open(hours: BusinessHours, moment: datetime) -> bool:
    """Whether `moment` is within business hours."""
    first = next(_intervals(hours, moment), None)
    return first is not None and first[0] == moment


def in_clock_time(hours: BusinessHours, start: datetime, hold: Mapping[str, Any]) -> dict[str, Any]:
    """Return the deadline, reminders and escalation of a hold in clock time.

    All three are seconds after the opening, which is `start`, before and afterwards.
    """

    def clock(seconds: float) -> float:
        return round((due(hours, start, seconds) - start).total_seconds(), 3)

    found: dict[str, Any] = {}
    if hold.get("timeout_seconds") is not None:
        found["timeout_seconds"] = clock(hold["timeout_seconds"])
    if hold.get("reminders"):
        found["reminders"] = [clock(each) for each in hold["reminders"]]
    if hold.get("escalation"):
        found["escalation"] = [
            {**step, "after_seconds": clock(step["after_seconds"])} for step in hold["escalation"]
        ]
    return found


def holiday_name(hours: BusinessHours, day: date) -> str:
    """Return the name of a public holiday of the calendar's country; "" on other days."""
    if not hours.country:
        return ""
    return str(_holidays(hours.country, hours.subdivision).get(day) or "")


def _intervals(hours: BusinessHours, start: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Yield opening and closing times from `start` on, in UTC; the first may begin at `start`."""
    zone = ZoneInfo(hours.time_zone)
    start = start.astimezone(UTC)
    # A day earlier: an interval that ends at midnight may still be open.
    first = start.astimezone(zone).date() - timedelta(days=1)
    reached = start
    for number in range(MAX_DAYS):
        day = first + timedelta(days=number)
        for begins, ends in _hours_of(hours, day):
            # Hours that overlap because clocks were set back count once.
            opens = max(_moment(day, begins, zone), reached)
            closes = _moment(day, ends, zone)
            if closes > opens:
                yield opens, closes
                reached = closes


def _hours_of(hours: BusinessHours, day: date) -> tuple[tuple[str, str], ...]:
    special = hours.exceptions.get(day.isoformat())
    if special is not None:
        return special
    return () if holiday_name(hours, day) else hours.week[day.weekday()]


def _moment(day: date, text: str, zone: ZoneInfo) -> datetime:
    """Return a local time of a day in UTC; 24:00 is the beginning of the next day."""
    if text == "24:00":
        day, text = day + timedelta(days=1), "00:00"
    return datetime.combine(day, time.fromisoformat(text), zone).astimezone(UTC)


# Key: country and part of it; never invalidated, because the library's data do not change; 32 sets.
@lru_cache(maxsize=32)
def _holidays(country: str, subdivision: str) -> holidays.HolidayBase:
    return holidays.country_holidays(country, subdiv=subdivision or None, language="en_US")
