"""References of tasks to the inputs of a run are found, and follow a new name."""

from __future__ import annotations

from typing import Any

import pytest

from reviews.authoring.input_references import rename_input, tasks_that_read


def plan_with(**fields: Any) -> dict[str, Any]:
    return {"tasks": [{"id": "t", "type": "tool", "tool": "x.y", "arguments": {}, **fields}]}


@pytest.mark.parametrize(
    ("select", "wanted", "reads", "left"),
    [
        ("repo", "new", True, False),
        ("repo.name", "new.name", True, False),
        ("repo[0].repo", "new[0].repo", True, False),
        ('"repo"[0]', "new[0]", True, False),
        ("other || repo", "other || new", True, False),
        ("length(repo)", "length(new)", True, False),
        ("[repo, other]", "[new, other]", True, False),
        ("repo == 'repo'", "new == 'repo'", True, False),
        ("other.repo", "other.repo", False, False),
        ("repo(other)", "repo(other)", False, False),
        ("other[?repo]", "other[?repo]", True, True),
        ("other.[repo, x]", "other.[repo, x]", True, True),
        ("{x: repo}", "{x: repo}", True, True),
        ("'", "'", False, False),
    ],
)
def test_arguments_follow_the_name(select: str, wanted: str, reads: bool, left: bool) -> None:
    plan = plan_with(arguments={"a": [{"$from": "inputs", "select": select}], "b": "repo"})
    assert tasks_that_read(plan, "repo") == (["t"] if reads else [])
    renamed, warnings = rename_input(plan, "repo", "new")
    values = renamed["tasks"][0]["arguments"]
    assert values == {"a": [{"$from": "inputs", "select": wanted}], "b": "repo"}
    assert bool(warnings) == left


@pytest.mark.parametrize(
    ("when", "wanted", "reads", "left"),
    [
        ("inputs.repo", "inputs.new", True, False),
        ("!inputs.repo && a.inputs.repo", "!inputs.new && a.inputs.repo", True, True),
        ('length(inputs."repo") > `1`', "length(inputs.new) > `1`", True, False),
        ("a.repo == 'inputs.repo'", "a.repo == 'inputs.repo'", False, False),
        ("a[?inputs.repo]", "a[?inputs.repo]", True, True),
        ("repo.x", "repo.x", False, False),
    ],
)
def test_conditions_follow_the_name(when: str, wanted: str, reads: bool, left: bool) -> None:
    plan = plan_with(when=when)
    assert tasks_that_read(plan, "repo") == (["t"] if reads else [])
    renamed, warnings = rename_input(plan, "repo", "new")
    assert renamed["tasks"][0]["when"] == wanted
    assert bool(warnings) == left


def test_other_sources_and_other_tasks_are_left() -> None:
    plan = plan_with(arguments={"a": {"$from": "repo", "select": "repo"}, "b": {"$from": "inputs"}})
    assert rename_input(plan, "repo", "new") == (plan, ())
