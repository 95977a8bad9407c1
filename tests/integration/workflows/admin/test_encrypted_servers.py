"""Environment and headers of MCP servers: encrypted in the database, never shown back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection
from django.urls import reverse

from tests.integration.workflows.api.conftest import *  # noqa: F403 - bearer
from workflows.common.secret_encryption import UndecryptedText, decrypt
from workflows.engine.protocol.ports import TaskFailed
from workflows.executions.layer_runner import server_spec, spec_of
from workflows.models import McpServer
from workflows.tools import catalogue_sync
from workflows.tools.mcp_servers import STORED

from .test_changes import errors, server

pytestmark = pytest.mark.django_db

SECRETS = {"env": {"KEY": "s3cret é"}, "headers": {"Authorization": "Bearer h1dden"}}


def at_rest() -> str:
    """Everything the table holds, as a copy of the database would show it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT env::text || headers::text FROM workflows_mcpserver")
        return "".join(row[0] for row in cursor.fetchall())


@pytest.fixture
def row() -> McpServer:
    return McpServer.objects.create(name="s", command="x", **SECRETS)


def change_url(row: McpServer) -> str:
    return reverse("admin:workflows_mcpserver_change", args=[row.pk])


def test_values_are_encrypted_in_the_database_and_plain_for_the_client(row: McpServer) -> None:
    stored = at_rest()
    assert "KEY" in stored
    assert "s3cret" not in stored
    assert "h1dden" not in stored
    row.refresh_from_db()
    assert (row.env, row.headers) == (SECRETS["env"], SECRETS["headers"])
    assert dict(spec_of(row).env) == SECRETS["env"]
    McpServer.objects.filter(pk=row.pk).update(env={"KEY": "an0ther"})
    assert "an0ther" not in at_rest()
    assert McpServer.objects.values_list("env", flat=True).get() == {"KEY": "an0ther"}


def test_stored_values_are_never_shown(staff: Any, row: McpServer) -> None:
    for role in ("admin", "auditor"):
        text = staff(role).get(change_url(row)).content.decode()
        assert "KEY" in text
        assert "s3cret" not in text
        assert "h1dden" not in text


def test_a_saved_form_keeps_replaces_adds_and_removes(staff: Any, row: McpServer) -> None:
    client = staff("root")
    row.args = ["-m", "x"]
    row.save()
    kept = server(name="s2", command="x", env={"KEY": STORED, "NEW": "more"}, headers={})
    response = client.post(change_url(row), kept)
    assert response.status_code == 302, errors(response)
    row.refresh_from_db()
    assert row.name == "s2"
    assert row.env == {"KEY": "s3cret é", "NEW": "more"}
    assert row.headers == {}
    response = client.post(change_url(row), server(name="s", env={"KEY": "an0ther"}))
    assert response.status_code == 302, errors(response)
    row.refresh_from_db()
    assert row.env == {"KEY": "an0ther"}


@pytest.mark.parametrize("field", ["env", "headers"])
def test_a_placeholder_without_a_stored_value_is_refused(
    staff: Any, row: McpServer, field: str
) -> None:
    client = staff("root")
    for url in (change_url(row), reverse("admin:workflows_mcpserver_add")):
        sent = server(name="t", **{field: {"OTHER": STORED}})
        assert set(errors(client.post(url, sent))) == {field}


def test_a_lost_key_is_reported_and_loses_no_data(
    staff: Any, row: McpServer, settings: Any
) -> None:
    before = json.dumps(at_rest())
    settings.SECRET_KEY = "another-" + "x" * 60
    row.refresh_from_db()
    assert isinstance(row.env["KEY"], UndecryptedText)
    with pytest.raises(TaskFailed, match="variable KEY of s was encrypted"):
        server_spec("s")
    assert "enter it again" in catalogue_sync.sync_server(row).error
    assert staff("admin").get(change_url(row)).status_code == 200
    row.save()
    assert json.dumps(at_rest()) == before
    settings.SECRET_KEY_FALLBACKS = ["only-for-the-tests-" + "x" * 50]
    row.refresh_from_db()
    assert row.env == SECRETS["env"]


def test_each_encryption_of_a_value_differs(row: McpServer) -> None:
    """Equal secrets do not look equal in the database."""
    first = at_rest()
    row.save()
    assert at_rest() != first
    with connection.cursor() as cursor:
        cursor.execute("SELECT env->>'KEY' FROM workflows_mcpserver")
        assert decrypt(cursor.fetchone()[0]) == "s3cret é"


