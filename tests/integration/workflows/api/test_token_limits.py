"""Tokens for some workflows alone, tokens under an Idempotency-Key, and the page of tokens."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from reviews.decisions.rights import fresh_user
from reviews.sockets.authentication import Credentials
from tests.integration.workflows.api.conftest import plain_plan
from tests.support.pages import Page
from tests.support.pages import browser as signed_in
from workflows.executions import services
from workflows.executions.jobs import run_to_rest
from workflows.executions.validation import InvalidRequest
from workflows.mcp_server.authentication import authenticate_caller
from workflows.models import ApiToken, Execution, IdempotencyKey, Workflow
from workflows.permissions.tokens import authenticate_token, create_token, revoke
from workflows.realtime.execution_reads import Position, read_new_events

pytestmark = pytest.mark.django_db


@pytest.fixture
def other(workflow: Workflow) -> Workflow:
    return Workflow.objects.create(name="other", title="Other", plan=plain_plan())


@pytest.fixture
def runs(people: Any, workflow: Workflow, other: Workflow) -> tuple[Execution, Execution]:
    """One run of `echo`, one of `other`, both the operator's."""
    started = [
        services.start_execution(actor=people["operator"], workflow=each)
        for each in (workflow, other)
    ]
    return tuple(run_to_rest(each.pk) for each in started)


def limited(people: Any, role: str = "operator", scopes: Any = ("read", "run", "decide")) -> str:
    return create_token(user=people[role], name="t", scopes=scopes, workflows=["echo"])[1]


def test_a_limited_token_sees_and_starts_only_its_workflows(people, runs) -> None:
    echo, other = runs
    client = APIClient(headers={"Authorization": f"Bearer {limited(people)}"})
    listed = client.get("/api/v1/executions/").json()["results"]
    assert [each["id"] for each in listed] == [str(echo.pk)]
    assert [w["name"] for w in client.get("/api/v1/workflows/").json()["results"]] == ["echo"]
    assert client.get(f"/api/v1/executions/{echo.pk}/").status_code == 200
    for path in ("", "events/", "checkpoints/", "decisions/", "messages/"):
        assert client.get(f"/api/v1/executions/{other.pk}/{path}").status_code == 404
    command = {"kind": "abort"}
    assert client.post(f"/api/v1/executions/{other.pk}/commands/", command).status_code == 404
    assert client.get("/api/v1/workflows/other/").status_code == 404
    assert client.post("/api/v1/executions/", {"workflow": "echo"}).status_code == 201
    refused = client.post("/api/v1/executions/", {"workflow": "other"})
    assert refused.json()["errors"][0]["code"] == "unknown_workflow"
    adhoc = client.post("/api/v1/executions/", {"plan": plain_plan()})
    assert (adhoc.status_code, adhoc.json()["code"]) == (403, "forbidden")
    assert Execution.objects.count() == 3


def test_every_interface_enforces_the_limit(people, runs) -> None:
    echo, other = runs
    text = limited(people)
    user = authenticate_token(text).user
    with pytest.raises(PermissionDenied):
        services.start_execution(actor=user, workflow=other.workflow)
    assert services.start_execution(actor=fresh_user(user), workflow=echo.workflow)
    with pytest.raises(PermissionDenied):
        services.start_execution(actor=fresh_user(user), plan=plain_plan())
    called = authenticate_caller(text).context()
    assert called.execution(str(echo.pk)) == echo
    with pytest.raises(Http404):
        called.execution(str(other.pk))
    client = Credentials(bearer=text).client()
    seen, unseen = read_new_events([Position(client, each.pk, 0, 10) for each in runs])
    assert seen.events
    assert (unseen.is_authenticated, unseen.is_visible, unseen.events) == (True, False, [])
    followed = client.user()
    with pytest.raises(PermissionDenied):
        services.start_execution(actor=followed, plan=plain_plan())


def test_a_deleted_workflow_grants_nothing(people, workflow) -> None:
    text = limited(people)
    workflow.delete()
    client = APIClient(headers={"Authorization": f"Bearer {text}"})
    assert client.get("/api/v1/workflows/").json()["results"] == []
    assert client.get("/api/v1/executions/").json()["results"] == []


def test_a_limited_admin_stays_within_the_limit(people, other) -> None:
    text = limited(people, "admin", ("read", "admin"))
    client = APIClient(headers={"Authorization": f"Bearer {text}"})
    assert client.patch("/api/v1/workflows/echo/", {"title": "E"}).status_code == 200
    assert client.patch("/api/v1/workflows/other/", {"title": "O"}).status_code == 404
    assert client.delete("/api/v1/workflows/other/").status_code == 404
    new = {"name": "new", "title": "New", "plan": plain_plan()}
    assert client.post("/api/v1/workflows/", new).status_code == 403
    body = {"scopes": ["read"]}
    assert client.post("/api/v1/tokens/", body).status_code == 403
    wider = client.post("/api/v1/tokens/", {**body, "workflows": ["other"]})
    assert wider.json()["errors"][0]["path"] == "workflows"
    made = client.post("/api/v1/tokens/", {**body, "workflows": ["echo"]})
    assert (made.status_code, made.json()["workflows"]) == (201, ["echo"])


def test_unknown_workflows_are_named(people, workflow) -> None:
    for names in (["echo", "nope"], []):
        with pytest.raises(InvalidRequest, match="workflows"):
            create_token(user=people["operator"], name="t", scopes=["read"], workflows=names)


