"""MCP servers on the desk: the form, services and rights of the admin."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db.models import QuerySet
from django.urls import reverse

from graphrag.models import Tool
from tests.support.catalogue import stock_catalogue
from workflows.models import McpServer
from workflows.tools.mcp_client import close_pool

pytestmark = pytest.mark.django_db

SERVERS, ADD = reverse("reviews:servers"), reverse("reviews:add_server")
IMPORT = reverse("reviews:import_servers")
SECRET = "s3cret-value"


@pytest.fixture
def mcp_pool() -> Iterator[None]:
    """Servers that the test starts end with it."""
    yield
    close_pool()


def fields(**changed: str) -> dict[str, str]:
    return {
        "name": "git",
        "enabled": "on",
        "transport": "stdio",
        "command": sys.executable,
        "args": '["-m", "mcp_server_git"]',
        "env": "",
        "url": "",
        "headers": "",
        **changed,
    }


def url(server: McpServer) -> str:
    return reverse("reviews:server", args=(server.pk,))


def test_a_server_is_added_tested_changed_and_removed(staff: Any, mcp_pool: None) -> None:
    client = staff("root")
    response = client.post(ADD, fields(env=json.dumps({"KEY": SECRET})))
    server = McpServer.objects.get()
    assert (response.status_code, response["Location"]) == (303, url(server))
    assert server.env == {"KEY": SECRET}
    page = client.post(url(server), {"do": "sync"}, follow=True).content.decode()
    assert "tools of git." in page
    assert "git.git_log" in page
    assert SECRET not in page
    kept = fields(env=json.dumps({"KEY": "(stored)"}), enabled="")
    assert client.post(url(server), {"do": "save", **kept}).status_code == 303
    server.refresh_from_db()
    assert (server.enabled, server.env) == (False, {"KEY": SECRET})
    assert client.post(url(server), {"do": "delete"}).status_code == 303
    assert not McpServer.objects.exists()
    messages = [each.get_change_message() for each in LogEntry.objects.order_by("pk")]
    assert messages == ["Added.", "Changed enabled.", ""]
    assert SECRET not in str(messages)


def test_two_servers_with_one_name_at_the_same_time(
    staff: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The form passes its check of the name before the other server is stored."""
    monkeypatch.setattr(McpServer, "validate_unique", lambda *args, **more: None)
    client = staff("root")
    assert client.post(ADD, fields()).status_code == 303
    for stored_since in ("the form", "the service"):
        if stored_since == "the service":
            monkeypatch.setattr(QuerySet, "exists", lambda rows: False)
        response = client.post(ADD, fields(args='["-v"]'))
        assert response.status_code == 422, stored_since
        html = response.content.decode()
        assert "is the name of another server" in html
        assert "&quot;-v&quot;" in html, "what was entered is kept"


def test_errors_of_a_connection_are_shown(staff: Any) -> None:
    client = staff("root")
    invalid = client.post(ADD, fields(command=""))
    assert invalid.status_code == 422
    assert "id_command_error" in invalid.content.decode()
    McpServer.objects.create(name="gone", command="/nowhere/at/all")
    server = McpServer.objects.get()
    page = client.post(url(server), {"do": "sync"}, follow=True).content.decode()
    assert "Could not read gone" in page
    assert "The tools could not be read." in page
    refused = client.post(url(server), {"do": "save", **fields(name="other", transport="http")})
    assert refused.status_code == 422
    assert McpServer.objects.get().name == "gone"


def test_servers_are_imported(staff: Any) -> None:
    client = staff("root")
    sent = {"json": json.dumps({"mcpServers": {"git": {"command": "x"}}})}
    assert client.post(IMPORT, sent).status_code == 303
    assert client.post(IMPORT, sent).status_code == 422
    assert client.post(IMPORT, {"json": "{"}).status_code == 422
    assert McpServer.objects.count() == 1


def test_a_command_needs_the_second_factor_where_it_is_enforced(staff: Any, settings: Any) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "step_up": "all"}
    client = staff("root")
    response = client.post(ADD, fields())
    assert response.status_code == 422
    assert "Confirm with your code first" in response.content.decode()
    sent = {"json": json.dumps({"mcpServers": {"git": {"command": "x"}}})}
    assert client.post(IMPORT, sent).status_code == 422
    assert McpServer.objects.count() == 0


@pytest.mark.parametrize("role", ["admin", "auditor", "operator", "reviewer"])
def test_the_desk_allows_what_the_admin_allows(staff: Any, role: str) -> None:
    server = McpServer.objects.create(name="git", command="x", env={"KEY": SECRET})
    client = staff(role)
    pages = {
        SERVERS: reverse("admin:workflows_mcpserver_changelist"),
        ADD: reverse("admin:workflows_mcpserver_add"),
        IMPORT: reverse("admin:workflows_mcpserver_import"),
        url(server): reverse("admin:workflows_mcpserver_change", args=(server.pk,)),
    }
    for desk, in_admin in pages.items():
        response = client.get(desk)
        assert response.status_code == client.get(in_admin).status_code, desk
        assert SECRET not in response.content.decode()
    # Admins do not delete servers, neither here nor there.
    assert client.post(url(server), {"do": "delete"}).status_code == 403
    for action in ("sync", "save"):
        response = client.post(url(server), {"do": action, **fields(command="")})
        assert (response.status_code == 403) == (role != "admin")
    assert McpServer.objects.filter(name="git").exists()


# --- marks of a tool ------------------------------------------------------------------------------


def mcp_tool() -> Tool:
    stock_catalogue()
    Tool.objects.filter(name="builtin.echo").update(kind="mcp", server="kit", read_only=False)
    return Tool.objects.get(name="builtin.echo")


def test_the_marks_of_a_tool_are_overridden(staff: Any) -> None:
    tool = mcp_tool()
    page = reverse("reviews:tool", args=(tool.name,))
    client = staff("root")
    sent = {"permission_set": tool.permission_set, "set_read_only": "yes", "set_destructive": ""}
    assert client.post(page, sent).status_code == 303
    tool.refresh_from_db()
    assert (tool.enabled, tool.read_only, tool.marks_by_hand) == (False, True, {"read_only": True})
    assert LogEntry.objects.get().get_change_message() == "Changed Enabled and Set read-only."
    both = client.post(page, {**sent, "set_destructive": "yes"})
    assert both.status_code == 422
    assert "is not read-only" in both.content.decode()


@pytest.mark.parametrize("role", ["auditor", "operator", "reviewer"])
def test_only_admins_override_marks(staff: Any, role: str) -> None:
    tool = mcp_tool()
    page = reverse("reviews:tool", args=(tool.name,))
    client = staff(role)
    assert "Permission set and marks" not in client.get(page).content.decode()
    assert client.post(page, {"permission_set": "minimal"}).status_code == 403
    tool.refresh_from_db()
    assert tool.enabled