# --- stored values stay with the command or the address they were entered for ---------------------

WEB = {"transport": "http", "command": "", "args": "[]", "url": "https://mcp.example.com/mcp"}
ELSEWHERE = {"url": "https://elsewhere.example.com/mcp"}


@pytest.fixture
def web(db: None) -> McpServer:
    values = {**WEB, "args": []}
    return McpServer.objects.create(name="s", **values, headers={"Authorization": "h1dden"})


@pytest.mark.parametrize("changes", [{"command": "y"}, {"args": '["-v"]'}, {"args": "[]"}])
def test_another_command_gets_no_stored_variable(
    staff: Any, row: McpServer, changes: dict[str, str]
) -> None:
    McpServer.objects.filter(pk=row.pk).update(args=["-m", "x"], headers={})
    client = staff("root")
    sent = server(name="s", **{"command": "x", **changes})
    found = errors(client.post(change_url(row), {**sent, "env": json.dumps({"KEY": STORED})}))
    assert set(found) == {"env"}
    assert "enter KEY again" in found["env"][0]
    for env in ({"KEY": "typed again"}, {}):
        McpServer.objects.filter(pk=row.pk).update(command="x", args=["-m", "x"])
        assert client.post(change_url(row), {**sent, "env": json.dumps(env)}).status_code == 302
        row.refresh_from_db()
        assert row.env == env


def test_another_address_gets_no_stored_header(staff: Any, web: McpServer) -> None:
    client = staff("root")
    sent = server(name="s", **WEB | ELSEWHERE, headers={"Authorization": STORED})
    found = errors(client.post(change_url(web), sent))
    assert set(found) == {"headers"}
    web.refresh_from_db()
    assert web.url == WEB["url"]
    sent["headers"] = json.dumps({"Authorization": "typed again"})
    assert client.post(change_url(web), sent).status_code == 302


def test_rest_sends_no_stored_secret_elsewhere(bearer: Any, web: McpServer) -> None:
    client = bearer("admin")
    url = f"/api/v1/mcp-servers/{web.pk}/"
    for body in (ELSEWHERE, {**ELSEWHERE, "headers": {"Authorization": STORED}}):
        response = client.patch(url, body)
        assert response.status_code == 422
        assert [each["path"] for each in response.json()["errors"]] == ["headers"]
    detour = client.patch(url, {"transport": "stdio", "command": "x", **ELSEWHERE})
    assert detour.status_code == 422
    web.refresh_from_db()
    assert (web.url, web.headers) == (WEB["url"], {"Authorization": "h1dden"})
    again = {**ELSEWHERE, "headers": {"Authorization": "typed again"}}
    assert client.patch(url, again).status_code == 200


def test_the_placeholder_is_never_stored(bearer: Any, staff: Any, web: McpServer) -> None:
    client = bearer("admin")
    url = f"/api/v1/mcp-servers/{web.pk}/"
    kept = client.patch(url, {"headers": {"Authorization": STORED, "X-Team": "blue"}})
    assert kept.status_code == 200
    web.refresh_from_db()
    assert web.headers == {"Authorization": "h1dden", "X-Team": "blue"}
    made = client.post(
        "/api/v1/mcp-servers/", {"name": "t", "command": "x", "env": {"KEY": STORED}}
    )
    assert made.status_code == 422
    assert [each["path"] for each in made.json()["errors"]] == ["env"]
    entry = {"url": WEB["url"], "headers": {"A": STORED}}
    sent = {"json": json.dumps({"mcpServers": {"t": entry}})}
    page = staff("root").post(reverse("admin:workflows_mcpserver_import"), sent)
    assert page.status_code == 422
    assert "mcpServers.t.headers: A has no stored value: enter one" in page.content.decode()
    assert McpServer.objects.count() == 1


@pytest.mark.parametrize("name", ["", "A=B", "A\0B"])
def test_names_of_variables_that_no_process_gets_are_refused(
    bearer: Any, staff: Any, name: str
) -> None:
    body = {"name": "t", "command": "x", "env": {name: "1"}}
    for kind in ({}, {"transport": "http", "url": WEB["url"]}):
        response = bearer("admin").post("/api/v1/mcp-servers/", {**body, **kind})
        if "\0" not in name:
            assert {each["path"] for each in response.json()["errors"]} == {"env"}
        assert response.status_code in (400, 422)
    found = errors(
        staff("root").post(reverse("admin:workflows_mcpserver_add"), server(env={name: "1"}))
    )
    assert set(found) == {"env"}
    assert McpServer.objects.count() == 0
