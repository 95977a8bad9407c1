"""What a task works on: its inputs with every reference resolved; and whether it works at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from .dag import CapabilityTask, CodeTask, ToolTask
from .dataflow import condition_holds, resolve
from .ports import FinishedTask, Run
from .state import ExecutionState, SkipReason

Spec = ToolTask | CodeTask | CapabilityTask


class RunValues(Protocol):
    """What of a run a task's inputs come from, besides other tasks."""

    @property
    def inputs(self) -> Mapping[str, Any]: ...

    @property
    def context(self) -> Mapping[str, Any]: ...

    @property
    def state(self) -> ExecutionState: ...


def sources(finished: Mapping[str, FinishedTask], run: RunValues) -> dict[str, Any]:
    outputs = {name: each.output for name, each in finished.items()}
    return {**outputs, "inputs": run.inputs, "context": run.context}


def task_inputs(run: Run, task_id: str) -> dict[str, Any]:
    """The task's inputs, references resolved, a reviewer's edits laid over them."""
    task = run.revision.plan.by_id[task_id]
    return inputs_from(run, task, run.finished_tasks(sorted(task.reads)))


def inputs_from(run: RunValues, task: Spec, finished: Mapping[str, FinishedTask]) -> dict[str, Any]:
    """The same, with what the task reads given; raises TaskFailed for a reference that fails."""
    state = run.state.tasks.get(task.id)
    known = sources(finished, run)
    if state and state.feedback:
        # To this task alone: what it reads as context.feedback is what was said about its output.
        known["context"] = {**run.context, "feedback": list(state.feedback)}
    resolved = resolve(dict(task.values), known)
    return {**resolved, **((state.edits if state else None) or {})}


def skip_reason(
    task: Spec, finished: Mapping[str, FinishedTask], run: RunValues
) -> SkipReason | None:
    """Why the task will not run, by what it waits for and by its condition.

    Raises TaskFailed when the condition cannot be worked out.
    """
    mine = {need: finished[need] for need in task.needs if need in finished}
    needs = mine.values()
    if any(need.is_failure for need in needs):
        return SkipReason.UPSTREAM_FAILED
    # What a command skipped counts as done, without an output.
    if any(need.skip not in (None, SkipReason.COMMAND) for need in needs):
        return SkipReason.UPSTREAM_SKIPPED
    if task.when is not None and not condition_holds(task.when, sources(mine, run)):
        return SkipReason.CONDITION
    return None
