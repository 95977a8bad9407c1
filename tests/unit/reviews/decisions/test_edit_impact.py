"""Edit impact: tasks that would read another value after an edit."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviews.components.json_diffs import Path, diff
from reviews.decisions.edit_impact import impact, paths_read
from workflows.engine.plans.dag import Plan
from workflows.engine.plans.dataflow import condition_holds
from workflows.engine.plans.task_errors import TaskFailed
from workflows.engine.values.expressions import compiled


def plan(*tasks: dict[str, Any]) -> Plan:
    made = [{"type": "tool", "tool": "builtin.echo", "arguments": {}, **task} for task in tasks]
    return Plan.model_validate({"tasks": made})


def reads(source: str, select: str | None = None) -> dict[str, Any]:
    return {"value": {"$from": source, **({"select": select} if select else {})}}


def readers_of(of: Plan, task: str, path: Path) -> tuple[str, ...]:
    return impact(of, task, [path], output=True).readers[path]


@pytest.mark.parametrize(
    ("expression", "paths"),
    [
        ("a.b", {("a", "b")}),
        ("items[0].name", {("items", "*", "name")}),
        ("items[*].name", {("items", "*", "name")}),
        ("items[?ok].name", {("items", "*", "ok"), ("items", "*", "name")}),
        ("items[1:2].name", {("items", "*", "name")}),
        ("[].a", {()}),
        ("items[].a", {("items",)}),
        ("*.a", {("*", "a")}),
        ("{x: a, y: b.c}", {("a",), ("b", "c")}),
        ("a | b", {("a", "b")}),
        ("length(files)", {("files",)}),
        ("sort_by(files, &size)[0].name", {("files",)}),
        ("a || b", {("a",), ("b",)}),
        ("a == `1`", {("a",)}),
        ("@", {()}),
        ("`1`", set()),
        ("not a (", {()}),
    ],
)
def test_the_paths_of_an_expression(expression: str, paths: set[tuple[str, ...]]) -> None:
    assert paths_read(expression) == paths


def test_readers_are_named_by_field() -> None:
    found = plan(
        {"id": "draft"},
        {"id": "title", "arguments": reads("draft", "title")},
        {"id": "all", "arguments": {"x": [reads("draft")]}},
        {"id": "gate", "depends_on": ["draft"], "when": "draft.ok"},
        {"id": "waits", "depends_on": ["draft"]},
        {"id": "after", "arguments": reads("title")},
    )
    assert readers_of(found, "draft", ("title",)) == ("title", "all")
    assert readers_of(found, "draft", ("ok",)) == ("all", "gate")
    assert readers_of(found, "draft", ("title", "short")) == ("title", "all")
    assert readers_of(found, "draft", ()) == ("title", "all", "gate")
    told = impact(found, "draft", [("title",), ("other",)], output=True)
    assert told.readers == {("title",): ("title", "all"), ("other",): ("all",)}
    assert told.affected == {"title", "all", "after"}
    own = impact(found, "draft", [("path",)], output=False)
    assert own.readers == {("path",): ("draft", "title", "all", "gate")}
    assert own.affected == {"draft", "title", "all", "gate", "after"}
    assert impact(found, "nobody", [("x",)], output=True).affected == frozenset()


_keys = st.sampled_from(["a", "b", "c"])
_values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["x", "y"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=3),
    max_leaves=10,
)
_expressions = st.recursive(
    _keys
    | st.sampled_from(["@", "*", "[*]", "[]", "[0]", "[-1]", "[:2]", "a[?b]", "a[?b=='x'].c"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: f"{two[0]} | {two[1]}"),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}) || ({two[1]})"),
        st.tuples(inner, inner).map(lambda two: f"[{two[0]}, {two[1]}]"),
        st.tuples(_keys, inner).map(lambda two: f"{two[0]}.{{k: {two[1]}}}"),
        st.tuples(_keys, _keys).map(lambda two: f"{two[0]}.{two[1]}"),
        st.tuples(_keys, _keys).map(lambda two: f"{two[0]}[*].{two[1]}"),
        st.tuples(_keys, _keys).map(lambda two: f"{two[0]}[].{two[1]}"),
        inner.map(lambda one: f"to_string({one})"),
        inner.map(lambda one: f"!({one})"),
        inner.map(lambda one: f'({one}) == `"x"`'),
        _keys.map(lambda key: f"sort_by(@, &{key})"),
    ),
    max_leaves=4,
)


def outcome(expression: str, value: Any) -> Any:
    try:
        return compiled(expression).search(deepcopy(value))
    except Exception as error:
        return type(error).__name__


@given(_expressions, _values, _values)
def test_a_task_with_changed_inputs_is_a_reader(expression: str, old: Any, new: Any) -> None:
    """An edit that no reader is named for changes nothing that a select finds."""
    found = plan({"id": "s"}, {"id": "r", "arguments": reads("s", expression)})
    named = any(readers_of(found, "s", change.path) for change in diff(old, new))
    if not named:
        assert outcome(expression, old) == outcome(expression, new)


@given(_expressions, _values, _values)
def test_a_task_with_a_changed_condition_is_a_reader(expression: str, old: Any, new: Any) -> None:
    when = f"s.a && ({expression})" if expression[0] not in "[*" else f"s | {expression}"
    found = plan({"id": "s"}, {"id": "r", "depends_on": ["s"], "when": when})

    def holds(value: Any) -> Any:
        try:
            return condition_holds(when, {"s": deepcopy(value), "inputs": {}, "context": {}})
        except TaskFailed as error:
            return str(type(error))

    named = any(readers_of(found, "s", change.path) for change in diff(old, new))
    if not named:
        assert holds(old) == holds(new)
