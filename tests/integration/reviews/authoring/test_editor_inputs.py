"""Inputs in the plan editor: rows, preview, example values, and references that follow a name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.reviews.authoring.test_editor import Editor, admin
from workflows.executions.definitions import save_workflow
from workflows.models import Execution, Workflow

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

__all__ = ["admin"]


def row(at: int, name: str, kind: str = "text", **fields: str) -> dict[str, str]:
    """The posted fields of one row."""
    texts = {"name": name, "title": "", "type": kind, "description": "", "default": ""}
    texts |= {"least": "", "most": "", "choices": "", "row": "1", **fields}
    return {f"in{at}.{field}": text for field, text in texts.items()}


def schema_of(editor: Editor) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(editor.draft)["inputs_schema"]
    return found


def reading(user: User) -> Editor:
    """A plan of one task that reads the input `word`, which is in the list."""
    editor = Editor(user).press("add:builtin.echo")
    source = {"a0.source": "inputs", "a0.select": "word", "a0.text": "", "when": "inputs.word"}
    return editor.press("input:add:word", **editor.task_fields(**source))


def test_inputs_are_added_changed_moved_and_removed(admin: User) -> None:
    editor = Editor(admin).press("input:add").press("input:add")
    assert schema_of(editor)["x-order"] == ["input_1", "input_2"]
    editor.press("check", **row(0, "repo", title="Repository"), **row(1, "count", "integer"))
    parts = schema_of(editor)["properties"]
    assert parts == {
        "repo": {"type": "string", "title": "Repository"},
        "count": {"type": "integer"},
    }
    assert 'hx-swap-oob="true"' in editor.html
    assert "Repository" in editor.html[editor.html.index('id="editor-input-preview"') :]
    editor.press("input:later:0")
    assert schema_of(editor)["x-order"] == ["count", "repo"]
    assert editor.html.index('value="count"') < editor.html.index('value="repo"')
    editor.press("input:remove:0")
    assert list(schema_of(editor)["properties"]) == ["repo"]
    assert editor.press("input:remove:9").press("input:earlier:x").status == 200


def test_an_error_stands_at_its_field_and_nothing_typed_is_lost(admin: User) -> None:
    editor = Editor(admin).press("input:add")
    fields = row(0, "count", "integer", default="three", title="How many")
    editor.press("check", **fields)
    assert "enter a whole number" in editor.html
    assert schema_of(editor)["properties"] == {"input_1": {"type": "string"}}
    editor.press("show", **fields)
    assert 'value="How many"' in editor.html
    assert "three</textarea>" in editor.html
    assert editor.press("save", title="W", **fields).status == 422
    editor.press("check", **row(0, "kind", "choice"))
    assert "enter at least one choice" in editor.html


def test_a_renamed_input_is_renamed_in_the_tasks_and_values(admin: User) -> None:
    editor = reading(admin)
    assert "Read by echo." in editor.html
    defaults = {"default_inputs_text": '{"word": "hi"}'}
    editor.press("check", **defaults)
    editor.press("check", **row(0, "text"), **editor.task_fields())
    task = editor.tasks[0]
    assert task["arguments"] == {"value": {"$from": "inputs", "select": "text"}}
    assert task["when"] == "inputs.text"
    assert json.loads(editor.draft)["default_inputs"] == {"text": "hi"}
    # The form of the task comes back too, so its fields do not bring back the old name.
    assert 'id="editor-task" hx-swap-oob="true"' in editor.html


def test_removing_an_input_names_the_tasks_that_read_it(admin: User) -> None:
    editor = reading(admin).press("input:remove:0")
    assert "echo still reads the input word, which you removed." in editor.html
    assert schema_of(editor) == {}


def test_json_of_the_schema_is_followed_by_the_rows(admin: User) -> None:
    editor = Editor(admin).press("input:add")
    text = '{"type": "object", "properties": {"a": {"oneOf": [{"type": "string"}]}}}'
    editor.press("check", inputs_schema_text=text, **row(0, "input_1"))
    assert schema_of(editor) == json.loads(text)
    assert 'id="editor-input-rows"' in editor.html
    assert "Edited as JSON" in editor.html
    part = {"in0.row": "1", "in0.part": '{"oneOf": [{"type": "integer"}]}', "in0.required": "on"}
    # The text on the page is the one that was read: the row wins.
    editor.press("check", inputs_schema_text=text, **part)
    assert schema_of(editor)["properties"] == {"a": {"oneOf": [{"type": "integer"}]}}
    assert schema_of(editor)["required"] == ["a"]
    editor.press("show", inputs_schema_text="{", **part)
    assert "invalid JSON" in editor.html
    editor.press("show", inputs_schema_text='{"$ref": "#/$defs/x"}')
    assert "edited as JSON below" in editor.html


def test_examples_are_kept_as_default_values(admin: User) -> None:
    editor = Editor(admin).press("input:add").press("input:add")
    editor.press("check", **row(0, "word", default="hello"), **row(1, "count", "integer"))
    typed = {"v:/word": "hello", "v:/count": "three"}
    editor.press("input:keep", **typed)
    assert json.loads(editor.draft)["default_inputs"] == {}
    assert "three" in editor.html
    editor.press("input:keep", **{**typed, "v:/count": "3"})
    assert json.loads(editor.draft)["default_inputs"] == {"count": 3}
    # An example stays while the rows change, unless it does not fit any more.
    editor.press("show", **{"v:/word": "bye", "v:/count": "4"}, **row(1, "number", "boolean"))
    preview = editor.html[editor.html.index('id="editor-input-preview"') :]
    assert 'value="bye"' in preview
    assert 'value="4"' not in preview


def test_a_run_starts_with_the_values_of_the_preview(admin: User) -> None:
    editor = reading(admin)
    editor.press("start", title="Once", hil="", **{"v:/word": ""})
    assert editor.status == 422
    assert "echo needs this input" in editor.html
    editor.press("start", title="Once", hil="", **{"v:/word": "hello"})
    assert editor.status == 204, editor.html[editor.html.index("editor-problems") :][:900]
    assert Execution.objects.get().inputs == {"word": "hello"}


def test_what_rows_cannot_show_survives_a_save(admin: User) -> None:
    schema = {
        "$defs": {"x": {"type": "string"}},
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/x"}, "b": {"type": "string", "pattern": "^x"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    plan = {
        "tasks": [{"id": "a", "type": "tool", "tool": "builtin.echo", "arguments": {"value": 1}}]
    }
    fields = {"name": "w", "title": "W", "plan": plan, "inputs_schema": schema}
    workflow = save_workflow(actor=admin, fields=fields)
    editor = Editor(admin, f"?workflow={workflow.pk}")
    assert "Kept from the JSON: pattern." in editor.html
    first = {"in0.row": "1", "in0.part": '{\r\n  "$ref": "#/$defs/x"\r\n}', "in0.required": "on"}
    editor.press("save", **first, **row(1, "b", title="Bee"))
    assert editor.status == 204
    titled = {**schema["properties"]["b"], "title": "Bee"}  # type: ignore[index]
    changed = {**schema, "properties": {"a": {"$ref": "#/$defs/x"}, "b": titled}}
    assert Workflow.objects.get().inputs_schema == changed
