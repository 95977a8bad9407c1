"""Workflows, servers and tokens in the admin."""

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db.models.functions import Now
from django.urls import reverse
from django.utils.html import escape

from graphrag.models import Tool
from tests.integration.workflows.api.conftest import plain_plan, reviewed_plan
from workflows.models import ApiToken, McpServer, Workflow
from workflows.permissions.tokens import authenticate_token, create_token
from workflows.tools.mcp_client import close_pool

pytestmark = pytest.mark.django_db
WORKFLOWS = reverse("admin:workflows_workflow_changelist")
ADD = reverse("admin:workflows_workflow_add")


def change(workflow: Workflow) -> str:
    return reverse("admin:workflows_workflow_change", args=[workflow.pk])


def form(**fields: Any) -> dict[str, Any]:
    values = {
        "name": "notes",
        "title": "Notes",
        "description": "",
        "enabled": "on",
        "plan": reviewed_plan(),
        "policy": {},
        "inputs_schema": {},
        "default_inputs": "",
        **fields,
    }
    return {k: v if isinstance(v, str) else json.dumps(v) for k, v in values.items()}


def errors(response: Any) -> dict[str, list[str]]:
    assert response.status_code == 200
    return dict(response.context["adminform"].form.errors)


# --- workflows ------------------------------------------------------------------------------------


def test_a_workflow_is_added_and_changed(staff, workflow) -> None:
    client = staff("admin")
    response = client.post(ADD, form())
    assert response.status_code == 302, errors(response)
    made = Workflow.objects.get(name="notes")
    assert (made.plan, made.policy, made.default_inputs) == (reviewed_plan(), {}, {})
    assert made.created_by.username == "admin"
    sent = form(title="Other", plan=plain_plan(), seen=made.updated_at.isoformat())
    assert client.post(change(made), sent).status_code == 302
    made.refresh_from_db()
    assert (made.title, made.plan) == ("Other", plain_plan())
    assert made.created_by.username == "admin"
    assert client.get(WORKFLOWS + "?q=other").status_code == 200


def tool(**fields: Any) -> dict[str, Any]:
    task = {"id": "a", "type": "tool", "tool": "builtin.echo", "arguments": {}, **fields}
    return {"tasks": [task]}


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("plan", tool(tool="no.such"), "tasks[0].tool: there is no tool"),
        ("plan", tool(), "tasks[0].arguments.value"),
        ("plan", tool(arguments={"value": {"$from": "b"}}), "tasks[0].arguments.value.$from"),
        ("plan", tool(depends_on=["a"]), "tasks wait for each other"),
        ("plan", {}, "required"),
        ("plan", [], "required"),
        ("plan", "{", "is not valid JSON"),
        ("plan", '{"tasks": 1, "tasks": 2}', "tasks: is given twice"),
        ("plan", '{"a": 1e400}', "a: is not a finite number"),
        ("plan", '{"a": "\\u0000"}', "a: has a NUL character"),
        ("plan", '{"a": "\\ud800"}', "half of a surrogate pair"),
        ("plan", '{"a":' * 100_000, "nested more than"),
        ("plan", "[" * 50_000 + "]" * 50_000, "nested more than"),
        ("policy", {"hil": {"timeout_seconds": -1}}, "hil.timeout_seconds"),
        ("policy", {"ail": {"enabled": True, "agent": "ghost"}}, "ail.agent: no agent"),
        ("policy", [1], "must be a JSON object"),
        ("inputs_schema", {"type": "nonsense"}, "schema"),
        ("inputs_schema", {"type": "array"}, "type"),
        ("default_inputs", '"text"', "must be a JSON object"),
        ("name", "a b", "slug"),
        ("name", "echo", "already exists"),
    ],
)
def test_errors_are_shown_at_their_field(staff, workflow, field, value, words) -> None:
    found = errors(staff("admin").post(ADD, form(**{field: value})))
    assert set(found) == {field}
    assert words.lower() in found[field][0].lower()
    assert Workflow.objects.count() == 1


