"""MCP servers: imported, tested and logged in the admin, and managed over REST."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group
from django.test import Client
from django.urls import reverse

from tests.integration.workflows.api.conftest import *  # noqa: F403 - bearer and session
from workflows.models import McpServer
from workflows.permissions.roles import ensure_roles
from workflows.tools.mcp_client import close_pool

from .test_changes import ADD_SERVER, errors, server

pytestmark = pytest.mark.django_db

IMPORT = reverse("admin:workflows_mcpserver_import")
URL = "/api/v1/mcp-servers/"
SECRET = "s3cret-value"


@pytest.fixture
def mcp_pool() -> Iterator[None]:
    """Servers that the test starts end with it."""
    yield
    close_pool()


def imported(**servers: Any) -> dict[str, str]:
    return {"json": json.dumps({"mcpServers": servers})}


# --- the admin ------------------------------------------------------------------------------------


def test_servers_are_imported_as_other_clients_write_them(staff: Any) -> None:
    sent = imported(
        git={"command": "python", "args": ["-m", "mcp_server_git"], "env": {"KEY": SECRET}},
        web={"type": "http", "url": "https://mcp.example.com/mcp", "headers": {"A": SECRET}},
        off={"command": "x", "disabled": True},
    )
    response = staff("root").post(IMPORT, sent)
    assert response.status_code == 302, response.content
    rows = {row.name: row for row in McpServer.objects.all()}
    assert (rows["git"].args, rows["git"].env) == (["-m", "mcp_server_git"], {"KEY": SECRET})
    assert (rows["web"].transport, rows["web"].headers) == ("http", {"A": SECRET})
    assert not rows["off"].enabled
    assert LogEntry.objects.count() == 3
    assert SECRET not in str(list(LogEntry.objects.values_list("change_message", flat=True)))


@pytest.mark.parametrize(
    "sent",
    [
        {"json": "{"},
        {"json": "[]"},
        {"json": '{"mcpServers": {}}'},
        imported(good={"command": "x"}, bad=5),
        imported(good={"command": "x"}, bad={"command": 5}),
        imported(good={"command": "x"}, bad={"url": "ftp://x.example"}),
        imported(good={"command": "x"}, **{"not a slug": {"command": "x"}}),
        imported(good={"command": "x"}, bad={"command": "x", "args": [1]}),
        imported(good={"command": "x"}, bad={"url": "http://169.254.169.254/latest"}),
    ],
)
def test_nothing_is_imported_while_one_is_invalid(staff: Any, sent: dict[str, str]) -> None:
    response = staff("root").post(IMPORT, sent)
    assert response.status_code == 422
    assert response.context["errors"]
    assert McpServer.objects.count() == 0


@pytest.mark.parametrize("role", ["reviewer", "operator", "auditor"])
def test_only_admins_import_and_test(staff: Any, role: str) -> None:
    client = staff(role)
    row = McpServer.objects.create(name="kit", command="/nowhere/at/all")
    assert client.get(IMPORT).status_code == 403
    assert client.post(IMPORT, imported(x={"command": "x"})).status_code == 403
    test = reverse("admin:workflows_mcpserver_test", args=[row.pk])
    assert client.post(test).status_code == 403
    row.refresh_from_db()
    assert (row.sync_error, McpServer.objects.count()) == ("", 1)


def test_the_connection_is_tested_and_the_tools_are_listed(staff: Any, mcp_pool: None) -> None:
    row = McpServer.objects.create(
        name="git", command=sys.executable, args=["-m", "mcp_server_git"]
    )
    client = staff("admin")
    test = reverse("admin:workflows_mcpserver_test", args=[row.pk])
    assert client.get(test).status_code == 405
    text = client.post(test, follow=True).content.decode()
    assert "tools of git." in text
    assert "git.git_status" in text
    McpServer.objects.filter(pk=row.pk).update(command="/nowhere/at/all", name="gone")
    assert "Could not read gone" in client.post(test, follow=True).content.decode()


def test_a_server_is_added_tested_changed_and_removed(staff: Any, mcp_pool: None) -> None:
    client = staff("root")
    program = {"name": "git", "command": sys.executable, "args": ["-m", "mcp_server_git"]}
    assert client.post(ADD_SERVER, server(**program, env={"KEY": SECRET})).status_code == 302
    row = McpServer.objects.get()
    assert row.env == {"KEY": SECRET}
    test = reverse("admin:workflows_mcpserver_test", args=[row.pk])
    page = client.post(test, follow=True).content.decode()
    assert "git.git_log" in page
    assert SECRET not in page
    url = reverse("admin:workflows_mcpserver_change", args=[row.pk])
    kept = server(**program, env={"KEY": "(stored)"}, enabled="")
    assert client.post(url, kept).status_code == 302
    row.refresh_from_db()
    assert (row.enabled, row.env) == (False, {"KEY": SECRET})
    deletion = reverse("admin:workflows_mcpserver_delete", args=[row.pk])
    assert client.post(deletion, {"post": "yes"}).status_code == 302
    assert not McpServer.objects.exists()
    entries = [each.get_change_message() for each in LogEntry.objects.order_by("pk")]
    assert entries == ["Added.", "Changed enabled.", ""]
    assert SECRET not in str(entries)


def test_two_servers_with_one_name_at_the_same_time(
    staff: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The form passes its check of the name before the other server is stored."""
    client = staff("root")
    assert client.post(ADD_SERVER, server()).status_code == 302
    monkeypatch.setattr(McpServer, "validate_unique", lambda *args, **more: None)
    page = client.post(ADD_SERVER, server(args=["-v"]), follow=True)
    assert page.status_code == 200
    assert "is the name of another server" in page.content.decode()
    assert McpServer.objects.count() == 1


