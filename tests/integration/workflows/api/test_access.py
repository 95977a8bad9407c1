"""Status by role and endpoint, for own and other users' executions."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from tests.integration.workflows.api.conftest import plain_plan
from tests.integration.workflows.api.roles import ROLES
from tests.integration.workflows.api.routes import api_routes
from workflows.approvals.services import ask
from workflows.common.secret_encryption import encrypt
from workflows.models import (
    ApiToken,
    Approval,
    ApprovalPolicy,
    Capability,
    Execution,
    Grant,
    Hold,
    McpServer,
    WebhookDelivery,
    WebhookEndpoint,
)
from workflows.permissions.tokens import create_token
from workflows.webhooks.signing import new_secret

pytestmark = pytest.mark.django_db

ONE = "executions/{execution_id}/"
APPROVAL = "approvals/{approval_id}/"
HOOK = "webhooks/{webhook_id}/"
POLICY = "approval-policies/{policy_id}/"
#: Statuses for reviewer, auditor, operator, integrator, admin.  `others` is an execution that the
#: operator started and that stops for nobody; `own` is the caller's.
TABLE: dict[tuple[str, str], dict[str, tuple[int, ...]]] = {
    ("GET", "executions/"): {"any": (200, 200, 200, 200, 200)},
    ("POST", "executions/"): {"any": (422, 403, 422, 422, 422)},
    ("GET", ONE): {"others": (404, 200, 200, 404, 200), "own": (200,) * 5},
    ("GET", f"{ONE}checkpoints/"): {"others": (404, 200, 200, 404, 200), "own": (200,) * 5},
    ("GET", f"{ONE}decisions/"): {"others": (404, 200, 200, 404, 200), "own": (200,) * 5},
    ("GET", f"{ONE}messages/"): {"others": (404, 200, 200, 404, 200), "own": (200,) * 5},
    ("POST", f"{ONE}messages/"): {
        "others": (404, 403, 422, 404, 422),
        "own": (422, 403, 422, 422, 422),
    },
    ("GET", f"{ONE}events/"): {"others": (404, 200, 200, 404, 200), "own": (200,) * 5},
    ("POST", f"{ONE}commands/"): {
        "others": (404, 403, 422, 404, 422),
        "own": (422, 403, 422, 422, 422),
    },
    ("POST", f"{ONE}fork/"): {
        "others": (404, 403, 422, 404, 422),
        "own": (422, 403, 422, 422, 422),
    },
    ("GET", "approvals/"): {"any": (200,) * 5},
    ("POST", "approvals/"): {"any": (422, 403, 422, 422, 422)},
    ("GET", APPROVAL): {"others": (404,) * 5, "own": (200,) * 5},
    ("POST", f"{APPROVAL}cancel/"): {"others": (404,) * 5, "own": (200, 403, 200, 200, 200)},
    ("POST", f"{APPROVAL}resubmit/"): {"others": (404,) * 5, "own": (422, 403, 422, 422, 422)},
    ("POST", f"{APPROVAL}result/"): {"others": (404,) * 5, "own": (422, 403, 422, 422, 422)},
    ("GET", "approval-policies/"): {"any": (403, 403, 403, 403, 200)},
    ("POST", "approval-policies/"): {"any": (403, 403, 403, 403, 422)},
    ("GET", POLICY): {"any": (403, 403, 403, 403, 200)},
    ("PATCH", POLICY): {"any": (403, 403, 403, 403, 200)},
    ("DELETE", POLICY): {"any": (403, 403, 403, 403, 204)},
    ("GET", "workflows/"): {"any": (200,) * 5},
    ("POST", "workflows/"): {"any": (403, 403, 403, 403, 422)},
    ("GET", "workflows/{name}/"): {"any": (200,) * 5},
    ("PUT", "workflows/{name}/"): {"any": (403, 403, 403, 403, 422)},
    ("PATCH", "workflows/{name}/"): {"any": (403, 403, 403, 403, 200)},
    ("DELETE", "workflows/{name}/"): {"any": (403, 403, 403, 403, 204)},
    ("GET", "mcp-servers/"): {"any": (403, 403, 403, 403, 200)},
    ("POST", "mcp-servers/"): {"any": (403, 403, 403, 403, 422)},
    ("GET", "mcp-servers/{server_id}/"): {"any": (403, 403, 403, 403, 200)},
    ("PATCH", "mcp-servers/{server_id}/"): {"any": (403, 403, 403, 403, 200)},
    ("DELETE", "mcp-servers/{server_id}/"): {"any": (403, 403, 403, 403, 204)},
    ("POST", "mcp-servers/{server_id}/sync/"): {"any": (403, 403, 403, 403, 200)},
    ("GET", "tokens/"): {"any": (200,) * 5},
    ("POST", "tokens/"): {"any": (422,) * 5},
    ("GET", "tokens/{token_id}/"): {"others": (404,) * 5, "own": (200,) * 5},
    ("DELETE", "tokens/{token_id}/"): {"others": (404,) * 5, "own": (204,) * 5},
    ("GET", "grants/"): {"any": (200,) * 5},
    ("POST", "grants/{grant_id}/revoke/"): {
        "others": (404, 403, 200, 404, 200),
        "own": (403, 403, 200, 403, 200),
    },
    ("GET", "capabilities/"): {"any": (200,) * 5},
    ("POST", "capabilities/"): {"any": (422,) * 5},
    ("GET", "capabilities/{name}/"): {"any": (200,) * 5},
    ("GET", "webhooks/"): {"any": (403, 403, 200, 200, 200)},
    ("POST", "webhooks/"): {"any": (403, 403, 422, 422, 422)},
    ("GET", HOOK): {"others": (403, 403, 404, 404, 200), "own": (403, 403, 200, 200, 200)},
    ("PATCH", HOOK): {"others": (403, 403, 404, 404, 200), "own": (403, 403, 200, 200, 200)},
    ("DELETE", HOOK): {"others": (403, 403, 404, 404, 204), "own": (403, 403, 204, 204, 204)},
    ("POST", f"{HOOK}rotate/"): {
        "others": (403, 403, 404, 404, 200),
        "own": (403, 403, 200, 200, 200),
    },
    ("POST", f"{HOOK}resume/"): {
        "others": (403, 403, 404, 404, 200),
        "own": (403, 403, 200, 200, 200),
    },
    ("POST", f"{HOOK}ping/"): {
        "others": (403, 403, 404, 404, 409),
        "own": (403, 403, 202, 202, 202),
    },
    ("GET", f"{HOOK}deliveries/"): {
        "others": (403, 403, 404, 404, 200),
        "own": (403, 403, 200, 200, 200),
    },
    ("GET", f"{HOOK}deliveries/{{delivery_id}}/"): {
        "others": (403, 403, 404, 404, 200),
        "own": (403, 403, 200, 200, 200),
    },
    ("POST", f"{HOOK}deliveries/{{delivery_id}}/redeliver/"): {
        "others": (403, 403, 404, 404, 409),
        "own": (403, 403, 202, 202, 202),
    },
}


def test_every_route_has_a_row() -> None:
    ours = [route for route in api_routes() if route.module.startswith("workflows.")]
    paths = {(m, r.path.removeprefix("api/v1/")) for r in ours for m in r.methods}
    assert paths == set(TABLE)


@pytest.fixture
def arguments(people, start, workflow) -> Any:
    """Path arguments for a role's own things, or for somebody else's."""

    def make(role: str, whose: str) -> dict[str, str]:
        owner = role if whose == "own" else "operator"
        execution = start(owner, plain_plan())
        user = people[role] if whose == "own" else people["nobody"]
        token, _ = create_token(user=user, name="t", scopes=["read"])
        capability = {"language": "python", "code": "1"}
        Capability.objects.get_or_create(name=workflow.name, defaults=capability)
        web = {"transport": "http", "url": "https://mcp.example.invalid/mcp"}
        server, _ = McpServer.objects.get_or_create(name="kit", defaults=web)
        policy, _ = ApprovalPolicy.objects.get_or_create(pattern="*", groups=["reviewer"])
        return {
            "grant_id": str(granted(execution).pk),
            "execution_id": str(execution.pk),
            "name": workflow.name,
            "token_id": str(token.pk),
            "approval_id": str(asked(user).pk),
            "server_id": str(server.pk),
            "policy_id": str(policy.pk),
            "agent": "codex",
            **delivered(user, execution),
        }

    return make


def asked(owner: User) -> Approval:
    """An approval that `owner` asked for."""
    action = {"name": "payments.transfer", "arguments": {"amount": 1}}
    return ask(actor=owner, fields={"action": action, "phase": "BEFORE_EXECUTION"})


def delivered(owner: User, execution: Execution) -> dict[str, str]:
    """An endpoint of `owner`; `nobody` has no role that would let it be sent anything."""
    endpoint = WebhookEndpoint.objects.create(
        owner=owner, name="e", url="https://example.com/", secret=encrypt(new_secret())
    )
    event = execution.events.earliest("seq")
    delivery = WebhookDelivery.objects.create(
        endpoint=endpoint, event=event, execution=execution, message_id="evt", status="DELIVERED"
    )
    return {"webhook_id": str(endpoint.pk), "delivery_id": str(delivery.pk)}


def granted(execution: Execution) -> Grant:
    hold = Hold.objects.create(
        id=f"{execution.pk}-1",
        execution=execution,
        task_id="a",
        reason="escalation",
        decider="human",
        layer=0,
        opened_seq=1,
        status=Hold.Status.APPROVED,
    )
    return Grant.objects.create(
        scope=Grant.Scope.TASK,
        execution=execution,
        hold=hold,
        task_id="a",
        subject="x",
        operation="net",
        resource="example.com:443",
        permissions={"hosts": ["example.com:443"]},
        granted_by="somebody",
    )


def rows() -> list[Any]:
    return [
        pytest.param(method, path, whose, statuses, id=f"{method} {path} {whose}")
        for (method, path), table in TABLE.items()
        for whose, statuses in table.items()
    ]


@pytest.mark.parametrize(("method", "path", "whose", "statuses"), rows())
def test_each_role_gets_its_status(session, arguments, method, path, whose, statuses) -> None:
    found = []
    for role in ROLES:
        url = "/api/v1/" + path.format(**arguments(role, whose))
        found.append(session(role).generic(method, url).status_code)
    assert tuple(found) == statuses


@pytest.mark.parametrize(("method", "path"), TABLE)
def test_a_credential_and_a_role_are_required(session, arguments, method, path) -> None:
    url = "/api/v1/" + path.format(**arguments("operator", "own"))
    anonymous = APIClient().generic(method, url)
    assert anonymous.status_code == 401
    assert anonymous["WWW-Authenticate"].startswith("Bearer")
    assert anonymous.json()["code"] == "unauthenticated"
    assert session("nobody").generic(method, url).status_code == 403


SCOPE = {
    "GET": "read",
    "POST workflows/": "admin",
    "PUT workflows/{name}/": "admin",
    "PATCH workflows/{name}/": "admin",
    "DELETE workflows/{name}/": "admin",
    "POST mcp-servers/": "admin",
    "POST approval-policies/": "admin",
    f"PATCH {POLICY}": "admin",
    f"DELETE {POLICY}": "admin",
    "PATCH mcp-servers/{server_id}/": "admin",
    "DELETE mcp-servers/{server_id}/": "admin",
    "POST mcp-servers/{server_id}/sync/": "admin",
    "POST tokens/": "admin",
    "POST grants/{grant_id}/revoke/": "decide",
    "DELETE tokens/{token_id}/": "admin",
    "GET approvals/": "ask",
    "POST approvals/": "ask",
    **{f"{method} {path}": "ask" for method, path in TABLE if path.startswith(APPROVAL)},
}


#: Scopes that an operation takes besides: an endpoint carries data, and is the admin's own here.
ALSO = {
    "POST webhooks/": ["read"],
    "POST webhooks/{webhook_id}/rotate/": ["admin"],
}


@pytest.mark.parametrize(("method", "path"), TABLE)
def test_scopes_limit_a_token(bearer, arguments, method, path) -> None:
    needed = SCOPE.get(f"{method} {path}", SCOPE.get(method, "run"))
    url = "/api/v1/" + path.format(**arguments("admin", "own"))
    others = [scope for scope in ("read", "run", "decide", "admin") if scope != needed]
    without = bearer("admin", others).generic(method, url)
    assert without.status_code == 403
    assert without.json()["code"] == "forbidden"
    assert needed in without.json()["detail"]
    enough = [needed, *ALSO.get(f"{method} {path}", [])]
    client = bearer("admin", enough)
    # Only the token that asked for an approval goes on with it.
    Approval.objects.update(token=ApiToken.objects.latest("pk"))
    assert client.generic(method, url).status_code not in (401, 403, 404)


def test_a_decision_over_commands_takes_the_scope_decide(bearer, start) -> None:
    url = f"/api/v1/executions/{start('operator').pk}/commands/"
    for kind in ("approval_response", "checkpoint_response"):
        body = {"kind": kind, "hold": "x", "approved": True, "version": 1}
        assert bearer("reviewer", ["read", "run"]).post(url, body).status_code == 403
        assert bearer("reviewer", ["decide"]).post(url, body).status_code == 404


def test_a_reviewer_sees_runs_that_wait_for_them_and_cannot_command_them(session, start) -> None:
    execution = start("operator")
    client = session("reviewer")
    assert client.get(f"/api/v1/executions/{execution.pk}/").status_code == 200
    response = client.post(f"/api/v1/executions/{execution.pk}/commands/", {"kind": "abort"})
    assert response.status_code == 403


def test_lists_hold_only_visible_rows(session, start) -> None:
    mine = start("integrator", plain_plan())
    start("operator", plain_plan())
    stopped = start("operator")
    assert ids(session("integrator")) == [str(mine.pk)]
    assert ids(session("reviewer")) == [str(stopped.pk)]
    assert len(ids(session("auditor"))) == 3


def ids(client: APIClient, query: str = "") -> list[str]:
    results = client.get(f"/api/v1/executions/{query}").json()["results"]
    return [each["id"] for each in results]


def test_a_lost_role_counts_at_once(session, people, start) -> None:
    execution = start("operator", plain_plan())
    client = session("auditor")
    url = f"/api/v1/executions/{execution.pk}/"
    assert client.get(url).status_code == 200
    people["auditor"].groups.clear()
    assert client.get(url).status_code == 403


@pytest.mark.parametrize(
    "text",
    ["0", "99999999999999999999", "9223372036854775807", "-1", "abc", "1.5", "%00", "\u0661"],
)
def test_an_impossible_id_is_404(session, text) -> None:
    client = session("admin")
    for path in ("", "events/", "checkpoints/", "decisions/", "messages/"):
        response = client.get(f"/api/v1/executions/{text}/{path}")
        assert response.status_code == 404
        assert response.json()["code"] == "not_found"
    assert client.delete(f"/api/v1/tokens/{text}/").status_code == 404
    assert client.post(f"/api/v1/executions/{text}/commands/", {"kind": "abort"}).status_code == 404


def test_a_session_needs_its_csrf_token(people, start) -> None:
    execution = start("operator", plain_plan())
    client = APIClient(enforce_csrf_checks=True)
    client.force_login(people["operator"])
    url = f"/api/v1/executions/{execution.pk}/commands/"
    assert client.get(f"/api/v1/executions/{execution.pk}/").status_code == 200
    response = client.post(url, {"kind": "abort"})
    assert response.status_code == 403
    assert "CSRF" in response.json()["detail"]
