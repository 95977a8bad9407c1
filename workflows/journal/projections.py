"""Projections of recorded events: the rows that the journal's SQL writes in one step."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import singledispatch
from typing import Any

from workflows.engine.policy.policies import TriggerPhase
from workflows.engine.protocol import events as ev
from workflows.engine.protocol.actors import Actor
from workflows.engine.protocol.state import ExecutionState, HoldReason, SkipReason, dump_state
from workflows.engine.protocol.status import TaskStatus
from workflows.engine.values.reasons import Reason, reason_fields

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Recorded:
    """An event with its actor, its source, and the state right after it."""

    event: ev.Event
    state: ExecutionState
    actor: Actor
    source: str


@dataclass(slots=True)
class Rows:
    """Rows of one step; each list belongs to one part of the SQL statement."""

    events: list[Row] = field(default_factory=list)
    attempts: list[Row] = field(default_factory=list)
    attempt_updates: list[Row] = field(default_factory=list)
    holds: list[Row] = field(default_factory=list)
    hold_updates: list[Row] = field(default_factory=list)
    checkpoints: list[Row] = field(default_factory=list)
    revisions: list[Row] = field(default_factory=list)
    receipts: list[Row] = field(default_factory=list)
    shapers: list[Row] = field(default_factory=list)
    context: dict[str, Any] | None = None
    error: str | None = None
    error_code: str | None = None
    error_params: dict[str, Any] | None = None


def rows_of(recorded: list[Recorded], context: dict[str, Any]) -> Rows:
    """Return the rows of one step; `context` is the execution's context after it."""
    rows = Rows()
    for item in recorded:
        rows.events.append(
            {
                "seq": item.state.version,
                "kind": item.event.kind,
                "payload": ev.dump_event(item.event),
                "actor": item.actor.name,
                "actor_id": item.actor.id,
                "source": item.source,
            }
        )
        _project(item.event, item, rows, context)
    return rows


@singledispatch
def _project(event: object, item: Recorded, rows: Rows, context: dict[str, Any]) -> None:
    """Write nothing: most events have only their own row."""


def _attempt(item: Recorded, task_id: str, attempt: int, status: TaskStatus, **more: Any) -> Row:
    row: Row = {
        "task_id": task_id,
        "attempt": attempt,
        "layer": item.state.layer,
        "revision": item.state.revision,
        "status": status.value,
        "skip_reason": "",
        "settled": True,
        "inputs": None,
        "output": None,
        **reason_fields("error", None),
        "logs": "",
        "duration_ms": 0,
    }
    return {**row, **more}


@_project.register
def _(event: ev.LayerStarted, item: Recorded, rows: Rows, context: dict[str, Any]) -> None:
    for task_id, reason in event.skips.items():
        rows.attempts.append(
            _attempt(item, task_id, 1, TaskStatus.SKIPPED, skip_reason=reason.value)
        )


@_project.register
def _(event: ev.LayerSkipped, item: Recorded, rows: Rows, context: dict[str, Any]) -> None:
    for task_id in event.tasks:
        reason = SkipReason.COMMAND.value
        rows.attempts.append(_attempt(item, task_id, 1, TaskStatus.SKIPPED, skip_reason=reason))


@_project.register
def _(event: ev.TaskSucceeded, item: Recorded, rows: Rows, context: dict[str, Any]) -> None:
    rows.attempts.append(
        _attempt(
            item,
            event.task_id,
            event.attempt,
            TaskStatus.SUCCEEDED,
            inputs=event.inputs,
            output=event.output,
            logs=event.logs,
            duration_ms=event.duration_ms,
        )
    )
    _add_receipt(event, rows)


@_project.register
def _(event: ev.ResultReported, item: Recorded, rows: Rows, context: dict[str, Any]) -> None:
    # After an AFTER review, the receipt is that of the output (LayerClosed).
    if event.phase is TriggerPhase.BEFORE_EXECUTION:
        _add_receipt(event, rows)


def _add_receipt(event: ev.TaskSucceeded | ev.TaskErrored | ev.ResultReported, rows: Rows) -> None:
    """Add the execution receipt of a task that was reviewed before it ran."""
    if event.executed_digest:
        rows.receipts.append(
            {
                "task_id": event.task_id,
                "attempt": event.attempt,
                "phase": TriggerPhase.BEFORE_EXECUTION.value,
                "digest": event.executed_digest,
            }
        )


@_project.register
def _(event: ev.TaskErrored, item: Recorded, rows: Rows, context: dict[str, Any]) -> None:
    rows.attempts.append(
        _attempt(
            item,
            event.task_id,
            event.attempt,
            TaskStatus.FAILED,
            settled=event.retry_at is None,
            inputs=event.inputs,
            error=event.error,
            error_code=event.error_code,
            error_params=event.error_params,
            logs=event.logs,
            duration_ms=event.duration_ms,
        )
    )
    _add_receipt(event, rows)


@_project.register
def _(event: ev.HoldOpened, item: Recorded, rows: Rows, context: dict[str, Any]) -> None:
    rows.holds.append(
        {
            "id": event.hold_id,
            "task_id": event.task_id or "",
            "reason": event.reason.value,
            "decider": event.decider,
            "phase": event.phase.value if event.phase else "",
            "quorum": event.quorum,
            "on_reject": event.on_reject,
            "on_timeout": event.on_timeout,
            "timeout_seconds": event.timeout_seconds,
            "opened_seq": item.state.version,
            **event.opening,
        }
    )


@_project.register
def _(event: ev.HoldVoted, item: Recorded, rows: Rows, context: dict[str, Any]) -> None:
    rows.hold_updates.append(
        {"id": event.hold_id, "voter": event.voter, "voter_id": event.voter_id}
    )


