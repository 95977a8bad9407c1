"""Reading executions: tasks as people see them, the timeline, checkpoints, messages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.db.models import (
    BigIntegerField,
    Case,
    Count,
    Exists,
    F,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
    When,
)
from django.db.models.expressions import Combinable

from workflows.engine.dag import CapabilityTask, CodeTask, Revision, ToolTask
from workflows.engine.decision_history import DECISIVE, ENDING, reviewer_of
from workflows.engine.state import SkipReason
from workflows.engine.status import ExecutionStatus, TaskStatus
from workflows.journal.lineage import ancestors_of
from workflows.journal.writer import load_revision
from workflows.models import Execution, ExecutionEvent, Hold, Speculation, TaskAttempt
from workflows.speculation import store as speculation_store
from workflows.speculation.policy import Stopped

from . import access


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task with what has become of it.

    `status` is a TaskStatus word; `held` names the open hold that stops it.  `output` is what later
    tasks read: a reviewer's edit, if there is one, and None where the output was rejected or sent
    back.  `original_output` is what the task gave, whatever became of it.
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
    is_rejected: bool = False


def revision_of(execution: Execution) -> Revision:
    """The plan revision the execution runs by now."""
    return load_revision(execution.pk, execution.revision)


def tasks_of(execution: Execution, *, layer: int | None = None) -> list[TaskView]:
    """Every task of the present plan, or of one layer, in the order of the layers; three queries.

    A layer's tasks cost the same however long the execution has run.
    """
    revision = revision_of(execution)
    layers = range(len(revision.layers)) if layer is None else (layer,)
    rows = TaskAttempt.objects.filter(execution=execution).order_by("attempt")
    if layer is not None:
        rows = rows.filter(task_id__in=revision.layers[layer])
    attempts: dict[str, list[TaskAttempt]] = {}
    for row in rows:
        attempts.setdefault(row.task_id, []).append(row)
    holds = Hold.objects.filter(execution=execution, status=Hold.Status.OPEN)
    held = dict(holds.exclude(task_id="").values_list("task_id", "id"))
    return [
        _view(execution, revision, number, name, attempts.get(name, ()), held.get(name, ""))
        for number in layers
        for name in revision.layers[number]
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
        output=_read_by_others(last),
        original_output=last.output,
        is_rejected=_is_rejected(last),
        is_edited=last.is_edited,
        error=last.error,
        logs=last.logs,
        duration_ms=last.duration_ms,
    )


def _read_by_others(last: TaskAttempt) -> Any:
    if not last.settled or last.status != TaskStatus.SUCCEEDED:
        return None
    return last.edited_output if last.is_edited else last.output


def _is_rejected(last: TaskAttempt) -> bool:
    """Whether a reviewer rejected the task, whatever follows from that in this run."""
    by_reviewer = last.skip_reason == SkipReason.REVIEWER
    return last.settled and (last.status == TaskStatus.REJECTED or by_reviewer)


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


def decisions_of(execution: Execution, user: Any) -> QuerySet[ExecutionEvent]:
    """Events that are decisions of people and agents, each with what `decision_of` asks for.

    A fork's begin with those of its ancestors, up to the checkpoints that it comes from, as far as
    the user may see these executions.  `place` numbers them in their order.
    """
    before = ExecutionEvent.objects.filter(execution=OuterRef("execution"), seq=OuterRef("seq") - 1)
    waits = Hold.objects.filter(
        execution=OuterRef("execution"), decider="agent", status=Hold.Status.CLOSED
    )
    history, place = _history(execution, user)
    rows = ExecutionEvent.objects.filter(history, kind__in=DECISIVE)
    carried_out = Q(kind="hold_decided", payload__answered=True)
    told_of_hold = Q(kind="agent_failed") & ~Q(payload__hold_id=None)
    rows = rows.exclude(carried_out).exclude(told_of_hold)
    return rows.annotate(
        before=Subquery(before.values("kind")[:1]), for_agent=Exists(waits), place=place
    ).exclude(kind="execution_aborted", before__in=ENDING)


def _history(execution: Execution, user: Any) -> tuple[Q, Combinable]:
    """Which events are an execution's history for this user, and their place in it."""
    own = Q(execution=execution)
    if execution.parent_id is None:
        return own, F("seq")
    known = ancestors_of(execution.pk)
    ids = [each.execution_id for each in known]
    visible = set(access.visible_to(user).filter(pk__in=ids).values_list("pk", flat=True))
    events, cases, passed = own, [], 0
    for ancestor in (each for each in known if each.execution_id in visible):
        events |= ancestor.events
        cases.append(When(execution_id=ancestor.execution_id, then=F("seq") + passed))
        passed += ancestor.newest
    return events, Case(*cases, default=F("seq") + passed, output_field=BigIntegerField())


