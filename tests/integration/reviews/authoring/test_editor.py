"""The plan editor: what the page sends and gets back, who may open it, and what is saved."""

from __future__ import annotations

import html as html_module
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client

from graphrag.models import Tool
from reviews.authoring import editor_pages
from reviews.models import PlanDraft
from reviews.templatetags.desk import dom_id
from tests.integration.reviews.conftest import MakeUser, Start
from tests.support import remote_tools  # noqa: F401  (importing it declares its tools)
from tests.support.catalogue import stock_catalogue
from tests.support.run_files import put_in_next_runs
from workflows.engine.plans.validation import Problem
from workflows.executions.definitions import save_workflow
from workflows.executions.jobs import run_to_rest
from workflows.executions.selectors import tasks_of
from workflows.executions.services import start_execution
from workflows.models import Execution, Workflow

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

HTMX = {"HX-Request": "true"}
URL = "/workflows/edit/"


@pytest.fixture
def admin(make_user: MakeUser, tmp_path: Path, settings: Any) -> User:
    put_in_next_runs(tmp_path, {"data.json": '{"n": 1}'})
    settings.HOLDPOINT = {**settings.HOLDPOINT, "file_root": tmp_path}
    stock_catalogue()
    return make_user("boss", "admin")


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


class Editor:
    """The editor's form as a browser keeps it: the draft, the selected task, the fields."""

    def __init__(self, user: User, query: str = "") -> None:
        self.client = signed_in(user)
        self._take(self.client.get(f"{URL}{query}"))

    def _take(self, answer: Any) -> None:
        self.status = answer.status_code
        self.location = answer.headers.get("HX-Redirect", "")
        self.html = html_module.unescape(answer.content.decode())
        raw = answer.content.decode()
        for name in ("draft", "selected"):
            if found := re.search(rf'name="{name}"\s+value="([^"]*)"', raw):
                setattr(self, name, html_module.unescape(found[1]))

    def press(self, action: str, **fields: Any) -> Editor:
        body = {"draft": self.draft, "selected": self.selected, "action": action, **fields}
        self._take(self.client.post(URL, body, headers=HTMX))
        return self

    @property
    def tasks(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.draft)["plan"]["tasks"]
        return found

    def task_fields(self, **fields: Any) -> dict[str, Any]:
        """The fields of the selected task, as posted: `a0=...` becomes `t1.a0.text`."""
        key = f"t{self.selected}"
        return {f"{key}.id": "x", **{f"{key}.{name}": value for name, value in fields.items()}}


def wired(user: User) -> Editor:
    """A plan of two tasks: read_file, and parse_json of its content."""
    editor = Editor(user).press("add:builtin.read_file")
    editor.press("add:builtin.parse_json", **editor.task_fields(**{"a0.text": "data.json"}))
    fields = {"a0.source": "read_file", "a0.select": "content", "a0.text": ""}
    return editor.press("show", **editor.task_fields(**fields))


def test_a_new_workflow_is_drawn_saved_and_started(admin: User) -> None:
    editor = Editor(admin)
    assert editor.status == 200
    assert "Add the first task" in editor.html
    editor = wired(admin)
    assert [task["id"] for task in editor.tasks] == ["read_file", "parse_json"]
    assert editor.tasks[0]["arguments"] == {"path": "data.json"}
    assert editor.tasks[1]["arguments"] == {"text": {"$from": "read_file", "select": "content"}}
    assert 'class="edge"' in editor.html
    assert "parse_json, runs builtin.parse_json, layer 2, after read_file" in editor.html
    editor.press("save", title="Read it")
    assert (editor.status, Workflow.objects.get().name) == (204, "read-it")
    assert editor.location == f"/workflows/{Workflow.objects.get().pk}/"
    free = {"hil": ""}
    editor.press("start", title="Just once", **free)
    execution = Execution.objects.get()
    assert editor.location == f"/runs/{execution.pk}/"
    assert run_to_rest(execution.pk).status == "COMPLETED"


