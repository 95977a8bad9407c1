"""Alerts that a limit on failed sign-ins or unknown tokens was reached."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from workflows.models import SecurityEvent, SignInAlert
from workflows.security_events.services import record_security_event


def create_alert(
    *,
    kind: SignInAlert.Kind,
    address: str,
    failures: int,
    locked_until: datetime,
    account: str = "",
) -> None:
    """Store an alert, which the sweeper mails to admins, and record it as a security event."""
    with transaction.atomic():
        alert = SignInAlert.objects.create(
            kind=kind,
            account=account,
            address=address,
            failures=failures,
            locked_until=locked_until,
        )
        record_security_event(
            kind=SecurityEvent.Kind.SIGN_IN_LOCKED,
            actor=account,
            subject=f"sign_in_alert:{alert.pk}",
            address=address,
            details={
                "limit": kind,
                "failures": failures,
                "locked_until": locked_until.isoformat(),
            },
        )
