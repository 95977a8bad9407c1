"""Calendars of business hours."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from pydantic import ValidationError as Invalid

from workflows.engine.policy.policies import BusinessHours


class BusinessCalendar(models.Model):
    """Business hours by weekday, a country's holidays, and days that differ.

    A run keeps a copy of its calendar, so that a change applies to later runs only.
    """

    name = models.CharField(max_length=100, unique=True)
    time_zone = models.CharField(max_length=64, default="UTC")
    # Monday to Sunday, each a list of [opening, closing] as "HH:MM".
    week = models.JSONField(default=list)
    country = models.CharField(max_length=2, blank=True, default="")
    subdivision = models.CharField(max_length=10, blank=True, default="")
    # Date ("YYYY-MM-DD") → hours of that day, in place of the weekday's; [] is closed.
    exceptions = models.JSONField(default=dict, blank=True)
    is_default = models.BooleanField(
        default=False, help_text="Applies to policies that choose no calendar."
    )

    class Meta:
        ordering = ("name",)
        constraints = [
            models.UniqueConstraint(
                fields=["is_default"], condition=Q(is_default=True), name="one_default_calendar"
            ),
        ]
        verbose_name = "business calendar"

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        try:
            self.hours()
        except Invalid as invalid:
            problems: dict[str, list[str]] = {}
            for each in invalid.errors(include_url=False, include_context=False):
                # Forms have other fields for the hours.
                is_zone = each["loc"] == ("time_zone",)
                problems.setdefault("time_zone" if is_zone else "__all__", []).append(each["msg"])
            raise ValidationError(problems) from None

    def hours(self) -> BusinessHours:
        """Return the calendar as a policy copies it; raises pydantic.ValidationError."""
        fields: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("name", "time_zone", "week", "country", "subdivision", "exceptions")
        }
        return BusinessHours.model_validate(fields)
