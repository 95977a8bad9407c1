"""Differences between plans: the change that a plan review shows, and dropping parts of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from .dag import AnyTask, Plan, TaskSpec

Spec = AnyTask


class Drop(BaseModel):
    """`edits` of a plan review: the ids of added tasks to leave out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    drop: tuple[str, ...] = Field(default=(), max_length=20_000)


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a plan: new tasks, changed tasks in their new form, and ids of removed tasks."""

    added: tuple[Spec, ...] = ()
    changed: tuple[Spec, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.added or self.changed or self.removed)


def change_between(before: Plan, after: Plan) -> Change:
    """Return the change from `before` to `after`, with added tasks in the order of `after`."""
    old, new = before.by_id, after.by_id
    return Change(
        added=tuple(task for task in after.tasks if task.id not in old),
        changed=tuple(t for t in after.tasks if t.id in old and old[t.id] != t),
        removed=tuple(task.id for task in before.tasks if task.id not in new),
    )


def changed_plan(before: Plan, change: Change) -> Plan:
    """Apply the change to `before` without validating it."""
    changed = {task.id: task for task in change.changed}
    kept = [task for task in before.tasks if task.id not in change.removed]
    return Plan(tasks=(*(changed.get(task.id, task) for task in kept), *change.added))


def with_dependents(change: Change, dropped: Iterable[str]) -> frozenset[str]:
    """Return `dropped` and the tasks of the change that depend on them, directly or indirectly."""
    gone = set(dropped)
    rest = [task for task in (*change.added, *change.changed) if task.id not in gone]
    while dependents := [task for task in rest if not task.needs.isdisjoint(gone)]:
        gone.update(task.id for task in dependents)
        rest = [task for task in rest if task.id not in gone]
    return frozenset(gone)


def without_tasks(change: Change, gone: Collection[str]) -> Change:
    """Return the change without these tasks, which are neither added nor changed."""
    return Change(
        added=tuple(task for task in change.added if task.id not in gone),
        changed=tuple(task for task in change.changed if task.id not in gone),
        removed=change.removed,
    )


_ADAPTER: Final[TypeAdapter[tuple[Spec, ...]]] = TypeAdapter(tuple[TaskSpec, ...])


def task_json(task: Spec) -> dict[str, Any]:
    """Return a task as in a plan's JSON, without defaults."""
    return task.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)


def dump_change(change: Change) -> dict[str, Any]:
    """Return the change as JSON; `load_change` reads it."""
    return {
        "added": [task_json(task) for task in change.added],
        "changed": [task_json(task) for task in change.changed],
        "removed": list(change.removed),
    }


def payload_of_change(
    before: Plan, change: Change, why: Mapping[str, Any]
) -> dict[str, dict[str, Any] | list[str]]:
    """Return the change for the payload of a hold, by task id; `change_in_payload` reads it.

    Dropping a task removes one key, so that an audit record counts it as one change.
    """
    old = before.by_id
    return {
        "added": {t.id: {"task": task_json(t), "why": why.get(t.id, {})} for t in change.added},
        "changed": {
            task.id: {"before": task_json(old[task.id]), "after": task_json(task)}
            for task in change.changed
            if task.id in old
        },
        "removed": list(change.removed),
    }


def change_in_payload(payload: Mapping[str, Any]) -> Change:
    """Return the change in a hold's payload; raises ValidationError."""
    return load_change(
        {
            "added": [each["task"] for each in payload["added"].values()],
            "changed": [each["after"] for each in payload["changed"].values()],
            "removed": payload["removed"],
        }
    )


def payload_without(payload: Mapping[str, Any], gone: Collection[str]) -> dict[str, Any]:
    """Return the payload without the dropped tasks."""
    left = {
        name: {key: each for key, each in payload[name].items() if key not in gone}
        for name in ("added", "changed")
    }
    return {**payload, **left}


def load_change(data: Mapping[str, Any]) -> Change:
    """Return the change from JSON that `dump_change` made."""
    return Change(
        added=_ADAPTER.validate_python(data["added"]),
        changed=_ADAPTER.validate_python(data["changed"]),
        removed=tuple(data["removed"]),
    )
