"""Security events of second factors, from the signals that allauth sends when people change them.

A factor that an admin deletes is a logged change, as every other deletion in the admin.
"""

from __future__ import annotations

from typing import Any

from allauth.mfa.models import Authenticator
from allauth.mfa.signals import authenticator_added, authenticator_removed, authenticator_reset

from workflows.models import SecurityEvent
from workflows.security_events.services import record_security_event


def connect() -> None:
    authenticator_added.connect(_added, dispatch_uid="factor_events.added")
    authenticator_reset.connect(_added, dispatch_uid="factor_events.reset")
    authenticator_removed.connect(_removed, dispatch_uid="factor_events.removed")


def _added(*, user: Any, authenticator: Authenticator, **_: Any) -> None:
    _record(SecurityEvent.Kind.FACTOR_ADDED, user, authenticator)


def _removed(*, user: Any, authenticator: Authenticator, **_: Any) -> None:
    _record(SecurityEvent.Kind.FACTOR_REMOVED, user, authenticator)


def _record(kind: SecurityEvent.Kind, user: Any, authenticator: Authenticator) -> None:
    record_security_event(
        kind=kind,
        actor=user,
        subject=f"user:{authenticator.user_id}",
        details={"factor": authenticator.type},
    )
