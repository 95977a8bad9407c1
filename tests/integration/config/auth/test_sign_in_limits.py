"""Failed sign-ins are limited per account and address; unknown tokens per address."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from axes.models import AccessAttempt, AccessLog
from django.contrib.auth.models import Group, Permission, User
from django.core import mail
from django.db import connection
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils import timezone
from rest_framework.exceptions import Throttled
from rest_framework.test import APIClient

from config.auth import sign_in_limits
from reviews.sockets.authentication import Credentials, Refusal
from tests.integration.workflows.api.roles import ROLES
from workflows.common.client_address import address_of
from workflows.mcp_server.authentication import authenticate_and_count
from workflows.models import SignInAlert, UnknownTokens
from workflows.permissions.tokens import create_token

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"
LOGIN = "/login/"
ADMIN = "/admin/login/"
UNKNOWN = f"hp_{'a' * 8}_{'b' * 43}"


@pytest.fixture(autouse=True)
def limits(settings: Any) -> None:
    settings.HOLDPOINT = {
        **settings.HOLDPOINT,
        "sign_in_failures": 3,
        "sign_in_failures_per_address": 6,
        "sign_in_failures_per_account": 8,
        "unknown_tokens_per_address": 3,
    }
    settings.ADMINS = [("ops", "ops@example.com")]


@pytest.fixture
def anna() -> User:
    return User.objects.create_user("anna", password=PASSWORD, is_staff=True, is_superuser=True)


def sign_in(
    name: str = "anna", password: str = "wrong", address: str = "192.0.2.1", path: str = LOGIN
) -> HttpResponse:
    data = {"username": name, "password": password}
    return Client(REMOTE_ADDR=address).post(path, data)


def age(seconds: int) -> None:
    """Let every failure so far be older."""
    for row in AccessAttempt.objects.all():
        AccessAttempt.objects.filter(pk=row.pk).update(
            attempt_time=row.attempt_time - timedelta(seconds=seconds)
        )


@pytest.mark.parametrize("path", [LOGIN, ADMIN])
def test_the_right_password_opens_nothing_once_locked(anna: User, path: str) -> None:
    codes = [sign_in(path=path).status_code for _ in range(4)]
    assert codes == [200, 200, 429, 429]
    locked = sign_in(password=PASSWORD, path=path)
    assert locked.status_code == 429
    assert 0 < int(locked["Retry-After"]) <= 900
    page = locked.content.decode()
    assert "Try again in 15 minutes" in page
    assert "Unlock" in page
    assert "_auth_user_id" not in locked.client.session


def test_both_pages_count_together(anna: User) -> None:
    sign_in(path=LOGIN)
    sign_in(path=ADMIN)
    assert sign_in(path=LOGIN).status_code == 429
    assert sign_in(password=PASSWORD, path=ADMIN).status_code == 429


def test_an_unknown_account_is_locked_like_a_known_one(anna: User) -> None:
    for name in ("anna", "nobody"):
        answers = [sign_in(name) for _ in range(4)]
        assert [each.status_code for each in answers] == [200, 200, 429, 429]
        assert name not in answers[-1].content.decode()


def test_somebody_elses_failures_do_not_lock_out_another_address(anna: User) -> None:
    for _ in range(5):
        sign_in(address="203.0.113.9")
    assert sign_in(password=PASSWORD, address="192.0.2.1").status_code == 302


def test_an_address_is_locked_for_every_account(anna: User) -> None:
    for index in range(6):
        sign_in(f"guess{index}")
    assert sign_in(password=PASSWORD).status_code == 429
    assert sign_in(password=PASSWORD, address="192.0.2.2").status_code == 302


def test_clients_without_an_address_do_not_lock_each_other_out(
    anna: User, caplog: pytest.LogCaptureFixture
) -> None:
    for index in range(6):
        sign_in(f"guess{index}", address="unknown")
    assert sign_in(password=PASSWORD, address="unknown").status_code == 302
    assert "has no client address" in caplog.text
    for _ in range(3):
        sign_in("bob", address="unknown")
    assert sign_in("bob", address="unknown").status_code == 429


def test_signing_in_does_not_reset_the_limit_of_the_address(anna: User) -> None:
    User.objects.create_user("mallory", password=PASSWORD)
    for index in range(5):
        sign_in(f"guess{index}")
        assert sign_in("mallory", PASSWORD).status_code == 302
    assert sign_in("guess5").status_code == 429


def test_a_guess_from_many_addresses_meets_the_limit_of_the_account(anna: User) -> None:
    for index in range(8):
        sign_in(address=f"198.51.100.{index}")
    assert sign_in(password=PASSWORD, address="198.51.100.99").status_code == 429


def test_attackers_cannot_lock_a_person_out_of_a_known_address(anna: User) -> None:
    home = "192.0.2.1"
    assert sign_in(password=PASSWORD, address=home).status_code == 302
    for index in range(8):
        sign_in(address=f"198.51.100.{index}")
    assert sign_in(password=PASSWORD, address="198.51.100.99").status_code == 429
    assert sign_in(password=PASSWORD, address=home).status_code == 302
    AccessLog.objects.update(attempt_time=timezone.now() - timedelta(days=31))
    assert sign_in(password=PASSWORD, address=home).status_code == 429


def test_a_lock_ends_and_refused_attempts_do_not_prolong_it(anna: User) -> None:
    for _ in range(3):
        sign_in()
    age(600)
    assert sign_in(password=PASSWORD).status_code == 429
    age(301)
    assert sign_in(password=PASSWORD).status_code == 302
    assert not AccessAttempt.objects.filter(username="anna").exists()


def test_failures_count_for_every_spelling_of_a_name(anna: User) -> None:
    for name in ("anna", "Anna", " ANNA "):
        sign_in(name)
    assert sign_in(password=PASSWORD).status_code == 429


# --- alerts ---------------------------------------------------------------------------------------


def test_admins_get_one_alert_for_a_lock_by_mail_and_in_the_administration(anna: User) -> None:
    for _ in range(6):
        sign_in(address="203.0.113.9")
    alert = SignInAlert.objects.get()
    assert (alert.kind, alert.account, alert.address) == (
        "account_and_address", "anna", "203.0.113.9",
    )  # fmt: skip
    assert sign_in_limits.mail_alerts() == 1
    assert sign_in_limits.mail_alerts() == 0
    (message,) = mail.outbox
    assert message.to == ["ops@example.com"]
    assert "'anna'" in message.body
    assert "203.0.113.9" in message.body


def test_an_admin_unlocks(anna: User, client: Client) -> None:
    for _ in range(4):
        sign_in(address="203.0.113.9")
    client.force_login(anna)
    page = reverse("admin:workflows_signinalert_changelist")
    assert "203.0.113.9" in client.get(page).content.decode()
    chosen = {"action": "unlock_chosen", "_selected_action": [SignInAlert.objects.get().pk]}
    assert client.post(page, chosen, follow=True).status_code == 200
    assert sign_in(password=PASSWORD, address="203.0.113.9").status_code == 302


def test_old_attempts_are_deleted_once_an_hour(
    anna: User, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    """The sweeper asks each round; no index helps to find them."""
    monkeypatch.setattr(sign_in_limits, "_next_delete_at", 0.0)
    moment = [1000.0]
    monkeypatch.setattr("config.auth.sign_in_limits.time.monotonic", lambda: moment[0])
    sign_in()
    sign_in(password=PASSWORD, address="192.0.2.9")
    assert sign_in_limits.forget_old() == 0
    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(days=1))
    AccessLog.objects.update(attempt_time=timezone.now() - timedelta(days=31))
    moment[0] += 3599
    with django_assert_num_queries(0):
        assert sign_in_limits.forget_old() == 0
    moment[0] += 2
    assert sign_in_limits.forget_old() == 2
    assert not AccessAttempt.objects.exists()
    assert not AccessLog.objects.exists()


def test_the_view_permission_does_not_unlock(anna: User, client: Client) -> None:
    for _ in range(4):
        sign_in(address="203.0.113.9")
    watcher = User.objects.create_user("watcher", is_staff=True)
    watcher.user_permissions.add(Permission.objects.get(codename="view_signinalert"))
    client.force_login(watcher)
    page = reverse("admin:workflows_signinalert_changelist")
    chosen = {"action": "unlock_chosen", "_selected_action": [SignInAlert.objects.get().pk]}
    client.post(page, chosen)
    assert sign_in(password=PASSWORD, address="203.0.113.9").status_code == 429


# --- addresses ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("proxy", "remote", "forwarded", "expected"),
    [
        (False, "192.0.2.7", "203.0.113.1", "192.0.2.7"),
        (True, "127.0.0.1", "203.0.113.1", "203.0.113.1"),
        # What the client sent stands before what the proxy added.
        (True, "127.0.0.1", "10.9.9.9, 203.0.113.1", "203.0.113.1"),
        (True, "192.0.2.7", "", "192.0.2.7"),
        (True, "127.0.0.1", "nonsense", "0.0.0.0"),
        (True, "127.0.0.1", "203.0.113.5:51234", "203.0.113.5"),
        (True, "127.0.0.1", "10.9.9.9, [2001:db8::1]:443", "2001:db8::"),
        (True, "127.0.0.1", "[2001:db8::1]", "2001:db8::"),
        (True, "127.0.0.1", "203.0.113.5:port", "0.0.0.0"),
        (True, "127.0.0.1", "[]:443", "0.0.0.0"),
        (False, "::ffff:192.0.2.7", "", "192.0.2.7"),
        (False, "2001:db8:1:2:3:4:5:6", "", "2001:db8:1:2::"),
        (False, "", "", "0.0.0.0"),
    ],
)
def test_the_address_behind_a_proxy_is_the_clients(
    settings: Any, proxy: bool, remote: str, forwarded: str, expected: str
) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "behind_proxy": proxy}
    headers = {"X-Forwarded-For": forwarded} if forwarded else {}
    request = RequestFactory(REMOTE_ADDR=remote).get("/", headers=headers)
    assert address_of(request) == expected


def test_without_a_proxy_clients_cannot_choose_their_address(anna: User) -> None:
    for index in range(4):
        client = Client(headers={"X-Forwarded-For": f"198.51.100.{index}"})
        answer = client.post(LOGIN, {"username": "anna", "password": "wrong"})
    assert answer.status_code == 429


# --- tokens ---------------------------------------------------------------------------------------


def ask(token: str, address: str = "192.0.2.1") -> Any:
    client = APIClient(headers={"Authorization": f"Bearer {token}"}, REMOTE_ADDR=address)
    return client.get("/api/v1/executions/")


def test_unknown_tokens_are_limited_and_valid_ones_still_work(anna: User) -> None:
    for name in ROLES:
        Group.objects.get_or_create(name=name)
    anna.groups.add(Group.objects.get(name="operator"))
    _, good = create_token(user=anna, name="t", scopes=["read"])
    codes = [ask(UNKNOWN).status_code for _ in range(3)]
    assert codes == [401, 401, 401]
    over = ask("nonsense")
    assert over.status_code == 429
    assert over.json()["code"] == "throttled"
    assert 0 < int(over["Retry-After"]) <= 900
    assert ask(good).status_code == 200
    assert ask(UNKNOWN, "192.0.2.2").status_code == 401
    ask(UNKNOWN)
    alert = SignInAlert.objects.get()
    assert (alert.kind, alert.address) == ("tokens", "192.0.2.1")
    # The database reckons from the start of the transaction, which is that of this test.
    UnknownTokens.objects.update(since=timezone.now() - timedelta(hours=1))
    assert ask(UNKNOWN).status_code == 401


def test_mcp_and_sockets_share_the_limit_of_unknown_tokens() -> None:
    scope = {
        "client": ("192.0.2.1", 1),
        "headers": [(b"authorization", f"Bearer {UNKNOWN}".encode())],
    }
    assert ask(UNKNOWN).status_code == 401
    assert authenticate_and_count(UNKNOWN, "192.0.2.1") is None
    for code in (4401, 4429):
        with pytest.raises(Refusal) as refused:
            Credentials.of(scope).client()
        assert refused.value.code == code
    with pytest.raises(Throttled):
        authenticate_and_count(UNKNOWN, "192.0.2.1")
    assert authenticate_and_count(UNKNOWN, "192.0.2.2") is None


@pytest.mark.django_db(transaction=True)
def test_concurrent_unknown_tokens_are_each_counted() -> None:
    def once(_: int) -> int:
        try:
            return ask(UNKNOWN).status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as threads:
        codes = sorted(threads.map(once, range(24)))
    assert codes == [401] * 3 + [429] * 21
    assert UnknownTokens.objects.get().failures == 24
    assert SignInAlert.objects.count() == 1
