"""Records of tools as servers describe them: valid, cut and refused ones."""

from dataclasses import replace
from typing import Any

import pytest

from graphrag.catalogue import tool_record
from graphrag.catalogue.tool_record import ToolRecord

GOOD = ToolRecord(
    name="s.read_file",
    kind="mcp",
    server="s",
    title="Read a file",
    description="Reads a file. It may be long.",
    input_schema={
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where"},
            "n": {"type": "integer"},
        },
        "required": ["path"],
    },
)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"name": "other.read"}, "name must be"),
        ({"name": "s." + "x" * 300}, "name must be"),
        ({"name": "s.a\x00b"}, "cannot be stored"),
        ({"name": "s.a\ud800b"}, "cannot be stored"),
        ({"name": "s.read_file\n"}, "cannot be stored or shown"),
        ({"name": "s.\u202eelif_daer"}, "cannot be stored or shown"),
        ({"kind": "magic"}, "kind must be"),
        ({"input_schema": {"x": float("nan")}}, "not JSON"),
        ({"input_schema": {"x": object()}}, "not JSON"),
        ({"input_schema": {"x": "y" * 300_000}}, "longer than"),
        ({"input_schema": {"properties": {"$from": {"enum": ["inputs"]}}}}, "plan syntax"),
        ({"input_schema": {"properties": {"$from\x00": {}}}}, "plan syntax"),
        ({"output_schema": ["list"]}, "must be a JSON object"),
    ],
)
def test_an_invalid_record_is_refused_with_the_reason(change: dict[str, Any], why: str) -> None:
    with pytest.raises(tool_record.InvalidTool, match=why):
        tool_record.sanitized(replace(GOOD, **change))


def test_hostile_characters_are_removed_and_long_texts_cut() -> None:
    found = tool_record.sanitized(
        replace(
            GOOD,
            title="t" * 500,
            description="a\x00b\ud800c",
            input_schema={"k\x00": ["\ud800x", {"deep": "\x00"}], "emoji": "😀"},
        )
    )
    assert len(found.title) == 200
    assert found.description == "abc"
    assert found.input_schema == {"k": ["x", {"deep": ""}], "emoji": "😀"}


def test_a_good_record_stays_as_it_is() -> None:
    assert tool_record.sanitized(GOOD) == GOOD
    assert GOOD.required == ("path",)
    assert list(GOOD.parameters) == ["path", "n"]


def test_the_text_starts_with_the_most_telling_part() -> None:
    written = tool_record.tool_text(GOOD)
    assert written.headline == "s read file read a file"
    assert written.summary == "Reads a file."
    assert written.body == "It may be long."
    assert written.arguments == "n. path Where"
    assert str(written).count("\n") == 3


def test_the_order_of_properties_does_not_change_the_digest() -> None:
    """jsonb gives keys back in an order of its own."""
    properties = dict(reversed(GOOD.input_schema["properties"].items()))
    turned = replace(GOOD, input_schema={**GOOD.input_schema, "properties": properties})
    assert tool_record.tool_text(turned).digest == tool_record.tool_text(GOOD).digest


def test_invalid_schemas_do_no_harm() -> None:
    odd = replace(GOOD, input_schema={"properties": ["x"], "required": "path"})
    assert odd.required == ()
    assert dict(odd.parameters) == {}
    assert (
        tool_record.tool_text(replace(GOOD, input_schema={"properties": {"p": 1}})).arguments == "p"
    )
