"""Copies of a state with something changed."""

from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest

from workflows.engine.state import ExecutionState, Hold, HoldReason, TaskState, changed

VALUES = (TaskState(), Hold("1", HoldReason.NODE_REVIEW), ExecutionState(version=3))


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_copy_is_what_dataclasses_would_make(value: Any) -> None:
    for field in fields(value):
        mark = object()
        copy = changed(value, **{field.name: mark})
        assert copy == replace(value, **{field.name: mark})
        assert getattr(copy, field.name) is mark
    assert changed(value) == value


def test_a_copy_is_frozen_and_leaves_its_original_alone() -> None:
    first = ExecutionState(version=3)
    second = changed(first, version=4)
    assert (first.version, second.version) == (3, 4)
    with pytest.raises(FrozenInstanceError):
        second.version = 5  # type: ignore[misc]


def test_a_name_that_is_none_of_its_fields_is_refused() -> None:
    with pytest.raises(TypeError, match="TaskState has no colour, size"):
        changed(TaskState(), size=1, colour="red")
