"""Two runs against each other, as plain values."""

from __future__ import annotations

from typing import Any

import pytest

from reviews.runs.comparison import MAX_LENGTH, difference, pairs, plan_difference
from workflows.engine.plan_validation import parse_plan
from workflows.executions.selectors import TaskView


def view(name: str, **more: Any) -> TaskView:
    known = {"label": name, "type": "tool", "target": "unit.value", "layer": 0, "needs": ()}
    return TaskView(id=name, permission_set=None, **{**known, "status": "SUCCEEDED", **more})


def plan(*tasks: tuple[str, Any]) -> Any:
    return parse_plan(
        {
            "tasks": [
                {"id": name, "type": "tool", "tool": "unit.value", "arguments": {"value": value}}
                for name, value in tasks
            ]
        }
    )


@pytest.mark.parametrize(
    ("left", "right", "paths"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 1.0}, []),
        ({"a": 1}, {"a": True}, ["a"]),
        (None, {"a": 1}, [""]),
        ({"a": [1, 2]}, {"a": [1, 3], "b": 0}, ["a[1]", "b"]),
    ],
)
def test_values_differ_place_by_place(left: Any, right: Any, paths: list[str]) -> None:
    found = difference(left, right)
    assert [change.dotted for change in found.changes] == paths
    assert found.any == bool(paths)


def test_long_values_are_compared_as_a_whole() -> None:
    text = "x" * MAX_LENGTH
    assert not difference(text, text).any
    found = difference(text, text + "y")
    assert (found.is_long, found.changes, found.any) == (True, (), True)


def test_tasks_are_paired_in_order() -> None:
    left = [view("a", inputs={"n": 1}), view("b"), view("c", duration_ms=5)]
    right = [view("d"), view("a", inputs={"n": 2}), view("b", status="FAILED"), view("c")]
    found = pairs(left, right, lambda _task, _side, mine, theirs: difference(mine, theirs))
    assert [pair.id for pair in found] == ["a", "b", "c", "d"]
    assert [pair.differs for pair in found] == [True, True, False, True]
    assert found[0].inputs.changes[0].dotted == "n"
    assert found[3].left is None


def test_plans_differ_by_added_removed_and_changed_tasks() -> None:
    found = plan_difference(plan(("a", 1), ("b", 1), ("c", 1)), plan(("b", 2), ("c", 1), ("d", 1)))
    assert (found.added, found.removed) == (("d",), ("a",))
    assert [name for name, _ in found.changed] == ["b"]
    assert found.changed[0][1].changes[0].dotted == "arguments.value"
    assert not plan_difference(plan(("a", 1)), plan(("a", 1))).any