@pytest.mark.parametrize("role", ["admin", "auditor", "operator", "reviewer"])
def test_a_role_reads_and_changes_servers_as_its_permissions_say(staff: Any, role: str) -> None:
    row = McpServer.objects.create(name="git", command="x", env={"KEY": SECRET})
    client = staff(role)
    url = reverse("admin:workflows_mcpserver_change", args=[row.pk])
    reads = 403 if role == "reviewer" else 200
    for page in (reverse("admin:workflows_mcpserver_changelist"), url):
        response = client.get(page)
        assert response.status_code == reads, page
        assert SECRET not in response.content.decode()
    # Admins do not delete servers.
    deletion = reverse("admin:workflows_mcpserver_delete", args=[row.pk])
    assert client.post(deletion, {"post": "yes"}).status_code == 403
    response = client.post(url, server(command=""))
    assert (response.status_code == 403) == (role != "admin")
    assert McpServer.objects.filter(name="git").exists()


def test_each_change_is_logged_once_by_field(staff: Any) -> None:
    client = staff("root")
    client.post(ADD_SERVER, server(env={"KEY": SECRET}))
    row = McpServer.objects.get()
    url = reverse("admin:workflows_mcpserver_change", args=[row.pk])
    client.post(url, server(command="other", env={"KEY": SECRET}))
    messages = [each.get_change_message() for each in LogEntry.objects.order_by("id")]
    assert messages == ["Added.", "Changed command."]


@pytest.mark.parametrize("mode", ["high_risk", "all"])
def test_a_command_needs_the_second_factor_where_it_is_enforced(
    staff: Any, settings: Any, mode: str
) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "step_up": mode}
    client = staff("root")
    response = client.post(ADD_SERVER, server())
    assert "Confirm with your code first" in str(errors(response))
    assert client.post(IMPORT, imported(x={"command": "x"})).status_code == 422
    assert McpServer.objects.count() == 0
    web = server(transport="http", command="", url="https://mcp.example.com/mcp", args="[]")
    assert client.post(ADD_SERVER, web).status_code == 302


# --- REST -----------------------------------------------------------------------------------------


