"""After a session has ended, scripts lead to the sign-in page; each role begins on its page."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from tests.support.groups import group_of

pytestmark = pytest.mark.django_db

PAGE = "/review/?tab=open"
SCRIPT = {"HX-Request": "true", "HX-Current-URL": f"http://testserver{PAGE}"}
LOGIN = "/login/?ended=1&next=%2Freview%2F%3Ftab%3Dopen"


@pytest.mark.parametrize(
    "address",
    ["/review/", "/review/7/7-1/", "/review/7/7-1/status/", "/runs/7/", "/notifications/bell/"],
)
def test_a_script_is_sent_to_the_sign_in_page(client: Client, address: str) -> None:
    answer = client.get(address, headers=SCRIPT)
    assert (answer.status_code, answer.content) == (401, b"")
    assert answer["HX-Redirect"] == LOGIN
    assert answer["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    "address", ["/review/7/7-1/", "/review/7/7-1/looking/", "/review/bulk/", "/notifications/read/"]
)
def test_a_posting_script_too(client: Client, address: str) -> None:
    answer = client.post(address, headers=SCRIPT)
    assert (answer.status_code, answer["HX-Redirect"]) == (401, LOGIN)


@pytest.mark.parametrize(
    "page",
    [
        "http://elsewhere.example/review/",
        "http://testserver//elsewhere.example/",
        "http://testserver/\\elsewhere.example/",
        "javascript:alert(1)",
        "",
    ],
)
def test_the_way_back_stays_on_this_site(client: Client, page: str) -> None:
    headers = {"HX-Request": "true", "HX-Current-URL": page}
    assert client.get("/review/", headers=headers)["HX-Redirect"] == "/login/?ended=1"


def test_a_form_leads_back_to_its_page_and_not_to_its_address(client: Client) -> None:
    referer = {"Referer": "http://testserver/runs/7/"}
    answer = client.post("/runs/7/commands/", {"kind": "abort"}, headers=referer)
    assert (answer.status_code, answer["Location"]) == (302, "/login/?ended=1&next=%2Fruns%2F7%2F")
    page = client.get(answer["Location"]).content.decode()
    assert "Your session has ended." in page
    assert 'action="/login/"' in page


def test_a_page_is_still_redirected(client: Client) -> None:
    answer = client.get("/runs/7/")
    assert (answer.status_code, answer["Location"]) == (302, "/login/?next=/runs/7/")


def test_a_script_with_a_token_of_an_earlier_sign_in_reloads_its_page() -> None:
    client = Client(enforce_csrf_checks=True)
    anonymous = client.post("/review/bulk/", headers=SCRIPT)
    assert (anonymous.status_code, anonymous["HX-Redirect"]) == (401, LOGIN)
    client.force_login(User.objects.create_user("anna"))
    answer = client.post("/review/bulk/", headers=SCRIPT)
    assert (answer.status_code, answer["HX-Redirect"]) == (403, PAGE)
    assert "so nothing was sent" in client.get(PAGE).content.decode()
    assert "This form is too old" in client.post("/review/bulk/").content.decode()


@pytest.mark.parametrize(
    ("roles", "fields", "page"),
    [
        (("reviewer",), {}, "/review/"),
        ((), {}, "/review/"),
        (("legal",), {}, "/review/"),
        (("operator",), {}, "/runs/"),
        (("integrator",), {}, "/runs/"),
        (("auditor",), {"is_staff": True}, "/history/"),
        (("reviewer", "operator"), {}, "/runs/"),
        (("admin",), {"is_staff": True}, "/admin/"),
        (("admin",), {}, "/review/"),
        ((), {"is_staff": True, "is_superuser": True}, "/admin/"),
    ],
)
def test_each_role_begins_on_its_page(
    client: Client, roles: tuple[str, ...], fields: dict[str, Any], page: str
) -> None:
    user = User.objects.create_user("anna", password="secret", **fields)
    user.groups.set([group_of(name) for name in roles])
    answer = client.post("/login/", {"username": "anna", "password": "secret"}, follow=True)
    assert [each for each, _ in answer.redirect_chain] == [reverse("home"), page]
    assert answer.status_code == 200


def test_the_root_asks_for_a_sign_in(client: Client) -> None:
    assert client.get("/")["Location"] == "/login/"
