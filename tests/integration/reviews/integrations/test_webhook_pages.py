"""The webhook pages: create an endpoint, see deliveries, use the buttons, rights."""

import pytest
from django.test import Client
from django.urls import reverse

from tests.integration.workflows.webhooks.conftest import person, run, send_all
from tests.support.pages import Page
from workflows.common.secret_encryption import decrypt
from workflows.models import WebhookDelivery, WebhookEndpoint
from workflows.webhooks import services

LIST = "/webhooks/"


@pytest.fixture
def browser(owner) -> Client:
    client = Client()
    client.force_login(owner)
    return client


def act(browser: Client, endpoint: WebhookEndpoint, what: str, **more: object) -> Page:
    url = reverse("reviews:webhook_action", args=(endpoint.pk,))
    response = browser.post(url, {"do": what, **more}, follow=True)
    assert response.status_code == 200
    endpoint.refresh_from_db()
    return Page(response)


def test_a_webhook_is_created_and_delivers(engine, browser, owner, receiver, sender) -> None:
    assert "No webhooks yet" in Page(browser.get(LIST)).names("heading")
    asked = {"name": "chat", "url": receiver.url, "events": ["workflow_start"]}
    response = browser.post(LIST, asked, follow=True)
    endpoint = WebhookEndpoint.objects.get()
    assert response.redirect_chain == [(reverse("reviews:webhook", args=(endpoint.pk,)), 303)]
    run(engine, owner, title="<script>alert(1)</script>")
    receiver.answer = lambda _: 500 if len(receiver.got) == 0 else 200
    send_all(sender)
    page = Page(browser.get(response.redirect_chain[0][0]))
    for shown in ("workflow_start", "delivered", "HTTP 500", "webhook-signature"):
        assert shown in page.text
    assert "<script>alert" not in page.html
    secret = decrypt(endpoint.secret)
    assert secret not in page.html
    assert secret in act(browser, endpoint, "reveal").text
    delivery = endpoint.deliveries.get()
    again = reverse("reviews:webhook_redeliver", args=(endpoint.pk, delivery.pk))
    assert again in page.actions
    assert "queued again" in Page(browser.post(again, follow=True)).text
    assert "already pending" in Page(browser.post(again, follow=True)).text
    send_all(sender)
    assert len(receiver.got) == 3


def test_an_invalid_form_is_explained_and_preserved(browser) -> None:
    response = browser.post(LIST, {"name": "mine", "url": "https://10.0.0.1/"})
    assert response.status_code == 422
    assert "not a public host" in Page(response).text
    assert Page(response).value("[name=name]") == "mine"
    assert not WebhookEndpoint.objects.exists()


def test_the_buttons_of_the_webhook_page(browser, register, receiver, sender) -> None:
    endpoint, _ = register()
    assert "test message" in act(browser, endpoint, "ping").text
    send_all(sender)
    assert receiver.got[0].body["type"] == "ping"
    act(browser, endpoint, "switch_off")
    assert not endpoint.enabled
    assert "it is disabled" in act(browser, endpoint, "ping").text
    act(browser, endpoint, "resume")
    assert endpoint.enabled
    before = endpoint.secret
    act(browser, endpoint, "rotate")
    assert endpoint.secret != before == endpoint.previous_secret
    act(browser, endpoint, "save", name="new", url=receiver.url, include_data="on")
    assert (endpoint.name, endpoint.include_data) == ("new", True)
    assert "Unknown action" in act(browser, endpoint, "dance").text
    endpoint.parked_at, endpoint.parked_reason = endpoint.created_at, "20 tries in a row failed"
    WebhookEndpoint.objects.filter(pk=endpoint.pk).update(
        parked_at=endpoint.created_at, parked_reason=endpoint.parked_reason
    )
    WebhookDelivery.objects.update(status="PENDING")
    page = Page(browser.get(reverse("reviews:webhook", args=(endpoint.pk,))))
    assert "20 tries in a row failed" in page.text
    assert "waits" in page.texts(".status")
    act(browser, endpoint, "resume_skip")
    assert endpoint.parked_at is None
    url = reverse("reviews:webhook_action", args=(endpoint.pk,))
    assert browser.post(url, {"do": "delete"}).status_code == 303
    assert not WebhookEndpoint.objects.exists()


def test_other_users_cannot_see_a_webhook(register) -> None:
    endpoint, _ = register()
    for role, status in (("integrator", 404), ("reviewer", 403), ("auditor", 403), ("admin", 200)):
        client = Client()
        client.force_login(person(role))
        assert client.get(reverse("reviews:webhook", args=(endpoint.pk,))).status_code == status
        listed = client.get(LIST)
        assert listed.status_code == (403 if status == 403 else 200)
        if status == 404:
            assert reverse("reviews:webhook", args=(endpoint.pk,)) not in Page(listed).html
            url = reverse("reviews:webhook_action", args=(endpoint.pk,))
            assert client.post(url, {"do": "delete"}).status_code == 404
    assert services.visible_endpoints(endpoint.owner).exists()
