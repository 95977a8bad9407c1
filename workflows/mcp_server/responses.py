"""Build the response about an execution: its state, results, next tasks and pending decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import F
from django.urls import reverse
from django.utils.module_loading import import_string

from workflows import conf
from workflows.api.serializers import decision_row
from workflows.common.redaction import mask_secrets
from workflows.engine.plans.dag import AnyTask, Revision
from workflows.engine.protocol.status import ExecutionStatus
from workflows.executions.idempotency import json_text
from workflows.executions.selectors import (
    TaskView,
    decisions_of,
    holds_of,
    open_holds,
    replan_questions,
    revision_of,
    tasks_of,
)
from workflows.models import Execution, ExecutionEvent, Hold

from .authentication import CallContext
from .result_models import Answer, AnswerStatus, Approval, Decision, NextTask, Replanned, TaskResult

_STATUS: Mapping[str, AnswerStatus] = {
    ExecutionStatus.PENDING: "running",
    ExecutionStatus.RUNNING: "running",
    ExecutionStatus.PAUSED_FOR_REVIEW: "approval_required",
    ExecutionStatus.AWAITING_AGENT: "layer_complete",
    ExecutionStatus.COMPLETED: "complete",
    ExecutionStatus.FAILED: "failed",
    ExecutionStatus.ABORTED: "aborted",
}
_AGENT_COMMANDS = ("continue", "replan", "abort")
_DEFAULT_MAX_CHARS = 20_000
_MAX_DECISIONS = 20


def execution_response(
    context: CallContext,
    execution: Execution,
    *,
    all_layers: bool = False,
    max_chars: int = _DEFAULT_MAX_CHARS,
    replanned: ExecutionEvent | None = None,
) -> Answer:
    """Return the response about an execution from `CallContext.execution`.

    The user who started the run sees all values; for other users secrets are masked, as in REST.
    """
    status = _STATUS[execution.status]
    revision = revision_of(execution)
    holds = list(open_holds(execution))
    human_holds = [hold for hold in holds if hold.decider == "human"]
    agent_holds = [hold for hold in holds if hold.decider == "agent"]
    layer = None if all_layers else execution.layer
    tasks = [] if layer is not None and layer < 0 else tasks_of(execution, layer=layer)
    # Read after tasks and holds, so that each of them has a masked value.
    view = None if started_by_caller(context, execution) else _masked(execution, revision)
    error = execution.error if view is None else mask_secrets(execution.error)
    checkpoint = getattr(execution, "newest_checkpoint", None)
    answer_by = isoformat(agent_holds[0].expires_at) if agent_holds else None
    changes = _replanned(revision, replanned, view)
    return Answer(
        status=status,
        message=_message(status, execution, human_holds, len(revision.layers), error)
        + _deadline(agent_holds),
        workflow_id=str(execution.pk),
        title=execution.title,
        version=execution.version,
        checkpoint_id=str(checkpoint) if checkpoint is not None else None,
        layer_index=execution.layer if execution.layer >= 0 else None,
        total_layers=len(revision.layers),
        layer_results=[_result(task, max_chars, view) for task in tasks],
        next_layer_preview=[]
        if _is_over(status)
        else _upcoming(revision, execution.layer + 1, view),
        options=_options(context, execution, status),
        approvals=[_approval(hold, max_chars, view) for hold in human_holds],
        decisions=_decisions(context, execution),
        answer_by=answer_by,
        replanned=changes,
        new_tasks=changes.added if changes else None,
        reason=error,
        run_url=absolute_url(reverse("reviews:run", args=[execution.pk])),
    )


# --- masking and rights ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _MaskedValues:
    """Masked values: planned inputs and outputs by task id, payloads by hold id."""

    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    payloads: Mapping[str, Any]


def started_by_caller(context: CallContext, execution: Execution) -> bool:
    """Whether the caller's user started the execution and all executions it was forked from."""
    run: Execution | None = execution
    while run is not None:
        if run.created_by_id != context.user.pk:
            return False
        run = run.parent
    return True


def _masked(execution: Execution, revision: Revision) -> _MaskedValues:
    """Return the values as `/api/v1/executions/` shows them, by the setting `execution_view`."""
    tasks, holds = tasks_of(execution), holds_of(execution)
    execution.task_views = tasks  # type: ignore[attr-defined]
    execution.all_holds = holds  # type: ignore[attr-defined]
    body = {
        "inputs": {},
        "context": {},
        "error": "",
        "tasks": [
            {
                "id": task.id,
                "inputs": dict(revision.plan.by_id[task.id].values),
                "output": task.output,
                "original_output": None,
                "error": "",
                "logs": "",
                "tries": [],
            }
            for task in tasks
        ],
        "holds": [{"payload": hold.payload} for hold in holds],
    }
    shown = import_string(settings.HOLDPOINT["execution_view"])(execution=execution, body=body)
    return _MaskedValues(
        inputs={row["id"]: row["inputs"] for row in shown["tasks"]},
        outputs={row["id"]: row["output"] for row in shown["tasks"]},
        payloads={hold.id: row["payload"] for hold, row in zip(holds, shown["holds"], strict=True)},
    )


def _is_over(status: AnswerStatus) -> bool:
    return status in ("complete", "failed", "aborted")


def _options(context: CallContext, execution: Execution, status: AnswerStatus) -> list[str]:
    """Return the tools that the caller's token and role allow next."""
    may_command = context.has("run") and context.may_operate(execution)
    if _is_over(status):
        return []
    if status == "layer_complete":
        return list(_AGENT_COMMANDS) if may_command else ["get_execution"]
    may_decide = status == "approval_required" and context.has("decide")
    decision_tools = ["approval_response"] if may_decide else []
    return [*decision_tools, "get_execution", *(["abort"] if may_command else [])]


