"""Business time: properties over calendars, and days on which clocks change."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from workflows.calendars.business_time import (
    MAX_DAYS,
    due,
    elapsed,
    holiday_name,
    in_clock_time,
    is_open,
)
from workflows.engine.policy.policies import BusinessHours

OFFICE: list[Any] = [*[[["09:00", "17:00"]]] * 5, [], []]
HOUR = 3600


def calendar(**fields: Any) -> BusinessHours:
    return BusinessHours.model_validate(
        {"name": "c", "time_zone": "Europe/Berlin", "week": OFFICE, **fields}
    )


def berlin(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo("Europe/Berlin"))


#: Name, calendar, start, hours of business time, end.
CASES: list[tuple[str, dict[str, Any], str, float, str]] = [
    ("the same day", {}, "2026-11-23T10:00", 4, "2026-11-23T14:00"),
    ("over a weekend", {}, "2026-11-27T16:00", 4, "2026-11-30T12:00"),
    ("exactly until closing", {}, "2026-11-27T13:00", 4, "2026-11-27T17:00"),
    ("begins at night", {}, "2026-11-23T03:00", 1, "2026-11-23T10:00"),
    ("begins on Sunday", {}, "2026-11-29T12:00", 8, "2026-11-30T17:00"),
    ("a public holiday", {"country": "DE"}, "2026-12-24T16:00", 2, "2026-12-28T10:00"),
    ("a holiday of a part of a country", {"country": "DE", "subdivision": "BY"},
     "2026-01-05T16:00", 2, "2026-01-07T10:00"),
    ("no holiday elsewhere", {"country": "DE", "subdivision": "BE"},
     "2026-01-05T16:00", 2, "2026-01-06T10:00"),
    ("a day off", {"exceptions": {"2026-11-24": []}}, "2026-11-23T16:00", 2, "2026-11-25T10:00"),
    ("a working Saturday", {"exceptions": {"2026-11-28": [["10:00", "12:00"]]}},
     "2026-11-27T16:00", 2, "2026-11-28T11:00"),
    ("open on a holiday", {"country": "DE", "exceptions": {"2026-12-25": [["09:00", "10:00"]]}},
     "2026-12-24T16:00", 2, "2026-12-25T10:00"),
    ("a lunch break", {"week": [[["09:00", "12:00"], ["13:00", "17:00"]]] * 7},
     "2026-11-23T11:30", 1, "2026-11-23T13:30"),
    # Clocks go forward at 02:00 and back at 03:00.
    ("a short night", {"week": [[["00:00", "24:00"]]] * 7}, "2026-03-28T23:00", 4,
     "2026-03-29T04:00"),
    ("a long night", {"week": [[["00:00", "24:00"]]] * 7}, "2026-10-24T23:00", 5,
     "2026-10-25T03:00"),
    ("hours within the change", {"week": [[["01:00", "05:00"]]] * 7}, "2026-03-29T00:00", 3,
     "2026-03-29T05:00"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "start", "hours", "end"), [each[1:] for each in CASES],
                         ids=[each[0] for each in CASES])  # fmt: skip
def test_when_deadlines_end(fields: dict[str, Any], start: str, hours: float, end: str) -> None:
    found = due(calendar(**fields), berlin(start), hours * HOUR)
    assert found.astimezone(ZoneInfo("Europe/Berlin")).replace(tzinfo=None).isoformat()[:16] == end
    assert elapsed(calendar(**fields), berlin(start), found) == pytest.approx(hours * HOUR)


minutes = st.integers(0, 24 * 60)


@st.composite
def intervals(draw: st.DrawFn) -> list[list[str]]:
    points = sorted(draw(st.sets(minutes, max_size=6)))
    texts = [f"{point // 60:02}:{point % 60:02}" for point in points]
    return [list(pair) for pair in zip(texts[::2], texts[1::2], strict=False)]


@st.composite
def calendars(draw: st.DrawFn) -> BusinessHours:
    week = draw(st.lists(intervals(), min_size=7, max_size=7).filter(any))
    days = st.dates(date(2026, 1, 1), date(2026, 12, 31)).map(date.isoformat)
    return calendar(
        week=week,
        time_zone=draw(
            st.sampled_from(
                ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"]
            )
        ),
        country=draw(st.sampled_from(["", "DE", "US", "IN"])),
        exceptions=draw(st.dictionaries(days, intervals(), max_size=3)),
    )


moments = st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001
durations = st.integers(0, 5 * 24 * HOUR)
FAR = timedelta(days=MAX_DAYS - 2)


@settings(max_examples=100, deadline=None)
@given(hours=calendars(), start=moments, seconds=durations)
def test_elapsed_is_the_inverse_of_due(hours: BusinessHours, start: datetime, seconds: int) -> None:
    end = due(hours, start, seconds)
    assert end >= start
    if end - start < FAR:
        assert elapsed(hours, start, end) == pytest.approx(seconds)
    # Business time never passes faster than time.
    assert end - start >= timedelta(seconds=seconds)


@settings(max_examples=100, deadline=None)
@given(hours=calendars(), start=moments, first=durations, second=durations)
def test_a_longer_deadline_ends_later(
    hours: BusinessHours, start: datetime, first: int, second: int
) -> None:
    first, second = sorted((first, second))
    assert due(hours, start, first) <= due(hours, start, second)
    # Parts add up.
    middle = due(hours, start, first)
    if due(hours, start, second) - start < FAR:
        assert due(hours, middle, second - first) == due(hours, start, second) or first == second


@settings(max_examples=100, deadline=None)
@given(hours=calendars(), start=moments, later=st.integers(0, 10 * 24 * HOUR), seconds=durations)
def test_a_later_start_ends_no_earlier(
    hours: BusinessHours, start: datetime, later: int, seconds: int
) -> None:
    assert due(hours, start, seconds) <= due(hours, start + timedelta(seconds=later), seconds)


@settings(max_examples=50, deadline=None)
@given(hours=calendars(), start=moments, seconds=st.integers(1, 24 * HOUR))
def test_a_deadline_ends_within_business_hours(
    hours: BusinessHours, start: datetime, seconds: int
) -> None:
    end = due(hours, start, seconds)
    if end - start < FAR:
        assert is_open(hours, end - timedelta(microseconds=1))


def test_all_times_of_a_hold_are_converted() -> None:
    start = berlin("2026-11-27T16:00")
    hold = {
        "timeout_seconds": 4 * HOUR,
        "reminders": [HOUR / 2, 2 * HOUR],
        "escalation": [{"after_seconds": 3 * HOUR, "groups": ["legal"], "tell": []}],
        "quorum": 2,
    }
    weekend = 64 * HOUR
    assert in_clock_time(calendar(), start, hold) == {
        "timeout_seconds": 4 * HOUR + weekend,
        "reminders": [HOUR / 2, 2 * HOUR + weekend],
        "escalation": [{"after_seconds": 3 * HOUR + weekend, "groups": ["legal"], "tell": []}],
    }
    assert in_clock_time(calendar(), start, {"timeout_seconds": None}) == {}


def test_a_deadline_has_an_end() -> None:
    rare = calendar(week=[[["00:00", "00:01"]], *[[]] * 6])
    start = berlin("2026-11-23T10:00")
    assert due(rare, start, 365 * 24 * HOUR) == start + timedelta(days=MAX_DAYS)


def test_holidays_have_names() -> None:
    assert holiday_name(calendar(country="DE"), date(2026, 4, 3)) == "Good Friday"
    assert holiday_name(calendar(country="DE"), date(2026, 4, 2)) == ""
    assert holiday_name(calendar(), date(2026, 4, 3)) == ""


@pytest.mark.parametrize(
    "fields",
    [
        {"week": [[]] * 7},
        {"week": OFFICE[:6]},
        {"week": [[["17:00", "09:00"]], *OFFICE[1:]]},
        {"week": [[["09:00", "12:00"], ["11:00", "13:00"]], *OFFICE[1:]]},
        {"week": [[["9:00", "12:00"]], *OFFICE[1:]]},
        {"week": [[["09:00", "24:30"]], *OFFICE[1:]]},
        {"time_zone": "Mars/Phobos"},
        {"time_zone": "../../etc/passwd"},
        {"exceptions": {"tomorrow": []}},
        {"more": 1},
    ],
)
def test_calendars_that_cannot_be(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        calendar(**fields)
