"""A payload as a form, and back."""

from __future__ import annotations

from typing import Any

import pytest

from reviews.decisions.payload_forms import payload_fields, posted_json, posted_value, schema_for


def posted_untouched(schema: Any, value: Any) -> dict[str, str]:
    """What a browser sends for a form that nobody touched."""
    sent: dict[str, str] = {}
    waiting = list(payload_fields(schema, value, original=value))
    while waiting:
        field = waiting.pop()
        if field.kind == "array":
            sent[field.items_name] = field.item_ids
        waiting.extend(field.children)
        if field.kind not in ("object", "array"):
            sent[field.name] = field.text.replace("\n", "\r\n")
    return sent


@pytest.mark.parametrize(
    "value",
    [
        {"path": "a.md", "text": "one\ntwo", "n": 3, "f": 0.5, "yes": True, "none": None},
        {"deep": {"er": {"x": [1, {"y": 2}]}}},
        "plain text",
        [1, 2, 3],
        {},
        {"big": 2**80},
    ],
)
@pytest.mark.parametrize("schema", [None, {}, True])
def test_a_tool_without_a_schema_still_has_fields(value: Any, schema: Any) -> None:
    found = posted_value(schema, value, posted_untouched(schema, value))
    assert (found.value, found.errors) == (value, ())


def test_texts_become_values_of_their_kind() -> None:
    before = {"n": 3, "s": "x", "deep": {"b": True}}
    sent = {"v:/n": "4", "v:/s": "5", "v:/deep/b": "false"}
    assert posted_value(None, before, sent).value == {"n": 4, "s": "5", "deep": {"b": False}}
    wrong = posted_value(None, before, {"v:/n": "four"})
    assert [each.path for each in wrong.errors] == ["n"]
    assert wrong.rejected == {"/n": "four"}


def test_a_tools_own_schema_is_used() -> None:
    schema = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}}
    assert schema_for(schema, {"a": "x"}) is schema


@pytest.mark.parametrize("text", ["", "{", "NaN", '{"a": 1, "a": 2}', '"\\u0000"', "[" * 9999])
def test_broken_json_is_an_error_at_the_root(text: str) -> None:
    found = posted_json(text)
    assert [each.path for each in found.errors] == [""]
    assert found.errors[0].message
