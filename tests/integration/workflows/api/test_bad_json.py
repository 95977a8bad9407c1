"""Malformed bodies at every endpoint that takes one: a 4xx that names the field, never a 500."""

import json
from typing import Any

import pytest
from django.contrib.auth.models import Group
from rest_framework.test import APIClient

from reviews.models import LegalHold, RetentionPolicy
from tests.integration.workflows.api.routes import Route, api_routes
from workflows.approvals.services import ask
from workflows.models import ApiToken, ApprovalPolicy, McpServer, WebhookEndpoint

pytestmark = pytest.mark.django_db

DEEP = 100_000
BAD = {
    "nul": (b'{"a": {"b": "x\\u0000"}}', 400, "a.b"),
    "nul in a key": (b'{"a\\u0000": 1}', 400, '["a\\u0000"]'),
    "overflow": (b'{"a": [0, 1e400]}', 400, "a[1]"),
    "not a number": (b'{"a": NaN}', 400, "a"),
    "lone surrogate": (b'{"a": "\\ud800"}', 400, "a"),
    "deep": (b'{"a":' + b"[" * DEEP + b"]" * DEEP + b"}", 400, "a[0]"),
    "deep and open": (b'{"a":' * (DEEP // 2), 400, "a.a"),
    "key twice": (b'{"a": {"k": 1, "k": 2}}', 400, "a.k"),
    "huge whole number": (b'{"a": ' + b"9" * 5000 + b"}", 400, "a"),
    "long key": (b'{"' + b"k" * 300 + b'": 1}', 400, '["kkk'),
    # More than 10,000 of them, or 100,000 where there may be a plan.
    "many values": (b'{"a": [' + b"1," * 110_000 + b"1]}", 400, "a[99"),
    "cut off": (b'{"a": {"b": "c', 400, "a"),
    "not UTF-8": (b'{"a": "\xff"}', 400, ""),
    "not JSON": (b"<xml/>", 400, ""),
    "too large": (b'{"a": "' + b"x" * 1_100_000 + b'"}', 413, None),
}
NO_OBJECT = (b"[1]", b'"text"', b"12", b"null")
#: They ask for no body and do not look at one.
BODILESS = (
    "/sync/",
    "/restore/",
    "claim/",
    "release/",
    "/revoke/",
    "/rotate/",
    "/ping/",
    "/redeliver/",
)


@pytest.fixture
def somebody(people, bearer) -> APIClient:
    """An admin who is a reviewer too: no right is missing, so the body is looked at."""
    people["admin"].groups.add(Group.objects.get(name="reviewer"))
    return bearer("admin")


@pytest.fixture
def arguments(start, workflow, people) -> dict[str, str]:
    execution = start("operator")
    endpoint = WebhookEndpoint.objects.create(owner=people["admin"], name="e", secret="x")
    server = McpServer.objects.create(name="s", transport="stdio", command="true", enabled=False)
    kept = LegalHold.objects.create(execution=execution, reason="x", placed_by=people["admin"])
    fields = {"action": {"name": "pay", "arguments": {}}, "phase": "BEFORE_EXECUTION"}
    asked = ask(actor=people["admin"], fields=fields)
    # Only the token that asked goes on.
    asked.token = ApiToken.objects.filter(user=people["admin"]).last()
    asked.save(update_fields=["token"])
    return {
        "agent": "codex",
        "approval_id": str(asked.pk),
        "execution_id": str(execution.pk),
        "hold_id": execution.holds.get().id,
        "name": workflow.name,
        "token_id": "1",
        "grant_id": "1",
        "webhook_id": str(endpoint.pk),
        "delivery_id": "1",
        "server_id": str(server.pk),
        "legal_hold_id": str(kept.pk),
        "retention_policy_id": str(RetentionPolicy.objects.create(workflow=workflow).pk),
        "policy_id": str(ApprovalPolicy.objects.create(pattern="*", groups=["reviewer"]).pk),
        "backtest_id": "1",
        "workflow_name": workflow.name,
        "number": "1",
        "pk": "1",
    }


def writing(routes: list[Route]) -> list[tuple[str, Route]]:
    methods = ("POST", "PUT", "PATCH")
    found = [(method, route) for route in routes for method in methods if method in route.methods]
    assert len(found) >= 10
    return found


def send(client: APIClient, method: str, path: str, data: bytes) -> Any:
    return client.generic(method, path, data, content_type="application/json")


def test_malformed_json_is_refused_everywhere(somebody, arguments) -> None:
    wrong = []
    for method, route in writing(api_routes()):
        path = route.filled(arguments)
        if path.endswith(BODILESS):
            continue
        for name, (data, status, where) in BAD.items():
            response = send(somebody, method, path, data)
            if not refused_well(response, status, where):
                wrong.append(f"{method} {path} {name}: {response.status_code} {response.content!r}")
    assert wrong == []


def test_non_object_bodies_are_refused_everywhere(somebody, arguments) -> None:
    wrong = []
    for method, route in writing(api_routes()):
        path = route.filled(arguments)
        for data in NO_OBJECT:
            response = send(somebody, method, path, data)
            if not path.endswith(BODILESS) and not 400 <= response.status_code < 423:
                wrong.append(f"{method} {path} {data!r}: {response.status_code}")
    assert wrong == []


def test_an_endpoint_without_a_body_ignores_one(somebody, arguments) -> None:
    for _, route in writing(api_routes()):
        path = route.filled(arguments)
        if path.endswith(BODILESS):
            found = {send(somebody, "POST", path, data).status_code for data, _, _ in BAD.values()}
            assert max(found) < 500, path


def refused_well(response: Any, status: int, where: str | None) -> bool:
    if response.status_code != status or response["Content-Type"] != "application/problem+json":
        return False
    body = response.json()
    assert body["status"] == status
    if where is None:
        return bool(body["code"] == "too_large")
    return bool(body["code"] == "malformed" and body["errors"][0]["path"].startswith(where))


def test_an_unknown_field_is_named(somebody, arguments) -> None:
    for path in ("executions/", "workflows/", "tokens/"):
        response = send(somebody, "POST", f"/api/v1/{path}", b'{"surprise": 1}')
        assert response.status_code == 422, path
        assert response.json()["code"] == "invalid"
        assert response.json()["errors"] == [
            {"path": "surprise", "code": "unknown", "message": "is not a known field"}
        ]


WRONG_TYPES = [
    ("executions/", {"plan": "text"}, "plan"),
    ("executions/", {"plan": {"tasks": "text"}}, "plan.tasks"),
    ("executions/", {"workflow": ["echo"]}, "workflow"),
    ("executions/", {"workflow": "echo", "inputs": []}, "inputs"),
    ("executions/", {"workflow": "echo", "inputs": {"n": "x"}}, "inputs.n"),
    ("executions/", {"workflow": "echo", "policy": {"hil": 1}}, "policy.hil"),
    ("executions/", {"workflow": "echo", "policy": {"nonsense": 1}}, "policy.nonsense"),
    ("executions/", {"workflow": "echo", "title": "x" * 201}, "title"),
    ("executions/", {"workflow": "echo", "plan": {}}, "plan"),
    ("executions/", {"workflow": "nowhere"}, "workflow"),
    ("executions/", {}, "workflow"),
    ("executions/", {"intent": {}}, "intent"),
    ("executions/{execution_id}/commands/", {}, "kind"),
    ("executions/{execution_id}/commands/", {"kind": 7}, "kind"),
    ("executions/{execution_id}/commands/", {"kind": ["abort"]}, "kind"),
    ("executions/{execution_id}/commands/", {"kind": "dance"}, "kind"),
    ("executions/{execution_id}/commands/", {"kind": "abort", "reason": 1}, "reason"),
    ("executions/{execution_id}/commands/", {"kind": "abort", "why": "x"}, "why"),
    ("executions/{execution_id}/commands/", {"kind": "abort", "version": "1"}, "version"),
    ("executions/{execution_id}/commands/", {"kind": "abort", "version": True}, "version"),
    ("executions/{execution_id}/commands/", {"kind": "abort", "version": 2**63}, "version"),
    ("executions/{execution_id}/commands/", {"kind": "replan"}, "new_requirement"),
    ("executions/{execution_id}/commands/", {"kind": "update_state", "updates": 1}, "updates"),
    ("executions/{execution_id}/commands/", {"kind": "skip_layer", "layer": -1}, "layer"),
    (
        "executions/{execution_id}/commands/",
        {"kind": "approval_response", "hold": "h", "approved": "perhaps"},
        "approved",
    ),
    ("executions/{execution_id}/commands/", {"kind": "inject_task", "task": {}}, "task"),
    ("executions/{execution_id}/messages/", {}, "content"),
    ("executions/{execution_id}/messages/", {"content": {}}, "content"),
    ("executions/{execution_id}/messages/", {"content": "x", "role": "system"}, "role"),
    ("executions/{execution_id}/fork/", {}, "checkpoint"),
    ("executions/{execution_id}/fork/", {"checkpoint": "999999999"}, "checkpoint"),
    ("executions/{execution_id}/fork/", {"checkpoint": "x", "edits": {"a": 1}}, "edits.a"),
    ("workflows/", {"name": "a b", "title": "T", "plan": {"tasks": []}}, "name"),
    ("workflows/", {"name": "echo", "title": "T", "plan": {"tasks": []}}, "plan.tasks"),
    ("webhooks/", {"url": "https://example.com/"}, "name"),
    ("approval-policies/", {}, "pattern"),
    ("approval-policies/", {"pattern": "a b"}, "pattern"),
    ("approval-policies/", {"pattern": "pay.*", "groups": ["nobody-here"]}, "groups"),
    ("approval-policies/", {"pattern": "pay.*", "groups": ["reviewer"], "quorum": 0}, "quorum"),
    ("approval-policies/", {"pattern": "pay.*", "whom": "me"}, "whom"),
    ("retention-policies/", {"keep_days": 0}, "keep_days"),
    ("retention-policies/", {"keep_days": 9, "enabled": True}, "enabled"),
    ("retention-policies/", {"workflow": "nowhere"}, "workflow"),
    ("legal-holds/", {"reason": "x"}, "execution_id"),
    ("legal-holds/", {"reason": "x", "execution_id": "77777"}, "execution_id"),
    ("legal-holds/", {"reason": "x", "workflow": "nowhere"}, "workflow"),
    ("legal-holds/", {"reason": "x", "gate": "nowhere"}, "gate"),
    ("legal-holds/", {"workflow": "echo"}, "reason"),
    ("webhooks/", {"name": "x", "url": "ftp://example.com/"}, "url"),
    ("webhooks/", {"name": "x", "url": "http://example.com/"}, "url"),
    ("webhooks/", {"name": "x", "url": "https://10.0.0.1/"}, "url"),
    ("webhooks/", {"name": "x", "url": "https://localhost/"}, "url"),
    ("webhooks/", {"name": "x", "url": "https://example.com/", "events": ["all"]}, "events[0]"),
    ("webhooks/{webhook_id}/resume/", {"skip": "perhaps"}, "skip"),
    ("tokens/", {"scopes": "read"}, "scopes"),
    ("tokens/", {"scopes": []}, "scopes"),
    ("tokens/", {"scopes": ["read", "root"]}, "scopes[1]"),
    ("tokens/", {"scopes": ["read"], "expires_at": "2001-01-01T00:00:00Z"}, "expires_at"),
]


@pytest.mark.parametrize(("path", "body", "field"), WRONG_TYPES)
def test_a_wrong_value_is_422_at_its_field(somebody, arguments, path, body, field) -> None:
    url = "/api/v1/" + path.format(**arguments)
    response = send(somebody, "POST", url, json.dumps(body).encode())
    assert response.status_code == 422, response.content
    assert response["Content-Type"] == "application/problem+json"
    problem = response.json()
    assert problem["code"] == "invalid"
    assert problem["errors"][0]["path"] == field, problem["errors"]
    assert problem["detail"].startswith(field)


def test_another_media_type_is_415(somebody) -> None:
    response = somebody.generic("POST", "/api/v1/executions/", b"a=1", content_type="text/plain")
    assert response.status_code == 415
    assert response.json()["code"] == "unsupported_media_type"


def test_an_empty_body_is_an_empty_object(somebody) -> None:
    response = somebody.generic("POST", "/api/v1/executions/", b"", content_type="text/plain")
    assert response.status_code == 422
    assert response.json()["errors"][0]["path"] == "workflow"


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("executions/", "workflow=%00"),
        ("executions/", "created_by=%00"),
        ("executions/", "status=NOPE"),
        ("executions/", "status=%ED%A0%80"),
        ("executions/", "created_from=yesterday"),
        ("executions/", "stauts=RUNNING"),
        ("executions/", "page_size=0"),
        ("executions/", "page_size=201"),
        ("executions/", "page_size=x"),
        ("executions/", "page_size=99999999999"),
        ("executions/", "ordering=error"),
        ("executions/1/events/", "after=-1"),
        ("workflows/", "enabled=perhaps"),
        ("workflows/", "order=name"),
        ("tokens/", "page_size=%00"),
        ("grants/", "in_force=x"),
        ("capabilities/", "ordering=-"),
        ("tools/", "kind=other"),
        ("tools/", "read_only=x"),
        ("tools/", "ordering=input_schema"),
        ("tools/", "surprise=1"),
        ("reviews/pending/", "tab=decided"),
        ("reviews/pending/", "taab=me"),
        ("reviews/history/", "from=soon"),
        ("reviews/history/", "execution=x"),
        ("reviews/history/", "who=me"),
    ],
)
def test_a_bad_parameter_is_named(somebody, start, path, query) -> None:
    path = path.replace("1", str(start("operator").pk))
    response = somebody.get(f"/api/v1/{path}?{query}")
    assert response.status_code == 422, response.content
    assert response["Content-Type"] == "application/problem+json"
    assert response.json()["errors"][0]["path"] == query.split("=")[0]


@pytest.mark.parametrize(
    "cursor", ["x", "%00", "cD0lMDA=", "cD1hYmM=", "cD05OTk5OTk5OTk5OTk5OTk5OTk5OTk5", "bz0tMQ=="]
)
def test_a_forged_cursor_is_named(somebody, arguments, cursor) -> None:
    lists = ("executions/", "tokens/", "executions/{execution_id}/messages/", "tools/", "grants/")
    for path in lists:
        response = somebody.get(f"/api/v1/{path.format(**arguments)}?cursor={cursor}")
        # A position that could be one is none to complain about: the page behind it is empty.
        if response.status_code != 200:
            assert response.status_code == 422, response.content
            assert response.json()["errors"][0]["path"] == "cursor"


@pytest.mark.parametrize("cursor", ["x", "%FF", "cD1hYmM="])
def test_a_malformed_cursor_is_422(somebody, arguments, cursor) -> None:
    assert somebody.get(f"/api/v1/executions/?cursor={cursor}").status_code == 422
