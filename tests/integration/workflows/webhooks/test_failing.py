"""Endpoints that fail: retries, giving up, parking, resuming, redelivery, rotation."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now
from django.http import Http404
from django.utils import timezone

from tests.integration.workflows.webhooks.conftest import run, send_all
from tests.support.webhook_receiver import Receiver, receiving
from workflows.engine.protocol.decide import Refused
from workflows.engine.values.reasons import Reason
from workflows.executions.validation import InvalidRequest
from workflows.models import WebhookDelivery, WebhookEndpoint
from workflows.webhooks import services
from workflows.webhooks.retries import BACKOFF_AFTER, backoff_seconds


def refreshed(endpoint: WebhookEndpoint) -> WebhookEndpoint:
    return WebhookEndpoint.objects.select_related("owner").get(pk=endpoint.pk)


@pytest.fixture
def limits(engine, settings):
    def make(**found: int) -> None:
        settings.HOLDPOINT = {**settings.HOLDPOINT, **found}

    return make


def test_the_backoff_doubles_up_to_a_bound_with_jitter(settings) -> None:
    found = {"webhook_backoff_seconds": 1.0, "webhook_max_backoff_seconds": 60.0}
    settings.HOLDPOINT = {**settings.HOLDPOINT, **found}
    for failures, most in ((1, 1.0), (2, 2.0), (5, 16.0), (7, 60.0), (99, 60.0)):
        waits = {backoff_seconds(failures) for _ in range(50)}
        assert all(most / 2 <= each <= most for each in waits)
        assert len(waits) > 10
    assert backoff_seconds(1, at_least=30) == 30
    assert backoff_seconds(1, at_least=9999) == 60


def test_a_dead_endpoint_is_parked_and_resumed_without_loss(
    engine, owner, receiver, register, sender, limits
) -> None:
    limits(webhook_park_after=6)
    receiver.answer = lambda _: 503
    endpoint, _ = register()
    executions = [run(engine, owner) for _ in range(3)]
    send_all(sender)
    endpoint = refreshed(endpoint)
    assert endpoint.parked_at is not None
    assert endpoint.parked_reason == "6 tries in a row failed, the last with: HTTP 503 " + (
        "Service Unavailable"
    )
    last = {"failures": 6, "error": "HTTP 503 Service Unavailable"}
    assert (endpoint.parked_reason_code, endpoint.parked_reason_params) == ("tries_failed", last)
    assert "parked" in services.standing(endpoint).text
    assert services.standing(endpoint).params["problem"] == Reason("tries_failed", last)
    with pytest.raises(Refused, match="parked"):
        services.ping(endpoint=endpoint)
    tries = len(receiver.got)
    executions.append(run(engine, owner))
    for _ in range(3):
        sender.round()
    assert len(receiver.got) == tries
    receiver.answer = lambda _: 200
    services.resume_endpoint(endpoint=endpoint)
    send_all(sender)
    for execution in executions:
        assert receiver.order(execution.pk) == list(range(1, execution.version + 1))


def test_an_answer_with_nul_stops_no_other_endpoint(
    engine, owner, receiver, register, sender, limits
) -> None:
    limits(webhook_max_attempts=1)
    with receiving(Receiver(answer=lambda _: 503, reason="No\0way")) as hostile:
        endpoint, _ = register(url=hostile.url)
        register()
        execution = run(engine, owner)
        send_all(sender)
    assert receiver.order(execution.pk) == list(range(1, execution.version + 1))
    assert refreshed(endpoint).last_error == "HTTP 503 Noway"


def test_a_backoff_ends_by_the_clock_of_the_database(
    engine, owner, receiver, register, sender, monkeypatch
) -> None:
    register()
    execution = run(engine, owner)
    minute = timedelta(minutes=1)
    WebhookEndpoint.objects.update(failures=BACKOFF_AFTER, retry_at=Now() + minute)
    here = timezone.now() + 60 * minute
    monkeypatch.setattr(timezone, "now", lambda: here)
    sender.round()
    assert not sender._in_flight
    WebhookEndpoint.objects.update(retry_at=Now())
    send_all(sender)
    assert receiver.order(execution.pk) == list(range(1, execution.version + 1))


def test_resuming_can_skip_missed_messages(
    engine, owner, receiver, register, sender, limits
) -> None:
    limits(webhook_park_after=2)
    receiver.answer = lambda _: 500
    endpoint, _ = register()
    missed = run(engine, owner)
    send_all(sender)
    receiver.answer = lambda _: 200
    services.resume_endpoint(endpoint=endpoint, skip=True)
    fresh = run(engine, owner)
    send_all(sender)
    assert receiver.order(missed.pk) == []
    assert len(receiver.order(fresh.pk)) == fresh.version


def test_a_refused_message_is_abandoned_and_can_be_sent_again(
    engine, owner, receiver, register, sender, limits
) -> None:
    limits(webhook_max_attempts=3)
    receiver.answer = lambda got: 400 if got.body.get("seq") == 2 else 200
    endpoint, _ = register()
    execution = run(engine, owner)
    send_all(sender)
    failed = WebhookDelivery.objects.get(status="FAILED")
    assert failed.attempts == 3
    assert [each["status"] for each in failed.log] == [400] * 3
    assert receiver.order(execution.pk) == [1, *range(3, execution.version + 1)]
    assert refreshed(endpoint).parked_at is None
    receiver.answer = lambda _: 200
    services.redeliver(delivery=failed)
    with pytest.raises(Refused, match="already pending"):
        services.redeliver(delivery=failed)
    send_all(sender)
    assert receiver.got[-1].id == failed.message_id
    failed.refresh_from_db()
    assert failed.status == "DELIVERED"


def test_status_410_parks_at_once(engine, owner, receiver, register, sender) -> None:
    receiver.answer = lambda _: 410
    endpoint, _ = register()
    run(engine, owner)
    send_all(sender)
    assert len(receiver.got) == 1
    assert "410" in refreshed(endpoint).parked_reason
    assert refreshed(endpoint).parked_reason_code == "receiver_gone"
    WebhookEndpoint.objects.filter(pk=endpoint.pk).update(parked_reason_code="")
    old = services.standing(refreshed(endpoint))
    assert old.text.endswith("it accepts no more messages"), "a row from before codes"
    services.resume_endpoint(endpoint=endpoint)
    assert (refreshed(endpoint).parked_reason, services.standing(refreshed(endpoint))) == ("", None)


def test_redirects_are_not_followed(engine, receiver, register, sender, limits) -> None:
    limits(webhook_park_after=1)
    receiver.answer = lambda _: 302
    endpoint, _ = register()
    delivery = services.ping(endpoint=endpoint)
    send_all(sender)
    assert len(receiver.got) == 1
    delivery.refresh_from_db()
    assert "redirected" in delivery.log[0]["error"]


def test_a_private_address_is_never_connected_to(
    engine, receiver, register, sender, limits
) -> None:
    endpoint, _ = register()
    limits(webhook_allow_loopback=False, webhook_park_after=1)
    delivery = services.ping(endpoint=endpoint)
    send_all(sender)
    delivery.refresh_from_db()
    assert receiver.got == []
    assert "not among the granted hosts" in delivery.log[0]["error"]


def test_after_a_rotation_both_secrets_sign_for_a_while(
    engine, receiver, register, sender, limits
) -> None:
    endpoint, old = register()
    new = services.rotate_secret(endpoint=endpoint, actor=endpoint.owner)
    services.ping(endpoint=endpoint)
    send_all(sender)
    assert receiver.got[-1].is_signed_with(old)
    assert receiver.got[-1].is_signed_with(new)
    limits(webhook_rotation_seconds=0)
    newest = services.rotate_secret(endpoint=endpoint, actor=endpoint.owner)
    services.ping(endpoint=endpoint)
    send_all(sender)
    assert receiver.got[-1].is_signed_with(newest)
    assert not receiver.got[-1].is_signed_with(new)


def test_an_endpoint_that_was_deleted_meanwhile_is_not_found(engine, receiver, register) -> None:
    endpoint, _ = register()
    services.delete_endpoint(endpoint=refreshed(endpoint))
    for change in (
        lambda: services.rotate_secret(endpoint=endpoint, actor=endpoint.owner),
        lambda: services.update_endpoint(endpoint=endpoint, fields={}, actor=endpoint.owner),
        lambda: services.resume_endpoint(endpoint=endpoint),
        lambda: services.ping(endpoint=endpoint),
    ):
        with pytest.raises(Http404):
            change()


def test_a_secret_that_cannot_be_read_parks_the_endpoint(
    engine, receiver, register, sender, settings
) -> None:
    endpoint, _ = register()
    services.ping(endpoint=endpoint)
    settings.SECRET_KEY = "another" * 10
    send_all(sender)
    assert "SECRET_KEY" in refreshed(endpoint).parked_reason
    assert refreshed(endpoint).parked_reason_code == "secret_unreadable"
    assert receiver.got == []


def test_one_person_has_a_bounded_number_of_endpoints(register, limits) -> None:
    limits(webhook_max_endpoints=2)
    register()
    register()
    with pytest.raises(InvalidRequest, match="2 endpoints"):
        register()
