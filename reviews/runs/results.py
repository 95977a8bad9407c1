"""The result of a finished run: the files it wrote, and the outputs of its last tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from reviews.components.value_view import value_view
from reviews.decisions.masking import Masked
from workflows.engine.permissions import NAMED
from workflows.engine.status import ExecutionStatus, TaskStatus
from workflows.executions.selectors import TaskView, revision_of
from workflows.models import Execution

_MAX_OUTPUTS: Final = 10
_MAX_FILES: Final = 50
_PATH_KEYS: Final = ("path", "file", "filename")


def result_panel(
    execution: Execution, tasks: Iterable[TaskView], views: Mapping[tuple[str, str], Masked]
) -> dict[str, Any] | None:
    """Return `run.result` of the templates; None while the run is live or has no result.

    `views` are the masked inputs and outputs of the tasks by (id, side).
    """
    if not ExecutionStatus(execution.status).is_final:
        return None
    done = [each for each in tasks if each.status == TaskStatus.SUCCEEDED]
    leaves = revision_of(execution).plan.leaves
    last = [each for each in done if each.id in leaves]
    files = tuple(dict.fromkeys(_files(done, views)))
    if not files and not last:
        return None
    return {
        "files": files[:_MAX_FILES],
        "outputs": tuple(
            {"id": each.id, "title": each.label, "view": _view(views[each.id, "output"])}
            for each in last[:_MAX_OUTPUTS]
        ),
        "more": max(0, len(last) - _MAX_OUTPUTS),
    }


def _view(masked: Masked) -> Any:
    return value_view(masked.value, masked.rules.schema)


def _files(tasks: Iterable[TaskView], views: Mapping[tuple[str, str], Masked]) -> Iterator[str]:
    """Yield the paths in the inputs of tasks whose permission set allows writing."""
    for task in tasks:
        known = NAMED.get(task.permission_set or "")
        inputs = views[task.id, "inputs"].value
        if known is None or not known.write_paths or not isinstance(inputs, dict):
            continue
        path = next((inputs[key] for key in _PATH_KEYS if isinstance(inputs.get(key), str)), "")
        if path:
            yield path
