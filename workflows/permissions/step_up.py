"""Step-up: whether the user of a session recently confirmed with a second factor.

`HOLDPOINT_STEP_UP` says which approvals need it; `reviews.decisions.services` checks it.  Without
the setting, django-allauth is not loaded.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django.apps import apps
from django.http import HttpRequest
from django.utils import timezone

from workflows import conf

#: The scope that lets a token make decisions that a person confirms with a code.
SCOPE = "decide_high_risk"
#: The name under which allauth records second factors in the session.
_METHOD = "mfa"


def confirmed_at(request: HttpRequest) -> datetime | None:
    """Return when the session's user last entered a code; None if never, or without step-up."""
    if not apps.is_installed("allauth.mfa") or not request.user.is_authenticated:
        return None
    from allauth.account.authentication import get_authentication_records

    records = get_authentication_records(request, request.user)
    times = [float(each["at"]) for each in records if each.get("method") == _METHOD]
    return datetime.fromtimestamp(max(times), UTC) if times else None


def is_recent(at: datetime | None) -> bool:
    """Whether a confirmation at this time is still valid."""
    if at is None:
        return False
    age = timezone.now() - at
    return timedelta(0) <= age < timedelta(seconds=conf.step_up_seconds())
