"""Find the calendar of a policy."""

from __future__ import annotations

from functools import cache

from workflows.engine.policy import BusinessHours, Policy
from workflows.journal.prepared_statements import BuiltQuery, column_names, instance_of
from workflows.models import BusinessCalendar

#: Where a name goes in a `BuiltQuery`.
_PLACE = "the name"


def with_business_hours(policy: Policy) -> Policy:
    """Return the policy with a copy of its calendar, as an execution stores it."""
    return policy.model_copy(update={"business_hours": business_hours(policy.calendar)})


def business_hours(name: str | None) -> BusinessHours | None:
    """Return the calendar `name`, or the default one for None; None counts around the clock."""
    rows = _default_query().rows({}) if name is None else _named_query().rows({_PLACE: name})
    if not rows:
        return None
    return instance_of(BusinessCalendar, column_names(BusinessCalendar), rows[0]).hours()


# One per process, never invalidated: the SQL depends only on the model.
@cache
def _default_query() -> BuiltQuery:
    rows = BusinessCalendar.objects.filter(is_default=True).order_by()
    return BuiltQuery.of(rows.values_list(*column_names(BusinessCalendar)))


# One per process, never invalidated: the SQL depends only on the model.
@cache
def _named_query() -> BuiltQuery:
    """Return the query of the calendar with the name `_PLACE`."""
    rows = BusinessCalendar.objects.filter(name=_PLACE).order_by()
    return BuiltQuery.of(rows.values_list(*column_names(BusinessCalendar)))


def calendar_names() -> list[str]:
    """Return the names of all calendars, sorted."""
    return list(BusinessCalendar.objects.values_list("name", flat=True))