@_project.register
def _(event: ev.HoldExtended, item: Recorded, rows: Rows, context: dict[str, Any]) -> None:
    rows.hold_updates.append({"id": event.hold_id, "extend": event.seconds})


@_project.register
def _(event: ev.HoldEscalated, item: Recorded, rows: Rows, context: dict[str, Any]) -> None:
    rows.hold_updates.append(
        {"id": event.hold_id, "step": event.step, "groups": list(event.groups)}
    )


@_project.register
def _(event: ev.HoldAnswered, item: Recorded, rows: Rows, context: dict[str, Any]) -> None:
    verdict = _verdict(event, item)
    rows.hold_updates.append({**verdict, "undo": event.undo_seconds})


@_project.register
def _(event: ev.HoldWithdrawn, item: Recorded, rows: Rows, context: dict[str, Any]) -> None:
    reopens = event.what == "decision"
    rows.hold_updates.append({"id": event.hold_id, "unvote": event.voter_id, "reopens": reopens})


_STATUS = {"APPROVE": "APPROVED", "REJECT": "REJECTED", "REQUEST_CHANGES": "RETURNED"}


def _verdict(event: ev.HoldAnswered | ev.HoldDecided, item: Recorded) -> Row:
    approved = event.decision == "APPROVE"
    verdict: Row = {
        "id": event.hold_id,
        "status": _STATUS[event.decision],
        "decided_by": item.actor.name,
        "decided_by_id": item.actor.id,
        "decision": event.decision,
    }
    by_person = not (isinstance(event, ev.HoldDecided) and event.by_timeout)
    if not (approved and by_person):
        return verdict
    return {**verdict, "voter": item.actor.name, "voter_id": item.actor.id}


@_project.register
def _(event: ev.HoldDecided, item: Recorded, rows: Rows, context: dict[str, Any]) -> None:
    # A decision after its undo period is stored already; only the undo period ends.
    settled = {"id": event.hold_id, "settles": True}
    rows.hold_updates.append(settled if event.answered else _verdict(event, item))
    if event.reason is HoldReason.NODE_REVIEW and event.phase == "AFTER_EXECUTION":
        _amend_output(event, rows)
    elif event.decision == "REJECT" and event.task_id:
        _settle_unrun(event, item, rows)


def _amend_output(event: ev.HoldDecided, rows: Rows) -> None:
    """Update the stored attempt: the reviewer edited or rejected its output, or sent it back."""
    if event.decision == "REQUEST_CHANGES":
        again = {"task_id": event.task_id, "settled": False, "is_edited": False}
        rows.attempt_updates.append(again)
        return
    if event.decision == "REJECT":
        skips = event.on_reject == "skip"
        rows.attempt_updates.append(
            {
                "task_id": event.task_id,
                "status": (TaskStatus.SKIPPED if skips else TaskStatus.REJECTED).value,
                "skip_reason": SkipReason.REVIEWER.value if skips else "",
                "is_edited": False,
            }
        )
    elif event.edited:
        rows.attempt_updates.append(
            {"task_id": event.task_id, "is_edited": True, "edited_output": event.edits}
        )


def _settle_unrun(event: ev.HoldDecided, item: Recorded, rows: Rows) -> None:
    """Add the final attempt of a task that will not run (again)."""
    task_id = event.task_id or ""
    task = item.state.tasks.get(task_id)
    attempt = (task.attempt if task else 0) + 1
    if event.reason is HoldReason.ESCALATION:
        error = Reason("permission_refused", {"actor": item.actor.name})
        if event.comment:
            params = {"actor": item.actor.name, "comment": event.comment}
            error = Reason("permission_refused_because", params)
        fields = reason_fields("error", error)
        row = _attempt(item, task_id, attempt, TaskStatus.FAILED, **fields)
    elif event.on_reject == "skip":
        reason = SkipReason.REVIEWER.value
        row = _attempt(item, task_id, attempt, TaskStatus.SKIPPED, skip_reason=reason)
    else:
        row = _attempt(
            item,
            task_id,
            attempt,
            TaskStatus.REJECTED,
            error=event.comment,
            error_code=event.comment_code,
            error_params=event.comment_params,
        )
    rows.attempts.append(row)


@_project.register
def _(event: ev.LayerClosed, item: Recorded, rows: Rows, context: dict[str, Any]) -> None:
    for task_id, digest in event.executed_digests.items():
        rows.receipts.append(
            {
                "task_id": task_id,
                "attempt": item.state.tasks[task_id].attempt,
                "phase": TriggerPhase.AFTER_EXECUTION.value,
                "digest": digest,
            }
        )
    bookmark = replace(item.state, tasks={}, holds=())
    rows.checkpoints.append(
        {
            "layer": event.layer,
            "version": item.state.version,
            "revision": item.state.revision,
            "context": context,
            "state": dump_state(bookmark),
        }
    )


@_project.register
def _(event: ev.PlanRevised, item: Recorded, rows: Rows, context: dict[str, Any]) -> None:
    rows.revisions.append(
        {
            "number": event.revision,
            "plan": event.plan.model_dump(mode="json", by_alias=True, exclude_none=True),
            "layers": event.layers,
            "cause": event.cause,
        }
    )


@_project.register
def _(event: ev.ContextUpdated, item: Recorded, rows: Rows, context: dict[str, Any]) -> None:
    rows.context = context


@_project.register
def _(event: ev.ExecutionFailed, item: Recorded, rows: Rows, context: dict[str, Any]) -> None:
    rows.error = event.error
    rows.error_code, rows.error_params = event.error_code, event.error_params


@_project.register
def _(event: ev.ExecutionAborted, item: Recorded, rows: Rows, context: dict[str, Any]) -> None:
    rows.error = event.reason
    rows.error_code, rows.error_params = event.reason_code, event.reason_params
