"""Checking values against JSON Schemas: plain words, paths, wildcards, and hostile schemas."""

from __future__ import annotations

import time
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from workflows.common.schemas import FieldError, schema_errors, schema_from_callable, schema_problem

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "minLength": 1, "pattern": r"\.md$"},
        "count": {"type": ["integer", "null"], "minimum": 3},
        "note": {"anyOf": [{"type": "string", "maxLength": 4}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2},
        "deep": {"type": "object", "properties": {"items": {"items": {"required": ["name"]}}}},
    },
    "required": ["path"],
    "additionalProperties": False,
}


def errors_of(schema: Any, value: Any, **more: Any) -> set[tuple[str, str]]:
    return {(error.path, error.message) for error in schema_errors(schema, value, **more)}


def is_reference(value: Any) -> bool:
    return isinstance(value, dict) and "$from" in value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"path": "a.md", "count": None, "note": None, "tags": ["a"]}, set()),
        ({}, {("path", "is required")}),
        (
            {"path": ""},
            {("path", "must not be empty"), ("path", 'must match the pattern "\\\\.md$"')},
        ),
        (
            {"path": "a.md", "x": 1, "y z": 2},
            {("x", "is not a known field"), ('["y z"]', "is not a known field")},
        ),
        ({"path": "a.md", "count": 2}, {("count", "must be at least 3")}),
        (
            {"path": "a.md", "count": "4"},
            {("count", "must be a whole number or empty (null), not text")},
        ),
        (
            {"path": "a.md", "count": 4.5},
            {("count", "must be a whole number or empty (null), not a number")},
        ),
        ({"path": "a.md", "note": "hello"}, {("note", "must have at most 4 characters")}),
        (
            {"path": "a.md", "note": 5},
            {("note", "must be text or empty (null), not a whole number")},
        ),
        (
            {"path": "a.md", "tags": ["a", "c", "b"]},
            {("tags", "must have at most 2 items"), ("tags[1]", 'must be one of "a", "b"')},
        ),
        (
            {"path": "a.md", "deep": {"items": [{"name": 1}, {}]}},
            {("deep.items[1].name", "is required")},
        ),
        ([], {("", "must be an object, not a list")}),
    ],
)
def test_errors_have_paths_and_plain_words(value: Any, expected: set[tuple[str, str]]) -> None:
    assert errors_of(SCHEMA, value) == expected


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        ({"const": 3}, 4, "must be 3"),
        ({"multipleOf": 0.1}, 0.35, "must be a multiple of 0.1"),
        ({"exclusiveMinimum": 1}, 1, "must be more than 1"),
        ({"uniqueItems": True}, [{"a": 1}, {"a": 1.0}], "must not have the same item twice"),
        ({"not": {"type": "string"}}, "x", "has a value that is ruled out"),
        ({"contains": {"const": 1}}, [2], "does not have the items it needs"),
        (
            {"oneOf": [{"type": "integer"}, {"minimum": 2}]},
            3,
            "fits more than one of the forms of which it may fit only one",
        ),
        (
            {"anyOf": [{"minimum": 5}, {"multipleOf": 2}]},
            3,
            "fits none of the forms that are allowed",
        ),
        ({"properties": {"a": False}}, {"a": 1}, "is not allowed here"),
        ({"minProperties": 1}, {}, "must have at least 1 field"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "needs another field to be given as well"),
        ({"type": "string"}, None, "must be text, not empty (null)"),
        ({"type": "integer"}, True, "must be a whole number, not true or false"),
    ],
)
def test_other_keywords_in_plain_words(schema: Any, value: Any, message: str) -> None:
    assert [error.message for error in schema_errors(schema, value)] == [message]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (None, object),
        (True, 1),
        ({}, [1]),
        ({"multipleOf": 0.1}, 0.3),
        ({"multipleOf": 0.1}, 10**900),
        ({"uniqueItems": True}, [1, True, "1"]),
        (
            {"patternProperties": {"^x-": {"type": "integer"}}, "additionalProperties": False},
            {"x-a": 1},
        ),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}, 1),
        (
            {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}]},
            ["a", 1],
        ),
        ({"pattern": r"^(?!a)b"}, "anything: lookahead is left to the tool"),
    ],
)
def test_valid_values_have_no_errors(schema: Any, value: Any) -> None:
    assert schema_errors(schema, value) == []


def test_older_drafts_are_understood() -> None:
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}]}
    assert errors_of(schema, [1]) == {("[0]", "must be text, not a whole number")}


REFERENCE = {"$from": "log", "select": "[0]"}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (SCHEMA, dict.fromkeys(("path", "count", "note", "tags", "deep"), REFERENCE)),
        (SCHEMA, {"path": "a.md", "tags": [REFERENCE, "a"]}),
        ({"enum": [[1], [2]]}, [REFERENCE]),
        ({"const": {"a": 1}}, {"a": REFERENCE}),
        ({"oneOf": [{"items": {"type": "string"}}, {"items": {"type": "integer"}}]}, [REFERENCE]),
        ({"not": {"items": {"type": "object"}}}, [REFERENCE]),
        ({"contains": {"const": 1}}, [REFERENCE]),
        ({"uniqueItems": True}, [REFERENCE, REFERENCE]),
    ],
    ids=range(8),
)
def test_wildcards_are_valid_anywhere(schema: Any, value: Any) -> None:
    assert schema_errors(schema, value) != []
    assert schema_errors(schema, value, wildcard=is_reference) == []


