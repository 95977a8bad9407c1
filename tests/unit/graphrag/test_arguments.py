"""Filling a tool's arguments from inputs, context, earlier outputs and the words."""

from collections.abc import Mapping
from typing import Any

import pytest

from graphrag.catalogue.tool_record import ToolRecord
from graphrag.planning import argument_sources, arguments, intents, schemas

STRING = {"type": "string"}
INTEGER = {"type": "integer"}


def tool(properties: Mapping[str, Any], *required: str, **more: Any) -> ToolRecord:
    schema = {"type": "object", "properties": dict(properties), "required": list(required)}
    return ToolRecord(name="s.t", kind="python", server="s", input_schema=schema, **more)


def gives(properties: Mapping[str, Any]) -> ToolRecord:
    output = {"type": "object", "properties": dict(properties)}
    return ToolRecord(name="s.g", kind="python", server="s", output_schema=output)


def fill(
    record: ToolRecord,
    intent: str = "do it",
    *,
    inputs: Mapping[str, Any] | None = None,
    context: Mapping[str, Any] | None = None,
    earlier: Mapping[str, ToolRecord] | None = None,
    most: int = 1,
) -> list[arguments.FilledArguments]:
    (step,) = intents.steps(intent)
    available = [
        *argument_sources.sources_of_values("context", context or {}),
        *argument_sources.sources_of_values("inputs", inputs or {}),
    ]
    for name, given in (earlier or {}).items():
        available.extend(argument_sources.sources_of_task(name, given, step.extension))
    return arguments.fill(record, step=step, available=available, most=most)


def test_an_input_of_the_name_and_type_is_taken_optional_ones_too() -> None:
    (found,) = fill(
        tool({"path": STRING, "depth": INTEGER, "other": STRING}, "path"),
        inputs={"path": "a", "depth": 3},
    )
    assert found.values == {
        "path": {"$from": "inputs", "select": "path"},
        "depth": {"$from": "inputs", "select": "depth"},
    }
    assert not found.missing
    assert not found.uses


@pytest.mark.parametrize("path", ["./src", "docs/how.d", "."])
def test_a_folder_named_in_the_intent_is_used(path: str) -> None:
    lister = tool({"pattern": STRING, "path": {**STRING, "default": "."}, "folder": STRING})
    (found,) = fill(lister, f"list the directory '{path}'")
    assert found.values == {"path": path}


def test_a_path_goes_to_the_required_argument() -> None:
    reader = tool({"directory": STRING, "path": STRING}, "path")
    (found,) = fill(reader, "read the file 'data.json'")
    assert found.values == {"path": "data.json"}


def test_a_file_named_in_the_intent_is_preferred() -> None:
    lister = gives({"path": STRING})
    reader = tool({"path": STRING}, "path")
    (named,) = fill(reader, "read the file 'data.json'", earlier={"list": lister})
    assert named.values == {"path": "data.json"}
    (found,) = fill(reader, "read the file", earlier={"list": lister})
    assert found.values == {"path": {"$from": "list", "select": "path"}}
    (given,) = fill(reader, "read the file 'data.json'", inputs={"path": "a"})
    assert given.values == {"path": {"$from": "inputs", "select": "path"}}


def test_a_similar_name_fills_only_a_required_argument() -> None:
    record = tool({"repo_path": STRING, "max_repo": STRING}, "repo_path")
    (found,) = fill(record, inputs={"repo": "."})
    assert found.values == {"repo_path": {"$from": "inputs", "select": "repo"}}


def test_a_wrong_type_is_not_taken() -> None:
    (found,) = fill(tool({"count": INTEGER}, "count"), inputs={"count": "three"})
    assert found.missing == ("count",)
    assert found.values == {"count": {"$from": "inputs", "select": "count"}}


def test_an_earlier_output_is_taken_by_schema() -> None:
    (found,) = fill(tool({"text": STRING}, "text"), earlier={"read": gives({"content": STRING})})
    assert found.values == {"text": {"$from": "read", "select": "content"}}
    assert found.uses == {"read"}