def test_a_draft_is_started_with_its_default_inputs_only(admin: User) -> None:
    editor = Editor(admin).press("add:builtin.echo")
    source = {"a0.source": "inputs", "a0.select": "word", "a0.text": ""}
    editor.press("start", **editor.task_fields(**source), hil="")
    assert editor.status == 422
    assert "echo needs this input" in editor.html
    editor.press("start", default_inputs_text='{"word": "hello"}', hil="")
    assert editor.status == 204
    assert Execution.objects.get().inputs == {"word": "hello"}


def test_tasks_are_connected_moved_renamed_and_removed(admin: User) -> None:
    editor = Editor(admin)
    for _number in range(3):
        editor.press("add:builtin.echo")
    assert editor.selected == "2"
    editor.press("connect:0>1").press("connect_to", connect_to="2")
    assert [task.get("depends_on") for task in editor.tasks] == [None, ["echo"], ["echo_2"]]
    assert editor.press("connect:2>0").html.count("wait for each other") == 1
    assert "depends_on" not in editor.tasks[0]
    editor.press("select:0").press("show", **editor.task_fields(name="first"))
    assert editor.tasks[1]["depends_on"] == ["first"]
    editor.press("later:0")
    assert [task["id"] for task in editor.tasks] == ["echo_2", "first", "echo_3"]
    editor.press("disconnect:1>0").press("remove:2")
    assert [task.get("depends_on") for task in editor.tasks] == [None, None]
    assert editor.press("nonsense:9").status == 200


def test_settings_of_a_task_are_fields(admin: User) -> None:
    editor = Editor(admin).press("add:builtin.echo")
    fields = {"title": "Say it", "when": "inputs.loud", "timeout": "30", "attempts": "3"}
    editor.press("check", **editor.task_fields(**fields, backoff="0", review="AFTER_EXECUTION"))
    task = editor.tasks[0]
    assert (task["title"], task["when"], task["timeout_seconds"]) == ("Say it", "inputs.loud", 30)
    assert task["retry"] == {"max_attempts": 3, "backoff_seconds": 0}
    assert task["human_review"] == {"trigger_phase": "AFTER_EXECUTION"}
    editor.press(
        "check", **editor.task_fields(timeout="", attempts="", backoff="", when="", review="")
    )
    assert set(editor.tasks[0]) == {"id", "type", "tool", "arguments", "title"}


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"name": "no space"}, "an id starts with a letter"),
        ({"when": "inputs.["}, "expression"),
        ({"timeout": "soon"}, "enter a number"),
        ({"attempts": "99"}, "less than or equal to 20"),
    ],
)
def test_an_error_stands_at_its_field(admin: User, fields: dict[str, str], told: str) -> None:
    editor = Editor(admin).press("add:builtin.echo")
    fields = {"a0.text": "1", **fields}
    editor.press("check", **editor.task_fields(**fields))
    errors = re.findall(r'<p class="field-error"\s+id="([^"]+)"[^>]*>([^<]+)</p>', editor.html)
    slots = [slot for slot, message in errors if message.strip()]
    assert len(slots) == 1, errors
    assert "Fix 1 error" in editor.html, editor.html[editor.html.index("editor-problems") :][:1500]
    assert told in editor.html
    editor.press("show", **editor.task_fields(**fields))
    assert slots[0] in editor.html


def test_another_tool_takes_over_what_it_can(admin: User) -> None:
    editor = wired(admin)
    editor.press("select:0").press("use:builtin.list_directory")
    assert editor.tasks[0]["tool"] == "builtin.list_directory"
    assert editor.tasks[0]["arguments"] == {"path": "data.json"}
    assert "there is no tool" in editor.press("use:no.such").html


def test_code_is_a_task_too(admin: User) -> None:
    editor = Editor(admin).press("code:python")
    editor.press("show", **editor.task_fields(code="output = {'n': 1}\n", language="python"))
    assert editor.tasks[0]["code"] == "output = {'n': 1}\n"


