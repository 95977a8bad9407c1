"""Read approvals: their status follows from the execution and the reported result."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from django.db.models import (
    BooleanField,
    Case,
    CharField,
    Exists,
    F,
    Func,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Now
from django.urls import reverse

from workflows import conf
from workflows.engine.plans.dag import ExternalActionTask
from workflows.engine.policy.policies import TriggerPhase
from workflows.engine.protocol.state import load_state
from workflows.engine.protocol.status import ExecutionStatus, TaskStatus
from workflows.engine.protocol.task_inputs import as_submitted
from workflows.engine.values.bounded_json import digest
from workflows.executions import access
from workflows.executions.selectors import holds_of, revision_of
from workflows.models import Approval, Execution, ExecutionEvent, GateCall, Hold, TaskAttempt
from workflows.models.approvals import ApprovalStatus as Status

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: The caller may go on with what was decided.
_DECIDED: Final = (Status.APPROVED, Status.COMPLETED, Status.FAILED)


def approvals_of(user: User) -> QuerySet[Approval]:
    """Return the approvals that a person's tokens and sessions asked for, with their status.

    A token of the person is no limit here, see `readable_approvals`.
    """
    if access.allowed_workflow_ids(user) is not None:
        # The token is limited to workflows, and an approval has none.
        return Approval.objects.none()
    return with_status(Approval.objects.filter(owner=user.pk, execution__erased_at=None))


def readable_approvals(user: User) -> QuerySet[Approval]:
    """Return the approvals that a person's token or session may read, with their status.

    A token without the scope `read` reads only what it asked for itself.
    """
    credential = access.credential_of(user)
    rows = approvals_of(user)
    if credential is None or "read" in credential.scopes:
        return rows
    return rows.filter(token=credential.token_id)


def asked_with(user: User, approval: Approval) -> bool:
    """Whether the token that the user acts with asked for the approval; True for a session."""
    credential = access.credential_of(user)
    return credential is None or credential.token_id == approval.token_id


def with_status(rows: QuerySet[Approval]) -> QuerySet[Approval]:
    """Annotate `status`, and `hold_id` and `expires_at` of the newest hold."""
    newest = Hold.objects.filter(execution=OuterRef("execution")).order_by("-opened_seq")
    expired = ExecutionEvent.objects.filter(execution=OuterRef("execution"), kind="hold_expired")
    waits = Func(
        F("execution__state"),
        Value("$.tasks.*.waits_for_caller"),
        function="jsonb_path_exists",
        template="%(function)s(%(expressions)s::jsonpath)",
        output_field=BooleanField(),
    )
    rows = rows.select_related("execution").annotate(
        hold_id=Subquery(newest.values("pk")[:1]),
        expires_at=Subquery(newest.values("expires_at")[:1]),
        hold_status=Subquery(newest.values("status")[:1]),
        has_expired=Exists(expired),
        waits=waits,
    )
    ended = {name: Q(execution__status=status.value) for name, status in _ENDS.items()}
    rejected = ended["aborted"] & Q(hold_status=Hold.Status.REJECTED)
    not_resubmitted = ended["aborted"] & Q(execution__error_code="not_resubmitted")
    return rows.annotate(
        status=Case(
            When(result_ok=True, then=Value(Status.COMPLETED)),
            When(Q(result_ok=False) | ended["failed"], then=Value(Status.FAILED)),
            When(ended["completed"], then=Value(Status.APPROVED)),
            When((rejected & Q(has_expired=True)) | not_resubmitted, then=Value(Status.EXPIRED)),
            When(rejected, then=Value(Status.REJECTED)),
            When(ended["aborted"], then=Value(Status.CANCELLED)),
            When(waits=True, then=Value(Status.CHANGES_REQUESTED)),
            default=Value(Status.PENDING),
            output_field=CharField(),
        )
    )


def decided_status(approval: Approval) -> str:
    """Return the status without what the caller reported: it stays once the run has ended.

    The row comes from `with_status`.
    """
    if approval.result_ok is not None:
        return Status.APPROVED.value
    status: str = approval.status  # type: ignore[attr-defined]
    return status


_ENDS: Final = {
    "completed": ExecutionStatus.COMPLETED,
    "failed": ExecutionStatus.FAILED,
    "aborted": ExecutionStatus.ABORTED,
}


def action_of(execution: Execution) -> ExternalActionTask:
    """Return the only task of an approval's execution."""
    task = revision_of(execution).plan.tasks[0]
    if not isinstance(task, ExternalActionTask):
        raise TypeError(f"execution {execution.pk} is no approval")
    return task


def submitted_values(execution: Execution) -> dict[str, Any]:
    """Return the `arguments` and the `output` that the caller submitted last."""
    task = action_of(execution)
    submitted = as_submitted(task, load_state(execution.state).tasks.get(task.id))
    if not isinstance(submitted, ExternalActionTask):
        raise TypeError(f"execution {execution.pk} is no approval")
    return {"arguments": submitted.arguments, "output": submitted.output}


