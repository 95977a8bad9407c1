"""Serialize recorded events for sockets, server-sent events and webhooks, in camelCase."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from workflows.common.redaction import redact_text
from workflows.engine.protocol.decision_history import reviewer_of
from workflows.models import Checkpoint, ExecutionEvent

#: Stored kind → wire type.  The type of hold_opened and hold_decided depends on the payload.
_TYPES = {
    "execution_started": "workflow_start",
    "execution_forked": "workflow_forked",
    "layer_started": "layer_start",
    "task_submitted": "task_submitted",
    "task_succeeded": "task_complete",
    "task_errored": "task_error",
    "task_escalated": "task_escalated",
    "speculation_hit": "speculation_hit",
    "speculation_miss": "speculation_miss",
    "capability_permission_updated": "capability.permission.updated",
    "task_resubmitted": "task_resubmitted",
    "result_reported": "result_reported",
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

#: Wire types of hold_opened and hold_decided; see _type.
_HOLD_TYPES = {
    "hold_opened": ("workflow_paused", "decision_required"),
    "hold_decided": ("workflow_resumed", "hold_decided"),
}
#: All wire types.
WIRE_TYPES = tuple(
    sorted({*_TYPES.values(), *_HOLD_TYPES["hold_opened"], *_HOLD_TYPES["hold_decided"]})
)

#: Payload keys that are sent, with their wire names: ids, codes and numbers, no task data.
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
    "runner": "runner",
    "duration_ms": "durationMs",
    "layer": "layer",
    "total_layers": "totalLayers",
    "total_tasks": "totalTasks",
    "tasks": "tasks",
    "failed": "failed",
    "ok": "ok",
    "mismatch": "mismatch",
    "revision": "revision",
    "cause": "cause",
    "rule": "rule",
    "rules_version": "rulesVersion",
    "added": "added",
    "removed": "removed",
    "changed": "changed",
    "agent": "agent",
    "on_timeout": "onTimeout",
    "summary": "summary",
    "seconds": "seconds",
    "step": "step",
    "groups": "groups",
    "undo_seconds": "undoSeconds",
    "what": "what",
    "role": "role",
    "command": "command",
    "parent": "parent",
}
#: Public keys whose value may be free text of a person or an agent.
_FREE_TEXT: Final = frozenset({"reason"})
_FINAL = {"execution_completed": "COMPLETED", "execution_failed": "FAILED"}
#: Decider of a hold → its code in wire events.
_DECISION_TYPES: Final = {"human": "HIL", "agent": "AIL"}
#: Action after a failure.  Other kinds have it in their payload as `default` or `on_timeout`.
_ACTIONS: Final = {"replan_failed": "keep_plan", "graph_update_failed": "skip_learning"}
#: Length at which errors, comments and reasons are cut.
_MAX_TEXT: Final = 500


class SharedEvent(dict[str, Any]):
    """A wire event for many connections, which encode it once: not to be changed."""

    @cached_property
    def text(self) -> str:
        """The message of a socket."""
        return json.dumps(self, ensure_ascii=False)

    @cached_property
    def sse(self) -> bytes:
        """The server-sent event."""
        return server_sent_event(self)


def server_sent_event(event: Mapping[str, Any]) -> bytes:
    """Return the wire event as a server-sent event."""
    data = json.dumps(event, separators=(",", ":"))
    # Without an id the client keeps the previous id and resumes from there.
    id_line = f"id: {event['seq']}\n" if "seq" in event else ""
    return f"{id_line}event: {event['type']}\ndata: {data}\n\n".encode()


def wire_events(execution_id: int, *, after: int, limit: int = 500) -> list[dict[str, Any]]:
    """Return the wire events of up to `limit` journal entries with seq > `after`, oldest first.

    A hold for people yields two events: `decision_required` without a `seq`, then
    `workflow_paused`, so the last event of the list always has a `seq`.
    """
    newer = ExecutionEvent.objects.filter(execution_id=execution_id, seq__gt=after)
    rows = list(newer.order_by("seq")[:limit])
    checkpoints = _checkpoints(rows)
    return [event for row in rows for event in _events(row, checkpoints)]


def wire_event(row: ExecutionEvent, type_: str = "") -> dict[str, Any]:
    """Return the wire event of a journal entry, with its first type (`types_of`) or `type_`."""
    event = _event(row, _checkpoints([row]))
    return {**event, "type": type_ or event["type"]}


def types_of(row: ExecutionEvent) -> tuple[str, ...]:
    """Return all wire types of a journal entry."""
    main = _type(row.kind, row.payload)
    return (main, "decision_required") if main == "workflow_paused" else (main,)


def _events(row: ExecutionEvent, checkpoints: Mapping[int, int]) -> Iterable[dict[str, Any]]:
    event = _event(row, checkpoints)
    if event["type"] == "workflow_paused":
        companion = {**event, "type": "decision_required"}
        del companion["seq"]
        yield companion
    yield event


def _event(row: ExecutionEvent, checkpoints: Mapping[int, int]) -> dict[str, Any]:
    """Return the wire event; `timestamp` is in ms since the epoch."""
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
            event[name] = _shortened(value) if key in _FREE_TEXT else value
    event |= _derived_fields(row, checkpoints)
    if row.actor:
        event["actor"] = row.actor
    if row.kind in _FINAL:
        event["status"] = _FINAL[row.kind]
    return event


def _derived_fields(row: ExecutionEvent, checkpoints: Mapping[int, int]) -> dict[str, Any]:
    """Return the fields that are not copied from the payload."""
    payload = row.payload
    match row.kind:
        case "hold_opened":
            return {"decisionType": _DECISION_TYPES[payload["decider"]]}
        case "hold_answered" | "hold_decided":
            reviewer = reviewer_of(row.kind, payload, row.by)
            return {"comment": _shortened(payload["comment"]), "reviewer": reviewer}
        case "result_reported":
            return {"error": _shortened(payload["error"])}
        case "hold_expired":
            return {"actionTaken": payload["on_timeout"]}
        case "agent_failed":
            action = payload.get("default", "continue")
            return {"error": _shortened(payload["error"]), "actionTaken": action}
        case "replan_failed" | "graph_update_failed":
            return {"error": _shortened(payload["error"]), "actionTaken": _ACTIONS[row.kind]}
        case "task_errored" if payload.get("retry_at") is not None:
            return {"retryAt": int(payload["retry_at"] * 1000)}
        case "layer_closed":
            checkpoint = checkpoints.get(row.pk)
            return {"checkpointId": str(checkpoint) if checkpoint is not None else None}
    if _TYPES.get(row.kind) == "state_updated":
        return {"contextKeys": sorted(payload.get("updates", ()))}
    return {}


def _shortened(text: str) -> str:
    """Redact secrets in an error, comment or reason, and cut it."""
    return redact_text(text[: 2 * _MAX_TEXT])[:_MAX_TEXT]


def _checkpoints(rows: Sequence[ExecutionEvent]) -> dict[int, int]:
    """Map the primary key of each entry that closed a layer to that of its checkpoint, if any."""
    closed = {(row.execution_id, row.seq): row.pk for row in rows if row.kind == "layer_closed"}
    if not closed:
        return {}
    rows_of_checkpoints = Checkpoint.objects.filter(
        execution_id__in={execution for execution, _ in closed},
        version__in={seq for _, seq in closed},
    ).values_list("execution_id", "version", "pk")
    return {closed[at, seq]: pk for at, seq, pk in rows_of_checkpoints if (at, seq) in closed}


def kinds_of(types: Collection[str]) -> frozenset[str]:
    """Return the stored kinds that may have one of these wire types."""
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
