"""The result of a finished run: the files it wrote, and the outputs of its last tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from reviews.components.value_view import value_view
from reviews.decisions.masking import Masked
from workflows.engine.policy.permissions import NAMED
from workflows.engine.protocol.status import ExecutionStatus, TaskStatus
from workflows.executions.selectors import TaskView, revision_of
from workflows.models import Execution
from workflows.tools.run_folders import folder_name

_MAX_OUTPUTS: Final = 10
_MAX_FILES: Final = 50
_PATH_KEYS: Final = ("path", "file", "filename")


def result_tasks(execution: Execution, tasks: Iterable[TaskView]) -> list[TaskView]:
    """Return the tasks whose data `result_panel` needs; none while the run is live."""
    if not ExecutionStatus(execution.status).is_final:
        return []
    done = [each for each in tasks if each.status == TaskStatus.SUCCEEDED]
    return [*_last(execution, done)[:_MAX_OUTPUTS], *_writers(done)]


def result_panel(
    execution: Execution, tasks: Iterable[TaskView], views: Mapping[tuple[str, str], Masked]
) -> dict[str, Any] | None:
    """Return `run.result` of the templates; None while the run is live or has no result.

    `views` are the masked inputs and outputs of `result_tasks` by (id, side).
    """
    if not ExecutionStatus(execution.status).is_final:
        return None
    done = [each for each in tasks if each.status == TaskStatus.SUCCEEDED]
    last = _last(execution, done)
    files = tuple(dict.fromkeys(_files(_writers(done), views)))
    if not files and not last:
        return None
    return {
        "files": files,
        "folder": folder_name(execution),
        "outputs": tuple(
            {"id": each.id, "title": each.label, "view": _view(views[each.id, "output"])}
            for each in last[:_MAX_OUTPUTS]
        ),
        "more": max(0, len(last) - _MAX_OUTPUTS),
    }


def _last(execution: Execution, done: Iterable[TaskView]) -> list[TaskView]:
    leaves = revision_of(execution).plan.leaves
    return [each for each in done if each.id in leaves]


def _writers(done: Iterable[TaskView]) -> list[TaskView]:
    """Return the first tasks whose permission set allows writing."""
    return [task for task in done if _may_write(task)][:_MAX_FILES]


def _may_write(task: TaskView) -> bool:
    known = NAMED.get(task.permission_set or "")
    return known is not None and bool(known.write_paths)


def _view(masked: Masked) -> Any:
    return value_view(masked.value, masked.rules.schema)


def _files(tasks: Iterable[TaskView], views: Mapping[tuple[str, str], Masked]) -> Iterator[str]:
    """Yield the paths in the inputs of these tasks."""
    for task in tasks:
        inputs = views[task.id, "inputs"].value
        if not isinstance(inputs, dict):
            continue
        path = next((inputs[key] for key in _PATH_KEYS if isinstance(inputs.get(key), str)), "")
        if path:
            yield path
