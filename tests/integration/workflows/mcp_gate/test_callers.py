"""Who may use a gate: tokens, scopes, groups, methods, metadata."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest
from django.test import Client as Browser
from rest_framework.test import APIClient

from config.asgi import application
from tests.integration.workflows.mcp_gate.conftest import new_token, person
from tests.support.groups import group_of
from workflows.executions.validation import InvalidRequest
from workflows.mcp_gate.asgi import http_app
from workflows.models import ApiToken, Gate
from workflows.permissions.tokens import create_token, revoke

pytestmark = pytest.mark.django_db(transaction=True)

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}


@pytest.fixture
def gate(transactional_db: None) -> Gate:
    """A gate without servers."""
    return Gate.objects.create(name="ops")


def post(token: str | None, path: str = "/mcp/gate/ops/", **headers: str) -> httpx2.Response:
    async def asked() -> httpx2.Response:
        sent = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2025-11-25",
            **({"Authorization": f"Bearer {token}"} if token else {}),
            **headers,
        }
        transport = httpx2.ASGITransport(app=application)
        async with httpx2.AsyncClient(transport=transport, base_url="http://testserver") as client:
            return await client.post(path, json=LIST, headers=sent)

    return asyncio.run(asked())


@pytest.mark.parametrize("path", ["/mcp/gate/ops/", "/mcp/gate/ops"])
def test_a_token_with_the_scope_gets_through(gate: Gate, path: str) -> None:
    response = post(new_token(), path)
    assert response.status_code == 200
    assert "holdpoint_await" in response.text


def test_without_a_token_the_challenge_names_the_gate(gate: Gate, settings: Any) -> None:
    response = post(None)
    assert response.status_code == 401
    challenge = response.headers["www-authenticate"]
    assert "/.well-known/oauth-protected-resource/mcp/gate/ops" in challenge
    metadata = Browser().get("/.well-known/oauth-protected-resource/mcp/gate/ops").json()
    assert metadata["resource"].endswith("/mcp/gate/ops")
    assert metadata["scopes_supported"] == ["gate"]
    metadata = Browser().get("/.well-known/oauth-protected-resource/mcp").json()
    assert "gate" not in metadata["scopes_supported"]
    assert post("hp_12345678_" + "a" * 43).status_code == 401


@pytest.mark.parametrize("scope", ["read", "ask", "run", "decide"])
def test_other_scopes_do_not_open_it(gate: Gate, scope: str) -> None:
    response = post(new_token(scopes=(scope,)))
    assert response.status_code == 403
    assert "'gate'" in response.text


def test_roles_that_start_nothing_call_nothing(gate: Gate) -> None:
    auditor = person("audit", "auditor")
    token = create_token(user=auditor, name="t", scopes=["gate"])[1]
    assert post(token).status_code == 403


def test_a_limited_token_calls_one_gate_and_nothing_else(gate: Gate) -> None:
    Gate.objects.create(name="other")
    token = new_token(gates=["ops"])
    assert post(token).status_code == 200
    assert post(token, "/mcp/gate/other/").status_code == 404
    assert "does not have the scope" in post_tool(token, "list_pending")
    client = APIClient(headers={"Authorization": f"Bearer {token}"})
    for path in ("executions/", "approvals/", "tokens/", "reviews/pending/"):
        assert client.get(f"/api/v1/{path}").status_code == 403, path


def post_tool(token: str, tool: str) -> str:
    """What `/mcp` answers to a call."""

    async def asked() -> str:
        body = {**LIST, "method": "tools/call", "params": {"name": tool, "arguments": {}}}
        headers = {
            "Accept": "application/json, text/event-stream",
            "Authorization": f"Bearer {token}",
        }
        transport = httpx2.ASGITransport(app=application)
        async with httpx2.AsyncClient(transport=transport, base_url="http://testserver") as client:
            return (await client.post("/mcp", json=body, headers=headers)).text

    return asyncio.run(asked())


@pytest.mark.parametrize(
    ("scopes", "gates", "code"),
    [
        (["gate", "read"], ["ops"], "other_scopes"),
        (["read"], ["ops"], "other_scopes"),
        (["gate"], ["nowhere"], "unknown_gate"),
        (["gate"], [], "unknown_gate"),
    ],
)
def test_a_limit_to_gates_is_checked(
    gate: Gate, scopes: list[str], gates: list[str], code: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        create_token(user=person("bot", "integrator"), name="t", scopes=scopes, gates=gates)
    assert [each.code for each in refused.value.problems] == [code]


def test_gates_that_are_not_for_the_token_do_not_exist(gate: Gate) -> None:
    token = new_token()
    for path in ("/mcp/gate/nowhere/", "/mcp/gate/ops/more/", "/mcp/gate/", "/mcp/gate/%0d%0a/"):
        assert post(token, path).status_code == 404, path
    gate.groups.add(group_of("admin"))
    assert post(token).status_code == 404
    gate.groups.add(group_of("integrator"))
    assert post(token).status_code == 200
    Gate.objects.update(enabled=False)
    assert post(token).status_code == 404
    revoke(tokens=ApiToken.objects.all())
    assert post(token).status_code == 401


def test_hosts_origins_methods_and_bodies_are_checked_as_for_mcp(gate: Gate) -> None:
    token = new_token()
    assert post(token, host="evil.example").status_code == 421
    assert post(token, origin="https://evil.example").status_code == 403

    async def asked() -> list[int]:
        headers = {"Authorization": f"Bearer {token}"}
        transport = httpx2.ASGITransport(app=http_app())
        async with httpx2.AsyncClient(transport=transport, base_url="http://testserver") as client:
            got = await client.get("/mcp/gate/ops/", headers=headers)
            huge = await client.post("/mcp/gate/ops/", content=b" " * 2**25, headers=headers)
            return [got.status_code, huge.status_code]

    assert asyncio.run(asked()) == [405, 413]
