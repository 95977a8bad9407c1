"""Create deliveries from the event log; each endpoint has its own cursor."""

from __future__ import annotations

from django.db import transaction

from workflows.executions.access import visible_to
from workflows.models import ExecutionEvent, WebhookDelivery, WebhookEndpoint
from workflows.realtime.event_serialization import kinds_of, types_of

from .payload import message_id
from .services import visibility_user

#: Events read at a time, and the number of pending deliveries above which no more are read.
BATCH = 500
BACKLOG = 500


def create_deliveries(endpoint: WebhookEndpoint, *, horizon: int, sender: str) -> int:
    """Create deliveries for the events after the endpoint's cursor; return how many.

    The cursor advances in the same transaction, and only while `sender` holds the endpoint. Events
    of executions that the owner may not see are skipped; each attempt checks this again.
    """
    if endpoint.cursor >= horizon or _pending_count(endpoint) >= BACKLOG:
        return 0
    rows = _events(endpoint, horizon)
    cursor = rows[-1].pk if len(rows) == BATCH else horizon
    deliveries = [_delivery(endpoint, row, kind) for row, kind in _typed_events(endpoint, rows)]
    with transaction.atomic():
        moved = WebhookEndpoint.objects.filter(
            pk=endpoint.pk, lease_owner=sender, cursor=endpoint.cursor
        ).update(cursor=cursor)
        if not moved:
            return 0
        WebhookDelivery.objects.bulk_create(deliveries, ignore_conflicts=True)
    endpoint.cursor = cursor
    return len(deliveries)


def _pending_count(endpoint: WebhookEndpoint) -> int:
    rows = WebhookDelivery.objects.filter(endpoint=endpoint, status=WebhookDelivery.Status.PENDING)
    return rows[:BACKLOG].count()


def _events(endpoint: WebhookEndpoint, horizon: int) -> list[ExecutionEvent]:
    rows = ExecutionEvent.objects.filter(pk__gt=endpoint.cursor, pk__lte=horizon)
    if endpoint.events:
        rows = rows.filter(kind__in=kinds_of(endpoint.events))
    return list(rows.order_by("pk")[:BATCH])


def _typed_events(
    endpoint: WebhookEndpoint, rows: list[ExecutionEvent]
) -> list[tuple[ExecutionEvent, str]]:
    executions = {row.execution_id for row in rows}
    visible = set(
        visible_to(visibility_user(endpoint)).filter(pk__in=executions).values_list("pk", flat=True)
    )
    visible_rows = (row for row in rows if row.execution_id in visible)
    typed = [(row, _type_for(endpoint, types_of(row))) for row in visible_rows]
    return [(row, name) for row, name in typed if name]


def _type_for(endpoint: WebhookEndpoint, types: tuple[str, ...]) -> str:
    """Return the wire type under which the endpoint gets an event; "" if it gets none.

    An event with several wire types is sent once per endpoint.
    """
    if not endpoint.events:
        return types[0]
    return next((each for each in types if each in endpoint.events), "")


def _delivery(endpoint: WebhookEndpoint, row: ExecutionEvent, kind: str) -> WebhookDelivery:
    return WebhookDelivery(
        endpoint=endpoint,
        event=row,
        execution_id=row.execution_id,
        message_id=message_id(row),
        type=kind,
    )