def test_a_task_without_a_schema_gives_its_whole_output_to_content() -> None:
    plain = ToolRecord(name="s.f", kind="mcp", server="s")
    (found,) = fill(tool({"content": STRING}, "content"), earlier={"fetch": plain})
    assert found.values == {"content": {"$from": "fetch"}}
    (found,) = fill(tool({"issue_key": STRING}, "issue_key"), earlier={"fetch": plain})
    assert found.missing == ("issue_key",)


def test_a_listing_gives_the_file_with_the_extension() -> None:
    listing = gives({"path": STRING, "files": {"type": "array", "items": STRING}})
    (found,) = fill(tool({"path": STRING}, "path"), "parse XML files", earlier={"ls": listing})
    assert found.values["path"] == {"$from": "ls", "select": "files[?ends_with(@, '.xml')] | [0]"}
    rows = gives({"rows": {"type": "array", "items": {"properties": {"name": STRING}}}})
    (found,) = fill(tool({"path": STRING}, "path"), "read the csv", earlier={"ls": rows})
    assert found.values["path"]["select"] == "rows[?ends_with(name, '.csv')].name | [0]"


def test_a_list_in_the_context_makes_one_call_per_item_up_to_the_limit() -> None:
    record = tool({"path": STRING}, "path")
    found = fill(record, context={"files": ["a", "b", "c"]}, inputs={"path": "x"}, most=2)
    assert [one.values["path"]["select"] for one in found] == ["files[0]", "files[1]"]


def test_a_tool_that_takes_the_list_gets_it_whole() -> None:
    record = tool({"files": {"type": "array", "items": STRING}}, "files")
    (found,) = fill(record, context={"files": ["a", "b"]}, most=3)
    assert found.values == {"files": {"$from": "context", "select": "files"}}


@pytest.mark.parametrize(
    ("properties", "intent", "expected"),
    [
        ({"url": STRING}, "fetch https://a.org/x", {"url": "https://a.org/x"}),
        ({"path": STRING}, "read docs/intro.md", {"path": "docs/intro.md"}),
        ({"max_count": INTEGER}, "show the last 5 commits", {"max_count": 5}),
        ({"message": STRING}, "commit with 'a fix'", {"message": "a fix"}),
        ({"query": STRING}, "search papers about birds.", {"query": "birds"}),
        ({"time_spent": STRING}, "log 2h of work", {"time_spent": "2h"}),
        ({"timeout_minutes": INTEGER}, "wait half an hour", {"timeout_minutes": 30}),
        ({"sheet": STRING}, "clear the worksheet 'Q1'", {"sheet": "Q1"}),
        ({"at": STRING, "kind": STRING}, "put it at 'B10' as 'sum'", {"at": "B10", "kind": "sum"}),
        ({"new_name": STRING}, "add a sheet called 'Q1'", {"new_name": "Q1"}),
        ({"paper_id": STRING}, "download the paper 2401.01234", {"paper_id": "2401.01234"}),
    ],
)
def test_literals_of_the_intent_fill_arguments(
    properties: dict[str, Any], intent: str, expected: dict[str, Any]
) -> None:
    (found,) = fill(tool(properties, *properties), intent)
    assert found.values == expected
    assert not found.missing


@pytest.mark.parametrize(
    ("parameter", "intent", "unused"),
    [
        ({"due_date": STRING}, "set it due tomorrow", ("tomorrow",)),
        ({"timeout_seconds": INTEGER}, "wait for 3 months", ("3 months",)),
        ({"name": STRING}, "delete it", ()),
    ],
)
def test_a_value_that_is_not_certain_is_left_out_and_named(
    parameter: dict[str, Any], intent: str, unused: tuple[str, ...]
) -> None:
    (found,) = fill(tool(parameter, *parameter), intent)
    assert found.missing == tuple(parameter)
    assert found.unused == unused