def test_groups_without_a_decider_are_named(staff, workflow) -> None:
    client = staff("admin")
    Group.objects.get_or_create(name="legal")
    sent = form(plan=reviewed_plan(group="legal"))
    page = client.post(ADD, sent, follow=True).content.decode()
    assert escape("The group 'legal' has no active member who may decide.") in page
    made = Workflow.objects.get(name="notes")
    wrong = form(plan=reviewed_plan(group="typo"), seen=made.updated_at.isoformat())
    (told,) = errors(client.post(change(made), wrong))["plan"]
    assert told == "tasks[0].human_review.groups[0]: there is no group 'typo'"


def test_a_concurrent_change_is_not_overwritten(staff, workflow) -> None:
    client = staff("admin")
    opened = client.get(change(workflow))
    seen = opened.context["adminform"].form["seen"].initial
    first = form(name="echo", title="First", seen=seen)
    assert client.post(change(workflow), first).status_code == 302
    found = errors(client.post(change(workflow), form(name="echo", title="Late", seen=seen)))
    (told,) = found["__all__"]
    assert told.startswith("This workflow has changed: it was saved on ")
    assert "newest is version 1 by" in told
    assert "Your changes are not saved yet." in told
    workflow.refresh_from_db()
    assert workflow.title == "First"
    # The form keeps what was entered; saving it again is a decision to save over the other change.
    again = client.post(change(workflow), form(name="echo", title="Late", seen=seen))
    newest = again.context["adminform"].form["seen"].value()
    late = form(name="echo", title="Late", seen=newest)
    assert client.post(change(workflow), late).status_code == 302
    workflow.refresh_from_db()
    assert workflow.title == "Late"


@pytest.mark.parametrize(("role", "status"), [("auditor", 403), ("operator", 403)])
def test_the_view_permission_does_not_save(staff, workflow, role, status) -> None:
    client = staff(role)
    assert client.get(change(workflow)).status_code == 200
    assert client.post(change(workflow), form()).status_code == status
    assert client.post(ADD, form()).status_code == status


def test_the_form_edits_json_as_text_without_scripts(staff, workflow) -> None:
    """A tree editor put its own style into the page, which the policy blocked on each visit."""
    response = staff("admin").get(change(workflow))
    text = response.content.decode()
    assert text.count("json-source") == 4
    assert "jsoneditor" not in text
    assert " style=" not in text
    assert "unsafe" not in response["Content-Security-Policy"]


# --- servers --------------------------------------------------------------------------------------

SERVERS = reverse("admin:workflows_mcpserver_changelist")
ADD_SERVER = reverse("admin:workflows_mcpserver_add")


def server(**fields: Any) -> dict[str, str]:
    values = {
        "name": "git",
        "enabled": "on",
        "transport": "stdio",
        "command": "python",
        "args": '["-m", "x"]',
        "env": "",
        "url": "",
        "headers": "",
        **fields,
    }
    return {k: v if isinstance(v, str) else json.dumps(v) for k, v in values.items()}


def test_forms_of_new_objects_take_their_own_defaults(staff) -> None:
    client = staff("root")
    shown = client.get(ADD_SERVER).context["adminform"].form
    texts = {name: shown[name].as_widget() for name in ("args", "env", "headers")}
    assert "null" not in str(texts)
    sent = server(args="[]", env="{}", headers="{}")
    assert client.post(ADD_SERVER, sent).status_code == 302
    shown = client.get(f"{ADD}?json").context["adminform"].form
    for name in ("plan", "policy", "inputs_schema", "default_inputs"):
        assert "null" not in shown[name].as_widget()


