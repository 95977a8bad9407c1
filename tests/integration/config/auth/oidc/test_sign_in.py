"""Signing in through an issuer: accounts, groups, and everything that must not work."""

from __future__ import annotations

import base64
import json
import re
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.integration.config.auth.oidc.conftest import Person
from tests.integration.config.auth.site import Site
from tests.support.oidc_provider import CLIENT, SECRET, Issuer


def users(site: Site) -> list[tuple[str, str]]:
    return site.rows("SELECT username, email FROM auth_user ORDER BY id")


def groups(site: Site, name: str) -> set[str]:
    found = site.rows(
        "SELECT g.name FROM auth_group g JOIN auth_user_groups m ON m.group_id = g.id"
        " JOIN auth_user u ON u.id = m.user_id WHERE u.username = %s",
        name,
    )
    return {row[0] for row in found}


def make_user(site: Site, name: str, email: str = "") -> int:
    (row,) = site.rows(
        "INSERT INTO auth_user (username, email, password, first_name, last_name, is_staff,"
        " is_superuser, is_active, date_joined)"
        " VALUES (%s, %s, '!', '', '', false, false, true, now()) RETURNING id",
        name,
        email,
    )
    return int(row[0])


# --- what works -----------------------------------------------------------------------------------


def test_the_first_sign_in_makes_an_account_and_the_next_finds_it(site, clean) -> None:
    clean.person |= {"email": "ada@example.com", "email_verified": True, "given_name": "Ada"}
    person = Person(site)
    answer = person.sign_in(next="/review/runs/")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/review/runs/")
    assert users(site) == [("ada", "ada@example.com")]
    clean.person["preferred_username"] = "ada.lovelace"
    again = Person(site)
    assert again.sign_in().headers["Location"] == "/"
    assert users(site) == [("ada", "ada@example.com")]


def test_an_oidc_account_has_a_session_and_no_usable_password(site, clean) -> None:
    clean.person["groups"] = ["team:reviewers"]
    person = Person(site)
    before = person.http.cookies.get("holdpoint_session")
    person.sign_in()
    assert person.name() == "ada"
    assert person.http.cookies.get("holdpoint_session") != before
    (row,) = site.rows("SELECT password FROM auth_user")
    assert row[0].startswith("!")


def test_mapped_groups_follow_the_claim_and_others_stay(site, clean) -> None:
    clean.person["groups"] = ["team:reviewers", "ops", "unknown"]
    Person(site).sign_in()
    assert groups(site, "ada") == {"reviewer", "operator"}
    site.rows("INSERT INTO auth_group (name) VALUES ('night shift') ON CONFLICT DO NOTHING")
    site.rows(
        "INSERT INTO auth_user_groups (user_id, group_id)"
        " SELECT u.id, g.id FROM auth_user u, auth_group g WHERE g.name = 'night shift'"
    )
    clean.person["groups"] = ["ops"]
    Person(site).sign_in()
    assert groups(site, "ada") == {"operator", "night shift"}
    assert site.rows("SELECT is_staff FROM auth_user") == [(True,)]
    del clean.person["groups"]
    Person(site).sign_in()
    assert groups(site, "ada") == {"night shift"}
    assert site.rows("SELECT is_staff FROM auth_user") == [(False,)]


def test_groups_may_come_from_the_userinfo(site, clean) -> None:
    clean.userinfo = {"groups": "ops"}
    Person(site).sign_in()
    assert groups(site, "ada") == {"operator"}


def test_a_known_name_or_address_is_not_taken_over(site, clean) -> None:
    """By `sub` alone: whoever has the same name or e-mail address is somebody else."""
    make_user(site, "Ada", "ada@example.com")
    clean.person |= {"email": "ada@example.com", "email_verified": True}
    Person(site).sign_in()
    assert [name for name, _ in users(site)] == ["Ada", "ada-2"]


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"preferred_username": "system"}, "system-2"),
        ({"preferred_username": "a b/c"}, "a-b-c"),
        ({"preferred_username": "\uff53\uff59\uff53\uff54\uff45\uff4d"}, "system-2"),
        ({"preferred_username": "", "email": "eve@example.com"}, "eve"),
        ({"preferred_username": ""}, "1"),
        ({"preferred_username": "//"}, "user"),
    ],
)
def test_names_are_plain_and_never_a_reserved_word(site, clean, claims, name) -> None:
    clean.person |= claims
    Person(site).sign_in()
    assert [found for found, _ in users(site)] == [name]


