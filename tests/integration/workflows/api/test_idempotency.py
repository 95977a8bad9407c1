"""`Idempotency-Key`: one effect and one response for repeated and concurrent requests."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone
from rest_framework.test import APIClient

from tests.integration.workflows.api import idempotent_requests
from tests.integration.workflows.api.conftest import plain_plan, reviewed_plan
from tests.integration.workflows.api.idempotent_requests import at_once
from tests.support.catalogue import stock_catalogue
from tests.support.groups import group_of
from workflows.executions import idempotency, services
from workflows.executions.jobs import run_to_rest
from workflows.models import CommandLog, Execution, IdempotencyKey
from workflows.permissions.tokens import create_token

URL = "/api/v1/executions/"
THREADS = 20


def send(client: APIClient, body: Any, key: str = "key-1", url: str = URL) -> Any:
    return idempotent_requests.send(client, body, key, url=url)


@pytest.mark.django_db
def test_a_repeated_request_gets_the_same_response(bearer, catalogue) -> None:
    client = bearer("operator")
    body = {"plan": plain_plan(), "inputs": {"big": 1e16, "b": 1, "a": 2}}
    first, second = send(client, body), send(client, body)
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.content == second.content
    assert first["Location"] == second["Location"]
    assert "Idempotent-Replayed" not in first
    assert second["Idempotent-Replayed"] == "true"
    assert Execution.objects.count() == 1


@pytest.mark.django_db
def test_a_key_with_another_body_is_refused(bearer, catalogue) -> None:
    client = bearer("operator")
    send(client, {"plan": plain_plan()})
    response = send(client, {"plan": plain_plan(2)})
    assert response.status_code == 422
    assert response.json()["code"] == "idempotency_mismatch"
    assert Execution.objects.count() == 1


@pytest.mark.django_db
def test_a_key_belongs_to_one_user_and_address(bearer, start) -> None:
    body = {"kind": "update_state", "updates": {"a": 1}}
    one, two = start("operator"), start("operator")
    for execution in (one, two):
        path = f"{URL}{execution.pk}/commands/"
        assert send(bearer("operator"), body, url=path).status_code == 200
        assert send(bearer("admin"), body, url=path).status_code == 200
        assert Execution.objects.get(pk=execution.pk).version == execution.version + 2


@pytest.mark.django_db
def test_a_refusal_is_logged_and_not_stored(bearer, start) -> None:
    execution = start("operator")
    path = f"{URL}{execution.pk}/commands/"
    stale = {"kind": "update_state", "updates": {"a": 1}, "version": execution.version + 1}
    assert send(bearer("operator"), stale, url=path).status_code == 409
    assert CommandLog.objects.get().outcome == "refused"
    assert IdempotencyKey.objects.count() == 0
    bearer("operator").post(path, {"kind": "update_state", "updates": {"b": 1}})
    assert send(bearer("operator"), stale, url=path).status_code == 200
    bad = {"plan": {"tasks": [{"id": "a", "type": "tool", "tool": "no.tool", "arguments": {}}]}}
    assert send(bearer("operator"), bad).status_code == 422
    assert not IdempotencyKey.objects.filter(route=f"POST {URL}").exists()


@pytest.mark.django_db
@pytest.mark.parametrize("key", ["", " ", "x" * 201, "a b", "é", "a\tb"])
def test_an_invalid_key_is_named(bearer, catalogue, key) -> None:
    response = send(bearer("operator"), {"plan": plain_plan()}, key=key)
    assert response.status_code == 422
    assert response.json()["errors"][0]["path"] == "Idempotency-Key"
    assert Execution.objects.count() == 0


@pytest.mark.django_db
def test_a_key_expires_after_a_day(bearer, catalogue) -> None:
    client = bearer("operator")
    send(client, {"plan": plain_plan()})
    IdempotencyKey.objects.update(created_at=timezone.now() - timedelta(hours=24, seconds=1))
    assert "Idempotent-Replayed" not in send(client, {"plan": plain_plan(2)})
    assert Execution.objects.count() == 2
    IdempotencyKey.objects.update(created_at=timezone.now() - timedelta(hours=25))
    send(client, {"plan": plain_plan()}, key="key-2")
    assert idempotency.forget_old() == 1
    assert IdempotencyKey.objects.get().key == "key-2"


@pytest.mark.django_db
def test_expired_keys_are_found_through_an_index() -> None:
    """The sweeper looks for them each round, however many answers a day has."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    old = IdempotencyKey.objects.filter(created_at__lt=Now() - idempotency.RETENTION)
    assert "idempotency_key_by_time" in old.explain()


# --- at once --------------------------------------------------------------------------------------


@pytest.fixture
def operator(transactional_db: None) -> tuple[User, str]:
    user = User.objects.create_user("operator")
    user.groups.add(group_of("operator"))
    stock_catalogue()
    return user, create_token(user=user, name="t", scopes=["run"])[1]


def test_twenty_concurrent_requests_start_one_execution(operator) -> None:
    body = {"plan": plain_plan()}
    answers = at_once(operator[1], URL, [body] * THREADS)
    assert [answer.status_code for answer in answers] == [201] * THREADS
    assert len({answer.content for answer in answers}) == 1
    assert sum("Idempotent-Replayed" not in answer for answer in answers) == 1
    assert Execution.objects.count() == 1


def test_twenty_concurrent_commands_apply_once(operator) -> None:
    execution = services.start_execution(actor=operator[0], plan=reviewed_plan())
    rested = run_to_rest(execution.pk)
    body = {"kind": "update_state", "updates": {"a": 1}, "version": rested.version}
    answers = at_once(operator[1], f"{URL}{execution.pk}/commands/", [body] * THREADS)
    assert [answer.status_code for answer in answers] == [200] * THREADS
    assert len({answer.content for answer in answers}) == 1
    assert Execution.objects.get(pk=execution.pk).version == rested.version + 1


def test_concurrent_bodies_under_one_key_conflict(operator) -> None:
    bodies = [{"plan": plain_plan(1 + index % 2)} for index in range(10)]
    answers = at_once(operator[1], URL, bodies)
    assert sorted(answer.status_code for answer in answers) == [201] * 5 + [422] * 5
    assert Execution.objects.count() == 1