def test_a_repeated_request_gets_the_same_token_unstored(session) -> None:
    client = session("operator")
    body = {"name": "ci", "scopes": ["read"]}
    once = {"Idempotency-Key": "make-1"}
    first, second = (client.post("/api/v1/tokens/", body, headers=once) for _ in range(2))
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json() == second.json()
    assert second["Idempotent-Replayed"] == "true"
    assert second["Cache-Control"] == "no-store"
    assert authenticate_token(first.json()["token"]).pk == ApiToken.objects.get().pk
    secret = first.json()["token"].removeprefix(first.json()["prefix"])
    assert secret not in str(IdempotencyKey.objects.values())
    other = client.post("/api/v1/tokens/", {**body, "name": "x"}, headers=once)
    assert other.json()["code"] == "idempotency_mismatch"


# --- the page -------------------------------------------------------------------------------------


@pytest.fixture
def browser(people) -> Client:
    return signed_in(people["reviewer"])


def test_a_token_is_created_on_the_page_and_shown_once(browser, people, workflow) -> None:
    empty = Page(browser.get("/tokens/"))
    assert "No tokens yet" in empty.names("heading")
    assert "read" in empty.attributes("[name=scopes]", "value")
    assert "admin" not in empty.attributes("[name=scopes]", "value")
    sent = {"name": "laptop", "scopes": ["read", "run"], "lasts": "30", "workflows": ["echo"]}
    made = browser.post("/tokens/", sent)
    assert (made.status_code, made["Cache-Control"]) == (200, "no-store")
    text = Page(made).value("#made-token")
    token = authenticate_token(text)
    assert (token.user, token.name, token.scopes) == (
        people["reviewer"], "laptop", ["read", "run"],
    )  # fmt: skip
    assert token.only_workflows == [workflow.pk]
    left = token.expires_at - timezone.now()
    assert timedelta(days=29, hours=23) < left <= timedelta(days=30)
    page = Page(browser.get("/tokens/"))
    assert text not in page.html
    for words in (token.prefix, "last used", "only echo"):
        assert words in page.text


def test_an_invalid_form_is_explained_and_preserved(browser) -> None:
    for sent in ({"scopes": []}, {"scopes": ["admin"]}, {"scopes": ["read"], "workflows": ["x"]}):
        refused = browser.post("/tokens/", {"name": "<b>mine</b>", **sent})
        assert refused.status_code == 422
        (alert,) = Page(refused).names("alert")
        assert alert.startswith("The token was not created.")
        assert Page(refused).value("#token-name") == "<b>mine</b>"
    assert ApiToken.objects.count() == 0
    assert browser.get("/tokens/?cursor=x").status_code == 404


def test_only_its_owner_revokes_a_token(browser, people) -> None:
    mine, text = create_token(user=people["reviewer"], name="mine", scopes=["read"])
    theirs, _ = create_token(user=people["operator"], name="theirs", scopes=["read"])
    assert "theirs" not in Page(browser.get("/tokens/")).html
    assert browser.post(f"/tokens/{theirs.pk}/revoke/").status_code == 404
    assert browser.get(f"/tokens/{mine.pk}/revoke/").status_code == 405
    done = browser.post(f"/tokens/{mine.pk}/revoke/", follow=True)
    assert "Revoked: mine" in Page(done).text
    assert authenticate_token(text) is None
    again = browser.post(f"/tokens/{mine.pk}/revoke/", follow=True)
    assert "was already revoked" in Page(again).text
    theirs.refresh_from_db()
    assert theirs.revoked_at is None


# --- what a token leaves behind -------------------------------------------------------------------


def client_of(text: str) -> APIClient:
    return APIClient(headers={"Authorization": f"Bearer {text}"})


def test_a_stored_response_is_not_repeated_for_another_credential(people, runs) -> None:
    """It may show what the other one may not see: each has its own memory of a key."""
    _, whole = create_token(user=people["operator"], name="t", scopes=["read", "run"])
    narrow = limited(people)
    session = APIClient()
    session.force_login(people["operator"])
    body, key = {"workflow": "echo", "title": "kept"}, {"Idempotency-Key": "k"}
    first = client_of(whole).post("/api/v1/executions/", body, headers=key)
    again = client_of(whole).post("/api/v1/executions/", body, headers=key)
    assert again.json() == first.json()
    assert again.headers["Idempotent-Replayed"] == "true"
    for client in (client_of(narrow), session):
        other = client.post("/api/v1/executions/", body, headers=key, format="json")
        assert other.status_code == 201
        assert other.json()["id"] != first.json()["id"]
        assert "Idempotent-Replayed" not in other.headers


def test_a_stored_response_is_not_repeated_after_the_limit_changed(people, runs) -> None:
    text = create_token(user=people["operator"], name="t", scopes=["read", "run"])[1]
    body, key = {"workflow": "other"}, {"Idempotency-Key": "k"}
    assert client_of(text).post("/api/v1/executions/", body, headers=key).status_code == 201
    echo = Workflow.objects.get(name="echo")
    ApiToken.objects.filter(name="t").update(only_workflows=[echo.pk])
    refused = client_of(text).post("/api/v1/executions/", body, headers=key)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["code"] == "unknown_workflow"


def test_a_token_ends_with_the_token_that_created_it(people) -> None:
    end = timezone.now() + timedelta(days=1)
    maker, text = create_token(
        user=people["admin"], name="maker", scopes=["read", "admin"], expires_at=end
    )
    made = client_of(text).post("/api/v1/tokens/", {"name": "made", "scopes": ["read", "admin"]})
    child = made.json()["token"]
    assert ApiToken.objects.get(name="made").expires_at == end
    grown = client_of(child).post("/api/v1/tokens/", {"name": "grown", "scopes": ["read"]})
    revoke(tokens=ApiToken.objects.filter(pk=maker.pk))
    for each in (text, child, grown.json()["token"]):
        assert client_of(each).get("/api/v1/executions/").status_code == 401
