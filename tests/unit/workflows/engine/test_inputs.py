"""Inputs of a task: only referenced outputs are fetched, and a reviewer's edits are merged."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from workflows.engine.plans.dag import Revision
from workflows.engine.plans.task_errors import TaskFailed
from workflows.engine.plans.validation import parse_plan
from workflows.engine.protocol.ports import FinishedTask
from workflows.engine.protocol.state import TaskState
from workflows.engine.protocol.status import TaskStatus
from workflows.engine.protocol.task_inputs import task_inputs

OUTPUTS = {"big": ["x"] * 1000, "small": {"n": 1}, "other": 2}


class Run:
    """As much of a run as its inputs ask for; remembers what was fetched."""

    def __init__(self, arguments: dict[str, Any], edits: dict[str, Any] | None = None) -> None:
        tasks = [_task(name, {}) for name in OUTPUTS]
        tasks.append({**_task("it", arguments), "depends_on": list(OUTPUTS)})
        self.revision = Revision.first(parse_plan({"tasks": tasks}))
        self.inputs, self.context = {"repo": "here"}, {"note": "so"}
        self.state = SimpleNamespace(tasks={"it": TaskState(edits=edits)})
        self.fetched: list[Sequence[str]] = []

    def finished_tasks(self, names: Sequence[str]) -> Mapping[str, FinishedTask]:
        self.fetched.append(list(names))
        return {name: FinishedTask(TaskStatus.SUCCEEDED, OUTPUTS[name]) for name in names}


def _task(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"id": name, "type": "tool", "tool": "any.tool", "arguments": arguments}


def inputs(run: Run) -> dict[str, Any]:
    return task_inputs(run, "it")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "fetched"),
    [
        ({"a": 1}, []),
        ({"a": {"$from": "inputs"}, "b": {"$from": "context", "select": "note"}}, []),
        ({"a": {"$from": "small"}}, ["small"]),
        ({"a": [{"deep": [{"$from": "other"}]}], "b": {"$from": "small"}}, ["other", "small"]),
        ({"a": {"$from": "big", "select": "length(@)"}, "b": {"$from": "big"}}, ["big"]),
    ],
)
def test_only_referenced_outputs_are_fetched(arguments: dict[str, Any], fetched: list[str]) -> None:
    """It waits for all three; outputs that it does not read stay in the database."""
    run = Run(arguments)
    inputs(run)
    assert [name for names in run.fetched for name in names] == fetched


def test_references_are_replaced_by_their_values() -> None:
    run = Run(
        {
            "a": {"$from": "small", "select": "n"},
            "b": [{"$from": "inputs", "select": "repo"}, {"$from": "other"}],
            "c": "plain",
        }
    )
    assert inputs(run) == {"a": 1, "b": ["here", 2], "c": "plain"}


def test_edits_are_merged_after_resolution_and_not_resolved() -> None:
    edits = {"a": {"$from": "inputs"}, "new": 5}
    found = inputs(Run({"a": {"$from": "small"}, "b": 1}, edits))
    assert found == {"a": {"$from": "inputs"}, "b": 1, "new": 5}


def test_an_expression_that_cannot_be_evaluated_fails_the_task_for_good() -> None:
    with pytest.raises(TaskFailed) as caught:
        inputs(Run({"a": {"$from": "other", "select": "length(@)"}}))
    assert not caught.value.retryable
