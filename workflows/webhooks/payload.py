"""The request body: the event as on every channel, with the ids of message and endpoint."""

from __future__ import annotations

import json
from typing import Any

from workflows.approvals.selectors import decided_status, with_status
from workflows.engine.protocol.events import public_payload
from workflows.models import (
    Approval,
    ExecutionEvent,
    Hold,
    TaskAttempt,
    WebhookDelivery,
    WebhookEndpoint,
)
from workflows.realtime.event_serialization import wire_event

PING = "ping"
_ENDS = frozenset({"execution_completed", "execution_failed", "execution_aborted"})
#: A larger body is sent without the task data and with `dataTruncated`.
MAX_BYTES = 262_144


def message_id(event: ExecutionEvent) -> str:
    """Return the id of the message, equal for all endpoints and all attempts."""
    return f"evt_{event.execution_id}_{event.seq}"


def delivery_body(delivery: WebhookDelivery) -> bytes:
    """Return the body of a delivery; it is the same for each attempt."""
    endpoint = delivery.endpoint
    content = _content(delivery, endpoint)
    if endpoint.include_data and delivery.event is not None:
        body = _encoded({**content, "data": task_data(delivery.event)})
        if len(body) <= MAX_BYTES:
            return body
        content["dataTruncated"] = True
    return _encoded(content)


def _content(delivery: WebhookDelivery, endpoint: WebhookEndpoint) -> dict[str, Any]:
    ids = {"id": delivery.message_id, "endpointId": str(endpoint.pk)}
    event = delivery.event
    if event is None:
        created_ms = int(delivery.created_at.timestamp() * 1000)
        return {**ids, "type": PING, "timestamp": created_ms}
    workflow = event.execution.workflow
    return {
        **ids,
        **wire_event(event, delivery.type),
        "workflow": workflow.name if workflow else None,
        **_callback(event, endpoint),
    }


def _callback(event: ExecutionEvent, endpoint: WebhookEndpoint) -> dict[str, Any]:
    """Return the members about the approval whose request named the endpoint as its callback."""
    if event.kind not in _ENDS:
        return {}
    rows = Approval.objects.filter(execution_id=event.execution_id, callback_url=endpoint.url)
    approval = with_status(rows).first()
    if approval is None:
        return {}
    return {"approval": {"id": str(approval.pk), "status": decided_status(approval)}}


def task_data(event: ExecutionEvent) -> dict[str, Any]:
    """Return the data of an event: its payload, a task's inputs and output, or a hold's payload."""
    data: dict[str, Any] = {"event": public_payload(event.payload)}
    if event.kind in ("task_succeeded", "task_errored"):
        attempt = TaskAttempt.objects.filter(
            execution_id=event.execution_id,
            task_id=event.payload["task_id"],
            attempt=event.payload["attempt"],
        ).first()
        if attempt is not None:
            data |= {
                "inputs": attempt.inputs,
                "output": attempt.output,
                "error": attempt.error,
            }
    elif event.kind in ("hold_opened", "hold_decided"):
        hold = Hold.objects.filter(pk=event.payload["hold_id"]).first()
        if hold is not None:
            data |= {"shown": hold.payload, "why": hold.why, "instructions": hold.instructions}
    return data


def _encoded(content: dict[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
