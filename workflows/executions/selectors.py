"""Read executions: tasks, events, messages, decisions, holds and speculative results."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
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

from workflows import conf
from workflows.common.redaction import mask_secrets
from workflows.engine.plans.dag import AnyTask, Revision
from workflows.engine.policy.policies import Policy
from workflows.engine.protocol.actors import SYSTEM
from workflows.engine.protocol.decide import DecisionContext, Refused, decide
from workflows.engine.protocol.decision_history import ABORT_CAUSES, DECISION_KINDS, reviewer_of
from workflows.engine.protocol.state import RemoteCall, SkipReason, load_state
from workflows.engine.protocol.status import ExecutionStatus, TaskStatus
from workflows.journal.lineage import ancestors_of
from workflows.journal.writer import load_revision
from workflows.models import Execution, ExecutionEvent, Hold, Speculation, TaskAttempt
from workflows.remote import live_output
from workflows.speculation import store as speculation_store
from workflows.speculation.policy import Stopped

from . import access


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task with its result.

    `status` is the value of a TaskStatus; `held` is the id of the open hold that stops the task.
    `output` is the output that later tasks read: the reviewer's edit if there is one, and None if
    the output was rejected or sent back.  `original_output` is always the task's own output.
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
    error_code: str = ""
    error_params: Mapping[str, Any] = field(default_factory=dict)
    logs: str = ""
    duration_ms: float = 0
    held: str = ""
    attempts: tuple[TaskAttempt, ...] = field(default=())
    is_rejected: bool = False
    # The call of a remote runner that runs the task, and the share of the work that it has done.
    remote: RemoteCall | None = None
    progress: float | None = None


def revision_of(execution: Execution) -> Revision:
    """Return the present plan revision of an execution."""
    return load_revision(execution.pk, execution.revision)


def refusal(execution: Execution, command: object) -> str:
    """Return why the engine would refuse a command in the present state; "" if it takes it.

    A replan can still fail when its planner finds no plan.
    """
    context = DecisionContext(
        revision=revision_of(execution),
        policy=Policy.model_validate(execution.policy),
        actor=SYSTEM,
        max_replans=conf.max_replans(),
        max_failed_replans=conf.max_failed_replans(),
    )
    try:
        decide(load_state({**execution.state, "version": execution.version}), command, context)
    except Refused as refused:
        return refused.message
    return ""


#: Columns of an attempt that `tasks_of` leaves in the database when only states are read.
_DATA = ("inputs", "output", "edited_output", "error", "error_params", "logs")


def tasks_of(
    execution: Execution,
    *,
    layer: int | None = None,
    names: Collection[str] | None = None,
    data: bool = True,
) -> list[TaskView]:
    """Return the tasks of the present plan by layer, with three queries.

    `layer` and `names` limit them to a layer and to these ids; the cost of one layer does not
    depend on the length of the execution.  Without `data` the views have states and times, but no
    inputs, outputs, errors, attempts, and logs of tasks that have ended.
    """
    revision = revision_of(execution)
    layers = range(len(revision.layers)) if layer is None else (layer,)
    rows = TaskAttempt.objects.filter(execution=execution).order_by("attempt")
    if layer is not None:
        rows = rows.filter(task_id__in=revision.layers[layer])
    if names is not None:
        rows = rows.filter(task_id__in=names)
    if not data:
        rows = rows.defer(*_DATA)
    attempts: dict[str, list[TaskAttempt]] = {}
    for row in rows:
        attempts.setdefault(row.task_id, []).append(row)
    holds = Hold.objects.filter(execution=execution, status=Hold.Status.OPEN)
    held = dict(holds.exclude(task_id="").values_list("task_id", "id"))
    views = [
        _view(
            execution, revision, number, name, attempts.get(name, ()), held.get(name, ""), data=data
        )
        for number in layers
        for name in revision.layers[number]
        if names is None or name in names
    ]
    return _with_live_output(views)


def tasks_at_start(execution: Execution) -> list[TaskView]:
    """Return the tasks of an execution that has taken no step yet; reads only its plan."""
    revision = revision_of(execution)
    return [
        _view(execution, revision, number, name, (), "", data=False)
        for number, layer in enumerate(revision.layers)
        for name in layer
    ]


def _with_live_output(views: list[TaskView]) -> list[TaskView]:
    """Add what remote tasks that run have printed."""
    outputs = live_output.read([view.remote.handle for view in views if view.remote is not None])
    if not outputs:
        return views
    return [
        replace(view, logs=output.logs, progress=output.progress)
        if view.remote is not None and (output := outputs.get(view.remote.handle)) is not None
        else view
        for view in views
    ]


def live_version(views: Iterable[TaskView]) -> str:
    """Return a digest of what the remote tasks that run have printed; "" if none runs."""
    texts = [f"{view.remote.handle} {view.progress} {view.logs}" for view in views if view.remote]
    return sha256("\0".join(texts).encode()).hexdigest()[:16] if texts else ""


def _view(
    execution: Execution,
    revision: Revision,
    layer: int,
    name: str,
    attempts: Iterable[TaskAttempt],
    held: str,
    *,
    data: bool,
) -> TaskView:
    task = revision.plan.by_id[name]
    tries = tuple(attempts)
    last = tries[-1] if tries else None
    remote = _remote_call(execution, name)
    status = TaskStatus.RUNNING.value if remote else _status(execution, layer, last, held)
    view = TaskView(
        id=name,
        label=task.label,
        type=task.type,
        target=task.target,
        layer=layer,
        needs=tuple(sorted(task.needs)),
        permission_set=task.permission_set,
        status=status,
        held=held,
        remote=remote,
    )
    if last is None:
        return view
    view = replace(
        view,
        when=last.created_at,
        skip_reason=last.skip_reason,
        is_rejected=_is_rejected(last),
        is_edited=last.is_edited,
        duration_ms=last.duration_ms,
    )
    return _with_data(view, tries) if data else view


def _with_data(view: TaskView, tries: tuple[TaskAttempt, ...]) -> TaskView:
    last = tries[-1]
    return replace(
        view,
        attempts=tries,
        inputs=last.inputs,
        output=_effective_output(last),
        original_output=last.output,
        error=last.error,
        error_code=last.error_code,
        error_params=last.error_params,
        logs=last.logs,
    )


def runs_remotely(execution: Execution) -> bool:
    """Whether a remote task runs, whose output changes without a step of the execution."""
    return any(task.get("remote") for task in execution.state.get("tasks", {}).values())


def _remote_call(execution: Execution, name: str) -> RemoteCall | None:
    remote = execution.state.get("tasks", {}).get(name, {}).get("remote")
    return RemoteCall(**remote) if remote else None


def _effective_output(last: TaskAttempt) -> Any:
    if not last.settled or last.status != TaskStatus.SUCCEEDED:
        return None
    return last.edited_output if last.is_edited else last.output


def _is_rejected(last: TaskAttempt) -> bool:
    """Whether a reviewer rejected the task; the execution may continue all the same."""
    by_reviewer = last.skip_reason == SkipReason.REVIEWER
    return last.settled and (last.status == TaskStatus.REJECTED or by_reviewer)


def _status(execution: Execution, layer: int, last: TaskAttempt | None, held: str) -> str:
    if last is not None and last.settled:
        return last.status
    runs = execution.status == ExecutionStatus.RUNNING and layer == execution.layer
    return (TaskStatus.RUNNING if runs and not held else TaskStatus.PENDING).value


def events_of(execution: Execution, *, after: int = 0) -> QuerySet[ExecutionEvent]:
    """Return the events of an execution, oldest first."""
    return ExecutionEvent.objects.filter(execution=execution, seq__gt=after).order_by("seq")


def messages_of(execution: Execution) -> list[dict[str, Any]]:
    """Return the newest messages, oldest first: role, content, author, time and seq."""
    rows = ExecutionEvent.objects.filter(execution=execution, kind="message_added")
    newest = rows.order_by("-seq")[: conf.conversation_messages()]
    return [
        {**row.payload, "seq": row.seq, "created_at": row.created_at}
        for row in reversed(list(newest))
    ]


def decisions_of(execution: Execution, user: Any) -> QuerySet[ExecutionEvent]:
    """Return the events that are decisions of people and agents, annotated for `decision_of`.

    A fork's decisions start with its ancestors' decisions up to the checkpoints it was forked from,
    as far as the user may see these executions.  `place` is their order.
    """
    before = ExecutionEvent.objects.filter(execution=OuterRef("execution"), seq=OuterRef("seq") - 1)
    waits = Hold.objects.filter(
        execution=OuterRef("execution"), decider="agent", status=Hold.Status.CLOSED
    )
    history, place = _history(execution, user)
    rows = ExecutionEvent.objects.filter(history, kind__in=DECISION_KINDS)
    carried_out = Q(kind="hold_decided", payload__answered=True)
    failed_hold = Q(kind="agent_failed") & ~Q(payload__hold_id=None)
    rows = rows.exclude(carried_out).exclude(failed_hold)
    return rows.annotate(
        before=Subquery(before.values("kind")[:1]), for_agent=Exists(waits), place=place
    ).exclude(kind="execution_aborted", before__in=ABORT_CAUSES)


def _history(execution: Execution, user: Any) -> tuple[Q, Combinable]:
    """Return a filter for the events of an execution's history, and their order."""
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
    """Return the holds of an execution, oldest first, with `comment`, `edited` and `reviewer`.

    These attributes describe the decision in effect, and are empty while the hold is open.
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
            reviewer_of(row.kind, payload, row.by) if row else None
        )
    return holds


def open_holds(execution: Execution) -> QuerySet[Hold]:
    """Return the open holds of an execution, oldest first."""
    return execution.holds.filter(status=Hold.Status.OPEN).order_by("opened_seq")


def task_spec(execution: Execution, task_id: str) -> AnyTask | None:
    """Return a task of the present plan, or None."""
    return revision_of(execution).plan.by_id.get(task_id)


def settled_ids(execution: Execution, layers: Iterable[Iterable[str]]) -> frozenset[str]:
    """Return the ids of the tasks in `layers` that have succeeded."""
    names = [name for layer in layers for name in layer]
    rows = TaskAttempt.objects.filter(
        execution=execution, task_id__in=names, settled=True, status=TaskStatus.SUCCEEDED.value
    )
    return frozenset(rows.values_list("task_id", flat=True))


# --- speculation ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SpeculationCounts:
    """Counts of speculative results.

    `hits` became results of their tasks and saved `saved_seconds`; `misses` were dropped.
    `wasted_seconds` is the time of misses, failures and stopped computations.
    """

    hits: int = 0
    misses: int = 0
    saved_seconds: float = 0.0
    wasted_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class SpeculativeResult:
    """A task with a speculative result; `state` is RUNNING or READY."""

    task_id: str
    state: str


def speculation_totals() -> SpeculationCounts:
    """Return the counts over all executions, which never decrease."""
    return _counts(Speculation.objects.all())


def speculation_counts(execution: Execution) -> SpeculationCounts:
    """Return the counts of one execution."""
    return _counts(Speculation.objects.filter(execution=execution))


def _counts(rows: QuerySet[Speculation]) -> SpeculationCounts:
    used, dropped = Q(state=Speculation.State.USED), Q(state=Speculation.State.DROPPED)
    sums = rows.aggregate(
        hits=Count("id", filter=used),
        misses=Count("id", filter=dropped),
        saved=Sum("duration_ms", filter=used, default=0.0),
        wasted=Sum("wasted_ms", default=0.0),
    )
    saved, wasted = round(sums["saved"] / 1000, 3), round(sums["wasted"] / 1000, 3)
    return SpeculationCounts(sums["hits"], sums["misses"], saved, wasted)


def speculative_results(execution: Execution) -> dict[str, str]:
    """Return the tasks whose speculative result is running or ready: task id → state."""
    return {row.task_id: row.state for row in speculation_store.pending(execution.pk)}


def speculative_results_behind(hold: Hold) -> tuple[SpeculativeResult, ...]:
    """Return the speculative results that are used if an open hold is approved unchanged.

    They include that of the held task itself.  For a hold without a task, they are all results of
    the execution.
    """
    states = speculative_results(hold.execution)
    plan = revision_of(hold.execution).plan
    if hold.task_id in plan.by_id:
        after = plan.descendants(hold.task_id) | {hold.task_id}
        states = {name: state for name, state in states.items() if name in after}
    return tuple(SpeculativeResult(name, state) for name, state in states.items())


def speculation_stopped(execution: Execution) -> Stopped | None:
    """Return the pause of speculation for this execution's workflow, if there is one."""
    return speculation_store.stopped(execution.pk)


def replan_questions(payload: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what the planner is unsure of, from the event of a changed or proposed plan."""
    tasks = payload.get("why", {}).values()
    return tuple(mask_secrets(text) for task in tasks for text in task.get("questions", ()))
