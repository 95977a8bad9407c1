"""Record security events.

docs/security/events.md describes each kind and its fields, and how to ship the lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import structlog
from django.contrib.admin.models import ADDITION, CHANGE, DELETION, LogEntry
from django.db import transaction
from django.db.models import Model
from django.utils import timezone

from workflows import conf
from workflows.common.redaction import mask_secrets
from workflows.common.stored_text import storable
from workflows.models import SecurityEvent

if TYPE_CHECKING:
    from django.contrib.auth.models import User

logger = structlog.get_logger(__name__)

_ACTIONS: Final = {ADDITION: "added", CHANGE: "changed", DELETION: "deleted"}
_DELETE_BATCH: Final = 5000


def record_security_event(
    *,
    kind: SecurityEvent.Kind,
    actor: User | str = "",
    actor_id: int | None = None,
    subject: str = "",
    address: str = "",
    details: Mapping[str, Any] | None = None,
) -> SecurityEvent:
    """Store an event in the caller's transaction, and log a line when that commits.

    `actor` is a user, or a name with the id of its account, if it has one; `subject` is `type:id`.
    Secrets in texts are masked, in the row and the line.

    Args:
        details: JSON; the keys of each kind are documented.
    """
    if isinstance(actor, str):
        name = actor
    else:
        name, actor_id = actor.get_username(), actor.pk
    event = SecurityEvent.objects.create(
        kind=kind,
        actor=storable(mask_secrets(name), 255),
        actor_id=actor_id,
        subject=storable(mask_secrets(subject), 255),
        address=address,
        details=_masked(dict(details or {})),
    )
    transaction.on_commit(partial(_log_line, event))
    return event


def _log_line(event: SecurityEvent) -> None:
    logger.info(
        "security_event",
        id=event.pk,
        kind=event.kind,
        at=event.at.isoformat(),
        actor=event.actor,
        actor_id=event.actor_id,
        subject=event.subject,
        address=event.address,
        details=event.details,
    )


def _masked(value: Any) -> Any:
    """Return a copy of JSON without secrets in its texts, as PostgreSQL can store it."""
    if isinstance(value, str):
        masked = mask_secrets(value)
        return storable(masked, len(masked))
    if isinstance(value, (list, tuple)):
        return [_masked(item) for item in value]
    if isinstance(value, dict):
        return {key: _masked(item) for key, item in value.items()}
    return value


def log_change(
    *, actor: User, row: Model, flag: int, message: str | list[dict[str, Any]] = ""
) -> None:
    """Add an entry to the admin's history of a row, and record it as a security event.

    `flag` is ADDITION, CHANGE or DELETION of django.contrib.admin.models; `message` is a text, or
    the list that Django makes of changed fields.  Call it before a row is deleted.
    """
    with transaction.atomic():
        rows = type(row)._default_manager.filter(pk=row.pk)
        LogEntry.objects.log_actions(
            actor.pk, rows, flag, change_message=message, single_object=True
        )
        record_change(actor=actor, row=row, flag=flag, message=message)


def record_change(*, actor: User, row: Model, flag: int, message: Any = "") -> None:
    """Record a change that the admin's history has already."""
    record_security_event(
        kind=SecurityEvent.Kind.CHANGED,
        actor=actor,
        subject=f"{row._meta.label_lower}:{row.pk}",
        details={"action": _ACTIONS[flag], "change": message},
    )


def delete_old() -> int:
    """Delete events after `security_event_keep_days`; return how many.  Called by the sweeper."""
    end = timezone.now() - timedelta(days=conf.security_event_keep_days())
    old = SecurityEvent.objects.filter(at__lt=end).order_by("id").values_list("pk", flat=True)
    ids = list(old[:_DELETE_BATCH])
    return SecurityEvent.objects.filter(pk__in=ids).delete()[0] if ids else 0
