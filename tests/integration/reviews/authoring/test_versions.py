"""Versions of a workflow: each save keeps one; they are compared, restored, exported, imported."""

from __future__ import annotations

import html as html_module
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from tests.integration.reviews.conftest import MakeUser
from tests.support.catalogue import stock_catalogue
from workflows.common import yaml_documents
from workflows.executions.definitions import restore_version, save_workflow
from workflows.models import Workflow, WorkflowVersion

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)


def echo(name: str, *needs: str, value: Any = "no") -> dict[str, Any]:
    task = {"id": name, "type": "tool", "tool": "builtin.echo", "arguments": {"value": value}}
    return {**task, "depends_on": list(needs)} if needs else task


@pytest.fixture
def admin(make_user: MakeUser) -> User:
    stock_catalogue()
    return make_user("boss", "admin")


@pytest.fixture
def workflow(admin: User) -> Workflow:
    """A workflow with two versions."""
    fields = {"name": "w", "title": "W", "plan": {"tasks": [echo("a")]}}
    row = save_workflow(actor=admin, fields=fields)
    changed = {"title": "W2", "plan": {"tasks": [echo("a"), echo("b", "a")]}}
    return save_workflow(actor=admin, fields=changed, workflow=row, comment="Add b")


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_each_changed_definition_is_a_version(workflow: Workflow, admin: User) -> None:
    save_workflow(actor=admin, fields={"enabled": False}, workflow=workflow)
    save_workflow(actor=admin, fields={"title": "W2"}, workflow=workflow)
    found = workflow.versions.order_by("number")
    assert [(each.number, each.comment, each.author_name) for each in found] == [
        (1, "", "boss"),
        (2, "Add b", "boss"),
    ]
    assert found[0].definition["title"] == "W"
    assert found[0].definition["plan"] == {"tasks": [echo("a")]}


def test_rest_and_admin_store_versions_too(workflow: Workflow, admin: User) -> None:
    api = APIClient()
    api.force_authenticate(admin)
    answer = api.patch("/api/v1/workflows/w/", {"description": "by REST"}, format="json")
    assert answer.status_code == 200, answer.content
    assert workflow.versions.count() == 3
    workflow.refresh_from_db()
    admin.is_superuser = admin.is_staff = True
    admin.save()
    body = {
        "name": "w",
        "title": "By admin",
        "description": "",
        "enabled": "on",
        "plan": json.dumps(workflow.plan),
        "policy": "{}",
        "inputs_schema": "{}",
        "default_inputs": "{}",
        "seen": workflow.updated_at.isoformat(),
    }
    url = f"/admin/workflows/workflow/{workflow.pk}/change/"
    answer = signed_in(admin).post(url, body)
    assert answer.status_code == 302, answer.content.decode()[-3000:]
    assert workflow.versions.first().definition["title"] == "By admin"  # type: ignore[union-attr]


def test_two_versions_are_compared(workflow: Workflow, operator: User) -> None:
    page = signed_in(operator).get(f"/workflows/{workflow.pk}/versions/").content.decode()
    assert "From v1 to v2" in page
    assert "Add b" in page
    assert "change-b" in page
    assert re.search(r"<del>W</del>.*<ins>W2</ins>", page, re.DOTALL)
    assert "Restore" not in page
    answer = signed_in(operator).get(f"/workflows/{workflow.pk}/versions/?from=9&to=x")
    assert answer.status_code == 200


def test_secrets_are_masked_in_a_comparison(workflow: Workflow, admin: User) -> None:
    policy = {"secrets": ["token"]}
    save_workflow(
        actor=admin, fields={"default_inputs": {"password": "hunter2"}}, workflow=workflow
    )
    save_workflow(actor=admin, fields={"policy": policy}, workflow=workflow)
    page = signed_in(admin).get(f"/workflows/{workflow.pk}/versions/?from=2&to=3")
    text = page.content.decode()
    assert "hunter2" not in text
    # A field is named as the form of the workflow names it.
    assert '<span class="change-path">Default inputs: password<' in text
    page = signed_in(admin).get(f"/workflows/{workflow.pk}/versions/?from=3&to=4")
    assert '<span class="change-path">Masked values' in page.content.decode()


def test_a_comparison_masks_what_the_policy_and_the_schema_list(
    workflow: Workflow, admin: User, operator: User
) -> None:
    """Also if only the other of the two versions lists it."""
    schema = {"properties": {"code": {"type": "string", "format": "password"}}}
    for policy, iban in (({}, "DE00OLD"), ({"secrets": ["iban"]}, "DE00NEW"), ({}, "DE00LAST")):
        fields = {
            "policy": policy,
            "inputs_schema": schema,
            "plan": {"tasks": [echo("a", value={"iban": iban})]},
            "default_inputs": {"code": f"code-{iban}", "iban": iban},
        }
        save_workflow(actor=admin, fields=fields, workflow=workflow)
    for query in ("from=3&to=4", "from=4&to=5"):
        page = signed_in(operator).get(f"/workflows/{workflow.pk}/versions/?{query}")
        assert "change-path" in page.content.decode()
        assert "DE00" not in page.content.decode(), query
    listed = api(operator).get(f"{VERSIONS}4/").content.decode()
    assert "DE00" not in listed


def test_an_older_version_is_restored_as_a_new_one(
    workflow: Workflow, admin: User, operator: User
) -> None:
    url = f"/workflows/{workflow.pk}/versions/1/restore/"
    assert signed_in(operator).post(url).status_code == 403
    assert signed_in(admin).get(url).status_code == 405
    assert signed_in(admin).post(url).status_code == 303
    workflow.refresh_from_db()
    assert (workflow.title, len(workflow.plan["tasks"])) == ("W", 1)
    newest = workflow.versions.first()
    assert newest is not None
    assert (newest.number, newest.restored) == (3, 1)
    missing = f"/workflows/{workflow.pk}/versions/77/restore/"
    assert signed_in(admin).post(missing).status_code == 404