def test_a_server_is_added(staff) -> None:
    client = staff("root")
    response = client.post(ADD_SERVER, server(env={"A": "b"}))
    assert response.status_code == 302, errors(response)
    made = McpServer.objects.get()
    assert (made.args, made.env, made.headers) == (["-m", "x"], {"A": "b"}, {})


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"command": ""}, "command"),
        ({"transport": "http", "url": ""}, "url"),
        ({"transport": "http", "url": "ftp://x.example"}, "url"),
        ({"args": '{"a": 1}'}, "args"),
        ({"args": "[1]"}, "args"),
        ({"env": "[]"}, "env"),
        ({"env": '{"A": 1}'}, "env"),
        ({"headers": '{"A": null}'}, "headers"),
        ({"name": "a.b"}, "name"),
    ],
)
def test_a_server_with_an_invalid_address_is_refused(staff, fields, where) -> None:
    assert set(errors(staff("root").post(ADD_SERVER, server(**fields)))) == {where}
    assert McpServer.objects.count() == 0


def test_values_of_variables_and_headers_are_hidden(staff) -> None:
    secrets = {"env": {"KEY": "s3cret"}, "headers": {"H": "h1dden"}}
    made = McpServer.objects.create(name="s", command="x", **secrets)
    url = reverse("admin:workflows_mcpserver_change", args=[made.pk])
    text = staff("auditor").get(url).content.decode()
    assert "KEY" in text
    assert "s3cret" not in text
    assert "h1dden" not in text
    assert "s3cret" not in staff("admin").get(url).content.decode()


@pytest.fixture
def mcp_pool() -> Iterator[None]:
    """Servers that the test starts end with it."""
    yield
    close_pool()


def test_an_action_synchronizes_tools(staff, mcp_pool) -> None:
    good = McpServer.objects.create(
        name="git", command=sys.executable, args=["-m", "mcp_server_git"]
    )
    bad = McpServer.objects.create(name="gone", command="/nowhere/at/all")
    client = staff("admin")
    sent = {"action": "sync_tools", "_selected_action": [good.pk, bad.pk]}
    text = client.post(SERVERS, sent, follow=True).content.decode()
    count = Tool.objects.filter(server="git").count()
    assert count > 0
    assert f"Read {count} tools of git." in text
    assert "Could not read gone" in text
    good.refresh_from_db()
    bad.refresh_from_db()
    assert good.synced_at is not None
    assert bad.sync_error != ""


def test_the_view_permission_does_not_synchronize(staff) -> None:
    row = McpServer.objects.create(name="kit", command="/nowhere/at/all")
    sent = {"action": "sync_tools", "_selected_action": [row.pk]}
    staff("auditor").post(SERVERS, sent)
    row.refresh_from_db()
    assert row.sync_error == ""


# --- tokens ---------------------------------------------------------------------------------------

TOKENS = reverse("admin:workflows_apitoken_changelist")


def test_tokens_are_read_only_and_never_shown(staff) -> None:
    client = staff("root")
    user = User.objects.get()
    token, text = create_token(user=user, name="ci", scopes=["read"])
    url = reverse("admin:workflows_apitoken_change", args=[token.pk])
    pages = client.get(TOKENS).content.decode() + client.get(url).content.decode()
    assert token.prefix in pages
    assert token.digest not in pages
    assert text not in pages
    assert 'name="action"' not in pages
    client.post(TOKENS, {"action": "revoke_tokens", "_selected_action": [token.pk]})
    assert client.get(reverse("admin:workflows_apitoken_add")).status_code == 403
    assert client.post(url, {"name": "other"}).status_code == 403
    assert ApiToken.objects.get().name == "ci"
    assert authenticate_token(text) is not None


def test_tokens_are_listed_by_status(staff) -> None:
    client = staff("admin")
    user = User.objects.get()
    for name in ("active", "expired", "revoked"):
        create_token(user=user, name=name, scopes=["read"])
    ApiToken.objects.filter(name="expired").update(expires_at=Now())
    ApiToken.objects.filter(name="revoked").update(expires_at=Now(), revoked_at=Now())
    for status in ("active", "expired", "revoked"):
        shown = client.get(TOKENS, {"status": status}).context["cl"]
        assert [token.name for token in shown.result_list] == [status]
