"""Web push against a local push service that decrypts what it gets, as a browser does."""

from __future__ import annotations

import base64
import json
import os
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import jwt
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.db.models.functions import Now

from reviews.decisions.edits import ReviewInvalid
from reviews.models import PushKey, PushMessage, PushSubscription
from reviews.notifications import sweeper_hooks
from reviews.notifications.preferences import save_preferences
from reviews.push import outbox, sender
from reviews.push.services import MAX_BROWSERS, push_key, subscribe
from tests.integration.reviews.conftest import decide
from tests.integration.reviews.notifications.conftest import Wait, consume_journal
from tests.integration.reviews.notifications.conftest import _at_once as _at_once
from tests.integration.reviews.notifications.conftest import ann as ann
from tests.integration.reviews.notifications.conftest import bob as bob
from tests.integration.reviews.notifications.conftest import wait as wait
from tests.support.pages import browser, open_page
from tests.support.webhook_receiver import Receiver, receiving
from workflows.common import crashpoints
from workflows.common.secret_encryption import decrypt

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Browser:
    """The keys of one browser, and what it reads in a message (RFC 8291, RFC 8188)."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._private = ec.generate_private_key(ec.SECP256R1())
        public = self._private.public_key()
        self._public = public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        self._auth = os.urandom(16)

    @property
    def fields(self) -> dict[str, str]:
        return {
            "address": self.address,
            "p256dh": encoded(self._public),
            "auth": encoded(self._auth),
        }

    def read(self, body: bytes) -> dict[str, Any]:
        salt, length = body[:16], body[20]
        server, sealed = body[21 : 21 + length], body[21 + length :]
        point = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), server)
        shared = self._private.exchange(ec.ECDH(), point)
        secret = _derived(shared, self._auth, b"WebPush: info\0" + self._public + server, 32)
        key = _derived(secret, salt, b"Content-Encoding: aes128gcm\0", 16)
        nonce = _derived(secret, salt, b"Content-Encoding: nonce\0", 12)
        text = AESGCM(key).decrypt(nonce, sealed, None)
        assert text.endswith(b"\x02")
        return dict(json.loads(text[:-1]))


def _derived(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(hashes.SHA256(), length, salt, info).derive(secret)


@pytest.fixture
def service() -> Iterator[Receiver]:
    with receiving(Receiver()) as found:
        yield found


@pytest.fixture
def chrome(service: Receiver, ann: User) -> Browser:
    """A browser of Ann's that has subscribed."""
    found = Browser(service.url)
    subscribe(user=ann, **found.fields)
    return found


def send_all() -> int:
    tries = 0
    while sender.send_next():
        tries += 1
    return tries


def test_a_browser_is_told_that_a_review_waits_and_nothing_of_it(
    wait: Wait, ann: User, bob: User, chrome: Browser, service: Receiver, settings: Any
) -> None:
    hold = wait()
    consume_journal()
    assert send_all() == 1
    (request,) = service.got
    assert chrome.read(request.raw) == {
        "title": "A review waits for you",
        "body": f"Run {hold.execution_id}",
        "url": f"/review/{hold.execution_id}/{hold.pk}/",
        "tag": hold.pk,
    }
    headers = {name.lower(): value for name, value in request.headers.items()}
    assert (headers["content-encoding"], headers["ttl"]) == ("aes128gcm", "86400")
    # The service can check who sent it, with the key that the browser was given.
    scheme, _, rest = headers["authorization"].partition(" ")
    token, key = (each.partition("=")[2] for each in rest.split(", "))
    assert (scheme, key) == ("vapid", push_key().application_key)
    public = PushKey.objects.get().public_key
    claims = jwt.decode(token, public, algorithms=["ES256"], options={"verify_aud": False})
    assert claims["sub"].startswith("mailto:")
    assert service.url.startswith(claims["aud"])
    # It is sent once.
    consume_journal()
    assert (send_all(), PushMessage.objects.get().status) == (0, "SENT")


def test_secrets_are_stored_encrypted(chrome: Browser) -> None:
    row = PushSubscription.objects.get()
    assert chrome.address not in row.address
    assert decrypt(row.address) == chrome.address
    assert chrome.fields["auth"] not in row.keys
    key = push_key()
    assert "PRIVATE KEY" not in key.private_key
    assert "PRIVATE KEY" in decrypt(key.private_key)
    assert push_key().pk == key.pk


@pytest.mark.parametrize("status", [404, 410])
def test_a_subscription_that_has_ended_is_deleted(
    wait: Wait, chrome: Browser, service: Receiver, status: int
) -> None:
    service.answer = lambda _: status
    wait()
    consume_journal()
    assert send_all() == 1
    assert not PushSubscription.objects.exists()
    assert not PushMessage.objects.exists()


def test_a_failure_is_tried_again_and_shown(
    wait: Wait, ann: User, chrome: Browser, service: Receiver, settings: Any
) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "notice_max_attempts": 2}
    service.answer = lambda _: 503
    wait()
    consume_journal()
    assert send_all() == 2
    message = PushMessage.objects.get()
    assert (message.status, message.attempts) == ("FAILED", 2)
    assert message.error.startswith("HTTP 503")
    assert chrome.address not in message.error
    assert "HTTP 503" in open_page(ann, "/notifications/preferences/").text