def test_rest_never_shows_a_secret(bearer: Any) -> None:
    client = bearer("admin")
    web = {"name": "kit", "transport": "http", "url": "https://mcp.example.invalid/mcp"}
    body = {**web, "env": {"KEY": SECRET}, "headers": {"A": SECRET}}
    made = client.post(URL, body)
    assert made.status_code == 201, made.json()
    one = made["Location"]
    changed = client.patch(one, {"args": ["-v"], "env": {"KEY": SECRET}})
    assert changed.json()["args"] == ["-v"]
    pages = [made, changed, client.get(URL), client.get(one), client.post(f"{one}sync/")]
    assert all(SECRET not in page.content.decode() for page in pages)
    assert changed.json()["env_names"] == ["KEY"]
    assert McpServer.objects.get().env == {"KEY": SECRET}
    assert pages[-1].json()["tools"] == []
    assert pages[-1].json()["error"] != ""
    assert client.delete(one).status_code == 204
    assert LogEntry.objects.count() == 3


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"name": "kit"}, "command"),
        ({"name": "kit", "transport": "http"}, "url"),
        ({"name": "kit", "transport": "http", "url": "http://169.254.169.254/"}, "url"),
        ({"name": "kit", "transport": "http", "url": "http://127.0.0.1:5432/"}, "url"),
        ({"name": "kit", "transport": "http", "url": "http://localhost:6379/"}, "url"),
        ({"name": "kit", "transport": "http", "url": "https://a:b@mcp.example.com/"}, "url"),
        ({"name": "kit", "command": "x", "headers": {"a b": "c"}}, "headers"),
        ({"name": "a.b", "command": "x"}, "name"),
        ({"name": "taken", "command": "x"}, "name"),
    ],
)
def test_rest_refuses_what_the_form_refuses(
    bearer: Any, settings: Any, body: Any, path: str
) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "loopback_targets": []}
    McpServer.objects.create(name="taken", command="x")
    response = bearer("admin").post(URL, body)
    assert response.status_code == 422
    assert path in {each["path"] for each in response.json()["errors"]}
    assert McpServer.objects.count() == 1


def test_rest_asks_for_a_confirmation(session: Any, people: Any, settings: Any) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "step_up": "high_risk"}
    people["admin"].is_superuser = True
    people["admin"].save()
    response = session("admin").post(URL, {"name": "kit", "command": "x"})
    assert (response.status_code, response.json()["code"]) == (403, "step_up")


# --- stdio servers are for superusers -------------------------------------------------------------


def test_only_a_superuser_without_a_token_sets_a_command(
    bearer: Any, session: Any, people: Any
) -> None:
    """A person who sets the command of a stdio server has a shell of the workers' account."""
    web = McpServer.objects.create(
        name="web", transport="http", url="https://mcp.example.invalid/mcp"
    )
    kit = McpServer.objects.create(name="kit", command="x", enabled=False)
    before = list(McpServer.objects.order_by("pk").values())
    change = "admin:workflows_mcpserver_change"
    command = {"transport": "stdio", "command": "sh", "args": '["-c", "id"]'}
    ensure_roles()
    people["admin"].is_staff = True
    people["admin"].save()
    client = Client()
    client.force_login(people["admin"])
    for row, fields in (
        (None, command),
        (web, command),
        (kit, {**command, "name": "kit"}),
        (kit, {"name": "kit", "command": "x", "args": "[]"}),
        (kit, {"transport": "http", "command": "", "args": "[]", "url": web.url}),
    ):
        sent = server(**{"name": "web" if row == web else "new", **fields})
        admin_url = reverse(change, args=[row.pk]) if row else ADD_SERVER
        page = client.post(admin_url, sent)
        assert "Only a superuser" in page.content.decode(), (admin_url, fields)
    page = client.post(IMPORT, imported(new={"command": "sh"}))
    assert "Only a superuser" in page.content.decode()
    people["operator"].is_superuser = True
    people["operator"].groups.add(Group.objects.get(name="admin"))
    people["operator"].save()
    for door in (bearer("admin"), session("admin"), bearer("operator", ["admin"])):
        body = {"transport": "stdio", "command": "sh"}
        answers = (
            door.post(URL, {"name": "new", **body}),
            door.patch(f"{URL}{web.pk}/", body),
            door.patch(f"{URL}{kit.pk}/", {"args": ["-v"]}),
            door.patch(f"{URL}{kit.pk}/", {"enabled": True}),
            door.patch(f"{URL}{kit.pk}/", {"transport": "http", "url": web.url}),
        )
        outcomes = [(each.status_code, each.json()["code"]) for each in answers]
        assert outcomes == [(403, "superuser_needed")] * len(answers)
    assert list(McpServer.objects.order_by("pk").values()) == before
    assert bearer("admin").patch(f"{URL}{web.pk}/", {"enabled": False}).status_code == 200
    assert session("operator").post(URL, {"name": "new", "command": "x"}).status_code == 201
