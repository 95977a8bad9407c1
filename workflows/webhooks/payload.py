"""What is sent: the event as it travels everywhere, with the ids of its message and endpoint."""

from __future__ import annotations

import json
from typing import Any

from workflows.engine.events import public_payload
from workflows.models import ExecutionEvent, Hold, TaskAttempt, WebhookDelivery, WebhookEndpoint
from workflows.realtime.event_serialization import wire_event

PING = "ping"
#: A body with task data beyond this goes without the data, and says so.
MAX_BYTES = 262_144


def message_id(event: ExecutionEvent) -> str:
    """The same for every endpoint and every try."""
    return f"evt_{event.execution_id}_{event.seq}"


def delivery_body(delivery: WebhookDelivery) -> bytes:
    """The body of a delivery, the same at each try."""
    endpoint = delivery.endpoint
    content = _content(delivery, endpoint)
    if endpoint.include_data and delivery.event is not None:
        whole = _encoded({**content, "data": task_data(delivery.event)})
        if len(whole) <= MAX_BYTES:
            return whole
        content["dataTruncated"] = True
    return _encoded(content)


def _content(delivery: WebhookDelivery, endpoint: WebhookEndpoint) -> dict[str, Any]:
    ids = {"id": delivery.message_id, "endpointId": str(endpoint.pk)}
    event = delivery.event
    if event is None:
        made = int(delivery.created_at.timestamp() * 1000)
        return {**ids, "type": PING, "timestamp": made}
    workflow = event.execution.workflow
    return {
        **ids,
        **wire_event(event, delivery.type),
        "workflow": workflow.name if workflow else None,
    }


def task_data(event: ExecutionEvent) -> dict[str, Any]:
    """What the event is about: its stored payload, a task's inputs and output, a hold's payload."""
    data: dict[str, Any] = {"event": public_payload(event.payload)}
    if event.kind in ("task_succeeded", "task_errored"):
        found = TaskAttempt.objects.filter(
            execution_id=event.execution_id,
            task_id=event.payload["task_id"],
            attempt=event.payload["attempt"],
        ).first()
        if found is not None:
            data |= {"inputs": found.inputs, "output": found.output, "error": found.error}
    elif event.kind in ("hold_opened", "hold_decided"):
        hold = Hold.objects.filter(pk=event.payload["hold_id"]).first()
        if hold is not None:
            data |= {"shown": hold.payload, "why": hold.why, "instructions": hold.instructions}
    return data


def _encoded(content: dict[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