def test_nothing_is_sent_of_what_was_decided_or_is_not_visible(
    wait: Wait, ann: User, bob: User, chrome: Browser, service: Receiver
) -> None:
    decided, hidden = wait(), wait()
    consume_journal()
    decide(decided, bob)
    ann.groups.clear()
    assert send_all() == 2
    assert service.got == []
    assert {each.status for each in PushMessage.objects.all()} == {"DROPPED"}
    assert hidden.status == "OPEN"


def test_muted_kinds_are_not_sent(wait: Wait, ann: User, chrome: Browser) -> None:
    save_preferences(user=ann, shown=["reminder"], mailed=[])
    wait()
    consume_journal()
    assert not PushMessage.objects.exists()


def test_a_crash_after_sending_sends_again(wait: Wait, chrome: Browser, service: Receiver) -> None:
    def cut() -> None:
        raise RuntimeError("the power is gone")

    wait()
    consume_journal()
    crashpoints.arm("push_message.sent", cut)
    try:
        with pytest.raises(RuntimeError):
            sender.send_next()
    finally:
        crashpoints.set_observer(None)
    assert sender.send_next() == 0  # under its lease
    PushMessage.objects.update(next_at=Now())
    assert (send_all(), len(service.got)) == (1, 2)


@pytest.mark.parametrize(
    "address",
    [
        "http://push.example/x",
        "https://10.0.0.1/x",
        "https://[::1]/x",
        "https://169.254.169.254/latest",
        "https://user:password@push.example/x",
        "file:///etc/passwd",
        "",
    ],
)
def test_only_public_https_addresses_subscribe(ann: User, settings: Any, address: str) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "webhook_allow_loopback": False}
    with pytest.raises(ReviewInvalid) as refused:
        subscribe(user=ann, **Browser(address).fields)
    assert [each.path for each in refused.value.errors] == ["address"]


def test_a_name_of_a_private_address_is_refused_when_it_is_sent(
    wait: Wait, ann: User, service: Receiver, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "notice_max_attempts": 1}
    subscribe(user=ann, **Browser("https://push.example/x").fields)
    wait()
    consume_journal()
    port = int(service.url.rpartition(":")[2].partition("/")[0])
    answer = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port))]
    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: answer)
        message = outbox.claim_next()
        assert message is not None
        with pytest.raises(sender.PushError, match=r"push\.example"):
            sender.post(message)
    assert service.got == []


def test_keys_of_another_form_are_refused(ann: User, service: Receiver) -> None:
    good = Browser(service.url).fields
    for name, value in (
        ("p256dh", ""), ("p256dh", encoded(b"\x04" + b"\0" * 64)), ("p256dh", "é"),
        ("auth", ""), ("auth", encoded(b"x" * 15)), ("auth", "!" * 22),
    ):  # fmt: skip
        with pytest.raises(ReviewInvalid) as refused:
            subscribe(user=ann, **{**good, name: value})
        assert [each.path for each in refused.value.errors] == [name]
    assert not PushSubscription.objects.exists()


def test_a_browser_belongs_to_who_signed_in_last(
    ann: User, bob: User, chrome: Browser, service: Receiver
) -> None:
    subscribe(user=bob, **chrome.fields)
    assert PushSubscription.objects.get().user == bob
    for number in range(MAX_BROWSERS + 2):
        subscribe(user=ann, **Browser(f"{service.url}/{number}").fields)
    assert PushSubscription.objects.filter(user=ann).count() == MAX_BROWSERS


def test_the_settings_page_adds_and_removes_browsers(
    ann: User, bob: User, service: Receiver
) -> None:
    client = browser(ann)
    page = open_page(ann, "/notifications/preferences/")
    assert push_key().application_key in page.html
    assert "Show notifications in this browser" in page.text
    fields = {**Browser(service.url).fields, "label": "Linux"}
    wrong = client.post("/notifications/push/", {**fields, "auth": ""})
    assert (wrong.status_code, wrong.json()["errors"][0]["path"]) == (422, "auth")
    assert client.post("/notifications/push/", fields).status_code == 200
    row = PushSubscription.objects.get()
    assert (row.user, row.label) == (ann, "Linux")
    assert "Linux" in open_page(ann, "/notifications/preferences/").text
    url = f"/notifications/push/{row.pk}/remove/"
    assert browser(bob).post(url).status_code == 404
    assert client.post(url).status_code == 303
    assert not PushSubscription.objects.exists()


def test_old_messages_are_deleted(wait: Wait, chrome: Browser, settings: Any) -> None:
    wait()
    consume_journal()
    send_all()
    settings.HOLDPOINT = {**settings.HOLDPOINT, "notice_keep_days": 0}
    sweeper_hooks.forget_old()
    assert not PushMessage.objects.exists()


def test_the_policy_of_pages_allows_own_workers_only(ann: User) -> None:
    response = browser(ann).get("/notifications/preferences/")
    assert "worker-src 'self'" in response["Content-Security-Policy"]