def test_a_version_that_is_not_valid_any_more_is_not_restored(
    workflow: Workflow, admin: User
) -> None:
    gone = {**echo("a"), "tool": "no.such"}
    definition = {"plan": {"tasks": [gone]}}
    WorkflowVersion.objects.create(workflow=workflow, number=3, definition=definition)
    answer = signed_in(admin).post(f"/workflows/{workflow.pk}/versions/3/restore/")
    assert answer.status_code == 422
    assert "no.such" in answer.content.decode()
    with pytest.raises(WorkflowVersion.DoesNotExist):
        restore_version(actor=admin, workflow=workflow, number=99)


@pytest.mark.parametrize("kind", ["json", "yaml"])
def test_an_export_is_imported_without_loss(workflow: Workflow, admin: User, kind: str) -> None:
    answer = signed_in(admin).get(f"/workflows/{workflow.pk}/export.{kind}")
    assert f'filename="w.{kind}"' in answer.headers["Content-Disposition"]
    text = answer.content.decode()
    value = json.loads(text) if kind == "json" else yaml_documents.load(text)
    assert value["plan"] == workflow.plan
    workflow.delete()
    client = signed_in(admin)
    body = {"draft": "{}", "selected": "-1", "action": "import", "import_text": text}
    page = client.post("/workflows/edit/", body, headers={"HX-Request": "true"}).content.decode()
    found = re.search(r'name="draft"\s+value="([^"]*)"', page)
    assert found is not None
    draft = json.loads(html_module.unescape(found[1]))
    assert {name: draft[name] for name in value} == value


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "must be an object with a plan"),
        ("{", "not valid JSON"),
        ("plan: [", "not valid YAML"),
        ("plan: {tasks: [1]}", "without a list of tasks"),
        ("plan: {tasks: []}\nenabled: true", "unknown field enabled"),
        ("plan: {tasks: []}\ntitle: 3", "wrong value for title"),
    ],
)
def test_what_is_no_workflow_is_not_imported(admin: User, text: str, told: str) -> None:
    draft = json.dumps({"title": "Kept"})
    body = {"draft": draft, "selected": "-1", "action": "import", "import_text": text}
    page = signed_in(admin).post("/workflows/edit/", body).content.decode()
    assert told in html_module.unescape(page)
    assert 'value="Kept"' in page


def test_versions_are_seen_by_whoever_sees_the_workflow(workflow: Workflow, operator: User) -> None:
    assert Client().get(f"/workflows/{workflow.pk}/versions/").status_code == 302
    Workflow.objects.filter(pk=workflow.pk).update(enabled=False)
    for path in ("versions/", "export.json", "export.yaml"):
        assert signed_in(operator).get(f"/workflows/{workflow.pk}/{path}").status_code == 404


# --- REST -----------------------------------------------------------------------------------------


def api(user: User) -> APIClient:
    client = APIClient()
    client.force_authenticate(user)
    return client


VERSIONS = "/api/v1/workflows/w/versions/"


def test_versions_are_read_over_rest_with_masked_secrets(
    workflow: Workflow, admin: User, operator: User
) -> None:
    secret = {"tasks": [echo("a", value={"password": "hunter2"})]}
    save_workflow(
        actor=admin, fields={"plan": secret}, workflow=workflow, comment="password=hunter2"
    )
    page = signed_in(operator).get(f"/workflows/{workflow.pk}/versions/").content.decode()
    assert "hunter2" not in page
    client = api(operator)
    rows = client.get(VERSIONS).json()["results"]
    assert [(each["number"], each["author"], each["comment"]) for each in rows] == [
        (3, "boss", "password=••••••••"),
        (2, "boss", "Add b"),
        (1, "boss", ""),
    ]
    first = client.get(f"{VERSIONS}1/").json()
    assert first["definition"]["title"] == "W"
    assert first["definition"]["plan"] == {"tasks": [echo("a")]}
    newest = client.get(f"{VERSIONS}3/")
    assert "hunter2" not in newest.content.decode()
    (task,) = newest.json()["definition"]["plan"]["tasks"]
    assert "••••" in task["arguments"]["value"]["password"]
    assert client.get(f"{VERSIONS}9/").status_code == 404
    # As on the desk, only admins see a disabled workflow.
    save_workflow(actor=admin, fields={"enabled": False}, workflow=workflow)
    assert client.get(VERSIONS).status_code == 404
    assert client.get(f"{VERSIONS}1/").status_code == 404
    assert api(admin).get(VERSIONS).status_code == 200


def test_a_version_is_restored_over_rest(workflow: Workflow, admin: User, operator: User) -> None:
    etag = api(admin).get("/api/v1/workflows/w/")["ETag"]
    assert api(operator).post(f"{VERSIONS}1/restore/").status_code == 403
    stale = api(admin).post(f"{VERSIONS}1/restore/", headers={"If-Match": '"1"'})
    assert stale.status_code == 412
    assert workflow.versions.count() == 2
    answer = api(admin).post(f"{VERSIONS}1/restore/", headers={"If-Match": etag})
    assert (answer.status_code, answer.json()["title"]) == (200, "W")
    newest = workflow.versions.latest("number")
    assert (newest.number, newest.restored) == (3, 1)
    assert api(admin).post(f"{VERSIONS}9/restore/").status_code == 404
    gone = {"tasks": [{**echo("a"), "tool": "no.such"}]}
    WorkflowVersion.objects.create(
        workflow=workflow, number=4, definition={**newest.definition, "plan": gone}
    )
    refused = api(admin).post(f"{VERSIONS}4/restore/")
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid")
