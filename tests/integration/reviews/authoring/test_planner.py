"""The planner page: suggest a plan from an intent, edit, start and save it."""

from __future__ import annotations

import html as html_module
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from tests.integration.reviews.conftest import MakeUser
from tests.support.catalogue import stock_catalogue
from tests.support.learning import learn
from tests.support.run_files import put_in_next_runs
from workflows.executions.jobs import run_to_rest
from workflows.models import Execution, Workflow

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

INTENT = "List the directory, then read the file 'data.json'"
FREE = {"hil": "", "replan_review": "", "per_layer_validation": ""}


@pytest.fixture
def client(operator: User, tmp_path: Path, settings: Any) -> Client:
    put_in_next_runs(tmp_path, {"data.json": '{"n": 1}'})
    settings.HOLDPOINT = {**settings.HOLDPOINT, "file_root": tmp_path}
    stock_catalogue()
    return signed_in(operator)


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


class Page:
    """An answer's form, as a browser would send it again."""

    def __init__(self, client: Client, answer: Any) -> None:
        self.client, self.status = client, answer.status_code
        self.html = answer.content.decode()
        self.location = answer.headers.get("Location", "")
        self.fields = _fields(self.html)

    def press(self, action: str, **changes: Any) -> Page:
        sent = {**self.fields, **changes, "action": action}
        sent = {name: value for name, value in sent.items() if value is not None}
        return Page(self.client, self.client.post("/plan/", sent))

    @property
    def plan(self) -> list[dict[str, Any]]:
        tasks: list[dict[str, Any]] = json.loads(self.fields["plan"])["tasks"]
        return tasks

    def key(self, at: int, argument: str) -> str:
        """The key of one argument's fields."""
        found = re.findall(rf'name="(t{at}\.a\d+)\.text"', self.html)
        labels = re.findall(r'class="label" for="f-[0-9a-f]+">\s*([\w-]+)', self._task(at))
        return str(found[labels.index(argument)])

    def _task(self, at: int) -> str:
        start = self.html.index(f'name="t{at}.id"')
        return self.html[start : self.html.find('name="t', self.html.index(f"t{at}.review"))]


def _fields(html: str) -> dict[str, Any]:
    main = html[html.find("<form", html.find('id="main"')) :]
    found: dict[str, Any] = {}
    for tag in re.findall(r"<input\b[^>]*>", main):
        kind, name = _attribute(tag, "type"), _attribute(tag, "name")
        if not name or kind == "submit" or (kind == "checkbox" and "checked" not in tag):
            continue
        value = _attribute(tag, "value") or ("on" if kind == "checkbox" else "")
        found[name] = [*found[name], value] if name.endswith(".needs") and name in found else value
    for opening, text in re.findall(r"(<textarea\b[^>]*>)\n?(.*?)</textarea>", main, re.DOTALL):
        found[_attribute(opening, "name")] = html_module.unescape(text)
    for opening, body in re.findall(r"(<select\b[^>]*>)(.*?)</select>", main, re.DOTALL):
        chosen = re.search(r'<option\s+value="([^"]*)"\s+selected', body)
        first = re.search(r'<option\s+value="([^"]*)"', body)
        picked = chosen or first
        found[_attribute(opening, "name")] = picked[1] if picked else ""
    return found


def _attribute(tag: str, name: str) -> str:
    found = re.search(rf'\b{name}="([^"]*)"', tag)
    return html_module.unescape(found[1]) if found else ""


def opened(client: Client, path: str = "/plan/") -> Page:
    return Page(client, client.get(path))


@pytest.fixture
def suggested(client: Client) -> Page:
    found = opened(client).press("suggest", intent=INTENT)
    assert found.status == 200
    return found


