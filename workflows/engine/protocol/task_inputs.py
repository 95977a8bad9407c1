"""Inputs of a task with resolved references, and the reason to skip a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from workflows.engine.plans.dag import AnyTask, ExternalActionTask
from workflows.engine.plans.dataflow import condition_holds, resolve

from .ports import FinishedTask, Run
from .state import ExecutionState, SkipReason, TaskState

Spec = AnyTask


class RunValues(Protocol):
    """The values of a run that a task's inputs can reference, besides outputs of tasks."""

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
    """Return the task's inputs with resolved references and a reviewer's edits."""
    task = run.revision.plan.by_id[task_id]
    return inputs_from(run, task, run.finished_tasks(sorted(task.reads)))


def inputs_from(run: RunValues, task: Spec, finished: Mapping[str, FinishedTask]) -> dict[str, Any]:
    """Return the task's inputs, given the finished tasks that it reads.

    Raises:
        TaskFailed: a reference cannot be resolved.
    """
    state = run.state.tasks.get(task.id)
    if isinstance(task, ExternalActionTask):
        submitted = as_submitted(task, state)
        return {**submitted.values, **((state.edits if state else None) or {})}
    known = sources(finished, run)
    if state and state.feedback:
        # Each task reads only the feedback about its own output as `context.feedback`.
        known["context"] = {**run.context, "feedback": list(state.feedback)}
    resolved = resolve(dict(task.values), known)
    return {**resolved, **((state.edits if state else None) or {})}


def as_submitted(task: Spec, state: TaskState | None) -> Spec:
    """Return the task with the values that its caller submitted last."""
    if state is None or state.resubmitted is None:
        return task
    return task.model_copy(update=state.resubmitted)


def skip_reason(
    task: Spec, finished: Mapping[str, FinishedTask], run: RunValues
) -> SkipReason | None:
    """Return why a command, its dependencies or its condition skip the task; None if it runs.

    Raises:
        TaskFailed: the condition cannot be evaluated.
    """
    if task.id in run.state.skipped_tasks:
        return SkipReason.COMMAND
    mine = {need: finished[need] for need in task.needs if need in finished}
    needs = mine.values()
    if any(need.is_failure for need in needs):
        return SkipReason.UPSTREAM_FAILED
    # A task that a command skipped counts as done, without an output.
    if any(need.skip not in (None, SkipReason.COMMAND) for need in needs):
        return SkipReason.UPSTREAM_SKIPPED
    if task.when is not None and not condition_holds(task.when, sources(mine, run)):
        return SkipReason.CONDITION
    return None
