"""Every POST of the API under an `Idempotency-Key`: one effect, one answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from drf_spectacular.generators import SchemaGenerator
from rest_framework.test import APIClient

from reviews.decisions import services
from reviews.models import DeniedAttempt, HumanReviewRecord
from tests.integration.workflows.api.idempotent_requests import at_once, send
from tests.integration.workflows.api.post_requests import POST_REQUESTS, WITHOUT_KEY, World, resume
from tests.integration.workflows.api.routes import PREFIX, api_routes
from tests.support.catalogue import stock_catalogue
from workflows.models import ApiToken, CommandLog, IdempotencyKey
from workflows.permissions.tokens import SCOPES, authenticate_token, create_token

THREADS = 5
#: What no part of the memory may hold: they are answered in full and kept sealed.
SECRETS = {"tokens/": "token", "webhooks/": "secret", "webhooks/{webhook_id}/rotate/": "secret"}


@pytest.fixture
def world(db: None, settings: Any, tmp_path: Any) -> World:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "sandbox_root": tmp_path / "sandbox"}
    stock_catalogue()
    return World()


@pytest.fixture
def bearer_text(world: World) -> str:
    return create_token(user=world.user, name="t", scopes=SCOPES, confirmed=True)[1]


@pytest.fixture
def client(bearer_text: str) -> APIClient:
    return APIClient(headers={"Authorization": f"Bearer {bearer_text}"})


def url(route: str, doing: Any) -> str:
    return f"/{PREFIX}{route.format(**doing.path)}"


def test_every_post_route_is_known() -> None:
    found = {route.path.removeprefix(PREFIX) for route in api_routes() if "POST" in route.methods}
    assert found == POST_REQUESTS.keys() | WITHOUT_KEY.keys()


def test_the_document_lists_the_header() -> None:
    paths = SchemaGenerator().get_schema(public=True)["paths"]
    takes = {
        path.removeprefix(f"/{PREFIX}")
        for path, item in paths.items()
        if "post" in item
        and any(each["name"] == "Idempotency-Key" for each in item["post"].get("parameters", ()))
    }
    assert takes == set(POST_REQUESTS)


@pytest.mark.parametrize("route", POST_REQUESTS)
@pytest.mark.django_db
def test_a_repeated_post_has_one_effect_and_the_same_response(world, client, route) -> None:
    doing = POST_REQUESTS[route](world)
    before = doing.effect()
    first = send(client, doing.body, url=url(route, doing))
    after = doing.effect()
    second = send(client, doing.body, url=url(route, doing))
    assert first.status_code in (200, 201, 202), first.content
    assert before != after == doing.effect()
    assert (second.status_code, second.content) == (first.status_code, first.content)
    assert ("Idempotent-Replayed" in first, second["Idempotent-Replayed"]) == (False, "true")
    assert first.get("Location") == second.get("Location")
    other = send(client, doing.other, url=url(route, doing))
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_mismatch")
    assert doing.effect() == after


@pytest.mark.parametrize("route", POST_REQUESTS)
@pytest.mark.django_db
def test_a_malformed_key_does_nothing(world, client, route) -> None:
    doing = POST_REQUESTS[route](world)
    before = doing.effect()
    answer = send(client, doing.body, "a b", url=url(route, doing))
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["path"] == "Idempotency-Key"
    assert doing.effect() == before


@pytest.mark.parametrize("route", POST_REQUESTS)
@pytest.mark.django_db(transaction=True)
def test_concurrent_posts_have_one_effect(world, bearer_text, route) -> None:
    doing = POST_REQUESTS[route](world)
    before = doing.effect()
    answers = at_once(bearer_text, url(route, doing), [doing.body] * THREADS)
    assert {answer.status_code for answer in answers} <= {200, 201, 202}
    assert len({answer.content for answer in answers}) == 1
    after = doing.effect()
    assert before != after
    send(
        APIClient(headers={"Authorization": f"Bearer {bearer_text}"}),
        doing.body,
        url=url(route, doing),
    )
    assert doing.effect() == after
    if isinstance(before, int):
        assert after - before == (3 if route == "reviews/bulk/" else 1)


@pytest.mark.parametrize(("route", "field"), SECRETS.items())
@pytest.mark.django_db
def test_stored_responses_encrypt_secrets(world, client, settings, route, field) -> None:
    doing = POST_REQUESTS[route](world)
    first = send(client, doing.body, url=url(route, doing))
    assert first["Cache-Control"] == "no-store"
    secret = first.json()[field]
    kept = json.dumps(IdempotencyKey.objects.values_list("answer", flat=True).get())
    assert secret not in kept
    assert secret[-20:] not in kept
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "n" * 60, [settings.SECRET_KEY]
    again = send(client, doing.body, url=url(route, doing))
    assert (again.json()[field], again["Cache-Control"]) == (secret, "no-store")
    settings.SECRET_KEY_FALLBACKS = []
    lost = send(client, doing.body, url=url(route, doing))
    assert (lost.status_code, lost.json()["code"]) == (409, "refused")


@pytest.mark.django_db
def test_a_repeated_token_response_has_the_same_token(world, client) -> None:
    doing = POST_REQUESTS["tokens/"](world)
    send(client, doing.body, url=f"/{PREFIX}tokens/")
    text = send(client, doing.body, url=f"/{PREFIX}tokens/").json()["token"]
    found = authenticate_token(text)
    assert found is not None
    assert found == ApiToken.objects.latest("pk")


@pytest.mark.django_db
def test_an_interrupted_bulk_decides_the_rest(world, client, monkeypatch) -> None:
    """The process ends after the second hold; the client sends the call again."""
    doing = POST_REQUESTS["reviews/bulk/"](world)
    real, calls = services.decide, []

    def two_then_dead(request: services.DecisionRequest) -> Any:
        calls.append(request)
        if len(calls) == 3:
            raise SystemExit
        return real(request)

    monkeypatch.setattr(services, "decide", two_then_dead)
    with pytest.raises(SystemExit):
        send(client, doing.body, url=f"/{PREFIX}reviews/bulk/")
    monkeypatch.setattr(services, "decide", real)
    answer = send(client, doing.body, url=f"/{PREFIX}reviews/bulk/")
    assert [each["code"] for each in answer.json()["results"]] == ["done"] * 3
    records = [str(record.pk) for record in HumanReviewRecord.objects.order_by("id")]
    assert [each["record_id"] for each in answer.json()["results"]] == list(records)


@pytest.mark.django_db
def test_a_denied_decision_under_a_key_is_recorded(world, client) -> None:
    doing = resume(world)
    world.user.groups.set([])
    world.user.groups.add(world.starter.groups.get())
    answer = send(client, doing.body, url=f"/{PREFIX}reviews/resume/")
    assert answer.status_code == 403
    assert DeniedAttempt.objects.get().user_id == world.user.pk
    assert CommandLog.objects.filter(outcome="refused").exists()
    assert not IdempotencyKey.objects.exists()
