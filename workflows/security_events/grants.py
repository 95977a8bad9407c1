"""Security events of grants, for the journal that writes grants and the service that ends them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from workflows.models import Grant, SecurityEvent

from .services import record_security_event

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def record_granted(hold_ids: Collection[str]) -> None:
    """Record the grants that the decisions of these holds gave."""
    for grant in Grant.objects.filter(hold__in=hold_ids).order_by("pk"):
        record_security_event(
            kind=SecurityEvent.Kind.GRANTED,
            actor=grant.granted_by,
            actor_id=grant.granted_by_id,
            subject=f"grant:{grant.pk}",
            details=_details(grant),
        )


def record_revoked(grant: Grant, by: User) -> None:
    """Record that a person ended a grant."""
    record_security_event(
        kind=SecurityEvent.Kind.GRANT_REVOKED,
        actor=by,
        subject=f"grant:{grant.pk}",
        details=_details(grant),
    )


def _details(grant: Grant) -> dict[str, object]:
    return {
        "execution": grant.execution_id,
        "hold": grant.hold_id,
        "scope": grant.scope,
        "operation": grant.operation,
        "resource": grant.resource,
        "expires_at": grant.expires_at.isoformat() if grant.expires_at else None,
    }
