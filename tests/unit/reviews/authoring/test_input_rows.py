"""Rows of inputs: they give back the schema they show, and an edit changes nothing else."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from reviews.authoring.input_rows import (
    NEW_PARTS,
    Row,
    RowError,
    added,
    changed_row,
    has_rows,
    moved,
    removed,
    row_faults,
    rows_of,
)
from workflows.common.schemas import schema_problem

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
NAMES = st.sampled_from(["a", "b", "repo", "no", "1", "", "x y", "c\n", "ü"]) | TEXTS
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS
JSONS = st.recursive(
    SCALARS,
    lambda each: st.lists(each, max_size=3) | st.dictionaries(TEXTS, each, max_size=3),
    max_leaves=5,
)
KEYWORDS = st.sampled_from(
    [
        "title", "description", "default", "minimum", "maximum", "minLength", "maxLength",
        "minItems", "maxItems", "enum", "items", "format", "contentMediaType", "writeOnly",
        "readOnly", "examples", "pattern", "const", "oneOf", "$ref", "properties", "required",
        "additionalProperties", "x-note", "multipleOf",
    ]
)  # fmt: skip
PARTS = st.builds(
    lambda base, more: {**base, **more},
    st.sampled_from([*NEW_PARTS.values(), {"type": ["string", "null"]}, {"enum": ["a", "b"]}]),
    st.dictionaries(KEYWORDS, JSONS, max_size=3)
    | st.fixed_dictionaries(
        {},
        optional={
            "title": TEXTS,
            "description": TEXTS,
            "default": SCALARS | st.lists(TEXTS, max_size=2),
            "minLength": st.integers(0, 9),
            "maxLength": st.integers(0, 9),
            "minimum": st.integers() | st.floats(allow_nan=False, allow_infinity=False),
            "minItems": st.integers(0, 3),
            "writeOnly": st.booleans(),
            "format": st.sampled_from(["date", "email", "uri", "url", "password", "uuid"]),
            "examples": st.lists(SCALARS, max_size=2),
        },
    ),
)
SCHEMAS = st.builds(
    lambda parts, more: {**more, "properties": parts},
    st.dictionaries(NAMES, PARTS | st.booleans() | JSONS, max_size=4),
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.just("object"),
            "required": st.lists(NAMES, max_size=3),
            "x-order": st.lists(NAMES, max_size=4),
            "additionalProperties": st.booleans(),
            "$defs": st.dictionaries(TEXTS, PARTS, max_size=1),
            "title": TEXTS,
            "allOf": st.lists(PARTS, max_size=1),
        },
    ),
)


def posted(row: Row) -> Row:
    texts = {each.name: getattr(row, each.name) for each in fields(row) if each.name != "name"}
    changed = {
        name: text.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n")
        for name, text in texts.items()
        if isinstance(text, str)
    }
    return replace(row, **changed)


@given(SCHEMAS)
def test_rows_give_back_the_schema(schema: dict[str, Any]) -> None:
    assert has_rows(schema)
    changed = schema
    for row in rows_of(schema):
        changed = changed_row(changed, row.name, posted(row))
    assert changed == schema
    assert list(changed["properties"]) == list(schema["properties"])


@given(SCHEMAS, st.data())
def test_an_edit_leaves_everything_else(schema: dict[str, Any], data: st.DataObject) -> None:
    rows = [row for row in rows_of(schema) if row.type]
    assume(rows)
    row = data.draw(st.sampled_from(rows))
    edits: dict[str, Any] = {
        "title": "Another title",
        "description": "Another\nline",
        "required": not row.required,
        "secret": not row.secret,
    }
    field = data.draw(st.sampled_from(sorted(edits)))
    changed = changed_row(schema, row.name, replace(posted(row), **{field: edits[field]}))
    shown = {each.name: each for each in rows_of(changed)}
    assert getattr(shown[row.name], field) == edits[field]
    others = {name: part for name, part in schema["properties"].items() if name != row.name}
    assert {key: part for key, part in changed["properties"].items() if key != row.name} == others
    lost = schema["properties"][row.name].keys() - changed["properties"][row.name].keys()
    assert lost <= ({"writeOnly", "format"} if field == "secret" else set())
    rest = {"properties", "required"}
    assert {key: value for key, value in changed.items() if key not in rest} == {
        key: value for key, value in schema.items() if key not in rest
    }


@given(SCHEMAS, st.data())
def test_adding_moving_and_removing_keep_the_other_inputs(
    schema: dict[str, Any], data: st.DataObject
) -> None:
    more = added(schema)
    before = [row.name for row in rows_of(schema)]
    assert [row.name for row in rows_of(more)][:-1] == before
    assert {**more["properties"], **schema["properties"]} == more["properties"]
    assume(before)
    name = data.draw(st.sampled_from(before))
    first = moved(schema, name, -len(before))
    assert [row.name for row in rows_of(first)] == [
        name,
        *(each for each in before if each != name),
    ]
    assert first["properties"] == schema["properties"]
    less = removed(schema, name)
    assert [row.name for row in rows_of(less)] == [each for each in before if each != name]
    kept = {key for key in schema if key not in ("required", "type", "properties", "x-order")}
    assert kept <= less.keys()


TYPED = {
    "text": ("Report", "Report"),
    "long_text": ("a\r\nb", "a\nb"),
    "number": ("2.5", 2.5),
    "integer": ("3", 3),
    "boolean": ("true", True),
    "choice": ("b", "b"),
    "list": ("one\r\n two \r\n\r\n", ["one", "two"]),
    "date": ("2026-01-31", "2026-01-31"),
    "email": ("a@example.com", "a@example.com"),
    "url": ("https://example.com/", "https://example.com/"),
    "object": ('{"a": [1]}', {"a": [1]}),
    "any": ("null", None),
}


@pytest.mark.parametrize("kind", NEW_PARTS)
def test_each_type_is_made_from_a_new_input(kind: str) -> None:
    schema = added({})
    (row,) = rows_of(schema)
    text, value = TYPED[kind]
    new = replace(row, name="it", type=kind, title="It", description="An input", default=text)
    new = replace(new, choices="a\nb" if kind == "choice" else "", required=True, secret=True)
    changed = changed_row(schema, row.name, new)
    assert schema_problem(changed) == ""
    assert changed["required"] == changed["x-order"] == ["it"]
    part = changed["properties"]["it"]
    assert part.items() >= {"title": "It", "description": "An input", "writeOnly": True}.items()
    assert part["default"] == value
    (back,) = rows_of(changed)
    assert (back.type, back.secret, back.required) == (kind, True, True)
    assert row_faults(changed) == []


@pytest.mark.parametrize(
    ("kind", "values", "field"),
    [
        ("text", {"name": "2nd"}, "name"),
        ("text", {"name": "other"}, "name"),
        ("text", {"type": "colour"}, "type"),
        ("text", {"least": "some"}, "least"),
        ("text", {"least": "-1"}, "least"),
        ("list", {"most": "1.5"}, "most"),
        ("integer", {"default": "1.5"}, "default"),
        ("number", {"default": "true"}, "default"),
        ("number", {"default": "NaN"}, "default"),
        ("object", {"default": "{"}, "default"),
        ("list", {"default": "a\na"}, "default"),
        ("choice", {"choices": "a\nb\na"}, "choices"),
    ],
)
def test_a_wrong_value_is_refused_at_its_field(
    kind: str, values: dict[str, str], field: str
) -> None:
    schema = added(added({}, "it", NEW_PARTS[kind]), "other")
    row = rows_of(schema)[0]
    with pytest.raises(RowError) as refused:
        changed_row(schema, "it", replace(row, **values))
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ({"type": "string", "enum": []}, "choices"),
        ({"type": "integer", "minimum": 5, "maximum": 4}, "most"),
        ({"type": "string", "maxLength": 2, "default": "abc"}, "default"),
        ({"type": "string", "enum": ["a"], "default": "b"}, "default"),
    ],
)
def test_contradictions_are_found(part: dict[str, Any], field: str) -> None:
    assert [fault[:2] for fault in row_faults({"properties": {"it": part}})] == [("it", field)]


@pytest.mark.parametrize(
    "part",
    [
        True,
        {"$ref": "#/$defs/x"},
        {"oneOf": [{"type": "string"}]},
        {"type": "object", "properties": {"a": {}}},
        {"type": ["string", "null"]},
        {"type": "array", "items": {"type": "integer"}},
        {"enum": [1, 2]},
        {"type": "string", "default": 3},
    ],
)
def test_what_no_row_shows_is_edited_as_json(part: Any) -> None:
    schema = {"properties": {"it": part}}
    (row,) = rows_of(schema)
    assert (row.type, bool(row.part)) == ("", True)
    changed = changed_row(schema, "it", replace(row, part='{"oneOf": [true]}'))
    assert changed["properties"]["it"] == {"oneOf": [True]}
    with pytest.raises(RowError):
        changed_row(schema, "it", replace(row, part='{"type": "colour"}'))


def test_a_new_type_drops_only_the_keywords_of_the_old_one() -> None:
    part = {"type": "string", "minLength": 2, "pattern": "a", "title": "T", "x-note": 1}
    schema = {"properties": {"it": part}}
    (row,) = rows_of(schema)
    assert row.kept == ("pattern", "x-note")
    longer = changed_row(schema, "it", replace(row, type="long_text"))["properties"]["it"]
    assert longer == {**NEW_PARTS["long_text"], "minLength": 2, "title": "T", "x-note": 1}
    number = changed_row(schema, "it", replace(row, type="number", least=""))["properties"]["it"]
    assert number == {"type": "number", "title": "T", "x-note": 1}


@pytest.mark.parametrize(
    "schema", [{"$ref": "#/$defs/x"}, {"properties": []}, {"required": "a"}, {"type": "array"}, []]
)
def test_other_schemas_have_no_rows(schema: Any) -> None:
    assert not has_rows(schema)
