"""Find the calendar of a policy."""

from __future__ import annotations

from workflows.engine.policy.policies import BusinessHours, Policy
from workflows.models import BusinessCalendar


def with_business_hours(policy: Policy) -> Policy:
    """Return the policy with a copy of its calendar, as an execution stores it."""
    return policy.model_copy(update={"business_hours": business_hours(policy.calendar)})


def business_hours(name: str | None) -> BusinessHours | None:
    """Return the calendar `name`, or the default one for None; None counts around the clock."""
    calendars = BusinessCalendar.objects.all()
    rows = calendars.filter(is_default=True) if name is None else calendars.filter(name=name)
    calendar = rows.first()
    return None if calendar is None else calendar.hours()


def calendar_names() -> list[str]:
    """Return the names of all calendars, sorted."""
    return list(BusinessCalendar.objects.values_list("name", flat=True))