def expires_at(approval: Approval) -> datetime | None:
    """Return when the approval expires: unless somebody decides, or the caller submits it again.

    The row comes from `approvals_of`.
    """
    match approval.status:  # type: ignore[attr-defined]
        case Status.PENDING:
            deadline: datetime | None = approval.expires_at  # type: ignore[attr-defined]
            return deadline
        case Status.CHANGES_REQUESTED:
            tasks = load_state(approval.execution.state).tasks.values()
            until = next((task.waits_until for task in tasks if task.waits_for_caller), None)
            return datetime.fromtimestamp(until, UTC) if until is not None else None
    return None


def is_awaited(approval: Approval) -> bool | None:
    """Whether a program waits for the decision; None if its caller does not say."""
    if approval.awaited_until is None:
        return None
    return Approval.objects.filter(pk=approval.pk, awaited_until__gt=Now()).exists()


def approval_body(approval: Approval) -> dict[str, Any]:
    """Return an approval for its caller; the row comes from `approvals_of`.

    The values are not masked: the caller knows them.
    """
    execution, task = approval.execution, action_of(approval.execution)
    status: str = approval.status  # type: ignore[attr-defined]
    holds = holds_of(execution)
    hold = holds[-1] if holds else None
    values = _values(approval, status, hold)
    return {
        "id": str(approval.pk),
        "status": status,
        "action": {"name": approval.action, "title": approval.title},
        "phase": approval.phase,
        "risk": approval.risk,
        "policy": approval.policy or None,
        "arguments": values["arguments"],
        "arguments_digest": digest(values["arguments"]),
        "output": values["output"] if task.is_executed else None,
        **_decision(approval, status, hold),
        "grant": _grant(task),
        "execution_id": str(execution.pk),
        "hold_id": hold.pk if hold else None,
        "version": execution.version,
        "round": hold.round if hold else 1,
        "changes_left": hold.changes_left if hold else 0,
        "review_url": _review_url(execution, hold),
        "expires_at": expires_at(approval),
        "awaited": is_awaited(approval) if status == Status.PENDING else None,
        "requested_by": {
            "agent": approval.agent,
            "session": approval.session,
            "url": approval.url,
        },
        "result": _result(approval),
        "created_at": approval.created_at,
    }


def _grant(task: ExternalActionTask) -> dict[str, Any] | None:
    """Return the standing answer that covered the action."""
    if task.standing is None:
        return None
    return {
        "id": task.standing.grant,
        "given_by": task.standing.given_by,
        "expires_at": datetime.fromisoformat(task.standing.expires_at),
    }


def _values(approval: Approval, status: str, hold: Hold | None) -> dict[str, Any]:
    """Return the decided values, or those that people see at the moment."""
    execution = approval.execution
    if status in _DECIDED:
        rows = TaskAttempt.objects.filter(
            execution=execution, settled=True, status=TaskStatus.SUCCEEDED.value
        )
        done = rows.order_by("-attempt").first()
        if done is not None:
            output = done.edited_output if done.is_edited else done.output
            return {"arguments": done.inputs, "output": output}
    values = submitted_values(execution)
    # The state of a run that has ended does not have the tasks any more.
    if hold is not None and ExecutionStatus(execution.status).is_final:
        name = "output" if approval.phase == TriggerPhase.AFTER_EXECUTION else "arguments"
        return {**values, name: hold.payload}
    return values


def _decision(approval: Approval, status: str, hold: Hold | None) -> dict[str, Any]:
    """Return who decided, when, and why; for a cancellation, its sender's reason."""
    nobody = {"edited": False, "comment": "", "decided_by": None, "decided_at": None}
    if status == Status.PENDING:
        return nobody
    execution = approval.execution
    gave_up = status == Status.EXPIRED and hold is not None and hold.decision != "REJECT"
    if status == Status.CANCELLED or gave_up or hold is None or not hold.decision:
        skipped = execution.events.filter(kind="review_spared").last()
        comment = skipped.payload["why"] if skipped else execution.error
        return {**nobody, "comment": comment, "decided_at": execution.finished_at}
    return {
        "edited": bool(getattr(hold, "edited", False)),
        "comment": getattr(hold, "comment", ""),
        "decided_by": getattr(hold, "reviewer", None),
        "decided_at": hold.decided_at,
    }


def _review_url(execution: Execution, hold: Hold | None) -> str:
    """Return the full URL of the page of the review, or of the run if no review opened."""
    if hold is None:
        path = reverse("reviews:run", args=[execution.pk])
    else:
        path = reverse("reviews:decision", args=[execution.pk, hold.pk])
    return conf.site_url().rstrip("/") + path


def _result(approval: Approval) -> dict[str, Any] | None:
    if approval.result_ok is None:
        return None
    # What the server answered to a call through a gate is only for the token that called.
    call = GateCall.objects.filter(approval=approval.pk).only("outcome").first()
    is_refused = call is not None and call.outcome == GateCall.Outcome.ERROR
    return {
        "ok": approval.result_ok,
        "output": approval.result_output if call is None else None,
        "error": "" if is_refused else approval.result_error,
        "mismatch": approval.result_mismatch,
        "reported_at": approval.result_at,
    }
