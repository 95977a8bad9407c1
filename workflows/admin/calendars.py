"""Admin of business calendars, with a preview of deadlines."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo, available_timezones

import holidays
from django import forms
from django.contrib import admin
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy
from pydantic import ValidationError as Invalid

from workflows.calendars.business_time import due, holiday_name
from workflows.engine.policy.policies import BusinessHours
from workflows.models import BusinessCalendar

DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_INTERVAL: Final = re.compile(r"(\d\d:\d\d)\s*-\s*(\d\d:\d\d)")
#: Hours of the deadlines in the preview.
_PREVIEWED: Final = (4, 8, 24)


def _countries() -> dict[str, list[str]]:
    """Return the parts with holidays of their own of each country."""
    return holidays.list_supported_countries(include_aliases=False)


def _hours_field() -> forms.CharField:
    return forms.CharField(
        required=False, max_length=100, help_text="Such as 09:00-12:00, 13:00-17:00; empty: closed."
    )


class CalendarForm(forms.ModelForm[BusinessCalendar]):
    """A calendar; hours are written as text."""

    exceptions = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 6}),
        help_text="One day per line: 2026-12-24 is closed, 2026-12-05 09:00-13:00 is open then.",
    )
    time_zone = forms.ChoiceField(
        choices=[(each, each) for each in sorted(available_timezones())], initial="UTC"
    )
    country = forms.ChoiceField(
        required=False,
        choices=lambda: [
            ("", "no public holidays"),
            *((each,) * 2 for each in sorted(_countries())),
        ],
        help_text="Public holidays of this country (ISO 3166) are closed.",
    )

    monday = _hours_field()
    tuesday = _hours_field()
    wednesday = _hours_field()
    thursday = _hours_field()
    friday = _hours_field()
    saturday = _hours_field()
    sunday = _hours_field()

    class Meta:
        model = BusinessCalendar
        fields = ("name", "time_zone", "country", "subdivision", "is_default")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        week = self.instance.week or [[["09:00", "17:00"]]] * 5 + [[], []]
        for number, name in enumerate(DAYS):
            self.fields[name.lower()].initial = _written(week[number])
        days = sorted(self.instance.exceptions.items())
        self.initial["exceptions"] = "\n".join(
            f"{day} {_written(hours)}".strip() for day, hours in days
        )

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        country, part = values.get("country", ""), values.get("subdivision", "")
        if part and part not in _countries().get(country, ()):
            self.add_error("subdivision", "This country has no such subdivision.")
        week = [self._hours(name.lower(), values.get(name.lower(), "")) for name in DAYS]
        self.instance.week = week
        # The admin makes a form in which it is a field of the model.
        values["exceptions"] = dict(self._exceptions(values.get("exceptions", "")))
        self.instance.exceptions = values["exceptions"]
        return values

    def _hours(self, field: str, text: str) -> list[list[str]]:
        parts = [each.strip() for each in text.split(",") if each.strip()]
        found = [_INTERVAL.fullmatch(each) for each in parts]
        if not all(found):
            self.add_error(field, f"Write hours as 09:00-17:00, not as {text!r}.")
        return [list(each.groups()) for each in found if each]

    def _exceptions(self, text: str) -> list[tuple[str, list[list[str]]]]:
        days = []
        for line in filter(None, map(str.strip, text.splitlines())):
            day, _, hours = line.partition(" ")
            try:
                written = datetime.strptime(day, "%Y-%m-%d").date().isoformat()  # noqa: DTZ007 - a day
            except ValueError:
                self.add_error("exceptions", f"Begin a line with a date such as 2026-12-24: {line}")
                continue
            days.append((written, self._hours("exceptions", hours)))
        return days


def _written(hours: Any) -> str:
    return ", ".join(f"{begin}-{end}" for begin, end in hours)


@admin.register(BusinessCalendar)
class BusinessCalendarAdmin(admin.ModelAdmin[BusinessCalendar]):
    """Calendars in whose hours deadlines count."""

    empty_text = gettext_lazy(
        "A calendar says in which hours deadlines count: add one, and choose it in a "
        "workflow or as the default."
    )
    form = CalendarForm
    list_display = ("name", "time_zone", "country", "subdivision", "is_default")
    search_fields = ("name",)
    readonly_fields = ("preview",)
    fields = (
        "name", "time_zone", *(name.lower() for name in DAYS), "country", "subdivision",
        "exceptions", "is_default", "preview",
    )  # fmt: skip

    @admin.display(description="preview")
    def preview(self, calendar: BusinessCalendar) -> SafeString | str:
        """When deadlines that begin next Friday afternoon end, and the next public holidays."""
        try:
            hours = calendar.hours()
        except Invalid:
            return "Shown once the calendar is saved."
        lines = [*deadline_lines(hours), *holiday_lines(hours)]
        rows = format_html_join("", "<li>{}</li>", ((each,) for each in lines))
        return format_html("<ul>{}</ul>", rows)


def deadline_lines(hours: BusinessHours) -> list[str]:
    """Return `A deadline of 4 h that begins on Friday 4 Dec 16:00 ends on …`."""
    zone = ZoneInfo(hours.time_zone)
    today = timezone.now().astimezone(zone).date()
    friday = today + timedelta(days=(4 - today.weekday()) % 7)
    start = datetime.combine(friday, time(16), zone)
    return [
        f"A deadline of {each} h that begins on {_shown(start)} ends on "
        f"{_shown(due(hours, start, each * 3600).astimezone(zone))}."
        for each in _PREVIEWED
    ]


def holiday_lines(hours: BusinessHours) -> list[str]:
    """Return the public holidays of the next 120 days."""
    today = timezone.now().astimezone(ZoneInfo(hours.time_zone)).date()
    days = [today + timedelta(days=number) for number in range(120)]
    return [
        f"{each:%A} {each:%Y-%m-%d}: {name}" for each in days if (name := holiday_name(hours, each))
    ]


def _shown(moment: datetime) -> str:
    return f"{moment:%A} {moment:%Y-%m-%d %H:%M}"
