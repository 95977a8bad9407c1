"""An execution as an answer: what happened, what comes next, who has to do something."""

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
from workflows.engine.dag import CapabilityTask, CodeTask, Revision, ToolTask
from workflows.engine.status import ExecutionStatus
from workflows.executions.idempotency import json_text
from workflows.executions.selectors import (
    TaskView,
    decisions_of,
    holds_of,
    open_holds,
    revision_of,
    tasks_of,
)
from workflows.models import Execution, ExecutionEvent, Hold

from .callers import CallContext
from .outputs import Answer, AnswerStatus, Approval, Decision, NextTask, Replanned, TaskResult

_STATUS: Mapping[str, AnswerStatus] = {
    ExecutionStatus.PENDING: "running",
    ExecutionStatus.RUNNING: "running",
    ExecutionStatus.PAUSED_FOR_REVIEW: "approval_required",
    ExecutionStatus.AWAITING_AGENT: "layer_complete",
    ExecutionStatus.COMPLETED: "complete",
    ExecutionStatus.FAILED: "failed",
    ExecutionStatus.ABORTED: "aborted",
}
_FOR_AGENTS = ("continue", "replan", "abort")
_CHARS = 20_000
_DECISIONS = 20


def answer_of(
    acting: CallContext,
    execution: Execution,
    *,
    all_layers: bool = False,
    max_chars: int = _CHARS,
    replanned: ExecutionEvent | None = None,
) -> Answer:
    """The answer about an execution that `CallContext.execution` found.

    Who started it sees true values; for everybody else secrets are behind marks, as over REST.
    """
    status = _STATUS[execution.status]
    revision = revision_of(execution)
    holds = list(open_holds(execution))
    people = [hold for hold in holds if hold.decider == "human"]
    agents = [hold for hold in holds if hold.decider == "agent"]
    shown = None if all_layers else execution.layer
    tasks = [] if shown is not None and shown < 0 else tasks_of(execution, layer=shown)
    # Read after tasks and holds, so that it has everything that these have.
    view = None if is_own(acting, execution) else _masked(execution, revision)
    error = execution.error if view is None else mask_secrets(execution.error)
    checkpoint = getattr(execution, "newest_checkpoint", None)
    answer_by = moment(agents[0].expires_at) if agents else None
    changes = _replanned(revision, replanned, view)
    return Answer(
        status=status,
        message=_message(status, execution, people, len(revision.layers), error)
        + _deadline(agents),
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
        options=_options(acting, execution, status),
        approvals=[_approval(hold, max_chars, view) for hold in people],
        decisions=_decisions(acting, execution),
        answer_by=answer_by,
        replanned=changes,
        new_tasks=changes.added if changes else None,
        reason=error,
        run_url=absolute(reverse("reviews:run", args=[execution.pk])),
    )


# --- who sees what --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _View:
    """What is shown instead of true values: by task the planned inputs, by hold the payload."""

    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    payloads: Mapping[str, Any]


def is_own(acting: CallContext, execution: Execution) -> bool:
    """Whether the caller's user started the execution, and every one that it is a fork of."""
    run: Execution | None = execution
    while run is not None:
        if run.created_by_id != acting.user.pk:
            return False
        run = run.parent
    return True


def _masked(execution: Execution, revision: Revision) -> _View:
    """The payloads as `/api/v1/executions/` shows them; the same setting says how."""
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
    return _View(
        inputs={row["id"]: row["inputs"] for row in shown["tasks"]},
        outputs={row["id"]: row["output"] for row in shown["tasks"]},
        payloads={hold.id: row["payload"] for hold, row in zip(holds, shown["holds"], strict=True)},
    )


def _is_over(status: AnswerStatus) -> bool:
    return status in ("complete", "failed", "aborted")


def _options(acting: CallContext, execution: Execution, status: AnswerStatus) -> list[str]:
    """Only what this caller's token and role let them do."""
    steers = acting.has("run") and acting.may_operate(execution)
    if _is_over(status):
        return []
    if status == "layer_complete":
        return list(_FOR_AGENTS) if steers else ["get_execution"]
    asks = status == "approval_required" and acting.has("decide")
    decides = ["approval_response"] if asks else []
    return [*decides, "get_execution", *(["abort"] if steers else [])]


def options_on(hold: Hold, acting: CallContext) -> list[str]:
    """The tools that answer an open hold, as far as this caller may call them."""
    if hold.decider == "agent":
        steers = acting.has("run") and acting.may_operate(hold.execution)
        return list(_FOR_AGENTS) if steers else []
    return ["approval_response"] if acting.has("decide") else []


