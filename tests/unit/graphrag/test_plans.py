"""Plans: references, layers, cycles, fresh ids."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag.planning import plans


def task(name: str, *needs: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "tool", "tool": f"t.{name}", "depends_on": list(needs), **more}


def test_a_reference_is_a_dependency_at_any_depth() -> None:
    one = task(
        "b", arguments={"x": [{"y": {"$from": "a", "select": "z"}}], "i": {"$from": "inputs"}}
    )
    assert plans.dependencies(one) == {"a"}
    capability = {"id": "c", "type": "capability", "inputs": {"lines": {"$from": "b"}}}
    assert plans.dependencies(capability) == {"b"}


def test_layers_follow_the_dependencies() -> None:
    plan = {"tasks": [task("d", "b", "c"), task("b", "a"), task("c", "a"), task("a")]}
    assert plans.layers(plan) == [["a"], ["b", "c"], ["d"]]


@pytest.mark.parametrize(
    ("tasks", "why"),
    [
        ([task("a", "b"), task("b", "a")], "wait for each other"),
        ([task("a", "a")], "wait for each other"),
        ([task("a", "x")], "depends on 'x'"),
        ([task("a"), task("a")], "'a' twice"),
        ([{"type": "tool"}], "without an id"),
        ("no list", "no list of tasks"),
    ],
)
def test_an_invalid_plan_is_refused_with_the_reason(tasks: Any, why: str) -> None:
    with pytest.raises(plans.InvalidPlan, match=why):
        plans.layers({"tasks": tasks})


def test_ids_are_fresh_and_never_reserved() -> None:
    assert plans.fresh_id("git_log", {"git_log", "git_log_2"}) == "git_log_3"
    assert plans.fresh_id("inputs", set()) == "inputs_task"
    assert plans.fresh_id("ü/ /", set()) == "task"


def test_sinks_are_tasks_without_finished_dependents() -> None:
    tasks = plans.tasks_of({"tasks": [task("a"), task("b", "a"), task("c"), task("d", "c")]})
    assert plans.sinks(tasks, ["a", "b", "c"]) == ["b", "c"]


@st.composite
def edges(draw: st.DrawFn) -> list[set[int]]:
    size = draw(st.integers(1, 12))
    return [draw(st.sets(st.integers(0, size - 1), max_size=3)) for _ in range(size)]


@given(edges())
def test_layers_hold_every_task_once_after_what_it_needs_or_name_a_cycle(
    needs: list[set[int]],
) -> None:
    plan = {"tasks": [task(f"t{at}", *(f"t{n}" for n in some)) for at, some in enumerate(needs)]}
    try:
        found = plans.layers(plan)
    except plans.InvalidPlan:
        assert _has_cycle(needs)
        return
    assert not _has_cycle(needs)
    place = {name: at for at, layer in enumerate(found) for name in layer}
    assert sorted(place) == sorted(f"t{at}" for at in range(len(needs)))
    for at, some in enumerate(needs):
        assert all(place[f"t{n}"] < place[f"t{at}"] for n in some)


def _has_cycle(needs: list[set[int]]) -> bool:
    left = {at: set(some) for at, some in enumerate(needs)}
    while free := [at for at, some in left.items() if not some]:
        for at in free:
            del left[at]
        for some in left.values():
            some.difference_update(free)
    return bool(left)
