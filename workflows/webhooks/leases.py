"""Claim endpoints for a sender, and read the next message of each lane."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from django.db import connection, transaction
from django.db.models import Q
from django.db.models.functions import Now

from workflows import conf
from workflows.common.secret_encryption import DecryptionFailed, decrypt
from workflows.engine.values.reasons import Reason
from workflows.executions.access import visible_to
from workflows.models import WebhookDelivery, WebhookEndpoint

from .attempts import Message
from .payload import delivery_body
from .retries import parked, withhold
from .services import standing, visibility_user

#: The oldest pending delivery of each lane; every test message has its own lane.
_NEXT_IN_LANES = """
SELECT id FROM (
    SELECT DISTINCT ON (coalesce(execution_id, -id)) id, next_at
      FROM workflows_webhookdelivery
     WHERE endpoint_id = %s AND status = 'PENDING'
       AND NOT (coalesce(execution_id, -id) = ANY(%s::bigint[]))
     ORDER BY coalesce(execution_id, -id), event_id) AS head
 WHERE next_at <= now()
 ORDER BY id
 LIMIT %s
"""
NOT_VISIBLE = "the owner may no longer see this run"


def claim_endpoints(sender: str) -> list[WebhookEndpoint]:
    """Renew the sender's claims and claim the free endpoints; return the endpoints it holds.

    A claim lasts `webhook_lease_seconds`. Endpoints locked by another transaction are skipped.
    """
    free = Q(lease_until=None) | Q(lease_until__lt=Now()) | Q(lease_owner=sender)
    with transaction.atomic():
        rows = WebhookEndpoint.objects.filter(free, enabled=True, parked_at=None)
        ids = list(
            rows.select_for_update(skip_locked=True).order_by("pk").values_list("pk", flat=True)
        )
        WebhookEndpoint.objects.filter(pk__in=ids).update(
            lease_owner=sender,
            lease_until=Now() + timedelta(seconds=conf.webhook_lease_seconds()),
        )
    return held_endpoints(sender, ids)


def held_endpoints(sender: str, ids: Collection[int]) -> list[WebhookEndpoint]:
    """Read the endpoints of `ids` again that `sender` still holds and that are not blocked."""
    rows = WebhookEndpoint.objects.select_related("owner", "token__user").filter(
        pk__in=ids, lease_owner=sender, lease_until__gt=Now(), enabled=True, parked_at=None
    )
    return [row for row in rows.order_by("pk") if not standing(row)]


def release_endpoints(sender: str) -> None:
    """Give up all claims of `sender`, so that other senders can claim the endpoints at once."""
    WebhookEndpoint.objects.filter(lease_owner=sender).update(lease_owner="", lease_until=None)


def in_backoff(endpoints: Collection[WebhookEndpoint]) -> set[int]:
    """Return the ids of the endpoints whose `retry_at`, in the database's time, is to come."""
    ids = [each.pk for each in endpoints if each.retry_at is not None]
    if not ids:
        return set()
    rows = WebhookEndpoint.objects.filter(pk__in=ids, retry_at__gt=Now())
    return set(rows.values_list("pk", flat=True))


def has_pending(ids: Collection[int]) -> bool:
    """Whether one of these endpoints has a delivery that is due now or later."""
    pending = WebhookDelivery.objects.filter(
        endpoint__in=ids, status=WebhookDelivery.Status.PENDING
    )
    return bool(ids) and pending.exists()


def next_messages(endpoint: WebhookEndpoint, *, busy: Collection[int], limit: int) -> list[Message]:
    """Return the next due message of each lane that is not `busy`, at most `limit` messages.

    A delivery about an execution that the owner may no longer see is withheld and never sent.
    """
    with connection.cursor() as cursor:
        cursor.execute(_NEXT_IN_LANES, [endpoint.pk, list(busy), limit])
        ids = [row[0] for row in cursor.fetchall()]
    if not ids:
        return []
    rows = list(
        WebhookDelivery.objects.filter(pk__in=ids)
        .select_related("event__execution__workflow")
        .order_by("pk")
    )
    executions = [row.execution_id for row in rows if row.execution_id is not None]
    visible = set(
        visible_to(visibility_user(endpoint)).filter(pk__in=executions).values_list("pk", flat=True)
    )
    secrets = _secrets(endpoint)
    return [
        _message(endpoint, row, secrets) for row in rows if _is_sendable(row, visible) and secrets
    ]


def _is_sendable(row: WebhookDelivery, visible: Collection[int]) -> bool:
    if row.execution_id is None or row.execution_id in visible:
        return True
    withhold(row, NOT_VISIBLE)
    return False


def _secrets(endpoint: WebhookEndpoint) -> tuple[str, ...]:
    """Return the current signing secrets; park the endpoint if they cannot be decrypted."""
    rows = WebhookEndpoint.objects.filter(pk=endpoint.pk)
    has_previous = rows.filter(previous_until__gt=Now()).exists()
    encrypted = (endpoint.secret, endpoint.previous_secret) if has_previous else (endpoint.secret,)
    try:
        return tuple(decrypt(each) for each in encrypted)
    except DecryptionFailed as error:
        rows.update(**parked(Reason("secret_unreadable", {"error": str(error)})))
        return ()


def _message(endpoint: WebhookEndpoint, row: WebhookDelivery, secrets: tuple[str, ...]) -> Message:
    row.endpoint = endpoint
    return Message(
        delivery_id=row.pk,
        endpoint_id=endpoint.pk,
        lane=row.execution_id if row.execution_id is not None else -row.pk,
        url=endpoint.url,
        message_id=row.message_id,
        type=row.type,
        attempt=row.attempts + 1,
        body=delivery_body(row),
        secrets=secrets,
    )