def test_an_intent_becomes_a_plan_with_reasons_and_a_graph(suggested: Page) -> None:
    tools = [task["tool"] for task in suggested.plan]
    assert tools == ["builtin.list_directory", "builtin.read_file"]
    assert "match 0." in suggested.html
    assert suggested.html.count("Fits 0.") == 2
    assert re.search("matches &#x27;\\w+&#x27;", suggested.html)
    assert "&amp;#x27;" not in suggested.html
    assert '<svg class="dag"' in suggested.html


def test_the_plan_is_started_as_it_was_edited(suggested: Page, operator: User) -> None:
    page = suggested.press(
        "check", **{suggested.key(0, "path"): None, f"{suggested.key(0, 'path')}.text": "."}
    )
    assert page.plan[0]["arguments"]["path"] == "."
    started = page.press("start", **FREE, title="Looking around")
    assert started.status == 303
    execution = Execution.objects.get()
    assert (execution.title, execution.created_by) == ("Looking around", operator)
    assert started.location == f"/runs/{execution.pk}/"
    done = run_to_rest(execution.pk)
    assert done.status == "COMPLETED", done.error
    assert execution.attempts.get(task_id="read_file").settled


def test_a_task_is_added_wired_and_removed(suggested: Page) -> None:
    page = suggested.press("add", add_tool="builtin.parse_json")
    assert [task["id"] for task in page.plan][-1] == "parse_json"
    assert "required" in page.html
    key = page.key(2, "text")
    page = page.press("check", **{f"{key}.source": "read_file", f"{key}.select": "content"})
    assert page.plan[2]["arguments"]["text"] == {"$from": "read_file", "select": "content"}
    page = page.press("check", **{"t2.needs": ["list_directory"], "t2.review": "AFTER_EXECUTION"})
    assert page.plan[2]["depends_on"] == ["list_directory"]
    assert page.plan[2]["human_review"] == {"trigger_phase": "AFTER_EXECUTION"}
    page = page.press("remove:1")
    assert "parse_json.text has lost its source" in page.html
    assert [task["id"] for task in page.plan] == ["list_directory", "parse_json"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"plan_text": "{"}, "invalid JSON"),
        ({"plan_text": "[]"}, "must be a JSON object"),
        ({"plan_text": '{"tasks": [1]}'}, "list of tasks"),
        ({"inputs_text": "nope"}, "invalid JSON"),
        ({"policy_text": '{"hil": 3}'}, "policy.hil"),
        ({"plan_text": '{"tasks": [{"id": "x", "type": "tool", "tool": "no.such"}]}'}, "no.such"),
    ],
)
def test_invalid_arguments_are_named_and_preserved(
    suggested: Page, changes: dict[str, str], told: str
) -> None:
    page = suggested.press("start", **changes, title="Kept name")
    assert page.status == 422
    assert told in html_module.unescape(page.html)
    assert page.fields["title"] == "Kept name"
    assert page.fields["intent"] == INTENT
    assert not Execution.objects.exists()


def test_without_a_match_the_nearest_tools_are_offered(client: Client) -> None:
    page = opened(client).press("suggest", intent="iron the laundry of my neighbour")
    assert page.status == 200
    assert "No tool matches this task" in page.html
    offered = re.findall(r'value="add:([\w.]+)"', page.html)
    assert offered
    assert page.fields["intent"] == "iron the laundry of my neighbour"
    assert [task["tool"] for task in page.press(f"add:{offered[0]}").plan] == [offered[0]]


def test_predicted_tools_are_offered_until_they_are_in_the_plan(suggested: Page) -> None:
    assert "Often next" not in suggested.html
    last = suggested.plan[-1]["tool"]
    for number in range(6):
        learn(execution_key=f"run {number}", layers=[{last}, {"builtin.parse_json"}], edges=[])
    offered = suggested.press("check")
    assert "Often next" in offered.html
    assert f"used after {last} in 6 earlier runs" in offered.html
    added = offered.press("add:builtin.parse_json")
    assert added.plan[-1]["tool"] == "builtin.parse_json"
    assert f"used after {last}" not in added.html


