"""Which tasks could be worked out while somebody decides, as if everything open were approved
unchanged.

Nothing here passes a hold: what is found is run beside the execution, its results are kept aside,
and the real run asks its own questions, in its own order, later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .bounded_json import digest
from .dag import Revision, ToolTask
from .inputs import Spec, inputs_from, skip_reason
from .moves import is_critical
from .permissions import PermissionSet
from .plan_diff import changed_plan, loaded
from .ports import Run, Settled
from .reducers import merge_context
from .state import ExecutionState, Hold, SkipReason
from .status import ExecutionStatus, TaskStatus
from .task_errors import TaskFailed

_WAITS = (ExecutionStatus.PAUSED_FOR_REVIEW, ExecutionStatus.AWAITING_AGENT)


@dataclass(frozen=True, slots=True)
class Step:
    """A task whose inputs are known, in its layer."""

    task: ToolTask
    inputs: dict[str, Any]
    layer: int


def waits(run: Run) -> bool:
    """Whether somebody is asked and the policy lets work be done meanwhile."""
    is_open = run.state.status in _WAITS and bool(run.state.holds)
    return is_open and run.policy.speculation.enabled


@dataclass(frozen=True, slots=True)
class _AsIf:
    """A run as it will be when everything open is approved unchanged, a change of plan included."""

    state: ExecutionState
    revision: Revision
    inputs: Mapping[str, Any]
    context: Mapping[str, Any]


def _as_if(run: Run) -> _AsIf:
    revision, context, proposal = run.revision, run.context, run.state.proposal
    if proposal is not None:
        plan = changed_plan(revision.plan, loaded(proposal.change))
        revision = revision.revised(plan, begun=run.state.layer + 1)
        context = merge_context(dict(context), proposal.context)
    return _AsIf(run.state, revision, run.inputs, context)


def steps(run: Run, ahead: Mapping[str, Settled]) -> list[Step]:
    """The tasks whose inputs are known and that have no result, nearest layer first.

    `ahead` are the outcomes worked out so far.  A task that waits for one that cannot be worked
    out is not found, and neither is one that goes beyond reading.
    """
    seen = _as_if(run)
    state, revision = seen.state, seen.revision
    known = {**run.settled(sorted(_read(seen))), **ahead}
    found = []
    for layer in range(max(state.layer, 0), len(revision.layers)):
        for task in revision.tasks(layer):
            begun = layer <= state.layer
            if task.id in known or not task.needs <= known.keys():
                continue
            if begun and task.id not in state.tasks:
                continue
            if not begun:
                foreseen = _foreseen(task, known, seen, skipped=layer in state.skips)
                if foreseen is not None:
                    known[task.id] = foreseen
                    continue
            step = _step(task, known, seen, layer)
            if step is not None:
                found.append(step)
    return found


def _read(seen: _AsIf) -> set[str]:
    """Tasks that have ended and are read by what lies ahead; a held output counts as it stands."""
    state, revision = seen.state, seen.revision
    begun = state.layer + 1
    ended = {name for name, task in state.tasks.items() if task.status.is_settled}
    past = {name for layer in revision.layers[:begun] for name in layer}
    still = {*state.tasks, *(name for layer in revision.layers[begun:] for name in layer)} - ended
    by_id = revision.plan.by_id
    needed = {need for name in still if name in by_id for need in by_id[name].needs}
    return ended | (needed & past)


def _foreseen(
    task: Spec, known: Mapping[str, Settled], run: _AsIf, *, skipped: bool
) -> Settled | None:
    """How a task of a later layer will end without running; None when it will run."""
    if skipped:
        return Settled(TaskStatus.SKIPPED, skip=SkipReason.COMMAND)
    try:
        reason = skip_reason(task, known, run)
    except TaskFailed:
        return Settled(TaskStatus.FAILED)
    return None if reason is None else Settled(TaskStatus.SKIPPED, skip=reason)


def _step(task: Spec, known: Mapping[str, Settled], run: _AsIf, layer: int) -> Step | None:
    """The task with its inputs, if it is one that may run ahead of its turn."""
    state = run.state.tasks.get(task.id)
    tried = state is not None and (state.attempt > 0 or state.escalation is not None)
    if not isinstance(task, ToolTask) or is_critical(task) or tried:
        return None
    try:
        return Step(task, inputs_from(run, task, known), layer)
    except TaskFailed:
        return None


def behind(run: Run, task_id: str) -> Hold | None:
    """The open hold that a task waits for: its own, one of what it needs, or that of its layer."""
    plan = run.revision.plan
    for hold in run.state.holds:
        if hold.task_id is None or hold.task_id == task_id:
            return hold
        if task_id in plan.descendants(hold.task_id):
            return hold
    return next(iter(run.state.holds), None)


def digest_of(task: ToolTask, inputs: Mapping[str, Any], permissions: PermissionSet) -> str:
    """What a result hangs on: the task, its tool, its inputs and what it may touch."""
    return digest(
        {
            "task": task.id,
            "tool": task.tool,
            "arguments": dict(inputs),
            "permissions": permissions.model_dump(mode="json"),
        }
    )
