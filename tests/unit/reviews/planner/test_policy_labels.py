"""Each field of a policy has a label where a change of it is shown."""

from __future__ import annotations

import pytest

from reviews.components.json_diffs import diff
from reviews.planner.policy_labels import labelled, policy_label, task_labelled
from workflows.engine.policy_floor import RULES


@pytest.mark.parametrize("path", RULES)
def test_each_field_that_a_run_can_override_has_a_label(path: str) -> None:
    label = policy_label(path)
    assert label[0].isupper()
    assert "_" not in label
    assert path not in label


def test_what_lies_within_a_field_follows_its_label() -> None:
    assert policy_label("hil.timeout_seconds") == "Layer approval: Timeout"
    assert policy_label("reminders[0].before_seconds") == "Reminders[0].before_seconds"
    assert policy_label("remindersX") == "remindersX"


def test_the_changes_of_a_workflow_and_of_a_task() -> None:
    old = {"policy": {"hil": {"enabled": True}}, "default_inputs": {"a": 1}, "own": 1}
    new = {"policy": {"hil": {"enabled": False}}, "default_inputs": {"a": 2}, "own": 2}
    labels = {each.label for each in labelled(diff(old, new))}
    assert labels == {"Layer approval: enabled", "Default inputs: a", ""}
    task = {"human_review": {"on_timeout": "reject"}, "arguments": {"a": 1}}
    changed = {"human_review": {"on_timeout": "approve"}, "arguments": {"a": 2}}
    labels = {each.label for each in task_labelled(diff(task, changed))}
    assert labels == {"Review: After the timeout", ""}
