"""What a task works on: its inputs with every reference resolved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .dag import references
from .dataflow import resolve
from .ports import Run, Settled


def sources(settled: Mapping[str, Settled], run: Run) -> dict[str, Any]:
    outputs = {name: each.output for name, each in settled.items()}
    return {**outputs, "inputs": run.inputs, "context": run.context}


def task_inputs(run: Run, task_id: str) -> dict[str, Any]:
    """The task's inputs, references resolved, a reviewer's edits laid over them."""
    task = run.revision.plan.by_id[task_id]
    read = task.needs.intersection(references(task.values))
    found = sources(run.settled(sorted(read)), run)
    resolved = resolve(dict(task.values), found)
    return {**resolved, **(run.state.tasks[task_id].edits or {})}
