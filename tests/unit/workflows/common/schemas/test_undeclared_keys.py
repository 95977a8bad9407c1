"""Keys that an edit adds and the schema does not name."""

from __future__ import annotations

from typing import Any

import pytest

from workflows.common.schemas import undeclared_keys

MAIL = {
    "type": "object",
    "properties": {
        "to": {"type": "string"},
        "options": {"type": "object", "properties": {"urgent": {"type": "boolean"}}},
        "files": {
            "type": "array",
            "items": {"type": "object", "properties": {"name": {"type": "string"}}},
        },
        "headers": {"type": "object"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "patternProperties": {"^x-": {}},
}


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ({"to": "a"}, {"to": "b"}, ()),
        ({"to": "a"}, {"to": "a", "bcc": "c"}, ("bcc",)),
        ({"to": "a", "bcc": "c"}, {"to": "a", "bcc": "d"}, ()),
        ({}, {"options": {"urgent": True, "urgnet": True}}, ("options.urgnet",)),
        ({"options": {"old": 1}}, {"options": {"old": 2, "new": 3}}, ("options.new",)),
        ({"files": [{"nmae": "a"}]}, {"files": [{"nmae": "b"}, {"nmae": "c"}]}, ("files[1].nmae",)),
        ({}, {"headers": {"anything": 1}, "labels": {"any": "x"}, "x-mine": 1}, ()),
        ({}, {"odd key": 1}, ('["odd key"]',)),
        ({}, [1], ()),
    ],
)
def test_which_keys_are_unnamed(before: Any, after: Any, found: tuple[str, ...]) -> None:
    assert undeclared_keys(MAIL, before, after) == found


@pytest.mark.parametrize("schema", [None, True, {}, {"type": "object"}, {"type": 5}])
def test_a_schema_that_names_nothing_finds_nothing(schema: Any) -> None:
    assert undeclared_keys(schema, {}, {"a": {"b": 1}}) == ()


def test_references_are_followed() -> None:
    schema = {
        "$defs": {"inner": {"type": "object", "properties": {"a": {}}}},
        "type": "object",
        "properties": {"inner": {"$ref": "#/$defs/inner"}},
    }
    assert undeclared_keys(schema, {}, {"inner": {"a": 1, "b": 2}}) == ("inner.b",)