def test_siblings_of_a_wildcard_are_still_checked() -> None:
    value = {"path": 1, "tags": [REFERENCE, "c"], "x": REFERENCE}
    assert {path for path, _ in errors_of(SCHEMA, value, wildcard=is_reference)} == {
        "path",
        "tags[1]",
        "x",
    }


def doubling(levels: int) -> dict[str, Any]:
    defs: dict[str, Any] = {f"d{levels}": {}}
    for level in range(levels):
        twice = {"$ref": f"#/$defs/d{level + 1}"}
        defs[f"d{level}"] = {"allOf": [twice, twice]}
    return {"$defs": defs, "$ref": "#/$defs/d0"}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (doubling(40), 1),
        ({"$ref": "#"}, 1),
        ({"pattern": r"^(a+)+$"}, "a" * 200_000 + "!"),
        (
            {"patternProperties": {r"^(a+)+$": {}}, "additionalProperties": False},
            {"a" * 200 + "!": 1},
        ),
        (
            {
                "patternProperties": {r"^(a+)+$": False},
                "unevaluatedProperties": {"type": "null"},
                "required": ["b"],
            },
            {"a" * 200 + "!": 1},
        ),
        ({"anyOf": [{"type": "string"}] * 3_000}, {"a": "x" * 250_000, "b": "x" * 250_000}),
        ({"type": "array", "items": {"enum": [[[]]] * 3_000}}, [0] * 9_000),
        ({"required": [[i] for i in range(9_000)]}, {}),
        ({"uniqueItems": True}, [{"a": i} for i in range(4_000)] + [{"a": 1}]),
    ],
    ids=range(9),
)
def test_hostile_schemas_are_bounded(schema: Any, value: Any) -> None:
    started = time.process_time()
    assert schema_errors(schema, value)
    assert time.process_time() - started < 4


@pytest.mark.parametrize(
    ("schema", "word"),
    [
        ({"$ref": "https://example.com/schema.json"}, "not part of it"),
        ({"$ref": "file:///etc/passwd"}, "not part of it"),
        ({"$ref": "#/$defs/nowhere"}, "not part of it"),
        ({"type": "text"}, "not valid (type: "),
        ({"properties": {"a": {"required": "x"}}}, "not valid (properties.a.required: "),
        ([1], "neither an object"),
        ({"a": float("nan")}, "the schema"),
    ],
    ids=range(7),
)
def test_unusable_schemas_are_one_error_at_the_root(schema: Any, word: str) -> None:
    errors = schema_errors(schema, {})
    assert len(errors) == 1
    assert errors[0].path == ""
    assert word in errors[0].message


def test_schema_problem() -> None:
    assert schema_problem(SCHEMA) == schema_problem(None) == ""
    assert "not valid" in schema_problem({"type": 3})


def test_a_deep_value_is_checked_to_the_bottom() -> None:
    schema = {"type": "object", "properties": {"c": {"$ref": "#"}}, "additionalProperties": False}
    value: Any = {"x": 1}
    for _ in range(60):
        value = {"c": value}
    assert [error.message for error in schema_errors(schema, value)] == ["is not a known field"]


def test_at_most_fifty_errors() -> None:
    assert len(schema_errors({"items": {"type": "string"}}, [1] * 200)) == 50


def test_error_messages_are_readable() -> None:
    assert str(FieldError("a[0]", "is required")) == "a[0]: is required"
    assert str(FieldError("", "is odd")) == "is odd"


class Entry(BaseModel):
    name: str


def tool(
    path: Annotated[str, Field(description="Where to write", min_length=1)],
    count: int = 3,
    *,
    ctx: object,
    tags: list[str] | None = None,
) -> list[Entry]:
    """A tool function."""
    return []


def test_schema_from_callable() -> None:
    inputs, output = schema_from_callable(tool)
    assert list(inputs["properties"]) == ["path", "count", "tags"]
    assert inputs["required"] == ["path"]
    assert inputs["properties"]["path"] == {
        "type": "string",
        "description": "Where to write",
        "minLength": 1,
    }
    assert errors_of(inputs, {"path": "a", "ctx": 1}) == {("ctx", "is not a known field")}
    assert errors_of(inputs, {"path": "a", "count": 2, "tags": None}) == set()
    assert output is not None
    assert errors_of(output, [{"name": "x"}, {}]) == {("[1].name", "is required")}


def test_schema_from_callable_without_hints() -> None:
    def loose(value, **rest) -> None:  # type: ignore[no-untyped-def]
        """Takes anything."""

    inputs, output = schema_from_callable(loose)
    assert errors_of(inputs, {"value": [1], "more": 2}) == set()
    assert errors_of(inputs, {}) == {("value", "is required")}
    assert output is None


def test_schema_from_callable_refuses_what_json_cannot_call() -> None:
    def spread(*items: int) -> None: ...

    def odd(stream: pytest.MonkeyPatch) -> None: ...

    with pytest.raises(TypeError, match="passed by keyword"):
        schema_from_callable(spread)
    with pytest.raises(TypeError, match="type hints have no schema"):
        schema_from_callable(odd)
