"""The difference between two plans, and taking parts of it back: what a plan review is about."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from .dag import CapabilityTask, CodeTask, Plan, TaskSpec, ToolTask

Spec = ToolTask | CodeTask | CapabilityTask


DROP_WORDS = 'edits of a plan review are {"drop": [ids of added tasks]}'


class Drop(BaseModel):
    """`edits` of a plan review: ids of added tasks that shall stay away."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    drop: tuple[str, ...] = Field(default=(), max_length=20_000)


@dataclass(frozen=True, slots=True)
class Change:
    """What makes one plan another: tasks that are new, tasks as they become, ids that go."""

    added: tuple[Spec, ...] = ()
    changed: tuple[Spec, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.added or self.changed or self.removed)


def change_between(before: Plan, after: Plan) -> Change:
    """The change that turns `before` into `after`; added tasks in the order of `after`."""
    old, new = before.by_id, after.by_id
    return Change(
        added=tuple(task for task in after.tasks if task.id not in old),
        changed=tuple(t for t in after.tasks if t.id in old and old[t.id] != t),
        removed=tuple(task.id for task in before.tasks if task.id not in new),
    )


def changed_plan(before: Plan, change: Change) -> Plan:
    """`before` with the change made; nothing is checked here."""
    becomes = {task.id: task for task in change.changed}
    kept = [task for task in before.tasks if task.id not in change.removed]
    return Plan(tasks=(*(becomes.get(task.id, task) for task in kept), *change.added))


def dropped_with(change: Change, dropped: Iterable[str]) -> frozenset[str]:
    """`dropped` and every task of the change that waits for one of them, directly or not."""
    gone = set(dropped)
    rest = [task for task in (*change.added, *change.changed) if task.id not in gone]
    while waiting := [task for task in rest if not task.needs.isdisjoint(gone)]:
        gone.update(task.id for task in waiting)
        rest = [task for task in rest if task.id not in gone]
    return frozenset(gone)


def without(change: Change, gone: Collection[str]) -> Change:
    """The change without these tasks: added ones stay away, changed ones stay as they are."""
    return Change(
        added=tuple(task for task in change.added if task.id not in gone),
        changed=tuple(task for task in change.changed if task.id not in gone),
        removed=change.removed,
    )


@lru_cache(maxsize=1)
def _adapter() -> TypeAdapter[tuple[Spec, ...]]:
    return TypeAdapter(tuple[TaskSpec, ...])


def as_written(task: Spec) -> dict[str, Any]:
    """A task as it stands in a plan's JSON, without what it does not say."""
    return task.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)


def written(change: Change) -> dict[str, Any]:
    """The change as JSON; `loaded` reads it."""
    return {
        "added": [as_written(task) for task in change.added],
        "changed": [as_written(task) for task in change.changed],
        "removed": list(change.removed),
    }


def shown(
    before: Plan, change: Change, why: Mapping[str, Any]
) -> dict[str, dict[str, Any] | list[str]]:
    """The change as a reviewer is shown it, by task; `in_payload` reads it.

    A task that is dropped is one key less, so that a record tells it as one change.
    """
    old = before.by_id
    return {
        "added": {t.id: {"task": as_written(t), "why": why.get(t.id, {})} for t in change.added},
        "changed": {
            task.id: {"before": as_written(old[task.id]), "after": as_written(task)}
            for task in change.changed
            if task.id in old
        },
        "removed": list(change.removed),
    }


def in_payload(payload: Mapping[str, Any]) -> Change:
    """The change that `shown` put into a hold's payload; raises ValidationError."""
    return loaded(
        {
            "added": [each["task"] for each in payload["added"].values()],
            "changed": [each["after"] for each in payload["changed"].values()],
            "removed": payload["removed"],
        }
    )


def payload_without(payload: Mapping[str, Any], gone: Collection[str]) -> dict[str, Any]:
    """What a reviewer who drops these tasks decides."""
    left = {
        name: {key: each for key, each in payload[name].items() if key not in gone}
        for name in ("added", "changed")
    }
    return {**payload, **left}


def loaded(data: Mapping[str, Any]) -> Change:
    """The change that `written` wrote."""
    return Change(
        added=_adapter().validate_python(data["added"]),
        changed=_adapter().validate_python(data["changed"]),
        removed=tuple(data["removed"]),
    )
