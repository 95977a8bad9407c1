"""Security events of OAuth clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oauth2_provider.models import AbstractApplication

from workflows.models import SecurityEvent
from workflows.security_events.services import record_security_event

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def record_registered(client: AbstractApplication, by: User | str = "") -> None:
    """Record a new client; `by` is "" for one that registered itself."""
    _record(SecurityEvent.Kind.CLIENT_REGISTERED, client, by)


def record_deleted(client: AbstractApplication, by: User | str = "") -> None:
    """Record a client that was deleted; `by` is "" for the client itself."""
    _record(SecurityEvent.Kind.CLIENT_DELETED, client, by)


def _record(kind: SecurityEvent.Kind, client: AbstractApplication, by: User | str) -> None:
    record_security_event(
        kind=kind,
        actor=by,
        subject=f"oauth_client:{client.client_id}",
        details={"name": client.name, "source": client.registration_source},
    )