def test_an_empty_catalogue_says_what_to_do(operator: User) -> None:
    page = opened(signed_in(operator)).press("suggest", intent=INTENT)
    assert "There are no tools yet" in page.html


def test_the_form_has_the_inputs_that_the_plan_reads(suggested: Page) -> None:
    key = suggested.key(1, "path")
    page = suggested.press("check", **{f"{key}.source": "inputs", f"{key}.select": "file"})
    assert 'name="in.file"' in page.html
    refused = page.press("start", **FREE)
    assert refused.status == 422
    assert "read_file needs this input" in refused.html
    started = refused.press("start", **FREE, **{"in.file": "data.json"})
    assert started.status == 303
    assert Execution.objects.get().inputs == {"file": "data.json"}


def test_a_plan_stops_before_tools_that_modify_data_by_default(
    client: Client,
) -> None:
    page = opened(client).press("suggest", intent="Write 'hello' to the file 'out.txt'")
    assert page.press("start").status == 303
    assert run_to_rest(Execution.objects.get().pk).status == "PAUSED_FOR_REVIEW"


def test_an_admin_saves_a_plan_as_a_workflow_and_edits_it(
    client: Client, make_user: MakeUser, suggested: Page
) -> None:
    assert suggested.press("save", title="Look").status == 403
    admin = signed_in(make_user("boss", "admin"))
    page = opened(admin).press("suggest", intent=INTENT).press("save", title="Look around")
    assert page.status == 303
    workflow = Workflow.objects.get(name="look-around")
    assert len(workflow.plan["tasks"]) == 2
    edited = opened(admin, f"/plan/?workflow={workflow.pk}").press("remove:1").press("save")
    assert edited.status == 303
    workflow.refresh_from_db()
    assert [task["id"] for task in workflow.plan["tasks"]] == ["list_directory"]
    assert client.get(f"/plan/?workflow={workflow.pk}").status_code == 404


def test_planning_needs_the_right_to_start_runs(auditor: User, operator: User) -> None:
    assert signed_in(auditor).get("/plan/").status_code == 403
    assert Client().get("/plan/").status_code == 302
    assert 'href="/plan/"' in signed_in(operator).get("/runs/").content.decode()
    assert 'href="/plan/"' in signed_in(operator).get("/workflows/").content.decode()
    assert 'href="/plan/"' not in signed_in(auditor).get("/runs/").content.decode()


def test_hostile_text_is_escaped(client: Client) -> None:
    page = opened(client).press("suggest", intent="<script>alert(1)</script>\x00 list files")
    assert "<script>alert" not in page.html


# --- the same over REST ---------------------------------------------------------------------------


def test_rest_starts_an_intent_with_the_same_function(client: Client, operator: User) -> None:
    api = APIClient()
    api.force_authenticate(operator)
    started = api.post("/api/v1/executions/", {"intent": INTENT}, format="json")
    assert started.status_code == 201, started.content
    tools = {task["target"] for task in started.json()["tasks"]}
    assert tools == {"builtin.list_directory", "builtin.read_file"}
    nothing = api.post(
        "/api/v1/executions/", {"intent": "iron the laundry of my neighbour"}, format="json"
    )
    assert nothing.status_code == 422
    message = nothing.json()["errors"][0]["message"]
    assert re.search(r"well enough\. The nearest tools: \w+\.\w+, ", message), message
    both = api.post("/api/v1/executions/", {"intent": "x", "plan": {"tasks": []}}, format="json")
    assert both.status_code == 422


def test_a_workflow_page_shows_that_replans_are_reviewed(client: Client) -> None:
    plan = {"tasks": [{"id": "a", "type": "tool", "tool": "builtin.echo"}]}
    workflow = Workflow.objects.create(
        name="w", title="W", plan=plan, policy={"replan_review": {"enabled": True}}
    )
    html = client.get(f"/workflows/{workflow.pk}/").content.decode()
    assert "Before a replan changes the plan" in html
