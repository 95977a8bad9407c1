"""Bad plans: each fault has its path, its code and plain words."""

from typing import Any

import pytest

from workflows.engine.plans.dag import Revision
from workflows.engine.plans.validation import PlanInvalid, parse_plan


def task(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "tool", "tool": "builtin.echo", **more}


def problems(*tasks: Any) -> list[tuple[str, str]]:
    with pytest.raises(PlanInvalid) as caught:
        parse_plan({"tasks": list(tasks)})
    return [(each.path, each.code) for each in caught.value.problems]


BAD: list[tuple[str, list[Any], tuple[str, str]]] = [
    ("no tasks", [], ("tasks", "too_short")),
    ("duplicate id", [task("a"), task("a")], ("tasks[0].id", "duplicate_id")),
    ("reserved id", [task("inputs")], ("tasks[0].id", "reserved_id")),
    ("bad id", [task("1 a")], ("tasks[0].id", "string_pattern_mismatch")),
    ("no type", [{"id": "a"}], ("tasks[0]", "union_tag_not_found")),
    ("unknown key", [task("a", colour="red")], ("tasks[0].colour", "extra_forbidden")),
    (
        "missing dependency",
        [task("a", depends_on=["b"])],
        ("tasks[0].depends_on[0]", "missing_dependency"),
    ),
    (
        "reference to nobody",
        [task("a", arguments={"value": [{"$from": "b"}]})],
        ("tasks[0].arguments.value[0].$from", "bad_reference"),
    ),
    (
        "malformed reference",
        [task("a", arguments={"value": {"$from": "inputs", "pick": "x"}})],
        ("tasks[0].arguments.value", "bad_reference"),
    ),
    (
        "reference to a number",
        [task("a", arguments={"value": {"$from": 7}})],
        ("tasks[0].arguments.value", "bad_reference"),
    ),
    (
        "bad select",
        [task("a", arguments={"value": {"$from": "inputs", "select": "x["}})],
        ("tasks[0].arguments.value.select", "bad_expression"),
    ),
    ("bad when", [task("a", when="=="), task("b")], ("tasks[0].when", "bad_expression")),
    ("waits for itself", [task("a", depends_on=["a"])], ("tasks[0].depends_on", "cycle")),
    (
        "cycle through references",
        [task("a", depends_on=["b"]), task("b", arguments={"value": {"$from": "a"}})],
        ("tasks[0].depends_on", "cycle"),
    ),
]


@pytest.mark.parametrize(
    ("tasks", "expected"), [(b, c) for _, b, c in BAD], ids=[a for a, _, _ in BAD]
)
def test_each_fault_is_named(tasks: list[Any], expected: tuple[str, str]) -> None:
    assert expected in problems(*tasks)


def test_all_faults_are_reported_together() -> None:
    found = problems(task("a", when="=="), task("a", depends_on=["x"]))
    assert {code for _, code in found} == {"duplicate_id", "bad_expression", "missing_dependency"}


def test_the_side_effects_flag_is_accepted_and_dropped() -> None:
    plan = parse_plan({"tasks": [task("a", sideEffects=True)]})
    assert "sideEffects" not in plan.model_dump(mode="json", by_alias=True)["tasks"][0]


def test_layers_follow_needs_in_written_order() -> None:
    plan = parse_plan(
        {"tasks": [task("z"), task("c", depends_on=["a"]), task("a"), task("b", depends_on=["z"])]}
    )
    assert plan.layers() == (("z", "a"), ("c", "b"))
    assert plan.leaves == {"b", "c"}


def test_a_revision_adds_nothing_to_begun_layers() -> None:
    first = Revision.first(parse_plan({"tasks": [task("a"), task("b", depends_on=["a"])]}))
    grown = parse_plan({"tasks": [task("a"), task("b", depends_on=["a"]), task("new")]})
    assert first.revised(grown, begun=1).layers == (("a",), ("b", "new"))
