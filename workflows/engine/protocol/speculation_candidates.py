"""Candidates for speculation: tasks that would run next if every open hold were approved unchanged.

Speculation passes no hold.  The candidates run outside the execution, their results are stored
separately, and the execution still opens every hold of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workflows.engine.plans.dag import Plan, Revision, ToolTask
from workflows.engine.plans.diff import changed_plan, load_change
from workflows.engine.plans.risk import is_critical
from workflows.engine.plans.task_errors import TaskFailed
from workflows.engine.policy.permissions import PermissionSet
from workflows.engine.values.bounded_json import digest

from .ports import FinishedTask, Run
from .reducers import merge_context
from .state import ExecutionState, Hold
from .status import ExecutionStatus, TaskStatus
from .task_inputs import Spec, inputs_from, skip_reason

_RESTING = (ExecutionStatus.PAUSED_FOR_REVIEW, ExecutionStatus.AWAITING_AGENT)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A task with resolved inputs, and its layer."""

    task: ToolTask
    inputs: dict[str, Any]
    layer: int


def may_speculate(run: Run) -> bool:
    """Return whether the run has an open hold and its policy allows speculation."""
    is_open = run.state.status in _RESTING and bool(run.state.holds)
    return is_open and run.policy.speculation.enabled


@dataclass(frozen=True, slots=True)
class _HypotheticalRun:
    """The run if every open hold, including a plan change, is approved unchanged."""

    state: ExecutionState
    revision: Revision
    inputs: Mapping[str, Any]
    context: Mapping[str, Any]


def _assume_approved(run: Run, predicted: Plan | None) -> _HypotheticalRun:
    revision, context, proposal = run.revision, run.context, run.state.proposal
    if proposal is not None:
        plan = changed_plan(revision.plan, load_change(proposal.change))
        revision = revision.revised(plan, begun=run.state.layer + 1)
        context = merge_context(dict(context), proposal.context)
    elif predicted is not None:
        revision = revision.revised(predicted, begun=run.state.layer + 1)
    return _HypotheticalRun(run.state, revision, run.inputs, context)


def may_be_replanned(run: Run) -> bool:
    """Return whether the run waits for an agent, who may answer with a replan."""
    is_awaited = run.state.status is ExecutionStatus.AWAITING_AGENT
    return is_awaited and run.state.proposal is None


def candidates(
    run: Run, speculated: Mapping[str, FinishedTask], predicted: Plan | None = None
) -> list[Candidate]:
    """Return the tasks with resolvable inputs and no result, nearest layer first.

    `speculated` holds the speculative results so far, and `predicted` is the plan that a replan
    will probably make.  Tasks that can modify data are left out, and so are tasks that depend on
    them.
    """
    assumed = _assume_approved(run, predicted)
    state, revision = assumed.state, assumed.revision
    known = {**run.finished_tasks(sorted(_tasks_read(assumed))), **speculated}
    found: list[Candidate] = []
    for layer in range(max(state.layer, 0), len(revision.layers)):
        for task in revision.tasks(layer):
            begun = layer <= state.layer
            if task.id in known or not task.needs <= known.keys():
                continue
            if begun and task.id not in state.tasks:
                continue
            if not begun:
                outcome = _predicted_outcome(task, known, assumed)
                if outcome is not None:
                    known[task.id] = outcome
                    continue
            candidate = _candidate(task, known, assumed, layer)
            if candidate is not None:
                found.append(candidate)
    return found


def _tasks_read(assumed: _HypotheticalRun) -> set[str]:
    """Return the ended tasks that later tasks read; a held output counts unchanged."""
    state, revision = assumed.state, assumed.revision
    begun = state.layer + 1
    ended = {name for name, task in state.tasks.items() if task.status.is_final}
    past = {name for layer in revision.layers[:begun] for name in layer}
    still = {*state.tasks, *(name for layer in revision.layers[begun:] for name in layer)} - ended
    by_id = revision.plan.by_id
    needed = {need for name in still if name in by_id for need in by_id[name].needs}
    return ended | (needed & past)


def _predicted_outcome(
    task: Spec, known: Mapping[str, FinishedTask], run: _HypotheticalRun
) -> FinishedTask | None:
    """Return the outcome of a task that will be skipped or fail without running, else None."""
    try:
        reason = skip_reason(task, known, run)
    except TaskFailed:
        return FinishedTask(TaskStatus.FAILED)
    return None if reason is None else FinishedTask(TaskStatus.SKIPPED, skip=reason)


def _candidate(
    task: Spec, known: Mapping[str, FinishedTask], run: _HypotheticalRun, layer: int
) -> Candidate | None:
    """Return the task as a candidate if speculation may run it."""
    state = run.state.tasks.get(task.id)
    tried = state is not None and (state.attempt > 0 or state.escalation is not None)
    if not isinstance(task, ToolTask) or task.runner or is_critical(task) or tried:
        return None
    try:
        return Candidate(task, inputs_from(run, task, known), layer)
    except TaskFailed:
        return None


def blocking_hold(run: Run, task_id: str) -> Hold | None:
    """Return the open hold that blocks a task: its own, a dependency's, or its layer's."""
    plan = run.revision.plan
    for hold in run.state.holds:
        if hold.task_id is None or hold.task_id == task_id:
            return hold
        if task_id in plan.descendants(hold.task_id):
            return hold
    return next(iter(run.state.holds), None)


def result_digest(task: ToolTask, inputs: Mapping[str, Any], permissions: PermissionSet) -> str:
    """Return a digest of the task, its tool, inputs and permissions; it identifies the result."""
    return digest(
        {
            "task": task.id,
            "tool": task.tool,
            "arguments": dict(inputs),
            "permissions": permissions.model_dump(mode="json"),
        }
    )
