"""Compare two runs: task by task, and plan by plan."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_
from django.utils.translation import ngettext

from reviews.audit.reveals import task_rules
from reviews.components import labels as components_labels
from reviews.components.json_diffs import Change, diff, same
from reviews.components.reasons import render_stored
from reviews.decisions.edits import inputs_schema, secret_rules
from reviews.decisions.masking import Rules, masked
from reviews.templatetags.desk import seconds_text
from workflows.common.redaction import mask_secrets
from workflows.engine.dag import Plan
from workflows.engine.status import TaskStatus
from workflows.executions.selectors import TaskView, revision_of, tasks_of
from workflows.models import Execution

#: Longer values (in characters) are only checked for equality.
MAX_LENGTH = 200_000


@dataclass(frozen=True, slots=True)
class Difference:
    """The changes between two values.

    `is_long` if they are too long for a diff; `only` is left or right if the other side has no
    value yet, and the values are not compared then.
    """

    changes: tuple[Change, ...] = ()
    is_long: bool = False
    only: Literal["left", "right", ""] = ""

    @property
    def any(self) -> bool:
        return self.is_long or bool(self.only) or bool(self.changes)


@dataclass(frozen=True, slots=True)
class Pair:
    """One task in both runs; None if the plan of a run does not contain it."""

    id: str
    left: TaskView | None
    right: TaskView | None
    inputs: Difference
    output: Difference

    @property
    def differs(self) -> bool:
        """Whether data, status or presence differ; durations are ignored."""
        if self.left is None or self.right is None:
            return True
        return self.inputs.any or self.output.any or self.left.status != self.right.status


@dataclass(frozen=True, slots=True)
class PlanDifference:
    """Ids of added and removed tasks, and changed tasks with their differences."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[tuple[str, Difference], ...]

    @property
    def any(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def difference(left: Any, right: Any) -> Difference:
    """Return the difference of two JSON values."""
    if left == right and _text(left) == _text(right):
        return Difference()
    if len(_text(left)) > MAX_LENGTH or len(_text(right)) > MAX_LENGTH:
        return Difference(is_long=True)
    return Difference(diff(left, right))


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


#: (task id, `inputs` or `output`, left value, right value) → difference.
Compare = Callable[[str, str, Any, Any], Difference]


def pairs(left: Sequence[TaskView], right: Sequence[TaskView], compare: Compare) -> list[Pair]:
    """Pair the tasks of both runs: the left run's order, then tasks only in the right run."""
    mine, theirs = {task.id: task for task in left}, {task.id: task for task in right}
    names = [*mine, *(name for name in theirs if name not in mine)]
    return [_pair(name, mine.get(name), theirs.get(name), compare) for name in names]


def _pair(name: str, left: TaskView | None, right: TaskView | None, compare: Compare) -> Pair:
    if left is None or right is None:
        return Pair(name, left, right, Difference(), Difference())
    return Pair(
        name,
        left,
        right,
        _compared(name, "inputs", left, right, compare),
        _compared(name, "output", left, right, compare),
    )


def _compared(
    name: str, side: str, left: TaskView, right: TaskView, compare: Compare
) -> Difference:
    """Compare what both runs have; a task that has not run has no inputs and no output."""
    in_left, in_right = _has(left, side), _has(right, side)
    if in_left and in_right:
        return compare(name, side, getattr(left, side), getattr(right, side))
    if in_left or in_right:
        return Difference(only="left" if in_left else "right")
    return Difference()


def _has(task: TaskView, side: str) -> bool:
    return getattr(task, side) is not None or (
        side == "output" and task.status == TaskStatus.SUCCEEDED
    )


def plan_difference(
    left: Plan, right: Plan, compare: Callable[[Any, Any], Difference] = difference
) -> PlanDifference:
    """Compare two plans; `compare` returns the difference of a task's specification."""
    mine, theirs = _specs(left), _specs(right)
    both = [(name, compare(mine[name], theirs[name])) for name in mine if name in theirs]
    return PlanDifference(
        added=_missing(theirs, mine),
        removed=_missing(mine, theirs),
        changed=tuple((name, each) for name, each in both if each.any),
    )


def _missing(names: Iterable[str], known: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in known)


def _specs(plan: Plan) -> dict[str, Any]:
    return {
        task.id: task.model_dump(mode="json", by_alias=True, exclude_none=True)
        for task in plan.tasks
    }


# --- page -----------------------------------------------------------------------------------------


#: The maximum number of compared tasks.
_MAX_TASKS = 400


def compare_context(left: Execution, right: Execution) -> dict[str, Any]:
    """Return `compare` of the template; workflow and creator of both runs must be loaded."""
    mine, theirs = tasks_of(left)[:_MAX_TASKS], tasks_of(right)[:_MAX_TASKS]
    shown = _Shown(left, right, mine, theirs)
    rows = tuple(_row(pair, left, right) for pair in pairs(mine, theirs, shown.of_task))
    plan = plan_difference(revision_of(left).plan, revision_of(right).plan, shown.of_whole)
    return {
        "runs": (_run(left), _run(right)),
        "title": _("Run %(left)s and run %(right)s") % {"left": left.pk, "right": right.pk},
        "lineage": _lineage(left, right),
        "rows": rows,
        "summary": _summary(rows),
        "whole": tuple(_whole(left, right, shown)),
        "plan": _plan(plan),
    }


class _Shown:
    """Differences of masked values: equal secrets have equal marks.

    A value is masked on both sides if the policy of either run lists it.
    """

    def __init__(
        self, left: Execution, right: Execution, mine: list[TaskView], theirs: list[TaskView]
    ) -> None:
        listed = [path for run in (left, right) for path in secret_rules(run, None).paths]
        self._whole = Rules(None, tuple(listed))
        self._left = self._both(task_rules(left, mine))
        self._right = self._both(task_rules(right, theirs))

    def _both(self, rules: Mapping[tuple[str, str], Rules]) -> dict[tuple[str, str], Rules]:
        return {place: replace(each, paths=self._whole.paths) for place, each in rules.items()}

    def of_task(self, task: str, side: str, mine: Any, theirs: Any) -> Difference:
        """Return the difference of a task's inputs or output."""
        return _difference_of(mine, theirs, self._left[task, side], self._right[task, side])

    def of_inputs(self, left: Execution, right: Execution) -> Difference:
        """Return the difference of the inputs of the runs."""
        mine, theirs = (replace(self._whole, schema=inputs_schema(run)) for run in (left, right))
        return _difference_of(left.inputs, right.inputs, mine, theirs)

    def of_whole(self, mine: Any, theirs: Any) -> Difference:
        """Return the difference of two values without a schema."""
        return _difference_of(mine, theirs, self._whole, self._whole)


def _difference_of(mine: Any, theirs: Any, left: Rules, right: Rules) -> Difference:
    if same(mine, theirs):
        return Difference()
    before = masked(mine, left)
    return difference(before.value, masked(theirs, right, after=before).value)


def _run(execution: Execution) -> dict[str, Any]:
    finished = execution.finished_at
    return {
        "words": _("Run %(number)s") % {"number": execution.pk},
        "title": components_labels.run_title(execution.title, execution.pk),
        "url": reverse("reviews:run", args=(execution.pk,)),
        "status": execution.status,
        "error": mask_secrets(render_stored(execution, "error")),
        "layers": components_labels.progress_text(execution),
        "started_by": execution.created_by.get_username()
        if execution.created_by
        else _("the system"),
        "started_at": execution.created_at,
        "took": components_labels.span_text(execution.created_at, finished) if finished else "",
    }


def _lineage(left: Execution, right: Execution) -> str:
    for parent, child in ((left, right), (right, left)):
        if child.parent_id == parent.pk and child.forked_at_layer is not None:
            layer = child.forked_at_layer + 1
            text = _("Run %(child)s was forked from run %(parent)s after layer %(layer)s.")
            return text % {"child": child.pk, "parent": parent.pk, "layer": layer}
    return ""


def _whole(left: Execution, right: Execution, shown: _Shown) -> list[dict[str, Any]]:
    found = (
        (_("Inputs"), shown.of_inputs(left, right)),
        (_("Context"), shown.of_whole(left.context, right.context)),
        (_("Policy"), shown.of_whole(left.policy, right.policy)),
    )
    return [_difference(title, each) for title, each in found if each.any]


def _difference(title: str, found: Difference) -> dict[str, Any]:
    return {"title": title, "changes": found.changes, "is_long": found.is_long, "note": ""}


#: Status of the task that has no value → the note in place of a comparison.
_ABSENT = {
    TaskStatus.PENDING: N_("Run %(run)s has not run this task yet."),
    TaskStatus.RUNNING: N_("Run %(run)s is running this task."),
    TaskStatus.SKIPPED: N_("Run %(run)s skipped this task."),
    TaskStatus.FAILED: N_("This task failed in run %(run)s."),
    TaskStatus.REJECTED: N_("This task was rejected in run %(run)s."),
    TaskStatus.SUCCEEDED: N_("Run %(run)s has no value here."),
}


def _part(
    title: str, found: Difference, pair: Pair, left: Execution, right: Execution
) -> dict[str, Any]:
    part = _difference(title, found)
    if found.only and pair.left and pair.right:
        run, task = (right, pair.right) if found.only == "left" else (left, pair.left)
        part["note"] = _(_ABSENT[TaskStatus(task.status)]) % {"run": run.pk}
    return part


# --- tasks ----------------------------------------------------------------------------------------


def _row(pair: Pair, left: Execution, right: Execution) -> dict[str, Any]:
    task = pair.left or pair.right
    parts = ((_("Inputs"), pair.inputs), (_("Output"), pair.output))
    return {
        "id": pair.id,
        "what": task.target if task else "",
        "sides": (_side(pair.left, left, right), _side(pair.right, right, left)),
        "parts": tuple(
            _part(title, found, pair, left, right) for title, found in parts if found.any
        ),
        "differs": pair.differs,
    }


def _side(task: TaskView | None, run: Execution, other: Execution) -> dict[str, Any]:
    if task is None:
        return {"status": "", "note": _("not in this plan"), "error": ""}
    took = seconds_text(task.duration_ms / 1000) if task.duration_ms >= 50 else ""
    forked = run.forked_at_layer if run.parent_id == other.pk else None
    if forked is not None and task.layer <= forked:
        took = _("reused from run %(number)s") % {"number": other.pk}
    return {
        "status": "HELD" if task.held else task.status,
        "note": took,
        "error": mask_secrets(render_stored(task, "error")),
    }


def _summary(rows: tuple[dict[str, Any], ...]) -> str:
    number = sum(row["differs"] for row in rows)
    if not number:
        text = ngettext(
            "All %(n)s tasks have the same status and data.",
            "All %(n)s tasks have the same status and data.",
            len(rows),
        )
        return text % {"n": len(rows)}
    text = ngettext("%(n)s task of %(all)s differs.", "%(n)s tasks of %(all)s differ.", number)
    return text % {"n": number, "all": len(rows)}


# --- the plan -------------------------------------------------------------------------------------


def _plan(found: PlanDifference) -> dict[str, Any] | None:
    if not found.any:
        return None
    return {
        "added": ", ".join(found.added),
        "removed": ", ".join(found.removed),
        "changed": tuple(_difference(name, each) for name, each in found.changed),
    }
