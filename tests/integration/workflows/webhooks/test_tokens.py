"""An endpoint that a token made has the token's limit, and ends with it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.utils import timezone
from rest_framework.test import APIClient

from tests.integration.workflows.conftest import Engine, value
from tests.integration.workflows.webhooks.conftest import run, send_all
from tests.support.webhook_receiver import Receiver
from workflows.executions import access
from workflows.executions.jobs import run_to_rest
from workflows.executions.services import start_execution
from workflows.models import ApiToken, Execution, WebhookEndpoint, Workflow
from workflows.permissions import tokens
from workflows.webhooks.sender import Sender
from workflows.webhooks.services import (
    create_endpoint,
    rotate_secret,
    standing,
    update_endpoint,
    visibility_user,
    visible_endpoints,
)


def acting(owner: User, **fields: Any) -> User:
    """The owner as somebody who calls with a new token."""
    _, text = tokens.create_token(user=owner, name="t", scopes=["read", "run"], **fields)
    token = tokens.authenticate_token(text)
    assert token is not None
    return token.user


def endpoint_of(user: User, receiver: Receiver) -> WebhookEndpoint:
    endpoint, _ = create_endpoint(owner=user, fields={"name": "e", "url": receiver.url})
    return endpoint


@pytest.fixture
def workflow(engine: Engine) -> Workflow:
    plan = {"tasks": [value("a")]}
    return Workflow.objects.create(name="mine", title="Mine", plan=plan)


def run_of(workflow: Workflow, owner: User) -> Execution:
    return run_to_rest(start_execution(actor=owner, workflow=workflow).pk)


def test_an_endpoint_receives_only_its_tokens_workflows(
    engine: Engine, owner: User, receiver: Receiver, sender: Sender, workflow: Workflow
) -> None:
    endpoint_of(acting(owner, workflows=["mine"]), receiver)
    other, mine = run(engine, owner), run_of(workflow, owner)
    send_all(sender)
    assert receiver.order(other.pk) == []
    assert len(receiver.order(mine.pk)) == mine.version


@pytest.mark.parametrize(
    "change",
    [
        {"revoked_at": timezone.now()},
        {"expires_at": timezone.now() - timedelta(seconds=1)},
    ],
    ids=["revoked", "expired"],
)
def test_an_endpoint_ends_with_its_token(
    engine: Engine, owner: User, receiver: Receiver, sender: Sender, change: dict[str, Any]
) -> None:
    endpoint = endpoint_of(acting(owner), receiver)
    first = run(engine, owner)
    send_all(sender)
    assert len(receiver.order(first.pk)) == first.version
    ApiToken.objects.update(**change)
    second = run(engine, owner)
    send_all(sender)
    assert receiver.order(second.pk) == []
    assert "token" in standing(WebhookEndpoint.objects.get(pk=endpoint.pk)).text


def test_a_person_who_sets_the_address_again_takes_it_over(
    engine: Engine, owner: User, receiver: Receiver, sender: Sender
) -> None:
    endpoint = endpoint_of(acting(owner), receiver)
    tokens.revoke(tokens=ApiToken.objects.all())
    session = User.objects.get(pk=owner.pk)
    update_endpoint(endpoint=endpoint, fields={"url": receiver.url}, actor=session)
    assert standing(endpoint) is None
    again = run(engine, owner)
    send_all(sender)
    assert receiver.order(again.pk)


def test_a_token_that_sets_the_address_binds_it(
    engine: Engine, owner: User, receiver: Receiver, workflow: Workflow
) -> None:
    """Else a token could send everything its owner sees to an address of its own, for ever."""
    endpoint = endpoint_of(owner, receiver)
    user = acting(owner)
    update_endpoint(endpoint=endpoint, fields={"name": "renamed"}, actor=user)
    assert endpoint.token is None
    update_endpoint(endpoint=endpoint, fields={"url": f"{receiver.url}/x"}, actor=user)
    endpoint = WebhookEndpoint.objects.get(pk=endpoint.pk)
    tokens.revoke(tokens=ApiToken.objects.all())
    assert standing(WebhookEndpoint.objects.get(pk=endpoint.pk)) is not None


def test_setting_the_same_address_rebinds_nothing(
    engine: Engine, owner: User, receiver: Receiver, workflow: Workflow
) -> None:
    """A client that sends the whole endpoint back changes no limit and no end."""
    same = {"name": "renamed", "url": receiver.url}
    mine = endpoint_of(owner, receiver)
    update_endpoint(endpoint=mine, fields=same, actor=acting(owner))
    assert (mine.name, mine.token) == ("renamed", None)
    theirs = endpoint_of(acting(owner, workflows=["mine"]), receiver)
    maker = theirs.token
    assert maker is not None
    for other in (acting(owner), owner):
        update_endpoint(endpoint=theirs, fields=same, actor=other)
        assert theirs.token == maker
    tokens.revoke(tokens=ApiToken.objects.filter(pk=maker.pk))
    heir = acting(owner)
    update_endpoint(endpoint=theirs, fields=same, actor=heir)
    assert theirs.token_id == credential_of(heir)
    assert standing(theirs) is None


def credential_of(user: User) -> int | None:
    credential = access.credential_of(user)
    return credential.token_id if credential else None


def test_a_limited_token_sees_no_broader_endpoint(
    engine: Engine, owner: User, receiver: Receiver, workflow: Workflow
) -> None:
    endpoint_of(owner, receiver)
    endpoint_of(acting(owner), receiver)
    narrow = acting(owner, workflows=["mine"])
    assert not visible_endpoints(narrow).exists()
    mine = endpoint_of(narrow, receiver)
    assert [each.pk for each in visible_endpoints(narrow)] == [mine.pk]
    assert visible_endpoints(owner).count() == 3
    assert visibility_user(mine).pk == owner.pk


def client(owner: User, *scopes: str) -> APIClient:
    _, text = tokens.create_token(user=owner, name="t", scopes=scopes)
    return APIClient(headers={"Authorization": f"Bearer {text}"})


def test_a_token_without_read_scope_is_sent_nothing(owner: User, receiver: Receiver) -> None:
    body = {"name": "e", "url": receiver.url, "include_data": True}
    blind, reader = client(owner, "run"), client(owner, "read", "run")
    assert blind.post("/api/v1/webhooks/", body, format="json").status_code == 403
    assert not WebhookEndpoint.objects.exists()
    made = reader.post("/api/v1/webhooks/", body, format="json")
    assert made.status_code == 201, made.content
    where = f"/api/v1/webhooks/{made.json()['id']}/"
    for change in ({"url": receiver.url + "/x"}, {"events": []}, {"include_data": False}):
        assert blind.patch(where, change, format="json").status_code == 403, change
    assert blind.patch(where, {"name": "f"}, format="json").status_code == 200


def test_a_token_rotates_the_secret_of_its_own_endpoint_only(
    owner: User, receiver: Receiver
) -> None:
    maker, other = client(owner, "read", "run"), client(owner, "read", "run")
    body = {"name": "e", "url": receiver.url}
    where = f"/api/v1/webhooks/{maker.post('/api/v1/webhooks/', body, format='json').json()['id']}/"
    assert other.post(where + "rotate/").status_code == 403
    assert other.post(where + "rotate/", headers={"Idempotency-Key": "k"}).status_code == 403
    assert maker.post(where + "rotate/").status_code == 200


def test_the_service_refuses_another_tokens_endpoint(
    engine: Engine, owner: User, receiver: Receiver
) -> None:
    """Whichever door calls it."""
    maker = acting(owner)
    endpoint = endpoint_of(maker, receiver)
    before = endpoint.secret
    with pytest.raises(PermissionDenied, match="whose URL it set"):
        rotate_secret(endpoint=endpoint, actor=acting(owner))
    endpoint.refresh_from_db()
    assert endpoint.secret == before
    for actor in (maker, owner):
        assert rotate_secret(endpoint=endpoint, actor=actor)
