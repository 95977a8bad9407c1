"""A callback is a webhook endpoint of the same person, signed and retried like every other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User

from tests.integration.workflows.approvals.conftest import Agent, decided
from workflows.models import ExecutionEvent, WebhookDelivery, WebhookEndpoint
from workflows.webhooks.fan_out import create_deliveries
from workflows.webhooks.payload import delivery_body
from workflows.webhooks.services import create_endpoint

pytestmark = pytest.mark.django_db
URL = "https://bot.example/answers"
CALLBACK = {"callback": {"url": URL}}


def endpoint(user: User, **fields: Any) -> WebhookEndpoint:
    return create_endpoint(owner=user, fields={"name": "answers", "url": URL, **fields})[0]


def test_an_address_without_an_endpoint_is_refused(agent: Agent, reviewer: User) -> None:
    assert agent.refused(**CALLBACK) == {"callback.url": "address"}
    # An endpoint of somebody else is none of the caller's.
    endpoint(reviewer)
    assert agent.refused(**CALLBACK) == {"callback.url": "address"}


@pytest.mark.parametrize("fields", [{"enabled": False}, {"events": ["workflow_complete"]}])
def test_an_endpoint_that_does_not_send_the_answer_is_refused(
    agent: Agent, fields: dict[str, Any]
) -> None:
    endpoint(agent.user, **fields)
    assert agent.refused(**CALLBACK) == {"callback.url": "address"}


def test_the_endpoint_is_sent_how_the_approval_ended(agent: Agent, reviewer: User) -> None:
    target = endpoint(agent.user, events=["workflow_complete", "workflow_aborted"])
    body = agent.asked(**CALLBACK)
    decided(body, reviewer)
    WebhookEndpoint.objects.filter(pk=target.pk).update(lease_owner="here")
    newest = ExecutionEvent.objects.latest("pk").pk
    create_deliveries(target, horizon=newest, sender="here")
    delivery = WebhookDelivery.objects.get()
    told = {"id": body["id"], "status": "approved"}
    assert json.loads(delivery_body(delivery))["approval"] == told
    assert agent.post(f"{body['id']}/result/", {"ok": True}).json()["status"] == "completed"
    assert json.loads(delivery_body(delivery))["approval"] == told  # the same for each attempt
    assert (delivery.type, str(delivery.execution_id)) == (
        "workflow_complete",
        body["execution_id"],
    )
