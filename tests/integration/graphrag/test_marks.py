"""Marks of a server's tools: stricter ones count at once, looser ones when a person accepts."""

import pytest

from graphrag.catalogue import ingest
from graphrag.catalogue.tool_form import ToolForm
from graphrag.models import Tool
from tests.integration.graphrag.conftest import make_tool

pytestmark = pytest.mark.django_db
NAME = "files.write_file"
Marks = tuple[bool, bool | None]


def listed(marks: Marks) -> Tool:
    """List the tool with these marks, as a sync does, and return its row."""
    read_only, destructive = marks
    record = make_tool(
        NAME,
        "Write a file.",
        kind="mcp",
        read_only=read_only,
        destructive=destructive,
        permission_set="readonly" if read_only else "mcp-standard",
    )
    ingest.upsert_tools([record], server="files", prune=True)
    return Tool.objects.get(name=NAME)


def in_force(tool: Tool) -> Marks:
    return tool.read_only, tool.destructive


@pytest.mark.parametrize(
    ("first", "then", "expected"),
    [
        # Looser: the marks stay.
        ((False, True), (False, False), (False, True)),
        ((False, True), (True, None), (False, True)),
        ((False, True), (True, True), (False, True)),
        ((False, None), (False, False), (False, None)),
        ((False, False), (True, None), (False, False)),
        ((False, False), (True, False), (False, False)),
        # Stricter, or neither: the server decides.
        ((True, None), (False, False), (False, False)),
        ((True, False), (False, True), (False, True)),
        ((False, False), (False, None), (False, None)),
        ((False, False), (False, True), (False, True)),
        ((False, True), (False, None), (False, None)),
        # Looser in one mark, stricter in the other.
        ((False, False), (True, True), (False, True)),
        ((True, True), (False, False), (False, True)),
    ],
)
def test_a_server_tightens_its_marks_but_does_not_loosen_them(
    first: Marks, then: Marks, expected: Marks
) -> None:
    assert in_force(listed(first)) == first
    tool = listed(then)
    assert in_force(tool) == expected
    assert (tool.permission_set == "readonly") == tool.read_only


def test_no_way_around_the_marks_in_force() -> None:
    listed((False, True))
    ingest.upsert_tools([], server="files", prune=True)
    assert in_force(listed((False, False))) == (False, True)
    # In steps: no mark, then a looser one.
    assert in_force(listed((False, None))) == (False, None)
    tool = listed((False, False))
    assert tool.can_destroy
    assert in_force(listed((True, None))) == (False, None)


def test_a_person_accepts_looser_marks() -> None:
    listed((False, True))
    tool = listed((True, False))
    assert tool.looser_marks == {"read_only": True, "destructive": False}
    form = ToolForm(instance=tool)
    assert "now declares this tool as read-only" in form.fields["set_read_only"].help_text
    assert "no longer declares" in form.fields["set_destructive"].help_text
    # Another choice accepts nothing.
    ingest.set_tool_policy(name=NAME, enabled=False, permission_set="mcp-standard")
    assert in_force(listed((True, False))) == (False, True)
    ingest.set_tool_policy(name=NAME, marks={"read_only": True, "destructive": False})
    tool = listed((True, False))
    assert in_force(tool) == (True, False)
    assert tool.looser_marks == {}
    assert "now declares" not in ToolForm(instance=tool).fields["set_read_only"].help_text


def test_a_mark_that_is_no_longer_set_by_hand_is_the_servers_again() -> None:
    listed((False, False))
    ingest.set_tool_policy(name=NAME, marks={"destructive": True})
    assert in_force(listed((False, False))) == (False, True)
    ingest.set_tool_policy(name=NAME, marks={})
    assert in_force(Tool.objects.get(name=NAME)) == (False, False)
    assert in_force(listed((False, False))) == (False, False)


def test_setting_one_mark_accepts_no_other() -> None:
    listed((False, True))
    listed((True, False))
    ingest.set_tool_policy(name=NAME, marks={"read_only": False})
    assert in_force(listed((True, False))) == (False, True)
