"""AuthZEN access requests: evaluate, ask for the denied access, and evaluate again."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from tests.support.catalogue import stock_catalogue
from workflows.approvals import authzen
from workflows.engine.standing_terms import StandingTerms
from workflows.models import (
    Approval,
    ApprovalPolicy,
    Execution,
    ExecutionEvent,
    Grant,
    WebhookDelivery,
    WebhookEndpoint,
)
from workflows.permissions.tokens import create_token
from workflows.webhooks.fan_out import create_deliveries
from workflows.webhooks.payload import delivery_body
from workflows.webhooks.services import create_endpoint

from .conftest import decided

READ: dict[str, Any] = {
    "subject": {"type": "user", "id": "alice@example.com", "properties": {"level": 3}},
    "resource": {"type": "document", "id": "q4-plan"},
    "action": {"name": "can_read"},
    "context": {"channel": "vpn", "time": "2026-04-30T20:15:00Z"},
}
ERROR = "urn:openid:authzen:access-request:error:"


class Pep:
    """A policy enforcement point with a token of one person."""

    def __init__(self, user: User, *scopes: str) -> None:
        _, text = create_token(user=user, name="pep", scopes=scopes or ("ask",))
        self.user = user
        self.client = APIClient(headers={"Authorization": f"Bearer {text}"})

    def post(self, path: str, body: Any, key: str = "") -> Any:
        headers = {"Idempotency-Key": key} if key else {}
        path = path if path.startswith("http") else f"/access/v1/{path}"
        return self.client.post(path, body, format="json", headers=headers)

    def evaluated(self, **changes: Any) -> dict[str, Any]:
        response = self.post("evaluation", {**READ, **changes})
        assert response.status_code == 200, response.content
        return dict(response.json())

    def denial(self, **changes: Any) -> dict[str, Any]:
        """The `denial` of an access request, from the denied evaluation."""
        answer = self.evaluated(**changes)
        assert answer["decision"] is False
        about = answer["context"]
        return {
            "evaluation_id": about["evaluation_id"],
            "evaluated_at": about["evaluated_at"],
            "reason": about["reason"],
            "expires_at": about["access_request"]["expires_at"],
            "binding_token": about["access_request"]["binding_token"],
        }

    def request(self, key: str = "", **changes: Any) -> Any:
        body = {**READ, "denial": self.denial(), **changes}
        return self.post("requests", body, key)

    def requested(self, **changes: Any) -> dict[str, Any]:
        response = self.request(**changes)
        assert response.status_code == 202, response.content
        return dict(response.json()["task"])

    def task(self, task: dict[str, Any]) -> dict[str, Any]:
        response = self.client.get(task["status_endpoint"])
        assert response.status_code == 200, response.content
        return dict(response.json())

    def refused(self, response: Any) -> tuple[int, str]:
        """Status and the end of the problem type."""
        assert response["Content-Type"] == "application/problem+json"
        return response.status_code, response.json()["type"].removeprefix(ERROR)


@pytest.fixture
def pep(people: Callable[..., User]) -> Pep:
    stock_catalogue()
    return Pep(people("gateway", "integrator"))


def run() -> dict[str, Any]:
    """The execution of the only approval."""
    approval = Approval.objects.get()
    return {"id": str(approval.pk), "execution_id": str(approval.execution_id)}


# --- evaluate, ask, evaluate again ----------------------------------------------------------------


def test_approved_access_is_allowed_by_the_next_evaluation(pep: Pep, reviewer: User) -> None:
    response = pep.request(
        context={**READ["context"], "business_justification": "Customer renewal"},
        client={"name": "Renewal agent", "source": {"session_id": "s-1"}},
    )
    task = response.json()["task"]
    assert (response.status_code, response["Location"]) == (202, task["status_endpoint"])
    assert task["status"] == "pending"
    assert task["display"]["title"] == "can_read: document q4-plan for alice@example.com"
    assert pep.client.get(task["status_endpoint"])["Retry-After"] == "5"
    approval = Approval.objects.get()
    assert (approval.action, approval.risk, approval.agent) == ("can_read", "high", "Renewal agent")
    assert approval.session == "s-1"
    assert "Customer renewal" in approval.context

    decided(run(), reviewer)
    done = pep.task(task)
    assert done["task"]["status"] == "approved"
    assert done["result"]["mode"] == "reevaluate"
    given = done["result"]["approval"]
    until = datetime.fromisoformat(given["approved_until"])
    assert until - datetime.fromisoformat(given["approved_at"]) == timedelta(hours=1)

    later = {**READ["context"], "time": "2026-04-30T20:43:00Z", "approval": given}
    answer = pep.evaluated(context=later)
    assert answer == {"decision": True, "context": {"approval": given}}
    assert Approval.objects.count() == 1


def test_denied_evaluations_leave_nothing_behind(pep: Pep) -> None:
    pep.denial()
    assert (Execution.objects.count(), Approval.objects.count()) == (0, 0)


def test_a_rejection_denies(pep: Pep, reviewer: User) -> None:
    task = pep.requested()
    decided(run(), reviewer, "REJECT", comment="Ask your manager.")
    assert pep.task(task)["task"]["status"] == "denied"
    assert pep.task(task)["task"]["display"]["description"] == "Ask your manager."
    assert "result" not in pep.task(task)


def test_reviewers_cannot_ask_for_changes(pep: Pep, reviewer: User) -> None:
    pep.requested()
    with pytest.raises(Exception, match="hange"):
        decided(run(), reviewer, "REQUEST_CHANGES", comment="Less.")


def test_a_cancelled_task_cannot_be_cancelled_again(pep: Pep) -> None:
    task = pep.requested()
    response = pep.post(task["links"]["cancel"], {"reason": "obsolete"})
    assert (response.status_code, response.json()["task"]["status"]) == (200, "cancelled")
    again = pep.post(task["links"]["cancel"], {})
    assert pep.refused(again) == (409, "invalid_task_state")


def test_the_wanted_end_shortens_an_approval(pep: Pep, reviewer: User) -> None:
    until = (datetime.now(UTC) + timedelta(minutes=5)).isoformat()
    task = pep.requested(requested_access={"requested_until": until})
    decided(run(), reviewer)
    assert pep.task(task)["result"]["approval"]["approved_until"] == until
    wrong = pep.request(requested_access={"requested_until": "tomorrow"})
    assert (wrong.status_code, wrong.json()["errors"][0]["path"]) == (
        400,
        "requested_access.requested_until",
    )


def test_a_report_does_not_change_the_status_of_a_task(pep: Pep, reviewer: User) -> None:
    task = pep.requested()
    decided(run(), reviewer)
    report = pep.client.post(f"/api/v1/approvals/{run()['id']}/result/", {"ok": False})
    assert report.json()["status"] == "failed"
    assert pep.task(task)["task"]["status"] == "approved"


# --- rules ----------------------------------------------------------------------------------------


def test_a_rule_allows_at_once_and_leaves_a_record(pep: Pep) -> None:
    ApprovalPolicy.objects.create(
        pattern="can_*", groups=["reviewer"], skip_when="inputs.resource.type == 'document'"
    )
    action = {"name": "can_read", "properties": {"risk": "low"}}
    answer = pep.evaluated(action=action)
    assert answer["decision"] is True
    approval = Approval.objects.get()
    assert approval.execution.events.filter(kind="review_spared").exists()
    assert pep.evaluated()["decision"] is False, "without a stated risk it is high"


def rule(in_rules: bool, **conditions: Any) -> dict[str, Any]:
    """The fields of a policy with one rule: its own, or one in its list."""
    conditions = {"skip_when": "inputs.resource.type == 'document'", **conditions}
    return {"rules": [{"name": "documents", **conditions}]} if in_rules else conditions


@pytest.mark.parametrize("in_rules", [False, True])
def test_a_rule_answers_a_request_at_once(in_rules: bool, pep: Pep) -> None:
    action = {"name": "can_read", "properties": {"risk": "low"}}
    denial = pep.denial(action=action)
    policy = ApprovalPolicy.objects.create(pattern="can_*", groups=["reviewer"], **rule(in_rules))
    response = pep.post("requests", {**READ, "action": action, "denial": denial})
    assert response.status_code == 201
    given = response.json()["result"]["approval"]
    allowed = pep.evaluated(action=action, context={**READ["context"], "approval": given})
    assert allowed["context"]["approval"] == given
    presented = {"action": action, "context": {**READ["context"], "approval": given}}
    ApprovalPolicy.objects.update(minimum_risk="high")
    denied = pep.evaluated(**presented)
    assert denied["context"]["reason"] == "approval_expired", "no rule skips high risk"
    ApprovalPolicy.objects.update(minimum_risk="low")
    assert pep.evaluated(**presented)["decision"] is True
    policy.delete()
    denied = pep.evaluated(**presented)
    assert denied["context"]["reason"] == "approval_expired", "the rule is gone"


@pytest.mark.parametrize("in_rules", [False, True])
def test_a_rule_with_a_sample_allows_no_evaluation(in_rules: bool, pep: Pep) -> None:
    """A denied evaluation leaves no record, so that drawing would be free."""
    action = {"name": "can_read", "properties": {"risk": "low"}}
    sampled = ApprovalPolicy.objects.create(
        pattern="can_*", groups=["reviewer"], **rule(in_rules, sample=1e-9)
    )
    denial = pep.denial(action=action)
    assert not Approval.objects.exists()
    response = pep.post("requests", {**READ, "action": action, "denial": denial})
    assert response.status_code == 201, "the request is recorded, and the rule answers it"
    given = response.json()["result"]["approval"]
    allowed = pep.evaluated(action=action, context={**READ["context"], "approval": given})
    assert allowed["decision"] is True
    ApprovalPolicy.objects.filter(pk=sampled.pk).update(**rule(in_rules, sample=0))
    assert pep.evaluated(action=action)["decision"] is True


def test_the_name_of_a_called_tool_is_the_name_of_the_action(pep: Pep) -> None:
    tool = {"type": "tool", "id": "crm.search"}
    call = {**READ, "resource": tool, "action": {"name": "invoke"}}
    denial = pep.denial(resource=tool, action={"name": "invoke"})
    assert pep.post("requests", {**call, "denial": denial}).status_code == 202
    assert Approval.objects.get().action == "crm.search"


# --- approvals that do not apply ------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"subject": {"type": "user", "id": "mallory@example.com"}},
        {"resource": {"type": "document", "id": "q5-plan"}},
        {"action": {"name": "can_read", "properties": {"pages": 1}}},
        {"context": {"channel": "internet"}},
        {"context": {"channel": "vpn", "also": "this"}},
    ],
)
def test_an_approval_is_valid_for_exactly_what_was_denied(
    pep: Pep, reviewer: User, change: dict[str, Any]
) -> None:
    task = pep.requested()
    decided(run(), reviewer)
    given = pep.task(task)["result"]["approval"]
    context = {**change.get("context", READ["context"]), "approval": given}
    answer = pep.evaluated(**{**change, "context": context})
    about = answer["context"]
    assert (answer["decision"], about["reason"], about["next_action"]) == (
        False,
        "out_of_scope",
        "request",
    )
    assert about["access_request"]["binding_token"]


def acting(name: str | None) -> dict[str, Any]:
    """The subject with an actor."""
    properties = {"level": 3} if name is None else {"level": 3, "act": {"sub": name}}
    return {**READ["subject"], "properties": properties}


@pytest.mark.parametrize("stated", ["trusted", None])
def test_an_approval_is_valid_for_one_actor(pep: Pep, reviewer: User, stated: str | None) -> None:
    denial = pep.denial(subject=acting("trusted"))
    task = pep.requested(subject=acting(stated), denial=denial)
    decided(run(), reviewer)
    context = {**READ["context"], "approval": pep.task(task)["result"]["approval"]}
    assert pep.evaluated(subject=acting("trusted"), context=context)["decision"] is True
    for other in ("evil", None):
        answer = pep.evaluated(subject=acting(other), context=context)
        assert (answer["decision"], answer["context"]["reason"]) == (False, "out_of_scope")


def test_a_request_states_no_other_actor(pep: Pep) -> None:
    for denied in ("trusted", None):
        denial = pep.denial(subject=acting(denied))
        response = pep.request(subject=acting("evil"), denial=denial)
        assert pep.refused(response) == (400, "invalid_denial_binding")


def test_limits_that_nothing_enforces_are_refused(pep: Pep) -> None:
    response = pep.request(requested_access={"fields": ["name"]})
    assert response.status_code == 400
    assert response.json()["errors"][0]["path"] == "requested_access.fields"
    assert not Approval.objects.exists()


def test_approvals_end(pep: Pep, reviewer: User, settings: Any) -> None:
    task = pep.requested()
    decided(run(), reviewer)
    given = pep.task(task)["result"]["approval"]
    context = {**READ["context"], "approval": given}
    assert pep.evaluated(context=context)["decision"] is True
    settings.HOLDPOINT = {**settings.HOLDPOINT, "authzen_approval_seconds": 0}
    answer = pep.evaluated(context=context)["context"]
    assert (answer["reason"], answer["next_action"]) == ("approval_expired", "request")


def test_a_stricter_policy_ends_approvals(pep: Pep, reviewer: User) -> None:
    task = pep.requested()
    decided(run(), reviewer)
    given = pep.task(task)["result"]["approval"]
    ApprovalPolicy.objects.create(pattern="can_read", groups=["reviewer"], quorum=2)
    answer = pep.evaluated(context={**READ["context"], "approval": given})["context"]
    assert answer["reason"] == "approval_expired"


@pytest.mark.parametrize("presented", [{"id": "apr_1.forged"}, {"id": "apr_1"}, {}, "apr", 1])
def test_forged_approvals_are_ignored(pep: Pep, reviewer: User, presented: Any) -> None:
    pep.requested()
    decided(run(), reviewer)
    answer = pep.evaluated(context={**READ["context"], "approval": presented})
    assert answer["decision"] is False
    assert answer["context"]["next_action"] == "none"
    assert "access_request" not in answer["context"]


def test_task_and_approval_of_another_person(
    pep: Pep, reviewer: User, people: Callable[..., User]
) -> None:
    task = pep.requested()
    other = Pep(people("other", "integrator"))
    for response in (
        other.client.get(task["status_endpoint"]),
        other.post(task["links"]["cancel"], {}),
    ):
        assert other.refused(response) == (404, "unknown_task")
    decided(run(), reviewer)
    given = pep.task(task)["result"]["approval"]
    answer = other.evaluated(context={**READ["context"], "approval": given})
    assert (answer["decision"], answer["context"]["reason"]) == (False, "approval_unverifiable")


def test_ids_of_approvals_and_tasks_are_not_interchangeable(pep: Pep, reviewer: User) -> None:
    task = pep.requested()
    decided(run(), reviewer)
    forged = {"id": task["id"].replace("arq_", "apr_")}
    answer = pep.evaluated(context={**READ["context"], "approval": forged})
    assert answer["context"]["reason"] == "approval_unverifiable"
    number = run()["id"]
    for guess in (number, f"arq_{number}", f"arq_{number}.x"):
        response = pep.client.get(f"/access/v1/requests/{guess}")
        assert pep.refused(response) == (404, "unknown_task")


# --- binding tokens -------------------------------------------------------------------------------


def resigned(token: str, key: Any, algorithm: str, **claims: Any) -> str:
    """A token with other claims or another signature, and the key id of the original."""
    known = jwt.decode(token, options={"verify_signature": False})
    headers = {"kid": jwt.get_unverified_header(token)["kid"]}
    return jwt.encode({**known, **claims}, key, algorithm, headers=headers)


def unsigned(token: str) -> str:
    header = base64.urlsafe_b64encode(json.dumps({"alg": "none"}).encode()).rstrip(b"=").decode()
    return f"{header}.{token.split('.')[1]}."


def test_forged_binding_tokens_are_refused(pep: Pep) -> None:
    denial = pep.denial()
    token = denial["binding_token"]
    header, payload, signature = token.split(".")
    public = authzen.key_set()["keys"][0]["x"]
    foreign = jwt.algorithms.OKPAlgorithm
    key = Ed25519PrivateKey.generate()
    forged = [
        "",
        "a.b.c",
        f"{header}.{payload}.{signature[::-1]}",
        f"{header}.{payload}",
        unsigned(token),
        resigned(token, key, "EdDSA"),
        resigned(token, public, "HS256"),
        jwt.encode({"sub": str(pep.user.pk)}, key, "EdDSA"),
        None,
        7,
    ]
    assert foreign.to_jwk(key.public_key(), as_dict=True)["x"] != public
    for each in forged:
        response = pep.post("requests", {**READ, "denial": {**denial, "binding_token": each}})
        assert pep.refused(response) == (400, "invalid_denial_binding"), each
    assert Approval.objects.count() == 0


def test_expired_denials_are_refused(pep: Pep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authzen, "BINDING_LIFETIME", timedelta(seconds=-1))
    assert pep.refused(pep.request()) == (410, "expired_denial")


def test_a_binding_token_of_another_person_is_refused(
    pep: Pep, people: Callable[..., User]
) -> None:
    other = Pep(people("other", "integrator"))
    response = other.post("requests", {**READ, "denial": pep.denial()})
    assert other.refused(response) == (400, "invalid_denial_binding")


@pytest.mark.parametrize("claims", [{"aud": "https://other.example"}, {"iss": "https://x.example"}])
def test_a_binding_token_of_another_server_is_refused(pep: Pep, claims: dict[str, str]) -> None:
    denial = pep.denial()
    other = resigned(denial["binding_token"], authzen._keys()[0], "EdDSA", **claims)
    response = pep.post("requests", {**READ, "denial": {**denial, "binding_token": other}})
    assert pep.refused(response) == (400, "invalid_denial_binding")


@pytest.mark.parametrize(
    "change",
    [
        {"subject": {"type": "user", "id": "mallory@example.com", "properties": {"level": 3}}},
        {"subject": {"type": "user", "id": "alice@example.com"}},
        {"resource": {"type": "document", "id": "salaries"}},
        {"resource": {"type": "document", "id": "q4-plan", "properties": {}}},
        {"action": {"name": "can_delete"}},
        {"context": {}},
        {"context": {"channel": "internet"}},
    ],
)
def test_only_what_was_denied_can_be_asked_for(pep: Pep, change: dict[str, Any]) -> None:
    assert pep.refused(pep.request(**change)) == (400, "invalid_denial_binding")


def test_the_denial_is_repeated_unchanged(pep: Pep) -> None:
    denial = pep.denial()
    for change in ({"expires_at": "2099-01-01T00:00:00Z"}, {"evaluation_id": "eval_other"}):
        response = pep.post("requests", {**READ, "denial": {**denial, **change}})
        assert pep.refused(response) == (400, "invalid_denial_binding")
    del denial["expires_at"]
    response = pep.post("requests", {**READ, "denial": denial})
    assert pep.refused(response) == (400, "invalid_denial_binding")
    assert pep.refused(pep.post("requests", READ)) == (400, "not_requestable")


def test_the_actor_may_be_stated_as_the_client(pep: Pep) -> None:
    actor = {"act": {"sub": "agent-3", "iss": "https://agents.example"}}
    subject = {"type": "user", "id": "alice@example.com"}
    denial = pep.denial(subject={**subject, "properties": actor})
    body = {**READ, "subject": subject, "denial": denial, "client": {"actor": {"id": "agent-3"}}}
    assert pep.post("requests", body).status_code == 202
    approval = Approval.objects.get()
    assert approval.agent == "agent-3"


def test_retired_secret_keys_verify_and_do_not_sign(pep: Pep, settings: Any) -> None:
    denial = pep.denial()
    task = pep.requested()
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another key for this test, which is long enough"
    assert len(authzen.key_set()["keys"]) == 2
    assert pep.post("requests", {**READ, "denial": denial}).status_code == 202
    assert pep.task(task)["task"]["status"] == "pending"
    header = jwt.get_unverified_header(pep.denial()["binding_token"])
    assert header["kid"] == authzen.key_set()["keys"][0]["kid"]


# --- idempotency, callbacks, errors ---------------------------------------------------------------


def test_the_same_request_is_the_same_task(pep: Pep) -> None:
    body = {**READ, "denial": pep.denial()}
    first, second = (pep.post("requests", body, key="k-1") for _ in range(2))
    assert first.json() == second.json()
    assert pep.post("requests", body).json()["task"]["id"] == first.json()["task"]["id"]
    assert Approval.objects.count() == 1
    longer = {"requested_until": (datetime.now(UTC) + timedelta(days=1)).isoformat()}
    other = pep.post("requests", {**body, "requested_access": longer}, key="k-1")
    assert pep.refused(other) == (409, "duplicate_request")
    replayed = pep.post("requests", {**body, "requested_access": longer}, key="k-2")
    assert pep.refused(replayed) == (409, "duplicate_request")


def test_a_callback_is_sent_to_a_webhook_endpoint(pep: Pep, reviewer: User) -> None:
    url = "https://gateway.example/answers"
    callback = {"endpoint": url, "state": "s-7", "events": ["approved"]}
    assert pep.request(callback=callback).status_code == 400, "no endpoint has this address"
    target, _ = create_endpoint(owner=pep.user, fields={"name": "answers", "url": url})
    task = pep.requested(callback=callback)
    decided(run(), reviewer)
    WebhookEndpoint.objects.filter(pk=target.pk).update(lease_owner="here")
    create_deliveries(target, horizon=ExecutionEvent.objects.latest("pk").pk, sender="here")
    bodies = [json.loads(delivery_body(each)) for each in WebhookDelivery.objects.order_by("pk")]
    assert [each["type"] for each in bodies if "task" in each] == ["workflow_complete"]
    handle = {"id": task["id"], "status": "approved", "status_endpoint": task["status_endpoint"]}
    assert (bodies[-1]["task"], bodies[-1]["state"]) == (handle, "s-7")


def test_invalid_bodies_are_400(pep: Pep) -> None:
    cases: list[tuple[str, Any, str]] = [
        ("evaluation", {**READ, "subject": {"type": "user"}}, "subject.id"),
        ("evaluation", {**READ, "subject": "alice"}, "subject"),
        ("evaluation", {**READ, "action": {}}, "action.name"),
        ("evaluation", {**READ, "context": []}, "context"),
        ("evaluation", {**READ, "resource": {"type": "tool", "id": 7}}, "resource.id"),
        ("evaluation", {**READ, "action": {"name": 7}}, "action.name"),
        (
            "evaluation",
            {**READ, "subject": {**READ["subject"], "properties": {"act": "bot"}}},
            "subject.properties.act",
        ),
        ("requests", {"subject": READ["subject"]}, "resource"),
        ("requests", {**READ, "client": {"actor": {}}}, "client.actor.id"),
        ("requests", {**READ, "client": "me"}, "client"),
        ("requests", {**READ, "items": [{}]}, "items"),
    ]
    for path, body, field in cases:
        response = pep.post(path, body)
        assert response.status_code == 400, (body, response.content)
        assert field in {each["path"] for each in response.json()["errors"]}, response.content


def test_credentials(pep: Pep, people: Callable[..., User]) -> None:
    assert Client().post("/access/v1/evaluation", READ, "application/json").status_code == 401
    reader = Pep(people("reader", "integrator"), "read")
    assert reader.post("evaluation", READ).status_code == 403
    auditor = Pep(people("auditor", "auditor"))
    assert auditor.post("evaluation", READ).status_code == 403
    wrong = pep.client.get("/access/v1/nowhere")
    assert (wrong.status_code, wrong["Content-Type"]) == (404, "application/problem+json")


def test_metadata_and_keys_are_public(db: None) -> None:
    found = Client().get("/.well-known/authzen-configuration").json()
    assert found["access_request_endpoint"].endswith("/access/v1/requests")
    assert found["capabilities"] == ["urn:openid:authzen:capability:access-request"]
    keys = Client().get(found["jwks_uri"]).json()["keys"]
    assert {(each["kty"], each["crv"], each["use"]) for each in keys} == {("OKP", "Ed25519", "sig")}
    assert not any("d" in each for each in keys)


def test_the_signature_verifies_with_the_published_key(pep: Pep) -> None:
    token = pep.denial()["binding_token"]
    keys = jwt.PyJWKSet.from_dict(authzen.key_set())
    claims = jwt.decode(
        token,
        keys[jwt.get_unverified_header(token)["kid"]],
        ["EdDSA"],
        options={"verify_aud": False},
    )
    assert claims["binding_context_members"] == ["channel"]
    assert claims["resource"] == READ["resource"]


def test_a_standing_answer_allows_while_it_is_in_force(pep: Pep, reviewer: User) -> None:
    ApprovalPolicy.objects.create(
        pattern="can_*", groups=["reviewer"], allows_standing_answers=True
    )
    action = {"name": "can_read", "properties": {"risk": "medium"}}
    pep.requested(action=action, denial=pep.denial(action=action))
    terms = StandingTerms.model_validate({"seconds": 3600, "arguments": {"context": "any"}})
    decided(run(), reviewer, standing=terms)
    later = {"channel": "office"}
    allowed = pep.evaluated(action=action, context=later)
    assert allowed["decision"] is True
    assert (
        pep.evaluated(action=action, resource={"type": "document", "id": "x"})["decision"] is False
    )
    given = allowed["context"]["approval"]
    Grant.objects.update(revoked_at=timezone.now())
    denied = pep.evaluated(action=action, context={**later, "approval": given})
    assert (denied["decision"], denied["context"]["reason"]) == (False, "approval_expired")
