"""Denied attempts to decide a review, recorded for auditors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import QuerySet

from reviews.decisions.rights import NotAllowed
from reviews.models import Decision, DeniedAttempt
from workflows.engine.values.reasons import reason_fields
from workflows.executions.access import filter_visible
from workflows.models import Hold, SecurityEvent
from workflows.security_events.services import record_security_event

if TYPE_CHECKING:
    from django.contrib.auth.models import User


@contextmanager
def denied_attempts_recorded(hold_id: str, user: User, wanted: str, source: str) -> Iterator[None]:
    """Record a NotAllowed raised in the block, after its transaction has been rolled back."""
    try:
        yield
    except NotAllowed as denied:
        hold = Hold.objects.filter(pk=hold_id).first()
        # An inactive user is not recorded, nor is a value that is not a decision.
        if hold is not None and wanted in Decision.values and denied.code != "inactive":
            _record(hold, user, wanted, source, denied)
        raise


def _record(hold: Hold, user: User, wanted: str, source: str, denied: NotAllowed) -> None:
    with transaction.atomic():
        DeniedAttempt.objects.create(
            execution_id=hold.execution_id,
            hold=hold,
            user_id=user.pk,
            actor=user.get_username(),
            source=source,
            wanted=wanted,
            code=denied.code,
            **reason_fields("reason", denied.reason),
        )
        record_security_event(
            kind=SecurityEvent.Kind.DENIED,
            actor=user,
            subject=f"hold:{hold.pk}",
            details={
                "execution": hold.execution_id,
                "wanted": wanted,
                "code": denied.code,
                "source": source,
            },
        )


def denied_attempts(user: User) -> QuerySet[DeniedAttempt]:
    """Return the denied attempts on executions visible to the user, newest first."""
    rows = filter_visible(DeniedAttempt.objects.all(), user)
    return rows.select_related("execution", "hold").order_by("-id")