def test_code_reads_an_earlier_task_through_an_input(admin: User) -> None:
    editor = Editor(admin).press("add:builtin.read_file")
    editor.press("code:python", **editor.task_fields(**{"a0.text": "data.json"}))
    editor.press("add_input", **editor.task_fields(new_input="text"))
    assert editor.tasks[1]["inputs"] == {"text": ""}
    assert f'data-focus="{dom_id("t1.a0", "source")}"' in editor.html
    # The picker, the fields and the value browser work on it as on an argument.
    editor.press("pick:t1.a0>read_file>content")
    assert editor.tasks[1]["inputs"] == {"text": {"$from": "read_file", "select": "content"}}
    code = editor.tasks[1]["code"].replace("{}", "{'length': len(text)}")
    editor.press("add_input", **editor.task_fields(code=code, new_input="limit"))
    editor.press("check", **editor.task_fields(**{"a1.text": "5", "a1.source": ""}))
    editor.press("show", **editor.task_fields(**{"a1.text": "5", "a1.source": ""}))
    assert editor.tasks[1]["inputs"]["limit"] == 5
    editor.press("remove_input:t1.a1", **editor.task_fields(**{"a1.text": "5"}))
    assert [*editor.tasks[1]["inputs"]] == ["text"]
    editor.press("start", title="Count", hil="")
    assert editor.status == 204, editor.html
    run = Execution.objects.get()
    assert run_to_rest(run.pk).status == "COMPLETED"
    assert tasks_of(run)[1].output == {"length": 8}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "a name has up to 64 letters"),
        ("two words", "a name has up to 64 letters"),
        ("inputs", "the code reads all inputs by this name"),
        ("text", "there is an input of this name already"),
    ],
)
def test_a_bad_name_of_an_input_is_refused_at_its_field(
    admin: User, name: str, message: str
) -> None:
    editor = Editor(admin).press("code:python")
    editor.press("add_input", **editor.task_fields(new_input="text"))
    editor.press("add_input", **editor.task_fields(new_input=name))
    assert [*editor.tasks[0]["inputs"]] == ["text"]
    error = dom_id("t0.new_input", "error")
    found = re.search(rf'id="{error}"\s*>([^<]*)<', editor.html)
    assert found is not None
    assert message in found[1]
    assert f'value="{name}"' in editor.html


def test_only_code_has_inputs_of_any_name(admin: User) -> None:
    editor = Editor(admin).press("add:builtin.echo")
    editor.press("add_input", **editor.task_fields(new_input="text", **{"a0.text": "1"}))
    editor.press("remove_input:t0.a0")
    assert editor.tasks[0]["arguments"] == {"value": 1}


