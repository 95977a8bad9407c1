"""A real action for each kind of security event, through the door that people and programs use."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from reviews.models import RetentionPolicy
from reviews.retention.services import erase_due, save_policy
from tests.integration.reviews.admin.conftest import SignIn
from tests.integration.reviews.conftest import MakeUser, Start, decide, echo, only_hold
from workflows.models import Execution, Grant, Hold, SecurityEvent, Workflow
from workflows.permissions.tokens import create_token

Kind = SecurityEvent.Kind
PASSWORD = "hunter2 and more"
FETCH = {
    "id": "ask", "type": "code_execution", "language": "python", "permission_set": "minimal",
    "code": 'fetch("https://example.com/")["text"]',
}  # fmt: skip


class World:
    """People and runs of a test.  `prepare` the action, then do it."""

    def __init__(
        self, make_user: MakeUser, start: Start, staff: SignIn, settings: Any, sandbox: Any
    ) -> None:
        settings.HOLDPOINT = {
            **settings.HOLDPOINT,
            "sandbox_root": sandbox,
            "oauth_registrations_per_address": 1000,
        }
        self.make_user, self.start, self.staff, self.settings = make_user, start, staff, settings

    def api(self, name: str, role: str, *scopes: str) -> APIClient:
        _, text = create_token(
            user=self.make_user(name, role), name="t", scopes=scopes or ("read", "run", "decide")
        )
        client = APIClient(headers={"Authorization": f"Bearer {text}"})
        client.default_format = "json"  # type: ignore[attr-defined]
        return client

    def hold(self, **review: Any) -> Hold:
        task = echo("a", {"password": PASSWORD}, phase="BEFORE_EXECUTION", **review)
        return only_hold(self.start(task))

    def grant(self) -> Grant:
        hold = only_hold(self.start(FETCH))
        boss = self.make_user("boss", "admin", "reviewer")
        decide(hold, boss, grant_scope="execution")
        return Grant.objects.get()

    def legal_hold(self, client: APIClient) -> str:
        run = self.start(echo("a"))
        body = {"reason": "Case 7", "execution_id": str(run.pk)}
        return str(client.post("/api/v1/legal-holds/", body)["Location"])

    def policy(self, client: APIClient) -> str:
        return str(client.post("/api/v1/retention-policies/", {"keep_days": 7})["Location"])


Action = Callable[[], Any]
Door = Callable[[World], Action]


def sign_in(world: World, password: str = "secret") -> Client:
    client = Client()
    client.post("/login/", {"username": "ann", "password": password})
    return client


def signing_in(world: World) -> Action:
    world.make_user("ann")
    return lambda: sign_in(world)


def failing(world: World) -> Action:
    world.make_user("ann")
    return lambda: sign_in(world, "wrong")


def locked(world: World) -> Action:
    world.make_user("ann")
    world.settings.HOLDPOINT = {**world.settings.HOLDPOINT, "sign_in_failures": 1}
    return lambda: [sign_in(world, "wrong") for _ in range(2)]


def signing_out(world: World) -> Action:
    world.make_user("ann")
    client = sign_in(world)
    return lambda: client.post("/logout/")


def deciding(world: World) -> Action:
    return _resuming(world, world.api("bob", "reviewer"), status=200)


def denied(world: World) -> Action:
    return _resuming(world, world.api("olga", "operator"), status=403)


def _resuming(world: World, client: APIClient, *, status: int) -> Action:
    hold = world.hold(groups=["reviewer"])
    version = Execution.objects.get(pk=hold.execution_id).version
    body = {
        "execution_id": str(hold.execution_id), "hold_id": hold.pk, "version": version,
        "decision": "APPROVE",
    }  # fmt: skip

    def act() -> None:
        assert client.post("/api/v1/reviews/resume/", body).status_code == status

    return act


def revealing(world: World) -> Action:
    client, hold = world.api("bob", "reviewer"), world.hold(groups=["reviewer"])
    body = {"place": f"hold:{hold.pk}", "number": 1}

    def act() -> None:
        answer = client.post("/api/v1/reviews/reveal/", body)
        assert (answer.status_code, answer.json()["value"]) == (200, PASSWORD)

    return act


def revoking_grant(world: World) -> Action:
    grant, client = world.grant(), world.api("eve", "operator")
    return lambda: client.post(f"/api/v1/grants/{grant.pk}/revoke/")


def creating_token(world: World) -> Action:
    client = Client()
    client.force_login(world.make_user("ann", "operator"))
    body = {"name": "ci", "scopes": ["read"]}
    return lambda: client.post("/api/v1/tokens/", body, content_type="application/json")


def revoking_token(world: World) -> Action:
    client = Client()
    ann = world.make_user("ann", "operator")
    client.force_login(ann)
    token, _ = create_token(user=ann, name="ci", scopes=["read"])
    return lambda: client.delete(f"/api/v1/tokens/{token.pk}/")


def register() -> Any:
    body = {
        "client_name": "Desk agent",
        "redirect_uris": ["http://127.0.0.1:4711/callback"],
        "grant_types": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_method": "none",
    }
    return Client().post("/oauth/register/", body, content_type="application/json")


def deleting_client(world: World) -> Action:
    registered = register().json()
    headers = {"authorization": f"Bearer {registered['registration_access_token']}"}
    return lambda: Client().delete(registered["registration_client_uri"], headers=headers)


def saving_workflow(world: World) -> Action:
    client = _admin(world)
    body = {"name": "w", "title": "W", "plan": {"tasks": [echo("a")]}}

    def act() -> None:
        response = client.post("/api/v1/workflows/", body)
        assert response.status_code == 201, response.content

    return act


def publishing(world: World) -> Action:
    client = world.api("olga", "operator")
    Workflow.objects.create(name="w", title="W", plan={"tasks": [echo("a")]})
    return lambda: client.post("/api/v1/workflows/w/rules/", {"rules": [], "version": 0})


def changing(world: World) -> Action:
    client = world.staff("root")

    def act() -> None:
        response = client.post("/admin/auth/group/add/", {"name": "archivists"})
        assert response.status_code == 302, response.content

    return act


def _admin(world: World) -> APIClient:
    return world.api("boss", "admin", "read", "admin")


def setting_policy(world: World) -> Action:
    client = _admin(world)
    return lambda: world.policy(client)


def deleting_policy(world: World) -> Action:
    client = _admin(world)
    place = world.policy(client)
    return lambda: client.delete(place)


def placing(world: World) -> Action:
    client = _admin(world)
    return lambda: world.legal_hold(client)


def lifting(world: World) -> Action:
    client = _admin(world)
    place = world.legal_hold(client)
    return lambda: client.post(f"{place}lift/", {"reason": "over"})


def erasing(world: World) -> Action:
    run, boss = world.start(echo("a")), world.make_user("boss", "admin")
    Execution.objects.filter(pk=run.pk).update(finished_at=timezone.now() - timedelta(days=9))
    policy = save_policy(actor=boss, policy=RetentionPolicy(keep_days=7))
    policy.enabled = True
    save_policy(actor=boss, policy=policy)
    return erase_due


#: Each returns the action, after it has prepared what the action needs.
DOORS: dict[str, Door] = {
    Kind.SIGN_IN: signing_in,
    Kind.SIGN_IN_FAILED: failing,
    Kind.SIGN_IN_LOCKED: locked,
    Kind.SIGN_OUT: signing_out,
    Kind.DECISION: deciding,
    Kind.DENIED: denied,
    Kind.REVEALED: revealing,
    Kind.GRANTED: lambda world: world.grant,
    Kind.GRANT_REVOKED: revoking_grant,
    Kind.TOKEN_CREATED: creating_token,
    Kind.TOKEN_REVOKED: revoking_token,
    Kind.CLIENT_REGISTERED: lambda world: register,
    Kind.CLIENT_DELETED: deleting_client,
    Kind.WORKFLOW_SAVED: saving_workflow,
    Kind.RULES_PUBLISHED: publishing,
    Kind.CHANGED: changing,
    Kind.RETENTION_SET: setting_policy,
    Kind.RETENTION_DELETED: deleting_policy,
    Kind.LEGAL_HOLD_PLACED: placing,
    Kind.LEGAL_HOLD_LIFTED: lifting,
    Kind.RUNS_ERASED: erasing,
}
#: Kinds whose app is not installed in these tests; the tests that run it are
#: config/auth/second_factor/test_second_factor.py.
ELSEWHERE = {Kind.FACTOR_ADDED, Kind.FACTOR_REMOVED}


@pytest.fixture
def world(make_user: MakeUser, start: Start, staff: SignIn, settings: Any, tmp_path: Any) -> World:
    return World(make_user, start, staff, settings, tmp_path / "sandbox")