def test_a_title_goes_to_no_other_argument_with_the_noun() -> None:
    record = tool({"page_width": STRING, "title": STRING}, "title")
    (found,) = fill(record, "make a page titled 'Minutes'")
    assert found.values == {"title": "Minutes"}


def test_a_date_in_words_is_taken_where_the_parameter_takes_words() -> None:
    when = {**STRING, "description": "A date, or a relative one such as 'tomorrow'."}
    (found,) = fill(tool({"due_date": when}, "due_date"), "set it due tomorrow")
    assert found.values == {"due_date": "tomorrow"}


def earlier(name: str, *, read_only: bool = True) -> dict[str, ToolRecord]:
    return {"before": ToolRecord(name=f"s.{name}", kind="mcp", server="s", read_only=read_only)}


@pytest.mark.parametrize(
    ("properties", "required", "intent", "before", "lands"),
    [
        ({"page_id": STRING}, "page_id", "delete the page", "search", True),
        ({"page_id": STRING}, "page_id", "delete the page", "delete_page", False),
        ({"id": STRING}, "id", "delete the page", "search_pages", False),
        ({"block_id": STRING}, "block_id", "delete the page", "search", False),
        ({"urls": STRING}, "urls", "extract the pages", "search", True),
        ({"title": {**STRING, "description": "Of the article."}}, "title",
         "read the article", "search", True),
        # Optional parameters take what the text refers to, if nothing else does.
        ({"body": STRING}, "", "post it", "search", True),
        ({"page_id": STRING}, "", "export the page", "search_pages", True),
        ({"page_id": STRING, "page_url": STRING}, "", "export the page", "search_pages", False),
        ({"body": STRING}, "", "post a note", "search", False),
    ],
)  # fmt: skip
def test_a_reference_lands_in_the_argument_that_denotes_the_thing(
    properties: dict[str, Any], required: str, intent: str, before: str, lands: bool
) -> None:
    record = tool(properties, *filter(None, [required]))
    given = earlier(before, read_only=not before.startswith("delete"))
    (found,) = fill(record, intent, earlier=given)
    name = next(iter(properties))
    assert (found.values.get(name) == {"$from": "before"}) is lands


def test_plain_words_are_never_a_query_language() -> None:
    record = tool({"query": STRING}, "query", description="Execute a SELECT query in SQL")
    (found,) = fill(record, "query the customers")
    assert found.missing == ("query",)


def test_a_single_choice_and_a_default_are_filled() -> None:
    record = tool(
        {"mode": {"type": "string", "enum": ["fast"]}, "n": {"type": "integer", "default": 1}},
        "mode",
        "n",
    )
    (found,) = fill(record)
    assert found.values == {"mode": "fast"}
    assert not found.missing


def test_an_odd_name_is_quoted_for_jmespath() -> None:
    assert argument_sources.identifier("plain_name") == "plain_name"
    assert argument_sources.identifier('with "quote" and space') == '"with \\"quote\\" and space"'


@pytest.mark.parametrize(
    ("given", "wanted", "fits"),
    [
        ({"integer"}, {"number"}, True),
        ({"number"}, {"integer"}, False),
        (set(), {"string"}, True),
        ({"array"}, {"string"}, False),
        ({"string", "array"}, {"string"}, True),
    ],
)
def test_types_feed_types(given: set[str], wanted: set[str], fits: bool) -> None:
    assert schemas.feeds(frozenset(given), frozenset(wanted)) is fits


def test_types_are_read_from_every_way_of_writing_them() -> None:
    assert schemas.types_of({"type": ["string", "null"]}) == {"string"}
    assert schemas.types_of({"anyOf": [{"type": "integer"}, {"type": "null"}]}) == {"integer"}
    assert schemas.types_of({}) == schemas.types_of("nonsense") == frozenset()
    assert [schemas.type_of(v) for v in (None, True, 1, 1.5, "a", [], {})] == [
        "null", "boolean", "integer", "number", "string", "array", "object",
    ]  # fmt: skip