def holds_of(execution: Execution) -> list[Hold]:
    """Every hold of an execution, oldest first, with `comment`, `edited` and `reviewer`.

    These belong to the standing decision; they are empty while the hold is open.
    """
    events = ExecutionEvent.objects.filter(
        execution=execution, kind__in=("hold_answered", "hold_decided")
    )
    newest = {row.payload["hold_id"]: row for row in events.order_by("seq")}
    holds = list(execution.holds.order_by("opened_seq"))
    for hold in holds:
        row = newest.get(hold.id) if hold.decision else None
        payload = row.payload if row else {}
        hold.comment = payload.get("comment", "")  # type: ignore[attr-defined]
        hold.edited = bool(payload.get("edited"))  # type: ignore[attr-defined]
        hold.reviewer = (  # type: ignore[attr-defined]
            reviewer_of(row.kind, payload, row.actor) if row else None
        )
    return holds


def open_holds(execution: Execution) -> QuerySet[Hold]:
    """Open holds of an execution, oldest first."""
    return execution.holds.filter(status=Hold.Status.OPEN).order_by("opened_seq")


def task_spec(execution: Execution, task_id: str) -> ToolTask | CodeTask | CapabilityTask | None:
    """A task of the present plan, or None."""
    return revision_of(execution).plan.by_id.get(task_id)


def settled_ids(execution: Execution, layers: Iterable[Iterable[str]]) -> frozenset[str]:
    """Those of the tasks in `layers` that have succeeded."""
    names = [name for layer in layers for name in layer]
    rows = TaskAttempt.objects.filter(
        execution=execution, task_id__in=names, settled=True, status=TaskStatus.SUCCEEDED.value
    )
    return frozenset(rows.values_list("task_id", flat=True))


# --- work ahead -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SpeculationCounts:
    """What came of results from ahead.

    `hits` became the results of their tasks and saved the seconds they had taken; `misses` were
    dropped.  `wasted_seconds` went into misses, failures, and what was given up on the way.
    """

    hits: int = 0
    misses: int = 0
    saved_seconds: float = 0.0
    wasted_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class SpeculativeResult:
    """A task with a result from ahead: `state` is READY, or RUNNING while it is worked out."""

    task_id: str
    state: str


def speculation_totals() -> SpeculationCounts:
    """Counts over every execution; none of them ever falls."""
    return _counts(Speculation.objects.all())


def speculation_counts(execution: Execution) -> SpeculationCounts:
    """Counts of one execution."""
    return _counts(Speculation.objects.filter(execution=execution))


def _counts(rows: QuerySet[Speculation]) -> SpeculationCounts:
    used, dropped = Q(state=Speculation.State.USED), Q(state=Speculation.State.DROPPED)
    found = rows.aggregate(
        hits=Count("id", filter=used),
        misses=Count("id", filter=dropped),
        saved=Sum("duration_ms", filter=used, default=0.0),
        wasted=Sum("wasted_ms", default=0.0),
    )
    saved, lost = round(found["saved"] / 1000, 3), round(found["wasted"] / 1000, 3)
    return SpeculationCounts(found["hits"], found["misses"], saved, lost)


def speculative_results(execution: Execution) -> dict[str, str]:
    """Task id → state, of the tasks with a result from ahead that nobody has decided about."""
    return {row.task_id: row.state for row in speculation_store.pending(execution.pk)}


def speculative_results_behind(hold: Hold) -> tuple[SpeculativeResult, ...]:
    """What is worked out behind an open hold and used if it is approved unchanged.

    The held task itself is among them when it may run ahead; a hold without a task has everything
    behind it.  Use the plan's edges to tell which of them read a field that was edited.
    """
    found = speculative_results(hold.execution)
    plan = revision_of(hold.execution).plan
    if hold.task_id in plan.by_id:
        after = plan.descendants(hold.task_id) | {hold.task_id}
        found = {name: state for name, state in found.items() if name in after}
    return tuple(SpeculativeResult(name, state) for name, state in found.items())


def speculation_stopped(execution: Execution) -> Stopped | None:
    """Whether work ahead has stopped itself for this execution's workflow, and until when."""
    return speculation_store.stopped(execution.pk)
