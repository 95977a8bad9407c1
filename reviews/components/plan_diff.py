"""Diff of two plans: a diagram with marked tasks, and a list."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from reviews.authoring.policy_labels import task_labelled
from reviews.components.dag_svg import DagTask, Picture, layout
from reviews.components.json_diffs import Change as Difference
from reviews.components.json_diffs import diff
from reviews.decisions.masking import Masked, masked
from workflows.engine.plans.dag import Layers, Plan
from workflows.engine.plans.diff import Change, Spec, task_json, with_dependents
from workflows.engine.plans.risk import is_critical
from workflows.engine.policy.permissions import NAMED

from . import labels

_MAX_NOTE_LENGTH = 11


@dataclass(frozen=True, slots=True)
class PlanDiff:
    """A plan `before` and a `change` of it.

    `layers` are the layers of the changed plan; `dropped` are tasks of the change that a reviewer
    dropped; `why` says for added tasks what speaks for them; `done` are ids of tasks that have run.
    `view` is what was masked before: tasks are masked by its rules, and with its numbers.
    """

    view: Masked
    before: Plan
    old_layers: Layers
    layers: Layers
    change: Change
    why: Mapping[str, Any] = field(default_factory=dict)
    dropped: Collection[str] = ()
    done: Collection[str] = ()


def diff_context(shown: PlanDiff) -> dict[str, Any]:
    """Return `p` of the templates: the diagram, the changes and the needed permissions."""
    change = shown.change
    return {
        "picture": diff_picture(shown),
        "added": tuple(_added(task, shown) for task in change.added),
        "changed": tuple(_changed(task, shown) for task in change.changed),
        "removed": tuple({"id": name} for name in change.removed),
        "kept": _kept(shown),
        "permissions": tuple(_permissions((*change.added, *change.changed), shown.dropped)),
    }


def _kept(shown: PlanDiff) -> int:
    return len(shown.before.tasks) - len(shown.change.changed) - len(shown.change.removed)


# --- the picture ----------------------------------------------------------------------------------


def diff_picture(shown: PlanDiff) -> Picture:
    """Return both plans in one diagram; removed tasks keep their layer."""
    specs = {**shown.before.by_id, **_by_id(shown.change.added), **_by_id(shown.change.changed)}
    layers = [list(layer) for layer in shown.layers]
    for index, layer in enumerate(shown.old_layers):
        removed = [name for name in layer if name in shown.change.removed]
        if removed and index >= len(layers):
            layers.append([])
        layers[min(index, len(layers) - 1)].extend(removed)
    marks = _marks(shown)
    drawn = [[_node(specs[name], marks, shown) for name in layer] for layer in layers]
    return layout(drawn)


def _by_id(tasks: Iterable[Spec]) -> dict[str, Spec]:
    return {task.id: task for task in tasks}


def _marks(shown: PlanDiff) -> dict[str, str]:
    """Return task id → mark; tasks without a mark are kept."""
    change = shown.change
    return {
        **{task.id: "ADDED" for task in change.added},
        **{task.id: "CHANGED" for task in change.changed},
        **dict.fromkeys(change.removed, "REMOVED"),
        **dict.fromkeys(shown.dropped, "DROPPED"),
    }


def _node(task: Spec, marks: Mapping[str, str], shown: PlanDiff) -> DagTask:
    mark = marks.get(task.id, "KEPT")
    note = _("done") if task.id in shown.done else short(task.target, _MAX_NOTE_LENGTH)
    href = f"#change-{task.id}" if mark != "KEPT" else ""
    return DagTask(task.id, mark, tuple(sorted(task.needs)), note, href=href)


def short(target: str, longest: int) -> str:
    """Return a tool's own name, truncated to fit a box."""
    name = target.rpartition(".")[2]
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


# --- the list -------------------------------------------------------------------------------------


def _added(task: Spec, shown: PlanDiff) -> dict[str, Any]:
    reason = shown.why.get(task.id) or {}
    follows = with_dependents(shown.change, [task.id]) - {task.id}
    return {
        "id": task.id,
        "target": task.target,
        "permission": task.permission_set or "",
        "beyond": is_critical(task),
        "after": ", ".join(sorted(task.needs)),
        "confidence": reason.get("confidence"),
        "reasons": ", ".join(str(each) for each in reason.get("reasons", ())),
        "questions": _hidden(list(reason.get("questions", ())), shown),
        "values_json": json.dumps(_hidden(dict(task.values), shown), indent=2, ensure_ascii=False),
        "code": _hidden(getattr(task, "code", ""), shown),
        "dropped": task.id in shown.dropped,
        "follows": ", ".join(sorted(follows)),
    }


def _changed(task: Spec, shown: PlanDiff) -> dict[str, Any]:
    old = shown.before.by_id.get(task.id)
    return {
        "id": task.id,
        "changes": _differences(old, task, shown) if old else (),
        "dropped": task.id in shown.dropped,
    }


def _differences(old: Spec, task: Spec, shown: PlanDiff) -> tuple[Difference, ...]:
    before = masked(task_json(old), shown.view.rules, after=shown.view)
    after = masked(task_json(task), shown.view.rules, after=before)
    return task_labelled(diff(before.value, after.value))


def _hidden(value: Any, shown: PlanDiff) -> Any:
    return masked(value, shown.view.rules, after=shown.view).value


def _permissions(tasks: Iterable[Spec], dropped: Collection[str]) -> Iterable[dict[str, Any]]:
    """Yield the permission sets that the tasks need, each with its tasks."""
    needed: dict[str, list[str]] = {}
    for task in tasks:
        if task.id not in dropped:
            needed.setdefault(task.permission_set or "", []).append(task.id)
    for name, ids in sorted(needed.items()):
        known = NAMED.get(name)
        yield {
            "name": name or _("unknown"),
            "tasks": ", ".join(ids),
            "words": labels.allowed_text(known) if known else _("Its permissions are unknown."),
            "beyond": known is None or known.is_beyond_reading,
        }
