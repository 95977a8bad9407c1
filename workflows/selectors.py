"""Reading executions: tasks as people see them, the timeline, checkpoints, messages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from .engine.dag import CapabilityTask, CodeTask, Revision, ToolTask
from .engine.status import ExecutionStatus, TaskStatus
from .journal import load_revision
from .models import Execution, ExecutionEvent, Hold, TaskAttempt


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task with what has become of it.

    `status` is a TaskStatus word; `held` names the open hold that stops it; `output` is what later
    tasks read (a reviewer's edit, if there is one).
    """

    id: str
    label: str
    type: str
    target: str
    layer: int
    needs: tuple[str, ...]
    permission_set: str | None
    status: str
    when: datetime | None = None
    skip_reason: str = ""
    inputs: Any = None
    output: Any = None
    original_output: Any = None
    is_edited: bool = False
    error: str = ""
    logs: str = ""
    duration_ms: float = 0
    held: str = ""
    attempts: tuple[TaskAttempt, ...] = field(default=())


def revision_of(execution: Execution) -> Revision:
    """The plan revision the execution runs by now."""
    return load_revision(execution.pk, execution.revision)


def tasks_of(execution: Execution) -> list[TaskView]:
    """Every task of the present plan, in the order of its layers; three queries."""
    revision = revision_of(execution)
    attempts: dict[str, list[TaskAttempt]] = {}
    for row in TaskAttempt.objects.filter(execution=execution).order_by("attempt"):
        attempts.setdefault(row.task_id, []).append(row)
    holds = Hold.objects.filter(execution=execution, status=Hold.Status.OPEN)
    held = dict(holds.exclude(task_id="").values_list("task_id", "id"))
    return [
        _view(execution, revision, layer, name, attempts.get(name, ()), held.get(name, ""))
        for layer, names in enumerate(revision.layers)
        for name in names
    ]


def _view(
    execution: Execution,
    revision: Revision,
    layer: int,
    name: str,
    attempts: Iterable[TaskAttempt],
    held: str,
) -> TaskView:
    task = revision.plan.by_id[name]
    tries = tuple(attempts)
    last = tries[-1] if tries else None
    view = TaskView(
        id=name,
        label=task.label,
        type=task.type,
        target=task.target,
        layer=layer,
        needs=tuple(sorted(task.needs)),
        permission_set=task.permission_set,
        status=_status(execution, layer, last, held),
        held=held,
        attempts=tries,
        inputs=last.inputs if last else None,
    )
    return view if last is None else _with_result(view, last)


def _with_result(view: TaskView, last: TaskAttempt) -> TaskView:
    return replace(
        view,
        when=last.created_at,
        skip_reason=last.skip_reason,
        output=last.edited_output if last.is_edited else last.output,
        original_output=last.output,
        is_edited=last.is_edited,
        error=last.error,
        logs=last.logs,
        duration_ms=last.duration_ms,
    )


def _status(execution: Execution, layer: int, last: TaskAttempt | None, held: str) -> str:
    if last is not None and last.settled:
        return last.status
    runs = execution.status == ExecutionStatus.RUNNING and layer == execution.layer
    return (TaskStatus.RUNNING if runs and not held else TaskStatus.PENDING).value


def events_of(execution: Execution, *, after: int = 0) -> QuerySet[ExecutionEvent]:
    """The journal of an execution, oldest first."""
    return ExecutionEvent.objects.filter(execution=execution, seq__gt=after).order_by("seq")


def messages_of(execution: Execution) -> list[dict[str, Any]]:
    """The conversation: role, content, author, time and seq of each message, oldest first."""
    rows = ExecutionEvent.objects.filter(execution=execution, kind="message_added")
    return [
        {**row.payload, "seq": row.seq, "created_at": row.created_at}
        for row in rows.order_by("seq")
    ]


def open_holds(execution: Execution) -> QuerySet[Hold]:
    """Open holds of an execution, oldest first."""
    return execution.holds.filter(status=Hold.Status.OPEN).order_by("opened_seq")


def task_spec(execution: Execution, task_id: str) -> ToolTask | CodeTask | CapabilityTask | None:
    """A task of the present plan, or None."""
    return revision_of(execution).plan.by_id.get(task_id)
