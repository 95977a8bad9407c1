"""Edits of a plan: each gives a valid plan, or says why not and changes nothing."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviews.authoring.plan_edits import (
    Edited,
    EditRefused,
    add_task,
    connect,
    disconnect,
    move,
    remove_task,
    rename,
    set_argument,
    set_target,
)
from tests.stateful.plans import plans
from workflows.engine.plans.dag import references
from workflows.engine.plans.validation import parse_plan

ECHO = {"type": "tool", "tool": "builtin.echo", "arguments": {}}
SCHEMA = {"properties": {"value": {}}}


def task(name: str, *needs: str, **more: Any) -> dict[str, Any]:
    found = {"id": name, **ECHO, "arguments": {"value": 1}, **more}
    return {**found, "depends_on": list(needs)} if needs else found


def plan(*tasks: dict[str, Any]) -> dict[str, Any]:
    return {"tasks": list(tasks)}


def ids(edited: Edited) -> list[str]:
    return [each["id"] for each in edited.plan["tasks"]]


@given(plans(max_size=6), st.data())
def test_an_edit_of_a_valid_plan_gives_a_valid_plan_or_a_named_problem(
    before: dict[str, Any], data: st.DataObject
) -> None:
    untouched = copy.deepcopy(before)
    size = len(before["tasks"])
    place = st.integers(-1, size)
    at, other = data.draw(place), data.draw(place)
    name = data.draw(st.sampled_from(["t0", "t1", "fresh", "inputs", "9x", "", "a.b-c", "ä"]))
    value = data.draw(
        st.sampled_from([1, None, [{"$from": "t0"}], {"x": {"$from": f"t{size - 1}"}}])
    )
    target = {"type": "capability", "capability": "c", "inputs": {}}
    edits = {
        "add": lambda: add_task(before, ECHO, name),
        "remove": lambda: remove_task(before, at),
        "connect": lambda: connect(before, at, other),
        "disconnect": lambda: disconnect(before, at, other),
        "rename": lambda: rename(before, at, name),
        "target": lambda: set_target(before, at, target, SCHEMA),
        "move": lambda: move(before, at, data.draw(st.sampled_from([-1, 1]))),
        "argument": lambda: set_argument(before, at, "more", value),
    }
    edit = edits[data.draw(st.sampled_from(sorted(edits)))]
    with suppress(EditRefused):
        edited = edit()
        if edited.plan["tasks"]:
            parse_plan(edited.plan)
            assert 0 <= edited.selected < len(edited.plan["tasks"])
        else:
            assert size == 1
            assert edited.selected == -1
    assert before == untouched


@given(plans(max_size=6), st.data())
def test_a_renamed_task_keeps_its_place_in_the_graph(
    before: dict[str, Any], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(before["tasks"]) - 1))
    old = before["tasks"][at]["id"]
    after = rename(before, at, "fresh").plan

    def edges(of: dict[str, Any]) -> set[tuple[str, str]]:
        return {(need, task.id) for task in parse_plan(of).tasks for need in task.needs}

    renamed = {tuple("fresh" if name == old else name for name in edge) for edge in edges(before)}
    assert edges(after) == renamed


def test_a_task_gets_a_free_id() -> None:
    edited = add_task(plan(task("echo")), ECHO, "echo")
    assert ids(edited) == ["echo", "echo_2"]
    assert edited.selected == 1


def test_a_removed_task_is_reported_where_it_was_read() -> None:
    before = plan(
        task("a"),
        task("b", "a", arguments={"value": {"$from": "a"}, "rest": 1}, when="a.ok"),
    )
    edited = remove_task(before, 0)
    assert edited.plan == plan(task("b", arguments={"rest": 1}, when="a.ok"))
    assert edited.warnings == (
        "The condition of b mentions a; check it.",
        "b.value has lost its source; enter a value.",
    )


@pytest.mark.parametrize(("source", "target"), [(0, 0), (1, 0), (2, 0)])
def test_tasks_cannot_wait_for_each_other(source: int, target: int) -> None:
    before = plan(task("a"), task("b", "a"), task("c", "b"))
    with pytest.raises(EditRefused) as refused:
        connect(before, source, target)
    assert refused.value.problem.code == "cycle"
    assert refused.value.problem.path == f"plan.tasks[{target}].depends_on"


def test_a_connection_is_made_once_and_cut() -> None:
    before = plan(task("a"), task("b"))
    once = connect(before, 0, 1).plan
    assert connect(once, 0, 1).plan == once == plan(task("a"), task("b", "a"))
    assert disconnect(once, 0, 1).plan == before


def test_a_connection_that_carries_a_value_is_not_cut() -> None:
    before = plan(task("a"), task("b", arguments={"value": [{"$from": "a"}]}))
    with pytest.raises(EditRefused, match="value of b reads the output of a"):
        disconnect(before, 0, 1)


def test_a_new_name_is_followed_by_references() -> None:
    before = plan(
        task("a"),
        task("b", "a", arguments={"value": {"x": [{"$from": "a", "select": "y"}]}}, when="a.ok"),
    )
    edited = rename(before, 0, "first")
    b = edited.plan["tasks"][1]
    assert b["depends_on"] == ["first"]
    assert set(references(b["arguments"])) == {"first"}
    assert edited.warnings == ("The condition of b mentions a; check it.",)


@pytest.mark.parametrize(
    ("name", "code"), [("b", "duplicate_id"), ("inputs", "reserved_id"), ("no space", "bad_id")]
)
def test_a_name_that_cannot_be_used_is_refused(name: str, code: str) -> None:
    with pytest.raises(EditRefused) as refused:
        rename(plan(task("a"), task("b")), 0, name)
    assert refused.value.problem.code == code


def test_another_tool_keeps_the_arguments_that_it_takes() -> None:
    own = {"permission_set": "readonly", "runner": "dask"}
    before = plan(task("a", arguments={"value": 1, "other": 2}, **own))
    target = {"type": "tool", "tool": "builtin.fail", "arguments": {}}
    edited = set_target(before, 0, target, SCHEMA)
    assert edited.plan == plan(task("a", tool="builtin.fail"))
    assert edited.warnings == ("Removed from a: other.",)


def test_a_task_moves_in_the_order_of_the_plan() -> None:
    before = plan(task("a"), task("b"), task("c"))
    assert ids(move(before, 2, -1)) == ["a", "c", "b"]
    assert move(before, 2, -1).selected == 1
    assert ids(move(before, 0, -1)) == ["a", "b", "c"]


def test_an_argument_that_closes_a_circle_is_refused() -> None:
    with pytest.raises(EditRefused) as refused:
        set_argument(plan(task("a"), task("b", "a")), 0, "value", {"$from": "b"})
    assert refused.value.problem.code == "cycle"
