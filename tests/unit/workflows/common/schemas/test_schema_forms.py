"""Forms from JSON Schemas, and their submitted values."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.repetitions import often
from workflows.common.schemas import FieldError, FormField, form_fields, value_from_form

TEXT = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=12)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
    | st.sampled_from(["a\nb", "a\r\nb", "a\rb", "", " ", "1", "true", "null", "x" * 200])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "null", "object", "array"])
SCHEMAS = st.recursive(
    st.sampled_from(
        [None, True, False, {}, {"type": "nonsense"}, {"$ref": "#/$defs/a"}, {"$ref": "#"}]
    )
    | TYPES.map(lambda name: {"type": name})
    | TYPES.map(lambda name: {"type": [name, "null"]})
    | st.lists(SCALARS, min_size=1, max_size=3, unique_by=repr).map(lambda v: {"enum": v}),
    lambda inner: (
        st.dictionaries(TEXT, inner, max_size=3).map(lambda p: {"type": "object", "properties": p})
        | inner.map(lambda s: {"type": "array", "items": s})
        | st.lists(inner, min_size=1, max_size=2).map(lambda forms: {"anyOf": forms})
        | inner.map(lambda s: {"allOf": [s], "title": "T"})
    ),
    max_leaves=6,
)


def schema_for(value: Any) -> Any:
    """A schema that describes exactly the types of `value`."""
    if isinstance(value, dict):
        return {"type": "object", "properties": {k: schema_for(v) for k, v in value.items()}}
    if isinstance(value, list):
        return {"type": "array", "prefixItems": [schema_for(item) for item in value] or [True]}
    names = {bool: "boolean", int: "integer", float: "number", str: "string"}
    return {"type": names.get(type(value), "null")}


def browser(fields: Iterable[FormField]) -> dict[str, str]:
    """What a browser would send for the form as it is shown."""
    data: dict[str, str] = {}
    for field in fields:
        if field.has_state:
            data[field.state_name] = field.state
        if field.kind == "array":
            data[field.items_name] = field.item_ids
        if field.kind in ("object", "array"):
            data |= browser(field.children)
        elif field.kind == "enum":
            data[field.name] = next((o.value for o in field.options if o.selected), "")
        else:
            data[field.name] = (
                field.text.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n")
            )
    return data


def exactly(value: Any) -> str:
    return json.dumps(value)


@settings(max_examples=often(100, 2000), deadline=None)
@given(VALUES)
def test_an_untouched_form_gives_back_the_same_value(value: Any) -> None:
    schema = schema_for(value)
    result = value_from_form(schema, value, browser(form_fields(schema, value)))
    assert exactly(result.value) == exactly(value)
    assert result.errors == ()


@settings(max_examples=often(100, 2000), deadline=None)
@given(SCHEMAS, VALUES)
def test_an_untouched_form_gives_back_a_value_of_another_schema(schema: Any, value: Any) -> None:
    result = value_from_form(schema, value, browser(form_fields(schema, value)))
    assert exactly(result.value) == exactly(value)
    assert result.errors == ()


@settings(max_examples=often(100, 2000), deadline=None)
@given(SCHEMAS, VALUES, st.data())
def test_any_entries_are_read_or_refused_with_a_path(
    schema: Any, value: Any, data: st.DataObject
) -> None:
    sent = browser(form_fields(schema, value))
    for name in data.draw(
        st.lists(st.sampled_from(sorted(sent)), max_size=4) if sent else st.just([])
    ):
        sent[name] = data.draw(
            TEXT | st.sampled_from(["", "null", "absent", "0,1", "7", "[1]", "{"])
        )
    result = value_from_form(schema, value, sent)
    json.dumps(result.value, allow_nan=False)
    again = form_fields(
        schema, result.value, original=value, rejected=result.rejected, errors=result.errors
    )
    assert isinstance(again, tuple)


SCHEMA = {
    "type": "object",
    "title": "Write a file",
    "properties": {
        "path": {"type": "string", "description": "Where to", "format": "uri"},
        "content": {"type": "string"},
        "mode": {"enum": ["create", "append", None], "default": "create"},
        "size": {"type": "integer"},
        "ratio": {"type": ["number", "null"]},
        "force": {"type": "boolean"},
        "people": {
            "type": "array",
            "items": {"$ref": "#/$defs/person"},
        },
        "when": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
        "odd": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    },
    "required": ["path", "content"],
    "$defs": {
        "person": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
            "required": ["name"],
        }
    },
}
VALUE = {
    "path": "docs/a.md",
    "content": "one\ntwo",
    "mode": "append",
    "size": 9007199254740993,
    "ratio": None,
    "force": False,
    "people": [{"name": "Ada", "age": 36}, {"name": "Bo"}],
    "odd": {"kept": [1.0]},
    "extra": 1.0,
}


def fields_by_path(fields: Iterable[FormField]) -> dict[str, FormField]:
    found: dict[str, FormField] = {}
    for field in fields:
        found |= {field.path: field, **fields_by_path(field.children)}
    return found


def test_the_model_has_what_a_template_needs() -> None:
    fields = fields_by_path(form_fields(SCHEMA, VALUE))
    kinds = {path: field.kind for path, field in fields.items() if path.count("/") == 1}
    assert kinds == {
        "/path": "text",
        "/content": "textarea",
        "/mode": "enum",
        "/size": "integer",
        "/ratio": "number",
        "/force": "boolean",
        "/people": "array",
        "/when": "text",
        "/odd": "json",
        "/extra": "number",
    }
    path = fields["/path"]
    assert (path.label, path.description, path.required, path.input_type) == (
        "Path",
        "Where to",
        True,
        "url",
    )
    assert fields["/size"].text == "9007199254740993"
    assert fields["/size"].input_mode == "numeric"
    assert (fields["/ratio"].nullable, fields["/ratio"].state) == (True, "null")
    assert (fields["/when"].state, fields["/when"].input_type) == ("absent", "date")
    assert [(o.label, o.selected) for o in fields["/mode"].options] == [
        ("create", False),
        ("append", True),
    ]
    assert fields["/people/0/name"].dotted == "people[0].name"
    assert fields["/people/1/age"].state == "absent"
    blank = fields["/people"].blank
    assert blank is not None
    assert [field.name for field in blank.children] == ["v:/people/NEW/name", "v:/people/NEW/age"]


@pytest.mark.parametrize(
    ("name", "text", "key", "expected"),
    [
        ("v:/content", "one\r\nTWO", "content", "one\nTWO"),
        ("v:/size", " 9007199254740995 ", "size", 9007199254740995),
        ("v:/ratio", "2", "ratio", 2),
        ("v:/ratio", "2.50", "ratio", 2.5),
        ("v:/ratio", "1e3", "ratio", 1000.0),
        ("v:/force", "true", "force", True),
        ("v:/mode", '"create"', "mode", "create"),
        ("s:/mode", "null", "mode", None),
        ("v:/when", "2030-01-02", "when", "2030-01-02"),
        ("s:/when", "null", "when", None),
        ("j:/odd", "[1, 2.0]", "odd", [1, 2.0]),
        ("v:/extra", "3", "extra", 3),
        ("i:/people", "1", "people", [{"name": "Bo"}]),
        ("i:/people", "1,0", "people", [{"name": "Bo"}, {"name": "Ada", "age": 36}]),
        ("v:/people/1/age", "7", "people", [{"name": "Ada", "age": 36}, {"name": "Bo", "age": 7}]),
        ("v:/content", "", "content", ""),
    ],
    ids=range(16),
)
def test_one_edit_changes_one_thing(name: str, text: str, key: str, expected: Any) -> None:
    sent = browser(form_fields(SCHEMA, VALUE)) | {name: text}
    result = value_from_form(SCHEMA, VALUE, sent)
    assert result.errors == ()
    assert exactly(result.value[key]) == exactly(expected)
    assert {k: v for k, v in result.value.items() if k != key} == {
        k: v for k, v in VALUE.items() if k != key
    }
    changed = {f.path for f in form_fields(SCHEMA, result.value, original=VALUE) if f.changed}
    assert changed == {f"/{key}"}


def test_removing_and_adding() -> None:
    sent = browser(form_fields(SCHEMA, VALUE)) | {"s:/force": "absent"}
    assert "force" not in value_from_form(SCHEMA, VALUE, sent).value
    sent |= {
        "i:/people": "0,9",
        "v:/people/9/name": "Cy",
        "v:/people/9/age": "",
        "s:/people/9/age": "absent",
    }
    assert value_from_form(SCHEMA, VALUE, sent).value["people"] == [
        {"name": "Ada", "age": 36},
        {"name": "Cy"},
    ]


@pytest.mark.parametrize(
    ("name", "text", "path", "message"),
    [
        ("v:/size", "3.5", "size", "must be a whole number"),
        ("v:/size", "9" * 2_000, "size", "must have at most 1000 digits"),
        ("v:/ratio", "1e400", "ratio", "must be a number"),
        ("v:/ratio", "1,5", "ratio", "must be a number"),
        ("v:/force", "maybe", "force", "must be true or false"),
        ("v:/mode", '"delete"', "mode", "must be one of the choices"),
        ("v:/people/0/age", "old", "people[0].age", "must be a whole number"),
        ("j:/odd", '{"a": [NaN]}', "odd.a[0]", "is not a finite number"),
        ("j:/odd", "[1, 1e999]", "odd[1]", "is not a finite number"),
        ("j:/odd", "[" * 100_000, "odd" + "[0]" * 64, "is nested more than 64 levels deep"),
        ("v:/path", "a\x00", "path", "has a NUL character in its text"),
        ("i:/people", "0,x", "people", "has items that cannot be told apart"),
        ("i:/people", "0,0", "people", "has items that cannot be told apart"),
        ("i:/people", ",".join(map(str, range(1_001))), "people", "has more than 1000 items"),
    ],
    ids=range(14),
)
def test_a_bad_entry_is_refused_with_its_path(
    name: str, text: str, path: str, message: str
) -> None:
    sent = browser(form_fields(SCHEMA, VALUE)) | {
        name: text,
        "v:/path": text if "path" in name else "new",
    }
    result = value_from_form(SCHEMA, VALUE, sent)
    assert result.errors == (FieldError(path, message),)
    expected = VALUE if name == "v:/path" else VALUE | {"path": "new"}
    assert result.value == expected


def test_a_refused_form_is_shown_again_as_it_was_entered() -> None:
    sent = browser(form_fields(SCHEMA, VALUE)) | {"i:/people": "1", "v:/people/1/age": "old"}
    result = value_from_form(SCHEMA, VALUE, sent)
    shown = fields_by_path(
        form_fields(
            SCHEMA, result.value, original=VALUE, rejected=result.rejected, errors=result.errors
        )
    )
    assert shown["/people/0/age"].text == "old"
    assert shown["/people/0/age"].errors == ("must be a whole number",)
    assert shown["/people/0/name"].errors == ()


@pytest.mark.parametrize(
    "schema", [{"type": 3}, {"anyOf": [{"type": "string"}, {"type": "array"}]}, False]
)
def test_a_schema_that_is_missing_or_odd_gives_raw_json(schema: Any) -> None:
    (field,) = form_fields(schema, {"a": 1})
    assert (field.kind, field.name, json.loads(field.text)) == ("json", "j:", {"a": 1})
    assert value_from_form(schema, {"a": 1}, {"j:": '{"a": 2}'}).value == {"a": 2}


def test_plain_values_without_a_schema_keep_their_type() -> None:
    (field,) = form_fields(None, "a\nb")
    assert field.kind == "textarea"
    assert value_from_form(None, "a\nb", {"v:": "a\r\nc"}).value == "a\nc"
    assert value_from_form(None, 5, {"v:": "6"}).value == 6
    (raw,) = form_fields(None, [1, {"a": 2}])
    assert raw.kind == "json"


def test_a_recursive_schema_ends() -> None:
    names = [f"p{i}" for i in range(10)]
    schema = {"type": "object", "properties": {name: {"$ref": "#"} for name in names}}
    assert len(fields_by_path(form_fields(schema, {}))) < 1_000


def test_wide_values_fall_back_to_raw_json() -> None:
    schema = {"type": "array", "items": {"type": "integer"}}
    (field,) = form_fields(schema, list(range(5_000)))
    assert field.kind == "json"
    result = value_from_form(schema, [1] * 5_000, {field.name: "[1, 2]"})
    assert result.value == [1, 2]


def test_values_missing_from_the_form_are_preserved() -> None:
    assert value_from_form(SCHEMA, VALUE, {"csrf": "x", "v:/size": "1"}).value == VALUE | {
        "size": 1
    }
    assert value_from_form(SCHEMA, VALUE, {}).value == VALUE
