"""Nested fields of arguments: when there are any, and what they give when they are posted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.http import QueryDict

from reviews.authoring.argument_forms import argument_fields
from reviews.authoring.fields import arguments_of, posted_plan
from workflows.common.schemas.form_shapes import ABSENT

KEY = "t0.a0"
LINE = {
    "type": "object",
    "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["sku"],
}
LINES = {"type": "array", "items": LINE}
ADDRESS = {"type": "object", "properties": {"city": {"type": "string"}}}
TWO = [{"sku": "a", "count": 1, "own": True}, {"sku": "b"}]


def task(value: Any = ABSENT) -> dict[str, Any]:
    given = {} if value is ABSENT else {"lines": value}
    return {"id": "a", "type": "tool", "tool": "shop.order", "arguments": given}


def posted(schema: Any, value: Any = ABSENT, **fields: str) -> Any:
    """Post the fields of a task that was shown with `value`, with some of them changed."""
    shown = "" if value is ABSENT else json.dumps(value)
    data = QueryDict(mutable=True)
    data.update({"t0.id": "a", f"{KEY}.source": "", f"{KEY}.text": shown, f"{KEY}.was": shown})
    for control, text in controls(argument_fields(KEY, "lines", schema, value, {})):
        data[control] = text
    data.update({name.replace("KEY", KEY): text for name, text in fields.items()})
    whole = {"type": "object", "properties": {"lines": schema}}
    return posted_plan({"tasks": [task(value)]}, {0: whole}, data)


def controls(fields: Any) -> Any:
    for each in fields:
        if each.has_state:
            yield each.state_name, each.state
        if each.kind == "array":
            yield each.items_name, each.item_ids
        elif each.kind != "object":
            yield each.name, each.text
        yield from controls(each.children)


def given(found: Any) -> Any:
    return found.plan["tasks"][0]["arguments"].get("lines", ABSENT)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string"}, "x"),
        ({}, {"a": 1}),
        ({"type": "object"}, {"a": 1}),
        ({"type": "array"}, [1]),
        (LINES, "no list"),
        (LINES, [{"sku": {"$from": "a"}}]),
        (LINES, [{"sku": "x"}] * 40),
    ],
)
def test_one_text_where_fields_would_not_help(schema: Any, value: Any) -> None:
    if schema == {"type": "object"}:
        value = ABSENT
    assert argument_fields(KEY, "lines", schema, value, {}) == ()


def test_controls_carry_the_key_of_their_argument() -> None:
    (lines,) = argument_fields(KEY, "lines", LINES, TWO, {})
    assert (lines.label, lines.items_name) == ("lines", f"i:{KEY}")
    assert lines.children[0].children[0].name == f"v:{KEY}/0/sku"
    assert lines.blank is not None
    assert lines.blank.children[0].name == f"v:{KEY}/NEW/sku"
    (city,) = argument_fields(KEY, "to", ADDRESS, ABSENT, {})
    assert city.name == f"v:{KEY}/city"


@pytest.mark.parametrize(("schema", "value"), [(LINES, TWO), (LINES, ABSENT), (ADDRESS, ABSENT)])
def test_fields_that_nobody_touched_change_nothing(schema: Any, value: Any) -> None:
    found = posted(schema, value)
    assert given(found) == value
    assert found.errors == []


def test_items_are_changed_added_and_removed() -> None:
    changed = posted(LINES, TWO, **{"v:KEY/0/sku": "c"})
    assert given(changed) == [{"sku": "c", "count": 1, "own": True}, {"sku": "b"}]
    added = {"i:KEY": "1,7", "v:KEY/7/sku": "new", "v:KEY/7/count": "3"}
    assert given(posted(LINES, TWO, **added)) == [{"sku": "b"}, {"sku": "new", "count": 3}]
    assert given(posted(ADDRESS, **{"v:KEY/city": "Rome"})) == {"city": "Rome"}


def test_a_second_post_of_the_same_page_gives_the_same() -> None:
    """A check changes the draft, not the page: its fields are about what the page showed."""
    form = {"i:KEY": "1", "v:KEY/1/sku": "x"}
    once = posted(LINES, TWO, **form)
    data = QueryDict(mutable=True)
    shown = json.dumps(TWO)
    data.update({"t0.id": "a", f"{KEY}.text": shown, f"{KEY}.was": shown})
    data.update({name.replace("KEY", KEY): text for name, text in form.items()})
    whole = {"type": "object", "properties": {"lines": LINES}}
    again = posted_plan(once.plan, {0: whole}, data)
    assert given(again) == given(once) == [{"sku": "x"}]


def test_changed_json_and_references_replace_the_fields() -> None:
    text = json.dumps([{"sku": {"$from": "inputs"}}])
    assert given(posted(LINES, TWO, **{"KEY.text": text})) == [{"sku": {"$from": "inputs"}}]
    found = posted(LINES, TWO, **{"KEY.source": "inputs", "KEY.select": "lines"})
    assert given(found) == {"$from": "inputs", "select": "lines"}


def test_an_invalid_text_is_reported_with_its_place_and_shown_again() -> None:
    found = posted(LINES, TWO, **{"i:KEY": "1", "v:KEY/1/count": "many", "v:KEY/1/sku": "c"})
    (error,) = found.errors
    assert (error.path, error.message) == (f"{KEY}/", "lines[0].count: must be a whole number")
    assert given(found) == [{"sku": "c"}]
    (lines,) = argument_fields(KEY, "lines", LINES, given(found), found.rejected)
    assert lines.children[0].children[1].text == "many"


def test_numbers_say_their_limits() -> None:
    part = {
        "type": "integer",
        "minimum": 1,
        "maximum": 9,
        "multipleOf": 2,
        "exclusiveMaximum": True,
    }
    (argument,) = arguments_of(task(), {"properties": {"n": part}}, "t0")
    assert (argument.input_mode, argument.limits) == (
        "numeric",
        "at least 1, at most 9, a multiple of 2",
    )