def test_the_inputs_of_code_are_limited(admin: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reviews.authoring.plan_edits.MAX_ROWS", 1)
    editor = Editor(admin).press("code:python")
    editor.press("add_input", **editor.task_fields(new_input="one"))
    editor.press("add_input", **editor.task_fields(new_input="two"))
    assert "a task has at most 1 inputs here" in editor.html


def test_lists_and_objects_are_nested_fields(admin: User) -> None:
    line = {"type": "object", "properties": {"sku": {"type": "string"}, "n": {"type": "integer"}}}
    parts = {
        "lines": {"type": "array", "items": {**line, "required": ["sku"]}},
        "total": {"type": "number", "minimum": 1, "multipleOf": 0.5},
    }
    schema = {"type": "object", "properties": parts, "required": ["lines"]}
    Tool.objects.create(name="shop.order", server="shop", kind="mcp", input_schema=schema)
    editor = Editor(admin).press("add:builtin.echo", title="Order")
    editor.press("add:shop.order", **editor.task_fields(**{"a0.text": "1"}))
    assert 'name="i:t1.a0"' in editor.html
    assert 'name="v:t1.a0/NEW/sku"' in editor.html
    assert "at least 1, a multiple of 0.5" in editor.html

    def shown(**fields: str) -> dict[str, Any]:
        own = {"a0.was": "", "a0.text": "", "a0.source": "", "a1.text": "2"}
        return {**editor.task_fields(**own), **fields}

    filled = {"i:t1.a0": "0", "v:t1.a0/0/sku": "a", "v:t1.a0/0/n": "two", "s:t1.a0/0/n": "set"}
    editor.press("show", **shown(**filled))
    error = rf'id="{dom_id("t1.a0", "error")}"\s*>lines\[0\].n: must be a whole number'
    assert re.search(error, editor.html)
    editor.press("show", **shown(**{**filled, "v:t1.a0/0/n": "2"}))
    assert editor.tasks[1]["arguments"] == {"lines": [{"sku": "a", "n": 2}], "total": 2}
    # The inputs of the workflow have their own fields, also named by JSON pointers.
    assert json.loads(editor.draft)["default_inputs"] == {}
    # An error of the schema names its place inside the argument.
    editor.press("show", **shown(**{"a0.text": '[{"n": 1}]'}) | {"t1.a0.text": '[{"n": 1}]'})
    assert re.search(rf'id="{dom_id("t1.a0", "error")}"\s*>lines\[0\][^<]+<', editor.html)
    editor.press("pick:t1.a0>echo>")
    assert editor.tasks[1]["arguments"]["lines"] == {"$from": "echo"}


def test_a_remote_runner_is_chosen_where_one_is_configured(admin: User, settings: Any) -> None:
    def opened(tool: str) -> Editor:
        return Editor(admin).press(f"add:{tool}")

    key = dom_id("t0.runner")
    assert f'id="{key}"' not in opened("remotekit.value").html
    settings.HOLDPOINT = {**settings.HOLDPOINT, "dask_scheduler": "tcp://127.0.0.1:1"}
    assert f'id="{key}"' not in opened("builtin.echo").html
    editor = opened("remotekit.value")
    assert f'id="{key}"' in editor.html
    editor.press("show", **editor.task_fields(**{"a0.text": "1", "runner": "dask"}))
    assert editor.tasks[0]["runner"] == "dask"
    assert re.search(r'<option value="dask"\s+selected>', editor.html)
    # A runner that is not configured any more can be removed.
    settings.HOLDPOINT = {**settings.HOLDPOINT, "dask_scheduler": ""}
    error = rf'id="{dom_id("t0.runner", "error")}"\s*>the runner dask is not configured<'
    assert re.search(error, editor.press("show").html)
    editor.press("show", **editor.task_fields(runner=""))
    assert "runner" not in editor.tasks[0]


def test_tools_are_found_by_words_with_their_risk(admin: User) -> None:
    client = signed_in(admin)
    found = client.get(f"{URL}tools/?tool_query=write a file").content.decode()
    assert 'value="add:builtin.write_file"' in found
    assert "can modify data" in found
    assert "Use for" not in found
    named = client.get(f"{URL}tools/?tool_query=write&selected_name=t1").content.decode()
    assert "Use for t1" in named


def test_a_workflow_is_changed_unless_another_change_came_first(admin: User) -> None:
    plan = {
        "tasks": [{"id": "a", "type": "tool", "tool": "builtin.echo", "arguments": {"value": 1}}]
    }
    schema = {"type": "object", "properties": {"x": {"type": "string"}}}
    fields = {"name": "w", "title": "W", "plan": plan, "inputs_schema": schema}
    workflow = save_workflow(actor=admin, fields=fields)
    first = Editor(admin, f"?workflow={workflow.pk}")
    second = Editor(admin, f"?workflow={workflow.pk}")
    first.press("add:builtin.list_directory").press("save")
    assert first.status == 204
    workflow.refresh_from_db()
    assert [task["id"] for task in workflow.plan["tasks"]] == ["a", "list_directory"]
    assert workflow.inputs_schema == schema
    assert second.press("save", title="Mine").status == 422
    assert "This workflow has changed since you opened it" in second.html
    assert "Newest version: 2 by boss." in second.html
    assert "It changed plan." in second.html
    assert Workflow.objects.get().title == "W"
    # The draft is still there, and saving over the newer version is a second, explicit step.
    over = re.search(r'value="(overwrite:[^"]+)"', second.html)
    assert over
    assert second.press(over[1], title="Mine").status == 204
    assert Workflow.objects.get().title == "Mine"


def test_a_draft_has_no_more_tasks_than_a_plan(
    admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reviews.authoring.plan_edits.MAX_TASKS", 2)
    monkeypatch.setattr("reviews.authoring.editor_draft.MAX_TASKS", 2)
    monkeypatch.setattr("reviews.authoring.workflow_files.MAX_TASKS", 2)
    editor = Editor(admin).press("add:builtin.echo").press("add:builtin.echo")
    assert "a plan has at most 2 tasks" in editor.press("add:builtin.echo").html
    assert len(editor.tasks) == 2
    long = {"plan": {"tasks": [{"id": f"t{number}"} for number in range(3)]}}
    assert "a plan has at most 2 tasks" in editor.press("import", import_text=json.dumps(long)).html
    assert len(editor.tasks) == 2
    editor.draft = json.dumps(long)
    assert editor.press("check").status == 422
    assert "a plan has at most 2 tasks" in editor.html


def test_a_copy_is_another_workflow(admin: User, operator: User) -> None:
    plan = {
        "tasks": [{"id": "a", "type": "tool", "tool": "builtin.echo", "arguments": {"value": 1}}]
    }
    workflow = save_workflow(actor=admin, fields={"name": "w", "title": "W", "plan": plan})
    copy = Editor(admin, f"?copy={workflow.pk}").press("save")
    assert copy.status == 204
    assert set(Workflow.objects.values_list("name", flat=True)) == {"w", "copy-of-w"}
    assert Editor(operator, f"?copy={workflow.pk}").press("save").status == 403
    assert signed_in(operator).get(f"{URL}?workflow={workflow.pk}").status_code == 404


def test_a_run_becomes_a_workflow_without_its_secrets(
    admin: User, start: Start, make_user: MakeUser
) -> None:
    arguments = {"value": {"password": "hunter2"}}
    plan = [
        {"id": "a", "type": "tool", "tool": "builtin.echo", "arguments": arguments},
        {"id": "b", "type": "tool", "tool": "builtin.echo", "arguments": {"value": 1}},
    ]
    execution = start(*plan)
    editor = Editor(admin, f"?run={execution.pk}")
    assert "hunter2" not in editor.html
    assert [task["arguments"] for task in editor.tasks] == [{}, {"value": 1}]
    assert "a.value holds a masked value" in editor.html
    assert (
        signed_in(make_user("ann", "reviewer")).get(f"{URL}?run={execution.pk}").status_code == 404
    )


def ran(admin: User) -> Workflow:
    """A workflow of read_file and parse_json, run once."""
    wired(admin).press("save", title="Read it", hil="")
    workflow = Workflow.objects.get()
    started = start_execution(actor=admin, workflow=workflow, inputs={"word": "hi"})
    assert run_to_rest(started.pk).status == "COMPLETED"
    return workflow


def test_a_value_of_the_last_run_becomes_a_reference(admin: User) -> None:
    workflow = ran(admin)
    editor = Editor(admin, f"?workflow={workflow.pk}").press("select:1")
    editor.press("browse:t1.a0")
    run = Execution.objects.get()
    assert f"Values of read_file in run {run.pk}" in editor.html
    assert 'value="pick:t1.a0>read_file>content"' in editor.html
    assert '"{\\"n\\": 1}"' in editor.html
    editor.press("browse:t1.a0>inputs")
    assert 'value="pick:t1.a0>inputs>word"' in editor.html
    editor.press("pick:t1.a0>inputs>word", **editor.task_fields(**{"a0.source": "read_file"}))
    assert editor.tasks[1]["arguments"] == {"text": {"$from": "inputs", "select": "word"}}
    assert f'data-focus="{dom_id("t1.a0", "select")}"' in editor.html
    assert editor.press("pick:t1.a9>inputs>word").status == 200


def test_a_value_of_the_last_run_becomes_a_condition(admin: User) -> None:
    workflow = ran(admin)
    editor = Editor(admin, f"?workflow={workflow.pk}").press("select:1")
    editor.press("browse:t1.when")
    assert "Choose the value that the condition reads." in editor.html
    assert 'value="pick:t1.when>read_file>content"' in editor.html
    editor.press("pick:t1.when>read_file>content")
    assert editor.tasks[1]["when"] == "read_file.content != `null`"
    assert 'value="read_file.content"' in editor.html
    assert f'data-focus="{dom_id("t1.when", "mode")}"' in editor.html
    editor.press("pick:t1.when>inputs>word")
    assert editor.tasks[1]["when"] == "(read_file.content != `null`) && inputs.word != `null`"
    assert 'name="t1.when.1.field"' in editor.html
    # A condition reads only tasks that its task runs after.
    editor = Editor(admin, f"?workflow={workflow.pk}").press("add:builtin.echo")
    editor.press("pick:t2.when>read_file>content")
    assert editor.tasks[2]["depends_on"] == ["read_file"]


def test_expressions_are_tried_on_the_last_run(admin: User) -> None:
    workflow = ran(admin)
    run = Execution.objects.get().pk
    editor = Editor(admin, f"?workflow={workflow.pk}").press("select:1")

    def tried(**fields: str) -> dict[str, str]:
        editor.press("check", **editor.task_fields(**fields))
        found = re.findall(r'<p class="[^"]*"\s+id="([^"]+)"([^>]*)>(.*?)</p>', editor.html, re.S)
        texts = {key: re.sub(r"<[^>]+>|\s+", " ", text) for key, _more, text in found}
        return {
            name: " ".join(texts[dom_id(f"t1.{name}", "tried")].split()) for name in ("a0", "when")
        }

    source = {"a0.source": "read_file", "a0.text": ""}
    here = f"In run {run}:"
    assert tried(**source, **{"a0.select": "content"})["a0"] == f'In run {run}: "{{\\"n\\": 1}}"'
    assert tried(**source, **{"a0.select": "nope"})["a0"] == f"{here} null (nothing is there)"
    assert "invalid type" in tried(**source, **{"a0.select": "length(`1`)"})["a0"]
    assert (
        "makes a value of more than"
        in tried(**source, **{"a0.select": "|".join(["[@,@]"] * 30)})["a0"]
    )
    assert tried(**source, when="inputs.word == 'hi'")["when"] == f"{here} true: the task runs"
    assert "the task is skipped" in tried(**source, when="inputs.loud")["when"]
    assert tried(**source, when="read_file.content")["when"].endswith("the task runs")
    # An expression that is no expression has its error once.
    assert tried(**source, when="inputs.[")["when"] == ""


def test_values_of_a_run_are_masked_and_only_for_those_who_see_it(
    admin: User, make_user: MakeUser
) -> None:
    task = {"id": "a", "type": "tool", "tool": "builtin.echo"}
    plan = {"tasks": [{**task, "arguments": {"value": {"password": "hunter2", "n": 1}}}]}
    second = {**task, "id": "b", "arguments": {"value": {"$from": "a", "select": "password"}}}
    plan["tasks"].append(second)
    workflow = save_workflow(actor=admin, fields={"name": "w", "title": "W", "plan": plan})
    execution = start_execution(actor=admin, workflow=workflow)
    assert run_to_rest(execution.pk).status == "COMPLETED"
    editor = Editor(admin, f"?workflow={workflow.pk}").press("select:1").press("browse:t1.a0")
    values = editor.html.partition("values-title")[2].partition("value-tree")[2]
    assert "••••" in values
    assert "hunter2" not in values
    probe = {"a0.source": "a", "a0.text": "", "a0.select": "contains(password, 'hunter')"}
    editor.press("check", **editor.task_fields(**probe))
    assert f"In run {execution.pk}:" in " ".join(editor.html.split())
    assert '<span class="mono">false</span>' in editor.html
    # Somebody who does not see the run gets the tool's schema, and cannot name the run either.
    editor.client = signed_in(make_user("rita", "reviewer"))
    editor.draft = json.dumps({**json.loads(editor.draft), "run": str(execution.pk)})
    editor.press("browse:t1.a0>a")
    assert "No run of this workflow that you may see has an output yet" in editor.html
    assert f"In run {execution.pk}" not in " ".join(editor.html.split())


def test_without_a_run_the_schema_of_the_output_is_browsed(admin: User) -> None:
    editor = wired(admin).press("select:1").press("browse:t1.a0")
    assert "No run of this workflow that you may see has an output yet" in editor.html
    assert "The tool describes its output like this" in editor.html
    assert 'value="pick:t1.a0>read_file>content"' in editor.html


def test_an_unsaved_draft_survives_a_reload_and_a_sign_out(admin: User) -> None:
    editor = Editor(admin).press("select:0")
    assert not PlanDraft.objects.exists()
    editor.press("add:builtin.echo").press("check", **editor.task_fields(title="Say it"))
    again = Editor(admin)
    assert "Unsaved draft from" in again.html
    assert again.tasks == []
    # While the person has not decided about it, the stored draft is not replaced.
    again.press("add:builtin.fail", stored_draft="open")
    assert "Unsaved draft from" in again.html
    assert [task["title"] for task in again.press("continue_draft").tasks] == ["Say it"]
    assert "Unsaved draft from" not in again.html
    again.press("discard_draft")
    assert "Unsaved draft from" not in Editor(admin).html
    # A save ends the draft.
    editor.press("check").press("save", title="One", **editor.task_fields(**{"a0.text": "1"}))
    assert editor.status == 204
    assert not PlanDraft.objects.exists()


def test_a_draft_without_changes_is_not_stored(admin: User) -> None:
    workflow = ran(admin)
    editor = Editor(admin, f"?workflow={workflow.pk}").press("select:1")
    assert not PlanDraft.objects.exists()
    editor.press("remove:1")
    assert PlanDraft.objects.get().workflow == workflow
    assert "Unsaved draft from" not in Editor(admin).html
    Editor(admin, f"?workflow={workflow.pk}").press("show")
    assert not PlanDraft.objects.exists()


def test_a_stored_draft_says_that_its_workflow_was_saved(
    admin: User, make_user: MakeUser, operator: User
) -> None:
    workflow = ran(admin)
    Editor(admin, f"?workflow={workflow.pk}").press("remove:1")
    ann = make_user("ann", "admin")
    Editor(ann, f"?workflow={workflow.pk}").press("save", title="By ann")
    editor = Editor(admin, f"?workflow={workflow.pk}")
    assert "The workflow was saved after this draft was begun." in editor.html
    editor.press("continue_draft")
    assert len(editor.tasks) == 1
    assert "Newest version: 2 by ann." in editor.html
    assert editor.press("save", title="Mine").status == 422
    # Drafts of a workflow are only for those who can save it, and nobody reads another's.
    other = Editor(operator)
    other.draft = editor.draft
    other.press("continue_draft").press("show")
    assert PlanDraft.objects.get().user == admin


def test_a_copy_shows_no_secrets_to_those_who_cannot_save(admin: User, operator: User) -> None:
    task = {"id": "a", "type": "tool", "tool": "builtin.echo"}
    plan = {
        "tasks": [
            {**task, "arguments": {"value": {"password": "hunter2"}}},
            {**task, "id": "b", "arguments": {"value": 1}},
        ]
    }
    inputs = {"api_key": "hunter3", "word": "hi"}
    fields = {"name": "w", "title": "W", "plan": plan, "default_inputs": inputs}
    workflow = save_workflow(actor=admin, fields=fields)
    copy = Editor(operator, f"?copy={workflow.pk}")
    assert "hunter" not in copy.html
    assert [each["arguments"] for each in copy.tasks] == [{}, {"value": 1}]
    assert "a.value holds a masked value" in copy.html
    assert "The default value of api_key is masked" in copy.html
    assert "hunter2" in Editor(admin, f"?copy={workflow.pk}").draft
    for person, is_shown in ((operator, False), (admin, True)):
        page = signed_in(person).get(f"/workflows/{workflow.pk}/").content.decode()
        assert ("hunter2" in page) is is_shown


def test_problems_of_many_tasks_are_sorted_in_one_pass() -> None:
    problems = [Problem(f"plan.tasks[{at}].tool", "x", "x") for at in range(20_000)]
    problems += [Problem("t7.name", "x", "x"), Problem("plan.tasks", "x", "x")]
    faulty = editor_pages._faults_by_task(problems, 20_000)
    assert [len(each) for each in faulty].count(1) == 19_999
    assert len(faulty[7]) == 2


def test_words_lead_to_the_editor(operator: User) -> None:
    stock_catalogue()
    plan = {
        "tasks": [{"id": "a", "type": "tool", "tool": "builtin.echo", "arguments": {"value": 1}}]
    }
    body = {"plan": json.dumps(plan), "intent": "Say one", "action": "edit"}
    answer = signed_in(operator).post("/plan/", body)
    assert 'id="editor"' in answer.content.decode()
    assert 'value="Say one"' in answer.content.decode()


def test_who_may_not_start_runs_does_not_edit(auditor: User, operator: User) -> None:
    assert signed_in(auditor).get(URL).status_code == 403
    assert signed_in(auditor).get(f"{URL}tools/").status_code == 403
    assert Client().get(URL).status_code == 302
    page = signed_in(operator).get("/workflows/").content.decode()
    assert f'href="{URL}"' in page
    assert "Save the workflow" not in signed_in(operator).get(URL).content.decode()


@pytest.mark.parametrize(
    "draft", ["", "[]", "{", '{"plan": 1, "workflow": 3}', '{"plan": {"tasks": [1]}}']
)
def test_a_broken_draft_is_an_empty_one(admin: User, draft: str) -> None:
    answer = signed_in(admin).post(URL, {"draft": draft, "selected": "x"}, headers=HTMX)
    assert answer.status_code == 200
    assert "Add the first task" in answer.content.decode()


@pytest.mark.parametrize("action", ["add:\0", "use:\0x", "check"])
def test_hostile_drafts_are_answered(admin: User, action: str) -> None:
    draft = json.dumps({"plan": {"tasks": [{"id": "a", "depends_on": 5}, {"id": "b"}]}})
    fields = {"draft": draft, "selected": "0", "action": action}
    assert signed_in(admin).post(URL, fields, headers=HTMX).status_code == 200


def test_descendants_of_a_long_chain_are_found_once() -> None:
    tasks = [{"id": "t0"}] + [{"id": f"t{n}", "depends_on": [f"t{n - 1}"]} for n in range(1, 3000)]
    assert len(editor_pages._descendants(tasks, "t0")) == 2999


def test_the_admin_leads_to_the_editor_and_the_versions(admin: User) -> None:
    admin.is_superuser = admin.is_staff = True
    admin.save()
    plan = {"tasks": [{"id": "a", "type": "tool", "tool": "builtin.fail", "arguments": {}}]}
    workflow = Workflow.objects.create(name="w", title="W", plan=plan)
    client = signed_in(admin)
    page = client.get(f"/admin/workflows/workflow/{workflow.pk}/change/").content.decode()
    editor = "/admin/workflows/workflow/editor/"
    assert f'href="{editor}?workflow={workflow.pk}"' in page
    assert f'href="/admin/workflows/workflow/{workflow.pk}/versions/"' in page
    add = "/admin/workflows/workflow/add/"
    assert f'href="{add}"' in client.get("/admin/workflows/workflow/").content.decode()
    assert client.get(add)["Location"] == editor