def _message(
    status: AnswerStatus,
    execution: Execution,
    people: list[Hold],
    layers: int,
    error: str,
) -> str:
    where = f"Layer {execution.layer + 1} of {layers}"
    match status:
        case "running":
            begun = f"{where} is under way." if execution.layer >= 0 else "It is about to begin."
            return f"{begun} Ask again with get_execution; wait_seconds makes it wait."
        case "layer_complete":
            return f"{where} is complete. Call continue, replan or abort."
        case "approval_required":
            asked = "; ".join(f"{hold.why} ({review_url(hold)})" for hold in people)
            return f"Stopped until a person has decided: {asked}. Then ask with get_execution."
        case "complete":
            return f"The run is complete after {layers} layers."
        case "failed":
            broken = error or "see the errors of its tasks (all_layers shows them all)"
            return f"The run has failed: {broken}."
        case "aborted":
            return f"The run was aborted: {error or 'no reason was given'}."


def _deadline(agents: list[Hold]) -> str:
    """What happens to a run whose agent does not answer, and when."""
    if not agents or agents[0].expires_at is None:
        return ""
    becomes = "goes on" if agents[0].on_timeout == "continue" else "is aborted"
    return f" Without an answer the run {becomes} at {moment(agents[0].expires_at)}."


# --- parts ----------------------------------------------------------------------------------------


def _result(task: TaskView, max_chars: int, view: _View | None) -> TaskResult:
    if view is not None:
        task = replace(task, output=view.outputs[task.id], error=mask_secrets(task.error))
    output, cut = clipped(task.output, max_chars)
    return TaskResult(
        id=task.id,
        task_id=task.id,
        target=task.target,
        layer=task.layer,
        status=task.status,
        output=output,
        output_truncated=cut,
        is_rejected=task.is_rejected,
        error=task.error[:max_chars],
        skip_reason=task.skip_reason,
        is_edited=task.is_edited,
        attempts=len(task.attempts),
        duration_ms=task.duration_ms,
    )


def _upcoming(revision: Revision, layer: int, view: _View | None) -> list[NextTask]:
    if layer >= len(revision.layers):
        return []
    return [_next(task, view) for task in revision.tasks(layer)]


def _next(task: ToolTask | CodeTask | CapabilityTask, view: _View | None) -> NextTask:
    return NextTask(
        id=task.id,
        task_id=task.id,
        target=task.target,
        inputs=dict(task.values) if view is None else view.inputs[task.id],
        depends_on=sorted(task.needs),
        permission_set=task.permission_set,
    )


def _approval(hold: Hold, max_chars: int, view: _View | None) -> Approval:
    shown = hold.payload if view is None else view.payloads[hold.id]
    payload, cut = clipped(shown, max_chars)
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
        payload_truncated=cut,
        groups=hold.groups,
        quorum=hold.quorum,
        approvals=len(hold.approvals),
        changes_left=hold.changes_left,
        expires_at=moment(hold.expires_at),
        on_timeout=hold.on_timeout,
        review_url=review_url(hold),
    )


def _decisions(acting: CallContext, execution: Execution) -> list[Decision]:
    newest = decisions_of(execution, acting.user).order_by(F("place").desc())[:_DECISIONS]
    rows = [decision_row(row) for row in reversed(newest)]
    return [Decision(workflow_id=row["execution_id"], **row) for row in rows]


def _replanned(
    revision: Revision, event: ExecutionEvent | None, view: _View | None
) -> Replanned | None:
    if event is None:
        return None
    told, tasks = event.payload, revision.plan.by_id
    return Replanned(
        revision=told["revision"],
        added=[_next(task, view) for task in _known(tasks, told.get("added", ()))],
        removed=list(told.get("removed", ())),
        changed=list(told.get("changed", ())),
    )


def _known(tasks: Mapping[str, Any], names: Iterable[str]) -> Iterable[Any]:
    """A later revision may have dropped some of them again."""
    return (tasks[name] for name in names if name in tasks)


def clipped(value: Any, max_chars: int) -> tuple[Any, bool]:
    """The value, or the beginning of its JSON text, and whether it was cut."""
    text = json_text(value)
    return (value, False) if len(text) <= max_chars else (text[:max_chars], True)


def moment(at: datetime | None) -> str | None:
    return at.isoformat() if at is not None else None


def review_url(hold: Hold) -> str:
    """Where a person decides the hold."""
    return absolute(reverse("reviews:decision", args=[hold.execution_id, hold.id]))


def absolute(path: str) -> str:
    """A full address if the site's own is known, else the path alone."""
    return conf.site_url().rstrip("/") + path
