"""Each field of a policy has a label where a change of it is shown."""

from __future__ import annotations

import pytest

from reviews.authoring.policy_labels import labelled, policy_label, policy_value, task_labelled
from reviews.components.json_diffs import diff
from workflows.engine.policy.floor import RULES


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
    old, new = ({"policy": {"hil": {"timeout_seconds": each}}} for each in (90, 14400))
    assert [(each.before, each.after) for each in labelled(diff(old, new))] == [("90 s", "4 h")]
    task = {"human_review": {"on_timeout": "reject"}, "arguments": {"a": 1}}
    changed = {"human_review": {"on_timeout": "approve"}, "arguments": {"a": 2}}
    labels = {each.label for each in task_labelled(diff(task, changed))}
    assert labels == {"Review: After the timeout", ""}


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("hil.approval_required", "critical_only", "layers that can modify data"),
        ("replan_review.on_timeout", "keep_waiting", "keep waiting"),
        ("ail.decision_points", "on_error", "after a layer with a failed task"),
        ("require_rejection_reason", True, "always"),
        ("human_review.trigger_phase", "AFTER_EXECUTION", "after it ran"),
        ("hil.groups", ["always"], ["always"]),
        ("hil.enabled", True, True),
        ("four_eyes", 1, 1),
    ],
)
def test_values_are_in_words(path: str, value: object, words: object) -> None:
    assert policy_value(path, value) == words
    place = path.split(".")
    before, after = ({"policy": _nested(place, each)} for each in ("other", value))
    (change,) = labelled(diff(before, after))
    assert (change.before, change.after) == ("other", words)


def _nested(place: list[str], value: object) -> dict[str, object]:
    first, *rest = place
    return {first: _nested(rest, value) if rest else value}
