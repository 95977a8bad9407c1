"""Find the calendar of a policy."""

from __future__ import annotations

from workflows.engine.policy import BusinessHours, Policy
from workflows.models import BusinessCalendar


def with_business_hours(policy: Policy) -> Policy:
    """Return the policy with a copy of its calendar, as an execution stores it."""
    return policy.model_copy(update={"business_hours": business_hours(policy.calendar)})


def business_hours(name: str | None) -> BusinessHours | None:
    """Return the calendar `name`, or the default one for None; None counts around the clock."""
    rows = BusinessCalendar.objects.filter(is_default=True)
    if name is not None:
        rows = BusinessCalendar.objects.filter(name=name)
    row = rows.first()
    return row.hours() if row else None


def calendar_names() -> list[str]:
    """Return the names of all calendars, sorted."""
    return list(BusinessCalendar.objects.values_list("name", flat=True))
