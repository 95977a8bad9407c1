"""`next_move(state, …)`: chooses a worker's next move.  The order of its checks is the protocol."""

from __future__ import annotations

from dataclasses import dataclass

from workflows.engine.plans.dag import Revision
from workflows.engine.plans.risk import is_critical
from workflows.engine.policy.policies import Policy, TriggerPhase

from .state import ExecutionState, HoldReason, Stage, TaskState
from .status import ExecutionStatus, TaskStatus


@dataclass(frozen=True, slots=True)
class ApplyCommands:
    """Apply the commands that were queued while a layer ran."""


@dataclass(frozen=True, slots=True)
class Begin:
    """The first move of every execution."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Wait for a decision, or until `until` (epoch seconds)."""

    until: float | None = None


@dataclass(frozen=True, slots=True)
class RunTasks:
    task_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gate:
    """A hold that is due: its reason, and the task and phase of a task review."""

    reason: HoldReason
    task_id: str | None = None
    phase: TriggerPhase | None = None


@dataclass(frozen=True, slots=True)
class OpenHolds:
    gates: tuple[Gate, ...]


@dataclass(frozen=True, slots=True)
class CloseLayer:
    pass


@dataclass(frozen=True, slots=True)
class AskAgent:
    agent: str


@dataclass(frozen=True, slots=True)
class StartLayer:
    layer: int


@dataclass(frozen=True, slots=True)
class RecordLayerSkip:
    """Record that the next layer is skipped: commands skip all of its tasks."""

    layer: int


@dataclass(frozen=True, slots=True)
class EndWait:
    """End a run whose caller did not submit its action again in time."""


@dataclass(frozen=True, slots=True)
class Finish:
    failed: bool


Move = (
    ApplyCommands
    | Begin
    | Rest
    | RunTasks
    | OpenHolds
    | CloseLayer
    | AskAgent
    | StartLayer
    | RecordLayerSkip
    | EndWait
    | Finish
)


def next_move(
    state: ExecutionState, revision: Revision, policy: Policy, *, queued: int, now: float
) -> Move:
    """Return the next move, from these checks in order:

    commands queued? · running at all? · holds open? · tasks clear to run? · gates due? ·
    layer finished? · agent's turn? · validation? · next layer's approval? · another layer? · end.
    """
    if queued:
        return ApplyCommands()
    if state.status is ExecutionStatus.PENDING:
        return Begin()
    if state.status is not ExecutionStatus.RUNNING or state.holds:
        return Rest()
    if state.stage is Stage.RUN:
        return _inside_layer(state, revision, now)
    return _at_boundary(state, revision, policy)


#: A run that waits for its caller is not claimed for this long; a command ends the rest.
_CALLER_SECONDS = 86_400.0


def _inside_layer(state: ExecutionState, revision: Revision, now: float) -> Move:
    waiting = [task for task in state.tasks.values() if task.waits_for_caller]
    if waiting:
        return _wait_for_caller(waiting[0].waits_until, now)
    by_id = revision.plan.by_id
    gates = tuple(
        gate for task_id, task in state.tasks.items() if (gate := _gate(by_id[task_id], task))
    )
    held = {gate.task_id for gate in gates}
    pending = [
        task_id
        for task_id, task in state.tasks.items()
        if not task.status.is_final and task_id not in held
    ]
    clear = tuple(task_id for task_id in pending if _is_due(state.tasks[task_id], now))
    if clear:
        return RunTasks(clear)
    if gates or state.proposal is not None:
        return OpenHolds((*gates, *_plan_review(state)))
    if pending:
        return Rest(until=min(_due_at(state.tasks[task_id], now) for task_id in pending))
    return CloseLayer()


def _wait_for_caller(until: float | None, now: float) -> Rest | EndWait:
    if until is not None and until <= now:
        return EndWait()
    at_most = now + _CALLER_SECONDS
    return Rest(until=at_most if until is None else min(until, at_most))


def _is_due(task: TaskState, now: float) -> bool:
    if task.remote is not None:
        return False
    return task.retry_at is None or task.retry_at <= now


def _due_at(task: TaskState, now: float) -> float:
    """Return when the run goes on for this task, unless its remote runner ends it earlier."""
    return task.remote.until if task.remote is not None else task.retry_at or now


def _gate(spec: object, task: TaskState) -> Gate | None:
    """Return the hold that this task needs before it can go on, or None."""
    task_id = getattr(spec, "id", "")
    if task.status is TaskStatus.PENDING and task.escalation is not None:
        return Gate(HoldReason.ESCALATION, task_id)
    review = getattr(spec, "human_review", None)
    if review is None or not review.enabled or task.cleared:
        return None
    phase = review.trigger_phase
    before = phase is TriggerPhase.BEFORE_EXECUTION and task.status is TaskStatus.PENDING
    after = phase is TriggerPhase.AFTER_EXECUTION and task.status is TaskStatus.SUCCEEDED
    return Gate(HoldReason.NODE_REVIEW, task_id, phase) if before or after else None


def _plan_review(state: ExecutionState) -> tuple[Gate, ...]:
    """Return the hold for a proposed plan change; it precedes the next layer."""
    return () if state.proposal is None else (Gate(HoldReason.REPLAN_REVIEW),)


def _at_boundary(state: ExecutionState, revision: Revision, policy: Policy) -> Move:
    if state.proposal is not None:
        return OpenHolds(_plan_review(state))
    if state.stage is Stage.AGENT and _agent_due(state, policy):
        if policy.ail.agent != "external":
            return AskAgent(policy.ail.agent)
        # No layer follows the last one, so no hold opens for an external agent there; a registered
        # agent answers immediately and may still replan.
        if not state.is_last_layer:
            return OpenHolds((Gate(HoldReason.AGENT_DECISION),))
    validates = policy.per_layer_validation and (
        policy.validate_last_layer or not state.is_last_layer
    )
    if validates and state.stage is not Stage.APPROVAL and state.layer >= 0:
        return OpenHolds((Gate(HoldReason.LAYER_VALIDATION),))
    if state.is_last_layer:
        return Finish(failed=state.failed_leaf)
    if state.skipped_tasks.issuperset(revision.layers[state.layer + 1]):
        return RecordLayerSkip(state.layer + 1)
    if not state.approved and approval_due(revision, state.layer + 1, policy):
        return OpenHolds((Gate(HoldReason.LAYER_APPROVAL),))
    return StartLayer(state.layer + 1)


def _agent_due(state: ExecutionState, policy: Policy) -> bool:
    if not policy.ail.enabled:
        return False
    match policy.ail.decision_points:
        case "per_layer":
            return True
        case "on_error":
            return state.layer_failed or state.agent_requested
        case "manual":
            return state.agent_requested


def approval_due(revision: Revision, layer: int, policy: Policy) -> bool:
    """Return whether the policy requires a person's approval before this layer."""
    hil = policy.hil
    if not hil.enabled or hil.approval_required == "never":
        return False
    if hil.approval_required == "always":
        return True
    return any(is_critical(task) for task in revision.tasks(layer))
