"""A state is immutable: a change makes a copy."""

from dataclasses import FrozenInstanceError

import pytest

from workflows.engine.protocol.events import ExecutionStarted
from workflows.engine.protocol.evolve import evolve
from workflows.engine.protocol.state import ExecutionState
from workflows.engine.protocol.status import TaskStatus


def test_an_event_makes_a_new_state_and_leaves_the_old_one_alone() -> None:
    first = ExecutionState()
    second = evolve(first, ExecutionStarted(total_layers=1, total_tasks=1))
    assert (first.version, second.version) == (0, 1)
    with pytest.raises(FrozenInstanceError):
        second.version = 5  # type: ignore[misc]


def test_changing_a_task_leaves_the_original_alone() -> None:
    first = ExecutionState()
    second = first.with_task("a", status=TaskStatus.SUCCEEDED)
    assert first.tasks == {}
    assert second.tasks["a"].status is TaskStatus.SUCCEEDED


def test_an_unknown_field_of_a_task_is_refused() -> None:
    with pytest.raises(TypeError):
        ExecutionState().with_task("a", colour="red")