def hold_options(hold: Hold, context: CallContext) -> list[str]:
    """Return the tools that decide an open hold and that the caller may call."""
    if hold.decider == "agent":
        may_command = context.has("run") and context.may_operate(hold.execution)
        return list(_AGENT_COMMANDS) if may_command else []
    return ["approval_response"] if context.has("decide") else []


def _message(
    status: AnswerStatus,
    execution: Execution,
    human_holds: list[Hold],
    layers: int,
    error: str,
) -> str:
    where = f"Layer {execution.layer + 1} of {layers}"
    match status:
        case "running":
            state = f"{where} is running." if execution.layer >= 0 else "The run is about to start."
            return f"{state} Call get_execution; with wait_seconds it waits for the next stop."
        case "layer_complete":
            return f"{where} is complete. Call continue, replan or abort."
        case "approval_required":
            reviews = "; ".join(f"{hold.why} ({review_url(hold)})" for hold in human_holds)
            return f"The run waits for a person's decision: {reviews}. Then call get_execution."
        case "complete":
            return f"The run is complete after {layers} layers."
        case "failed":
            reason = error or "see the errors of its tasks (all_layers shows them all)"
            return f"The run has failed: {reason}."
        case "aborted":
            return f"The run was aborted: {error or 'no reason was given'}."


def _deadline(agent_holds: list[Hold]) -> str:
    """Say what happens, and when, if the agent does not respond."""
    if not agent_holds or agent_holds[0].expires_at is None:
        return ""
    outcome = "continues" if agent_holds[0].on_timeout == "continue" else "is aborted"
    return f" Without a decision the run {outcome} at {isoformat(agent_holds[0].expires_at)}."


# --- parts ----------------------------------------------------------------------------------------


def _result(task: TaskView, max_chars: int, view: _MaskedValues | None) -> TaskResult:
    if view is not None:
        task = replace(task, output=view.outputs[task.id], error=mask_secrets(task.error))
    output, is_cut = truncated(task.output, max_chars)
    return TaskResult(
        id=task.id,
        task_id=task.id,
        target=task.target,
        layer=task.layer,
        status=task.status,
        output=output,
        output_truncated=is_cut,
        is_rejected=task.is_rejected,
        error=task.error[:max_chars],
        skip_reason=task.skip_reason,
        is_edited=task.is_edited,
        attempts=len(task.attempts),
        duration_ms=task.duration_ms,
    )


def _upcoming(revision: Revision, layer: int, view: _MaskedValues | None) -> list[NextTask]:
    if layer >= len(revision.layers):
        return []
    return [_next(task, view) for task in revision.tasks(layer)]


def _next(task: AnyTask, view: _MaskedValues | None) -> NextTask:
    return NextTask(
        id=task.id,
        task_id=task.id,
        target=task.target,
        inputs=dict(task.values) if view is None else view.inputs[task.id],
        depends_on=sorted(task.needs),
        permission_set=task.permission_set,
    )


def _approval(hold: Hold, max_chars: int, view: _MaskedValues | None) -> Approval:
    shown = hold.payload if view is None else view.payloads[hold.id]
    payload, is_cut = truncated(shown, max_chars)
    return Approval(
        hold_id=hold.id,
        checkpoint_id=hold.id,
        workflow_id=str(hold.execution_id),
        node_id=hold.task_id or None,
        trigger_phase=hold.phase or None,
        reason=hold.reason,
        why=hold.why,
        instructions=hold.instructions,
        payload=payload,
        payload_truncated=is_cut,
        groups=hold.groups,
        quorum=hold.quorum,
        approvals=len(hold.approvals),
        changes_left=hold.changes_left,
        expires_at=isoformat(hold.expires_at),
        on_timeout=hold.on_timeout,
        review_url=review_url(hold),
    )


def _decisions(context: CallContext, execution: Execution) -> list[Decision]:
    newest = decisions_of(execution, context.user).order_by(F("place").desc())[:_MAX_DECISIONS]
    rows = [decision_row(row) for row in reversed(newest)]
    return [Decision(workflow_id=row["execution_id"], **row) for row in rows]


def _replanned(
    revision: Revision, event: ExecutionEvent | None, view: _MaskedValues | None
) -> Replanned | None:
    if event is None:
        return None
    payload, tasks = event.payload, revision.plan.by_id
    return Replanned(
        revision=payload["revision"],
        added=[_next(task, view) for task in _existing(tasks, payload.get("added", ()))],
        removed=list(payload.get("removed", ())),
        changed=list(payload.get("changed", ())),
        questions=list(replan_questions(payload)),
    )


def _existing(tasks: Mapping[str, Any], names: Iterable[str]) -> Iterable[Any]:
    """Return the tasks that still exist: a later revision may have removed some."""
    return (tasks[name] for name in names if name in tasks)


def truncated(value: Any, max_chars: int) -> tuple[Any, bool]:
    """Return the value, or the first `max_chars` of its JSON text, and whether it was cut."""
    text = json_text(value)
    return (value, False) if len(text) <= max_chars else (text[:max_chars], True)


def isoformat(at: datetime | None) -> str | None:
    return at.isoformat() if at is not None else None


def review_url(hold: Hold) -> str:
    """Return the URL of the page on which a person decides the hold."""
    return absolute_url(reverse("reviews:decision", args=[hold.execution_id, hold.id]))


def absolute_url(path: str) -> str:
    """Return the full URL if the setting for the site's URL is set, else only the path."""
    return conf.site_url().rstrip("/") + path