def test_an_unverified_address_is_not_stored(site, clean) -> None:
    clean.person |= {"email": "boss@example.com", "email_verified": False}
    Person(site).sign_in()
    assert users(site) == [("ada", "")]


def test_an_admin_links_an_account_that_exists(site, clean) -> None:
    make_user(site, "grace")
    linked = site.manage("link_oidc", "grace", "1")
    assert linked.returncode == 0, linked.stderr
    Person(site).sign_in()
    assert [name for name, _ in users(site)] == ["grace"]
    make_user(site, "joan")
    twice = site.manage("link_oidc", "joan", "1")
    assert "is linked to 'grace' already" in twice.stderr
    assert "no user 'nobody'" in site.manage("link_oidc", "nobody", "2").stderr


def test_two_first_sign_ins_at_once_are_one_account(site, clean) -> None:
    first, second = Person(site), Person(site)
    backs = [each.approve(each.begin()) for each in (first, second)]
    gate, answers = threading.Barrier(2), []

    def go(person: Person, back: str) -> None:
        gate.wait()
        answers.append(person.http.get(back).status_code)

    threads = [
        threading.Thread(target=go, args=pair) for pair in zip((first, second), backs, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [302, 302]
    assert users(site) == [("ada", "")]


def test_the_authorization_request_uses_pkce_state_and_nonce(site, clean) -> None:
    address = urlsplit(Person(site).begin())
    asked = {name: values[0] for name, values in parse_qs(address.query).items()}
    assert asked["redirect_uri"] == f"{site.url}/login/oidc/callback/"
    assert asked["code_challenge_method"] == "S256"
    assert len(asked["nonce"]) >= 20
    assert len(asked["state"]) >= 16
    assert set(asked["scope"].split()) == {"openid", "profile", "email"}
    assert SECRET not in address.query


# --- what must not work ---------------------------------------------------------------------------


def refused(site: Site, answer: httpx.Response, status: int = 403) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["X-Request-ID"] in answer.text
    assert 'href="/login/"' in answer.text
    assert not site.rows("SELECT 1 FROM auth_user")
    sessions = site.rows("SELECT session_data FROM django_session")
    assert all("_auth_user_id" not in row[0] for row in sessions)


def _changed(**claims: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def spoil(given: dict[str, Any]) -> dict[str, Any]:
        given = {**given, **claims}
        return {name: value for name, value in given.items() if value is not None}

    return spoil


@pytest.mark.parametrize(
    "spoil",
    [
        _changed(nonce="another"),
        _changed(nonce=None),
        _changed(iss="https://elsewhere.example"),
        _changed(iss=None),
        _changed(aud="another-client"),
        _changed(aud=[CLIENT, "another-client"]),
        _changed(aud=[CLIENT, "another-client"], azp="another-client"),
        _changed(exp=int(time.time()) - 120),
        _changed(exp=None),
        _changed(iat=int(time.time()) + 3600),
        _changed(nbf=int(time.time()) + 3600),
        _changed(sub=None),
        _changed(sub="2"),  # the userinfo is of another person
        _changed(given_name="A\0da"),
    ],
    ids=[
        "wrong nonce", "no nonce", "wrong issuer", "no issuer", "wrong audience",
        "two audiences, no party", "another party", "expired", "no expiry", "from the future",
        "not yet", "no subject", "another subject", "text that cannot be stored",
    ],
)  # fmt: skip
def test_invalid_claims_are_refused(site, clean, spoil) -> None:
    clean.spoil = spoil
    refused(site, Person(site).sign_in())


def _unsigned(claims: dict[str, Any]) -> str:
    return jwt.encode(claims, None, algorithm="none", headers={"kid": "one"})


def _by_the_secret(claims: dict[str, Any]) -> str:
    return jwt.encode(claims, SECRET * 3, algorithm="HS256", headers={"kid": "one"})


def _by_another_key(claims: dict[str, Any]) -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return jwt.encode(claims, key, algorithm="RS256", headers={"kid": "one"})


def _unknown_key(claims: dict[str, Any]) -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return jwt.encode(claims, key, algorithm="RS256", headers={"kid": "two"})


def _changed_afterwards(claims: dict[str, Any]) -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    head, _, signature = jwt.encode(claims, key, algorithm="RS256").split(".")
    body = base64.urlsafe_b64encode(json.dumps({**claims, "sub": "9"}).encode()).decode()
    return f"{head}.{body.rstrip('=')}.{signature}"


@pytest.mark.parametrize(
    "sign",
    [_unsigned, _by_the_secret, _by_another_key, _unknown_key, _changed_afterwards, lambda _: "x"],
    ids=["unsigned", "by the secret", "another key", "unknown key", "changed", "no token"],
)
def test_foreign_signatures_are_refused(site, clean, sign) -> None:
    clean.sign = sign
    refused(site, Person(site).sign_in())


def test_a_state_of_another_browser_is_refused(site, clean) -> None:
    back = Person(site).approve(Person(site).begin())
    refused(site, Person(site).http.get(back))
    mine = Person(site)
    back = mine.approve(mine.begin())
    refused(site, mine.http.get(back.replace("state=", "state=x")))


def test_a_callback_is_accepted_once(site, clean) -> None:
    person = Person(site)
    back = person.approve(person.begin())
    assert person.http.get(back).status_code == 302
    site.rows("DELETE FROM django_session")
    site.rows("DELETE FROM socialaccount_socialaccount")
    site.rows("DELETE FROM auth_user")
    refused(site, person.http.get(back))


def test_a_code_requested_by_another_browser_is_refused(site, clean) -> None:
    """An attacker's code in my sign-in: PKCE binds a code to the browser that asked for it."""
    attacker, victim = Person(site), Person(site)
    code = parse_qs(urlsplit(attacker.approve(attacker.begin())).query)["code"][0]
    state = parse_qs(urlsplit(victim.begin()).query)["state"][0]
    answer = victim.http.get("/login/oidc/callback/", params={"code": code, "state": state})
    refused(site, answer, 502)


def test_issuer_errors_are_shown(site, clean, issuer) -> None:
    clean.denies = True
    refused(site, Person(site).sign_in())
    clean.reset()
    clean.discovery = {"issuer": "https://elsewhere.example"}
    refused(site, press(site), 403)
    clean.discovery = {"authorization_endpoint": "http://elsewhere.example/"}
    refused(site, press(site), 403)
    clean.discovery = {"token_endpoint": "http://127.0.0.1:9/"}
    refused(site, Person(site).sign_in(), 502)


def press(site: Site) -> httpx.Response:
    person = Person(site)
    token = person.http.get("/login/").text.split('csrfmiddlewaretoken" value="')[1].split('"')[0]
    return person.http.post("/login/oidc/", data={"csrfmiddlewaretoken": token})


def test_an_inactive_account_cannot_sign_in(site, clean) -> None:
    Person(site).sign_in()
    site.rows("UPDATE auth_user SET is_active = false")
    person = Person(site)
    answer = person.sign_in()
    assert answer.status_code == 403
    assert "disabled" in answer.text
    assert person.name() == ""


def test_sign_in_starts_with_a_csrf_protected_post(site, clean) -> None:
    person = Person(site)
    assert person.http.get("/login/oidc/").status_code == 405
    assert person.http.post("/login/oidc/").status_code == 403
    assert person.http.post("/login/oidc/callback/").status_code == 403


@pytest.mark.parametrize(
    "there", ["https://elsewhere.example/", "//elsewhere.example", "javascript:1"]
)
def test_the_return_address_stays_on_this_site(site, clean, there) -> None:
    answer = Person(site).sign_in(next=there)
    assert answer.headers["Location"] == "/"


def test_the_discovery_document_and_keys_are_fetched(site, clean: Issuer) -> None:
    Person(site).sign_in()
    assert {"/.well-known/openid-configuration", "/keys", "/userinfo"} <= set(clean.asked)


def test_refused_sign_ins_count_against_the_address(site, clean) -> None:
    site.rows("DELETE FROM axes_accessattempt")
    mine = Person(site)
    back = mine.approve(mine.begin())
    refused(site, mine.http.get(back.replace("state=", "state=x")))
    ((address, failures),) = site.rows(
        "SELECT host(ip_address), failures_since_start FROM axes_accessattempt"
    )
    assert (address, failures) == ("127.0.0.1", 1)
    form = mine.http.get("/login/").text
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', form)
    assert token
    site.rows("UPDATE axes_accessattempt SET failures_since_start = 50")
    try:
        data = {"csrfmiddlewaretoken": token[1]}
        assert mine.http.post("/login/oidc/", data=data).status_code == 429
        assert mine.http.get(back).status_code == 429
        data |= {"username": "anna", "password": "x"}
        assert mine.http.post("/login/", data=data).status_code == 429
    finally:
        site.rows("DELETE FROM axes_accessattempt")
