"""Recorded events as they travel: camelCase, over sockets, SSE and JSON pages alike."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from .models import ExecutionEvent

#: Stored kind → wire type.  hold_opened and hold_decided depend on what they carry; see _type.
_TYPES = {
    "execution_started": "workflow_start",
    "execution_forked": "workflow_forked",
    "layer_started": "layer_start",
    "task_succeeded": "task_complete",
    "task_errored": "task_error",
    "task_escalated": "task_escalated",
    "speculation_hit": "speculation_hit",
    "speculation_miss": "speculation_miss",
    "capability_permission_updated": "capability.permission.updated",
    "review_spared": "review_spared",
    "hold_expired": "hil_timeout",
    "hold_extended": "hold_extended",
    "hold_escalated": "hold_escalated",
    "hold_voted": "hold_voted",
    "hold_answered": "hold_answered",
    "hold_withdrawn": "hold_withdrawn",
    "layer_closed": "checkpoint",
    "layer_skip_requested": "state_updated",
    "layer_skipped": "layer_skipped",
    "agent_decided": "agent_decided",
    "agent_failed": "ail_failed",
    "agent_requested": "state_updated",
    "plan_revised": "state_updated",
    "plan_proposed": "plan_proposed",
    "replan_failed": "replan_failed",
    "graph_update_failed": "graphrag_update_failed",
    "context_updated": "state_updated",
    "message_added": "message_added",
    "command_refused": "command_refused",
    "execution_completed": "workflow_complete",
    "execution_failed": "workflow_complete",
    "execution_aborted": "workflow_aborted",
}

#: What hold_opened and hold_decided become, see _type.
_HOLD_TYPES = {
    "hold_opened": ("workflow_paused", "decision_required"),
    "hold_decided": ("workflow_resumed", "hold_decided"),
}
#: Every type there is.
WIRE_TYPES = tuple(
    sorted({*_TYPES.values(), *_HOLD_TYPES["hold_opened"], *_HOLD_TYPES["hold_decided"]})
)

#: Payload keys that may leave over a socket: ids, words and numbers, no task data.
_PUBLIC = {
    "task_id": "nodeId",
    "phase": "triggerPhase",
    "hold_id": "holdId",
    "reason": "reason",
    "decider": "decider",
    "decision": "decision",
    "edited": "edited",
    "grant_scope": "grantScope",
    "capability": "capability",
    "attempt": "attempt",
    "duration_ms": "durationMs",
    "retry_at": "retryAt",
    "layer": "layer",
    "total_layers": "totalLayers",
    "total_tasks": "totalTasks",
    "tasks": "tasks",
    "failed": "failed",
    "revision": "revision",
    "cause": "cause",
    "rule": "rule",
    "rules_version": "rulesVersion",
    "added": "added",
    "removed": "removed",
    "changed": "changed",
    "agent": "agent",
    "on_timeout": "onTimeout",
    "seconds": "seconds",
    "step": "step",
    "groups": "groups",
    "undo_seconds": "undoSeconds",
    "what": "what",
    "role": "role",
    "command": "command",
    "parent": "parent",
}
_FINAL = {"execution_completed": "COMPLETED", "execution_failed": "FAILED"}


def wire_events(execution_id: int, *, after: int, limit: int = 500) -> list[dict[str, Any]]:
    """Events with seq > `after`, oldest first, at most `limit`, as wire objects."""
    rows = ExecutionEvent.objects.filter(execution_id=execution_id, seq__gt=after)
    return [wire_event(row) for row in rows.order_by("seq")[:limit]]


def wire_event(row: ExecutionEvent) -> dict[str, Any]:
    """One event; `timestamp` in ms since the epoch, `version` = `seq`, its place in the journal."""
    payload = row.payload
    event: dict[str, Any] = {
        "type": _type(row.kind, payload),
        "executionId": str(row.execution_id),
        "timestamp": int(row.created_at.timestamp() * 1000),
        "seq": row.seq,
        "version": row.seq,
    }
    for key, name in _PUBLIC.items():
        value = payload.get(key)
        if value is not None:
            event[name] = value
    if row.actor:
        event["actor"] = row.actor
    if row.kind in _FINAL:
        event["status"] = _FINAL[row.kind]
    return event


def kinds_of(types: Collection[str]) -> frozenset[str]:
    """The stored kinds that may become one of these wire types."""
    plain = {kind for kind, name in _TYPES.items() if name in types}
    return frozenset(
        plain | {k for k, names in _HOLD_TYPES.items() if not set(names).isdisjoint(types)}
    )


def _type(kind: str, payload: dict[str, Any]) -> str:
    if kind == "hold_opened":
        return _HOLD_TYPES[kind][payload["decider"] != "human"]
    if kind == "hold_decided":
        return _HOLD_TYPES[kind][not payload["resumed"]]
    return _TYPES[kind]
