"""Two runs held against each other: task by task, and plan against plan."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reviews.components.diffs import Change, diff
from workflows.engine.dag import Plan
from workflows.executions.selectors import TaskView

#: Characters of a value that are compared place by place; longer ones are equal or they are not.
LONGEST = 200_000


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs between two values; `is_long` when only that they differ is known."""

    changes: tuple[Change, ...] = ()
    is_long: bool = False

    @property
    def any(self) -> bool:
        return self.is_long or bool(self.changes)


@dataclass(frozen=True, slots=True)
class Pair:
    """One task in both runs; None where a run's plan does not have it."""

    id: str
    left: TaskView | None
    right: TaskView | None
    inputs: Difference
    output: Difference

    @property
    def differs(self) -> bool:
        """Other data, another end, or in one run only; how long it took is no difference."""
        if self.left is None or self.right is None:
            return True
        return self.inputs.any or self.output.any or self.left.status != self.right.status


@dataclass(frozen=True, slots=True)
class PlanDifference:
    """Ids of tasks that came, went, or are specified otherwise, with what differs in them."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[tuple[str, Difference], ...]

    @property
    def any(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def difference(left: Any, right: Any) -> Difference:
    """The difference of two JSON values."""
    if left == right and _text(left) == _text(right):
        return Difference()
    if len(_text(left)) > LONGEST or len(_text(right)) > LONGEST:
        return Difference(is_long=True)
    return Difference(diff(left, right))


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


#: (id of a task, `inputs` or `output`, what it is on the left, on the right) → what differs.
Compare = Callable[[str, str, Any, Any], Difference]


def as_it_is(_task: str, _side: str, left: Any, right: Any) -> Difference:
    """A task's data with nothing hidden."""
    return difference(left, right)


def pairs(
    left: Sequence[TaskView], right: Sequence[TaskView], compare: Compare = as_it_is
) -> list[Pair]:
    """Every task of both: in the order of the left run, then those of the right one alone."""
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
        compare(name, "inputs", left.inputs, right.inputs),
        compare(name, "output", left.output, right.output),
    )


def plan_difference(
    left: Plan, right: Plan, compare: Callable[[Any, Any], Difference] = difference
) -> PlanDifference:
    """How the right plan differs from the left one; `compare` tells of a task as it is written."""
    mine, theirs = _specs(left), _specs(right)
    both = [(name, compare(mine[name], theirs[name])) for name in mine if name in theirs]
    return PlanDifference(
        added=_missing(theirs, mine),
        removed=_missing(mine, theirs),
        changed=tuple((name, found) for name, found in both if found.any),
    )


def _missing(names: Iterable[str], known: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in known)


def _specs(plan: Plan) -> dict[str, Any]:
    return {
        task.id: task.model_dump(mode="json", by_alias=True, exclude_none=True)
        for task in plan.tasks
    }
