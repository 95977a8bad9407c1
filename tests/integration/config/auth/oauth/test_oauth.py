"""OAuth for MCP and REST: metadata, registration, consent, code with PKCE, refresh, revocation."""

from __future__ import annotations

import base64
import hashlib
import secrets
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from bs4 import BeautifulSoup
from django.contrib.auth.models import Group
from django.core.cache import cache
from django.db import connections
from django.test import Client
from django.utils import timezone
from oauth2_provider.cimd import CIMDError
from oauth2_provider.models import AccessToken, Application, RefreshToken

from config.auth.oauth import clients
from config.auth.oauth.validator import OAuthValidator
from workflows.conf import site_url
from workflows.models import ApiToken, Gate
from workflows.permissions import tokens

if TYPE_CHECKING:
    from django.contrib.auth.models import User

CALLBACK = "http://127.0.0.1:4711/callback"
VERIFIER = "v" * 64
CHALLENGE = (
    base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def ann(django_user_model: type[User]) -> User:
    person = django_user_model.objects.create_user("ann", password="a long pass phrase")
    person.groups.add(Group.objects.get_or_create(name="operator")[0])
    return person


@pytest.fixture
def browser(ann: User) -> Client:
    client = Client(enforce_csrf_checks=True)
    client.force_login(ann)
    return client


def register(address: str = "127.0.0.1", **changes: Any) -> Any:
    body = {
        "client_name": "Desk agent",
        "redirect_uris": [CALLBACK],
        "grant_types": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_method": "none",
        **changes,
    }
    client = Client(enforce_csrf_checks=True, REMOTE_ADDR=address)
    return client.post("/oauth/register/", body, content_type="application/json")


@pytest.fixture
def client_id() -> str:
    response = register()
    assert response.status_code == 201, response.content
    return str(response.json()["client_id"])


def authorize_path(client_id: str, **changes: str) -> str:
    query = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": CALLBACK,
        "scope": "read run decide",
        "state": "s1",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        **changes,
    }
    return f"/oauth/authorize/?{urlencode({key: text for key, text in query.items() if text})}"


def consent_form(page: Any) -> dict[str, Any]:
    """The fields that a browser would send with the button `Connect`."""
    fields: dict[str, Any] = {"scope": []}
    for box in BeautifulSoup(page.content, "html.parser").select("form input"):
        if box.get("type") == "checkbox":
            fields["scope"] += [box["value"]] if box.has_attr("checked") else []
        else:
            fields[box["name"]] = box.get("value", "")
    return {**fields, "allow": "true"}


def consent(browser: Client, client_id: str, **changes: Any) -> str:
    """The address that the browser goes to after the consent."""
    path = authorize_path(client_id)
    page = browser.get(path)
    done = browser.post(path, {**consent_form(page), **changes})
    assert done.status_code == 200, done.content
    return str(done.context["address"])


def code_of(address: str) -> str:
    return parse_qs(urlsplit(address).query)["code"][0]


def exchange(client_id: str, code: str, **changes: str) -> Any:
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": CALLBACK,
        "client_id": client_id,
        "code_verifier": VERIFIER,
        **changes,
    }
    return Client().post("/oauth/token/", form)


def refresh(client_id: str, token: str) -> Any:
    form = {"grant_type": "refresh_token", "refresh_token": token, "client_id": client_id}
    return Client().post("/oauth/token/", form)


def status_of(text: str) -> int:
    """Of a REST call with the token."""
    headers = {"authorization": f"Bearer {text}"}
    return int(Client().get("/api/v1/executions/", headers=headers).status_code)


@pytest.fixture
def granted(browser: Client, client_id: str) -> dict[str, Any]:
    response = exchange(client_id, code_of(consent(browser, client_id)))
    assert response.status_code == 200, response.content
    return dict(response.json())


def test_a_client_finds_its_way_from_the_401(settings: Any) -> None:
    challenge = Client().get("/api/v1/executions/")["WWW-Authenticate"]
    address = challenge.partition('resource_metadata="')[2].rstrip('"')
    resource = Client().get(urlsplit(address).path).json()
    assert resource["bearer_methods_supported"] == ["header"]
    mcp = Client().get("/.well-known/oauth-protected-resource/mcp").json()
    assert mcp["resource"].endswith("/mcp")
    server = Client().get("/.well-known/oauth-authorization-server").json()
    assert server["code_challenge_methods_supported"] == ["S256"]
    assert server["grant_types_supported"] == ["authorization_code", "refresh_token"]
    assert server["response_types_supported"] == ["code"]
    assert "none" in server["token_endpoint_auth_methods_supported"]
    assert server["client_id_metadata_document_supported"]
    assert set(server["scopes_supported"]) == {"read", "run", "ask", "gate", "decide"}
    for name in ("authorization", "token", "revocation", "registration"):
        assert server[f"{name}_endpoint"].endswith("/")


def test_a_person_gives_a_client_a_token_with_the_chosen_scopes(
    ann: User, granted: dict[str, Any], client_id: str
) -> None:
    # Deciding in the person's name has to be ticked.
    assert granted["scope"].split() == ["read", "run"]
    assert status_of(granted["access_token"]) == 200
    token = ApiToken.objects.get()
    assert (token.user, token.name, token.scopes) == (ann, "Desk agent", ["read", "run"])
    assert token.oauth_client is not None
    assert token.oauth_client.client_id == client_id
    assert token.expires_at is not None
    assert token.expires_at < timezone.now() + timedelta(hours=1, minutes=1)
    # Only digests are stored.
    assert set(
        AccessToken.objects.exclude(scope="oauth2_provider:registration").values_list(
            "token", flat=True
        )
    ) == {""}
    assert set(RefreshToken.objects.values_list("token", flat=True)) == {""}


def test_a_ticked_scope_is_granted(browser: Client, client_id: str) -> None:
    address = consent(browser, client_id, scope=["read", "decide"])
    assert exchange(client_id, code_of(address)).json()["scope"].split() == ["read", "decide"]


def test_scopes_of_admins_cannot_be_asked_for(browser: Client, client_id: str) -> None:
    for scope in ("admin", "loosen", "decide_high_risk"):
        refused = browser.get(authorize_path(client_id, scope=scope))
        assert parse_qs(urlsplit(refused["Location"]).query)["error"] == ["invalid_scope"]
    path = authorize_path(client_id)
    form = {**consent_form(browser.get(path)), "scope": ["read", "admin"]}
    assert browser.post(path, form).context["form"].errors["scope"]


def test_cancelling_and_nothing_ticked(browser: Client, client_id: str) -> None:
    path = authorize_path(client_id)
    form = consent_form(browser.get(path))
    nothing = browser.post(path, {**form, "scope": []})
    assert nothing.context["form"].errors["scope"]
    assert "Connect Desk agent with Holdpoint?" in nothing.content.decode()
    offered = [each for each, _ in nothing.context["form"].fields["scope"].choices]
    assert offered == ["read", "run", "decide"], "as the client asked"
    del form["allow"]
    address = browser.post(path, form).context["address"]
    assert parse_qs(urlsplit(address).query)["error"] == ["access_denied"]
    assert not ApiToken.objects.exists()


def test_consent_needs_a_sign_in_and_a_form_of_this_site(browser: Client, client_id: str) -> None:
    path = authorize_path(client_id)
    away = Client().get(path)
    assert (away.status_code, urlsplit(away["Location"]).path) == (302, "/login/")
    form = consent_form(browser.get(path))
    del form["csrfmiddlewaretoken"]
    assert browser.post(path, form).status_code == 403


def test_a_code_needs_its_verifier_and_works_once(browser: Client, client_id: str) -> None:
    code = code_of(consent(browser, client_id))
    assert exchange(client_id, code, code_verifier="w" * 64).status_code == 400
    other = register().json()["client_id"]
    assert exchange(other, code).status_code == 400
    assert exchange(client_id, code, redirect_uri="http://127.0.0.1:4711/x").status_code == 400
    code = code_of(consent(browser, client_id))
    assert exchange(client_id, code).status_code == 200
    assert exchange(client_id, code).status_code == 400


@pytest.mark.parametrize(
    "changes",
    [{"code_challenge": ""}, {"code_challenge_method": "plain"}, {"response_type": "token"}],
)
def test_only_the_code_grant_with_s256(
    changes: dict[str, str], browser: Client, client_id: str
) -> None:
    path = authorize_path(client_id, **changes)
    shown = browser.get(path)
    address = shown.get("Location", "")
    if shown.status_code == 200:  # refused after the form
        address = browser.post(path, consent_form(shown)).context["address"]
    assert parse_qs(urlsplit(address).query)["error"]
    assert "code=" not in address
    assert "token=" not in address


def test_a_token_for_another_server_is_refused(browser: Client, client_id: str) -> None:
    elsewhere = browser.get(authorize_path(client_id, resource="https://other.example/mcp"))
    assert elsewhere.status_code == 400
    here = f"{site_url().rstrip('/')}/mcp"
    assert browser.get(authorize_path(client_id, resource=here)).status_code == 200


def test_an_unknown_redirect_is_not_followed(browser: Client, client_id: str) -> None:
    page = browser.get(authorize_path(client_id, redirect_uri="https://evil.example/"))
    assert page.status_code == 400


@pytest.mark.parametrize(
    "uri", ["http://evil.example/cb", "javascript:alert(1)", "//evil.example", "http://[::1", ""]
)
def test_unsafe_redirects_are_not_registered(uri: str) -> None:
    assert register(redirect_uris=[uri]).status_code in (400, 401)
    assert not Application.objects.exists()


def test_a_redirect_with_white_space_is_not_stored() -> None:
    """Two addresses would be stored, of which only the first was checked."""
    registered = register().json()
    address = urlsplit(registered["registration_client_uri"]).path
    headers = {"authorization": f"Bearer {registered['registration_access_token']}"}
    body = {"grant_types": ["authorization_code"], "token_endpoint_auth_method": "none"}
    for space in (" ", "\t", "\n", "\r", "\x0b", "\x00", "\u00a0", "\u2028", "\u3000"):
        for second in ("http://evil.example/", "https://evil.example/"):
            uri = f"{CALLBACK}{space}{second}"
            refused = register(redirect_uris=[uri])
            assert refused.status_code == 400, uri
            assert refused.json()["error_description"].startswith("redirect_uris: "), uri
            changed = Client(enforce_csrf_checks=True).put(
                address,
                {**body, "redirect_uris": [CALLBACK, uri]},
                content_type="application/json",
                headers=headers,
            )
            assert changed.status_code == 400, uri
            assert changed.json()["error"] == "invalid_redirect_uri", uri
    assert Application.objects.get().redirect_uris == CALLBACK
    moved = {**body, "redirect_uris": ["https://app.example/cb"]}
    client = Client(enforce_csrf_checks=True)
    changed = client.put(address, moved, content_type="application/json", headers=headers)
    assert changed.status_code == 200, changed.content
    assert Application.objects.get().redirect_uris == "https://app.example/cb"


@pytest.mark.parametrize(
    "uri", ["https://app.example/cb", "http://localhost:1/cb", "http://[::1]/c"]
)
def test_safe_redirects_are(uri: str) -> None:
    assert clients.is_safe_redirect(uri)


def test_an_unsafe_redirect_that_was_stored_later_is_not_followed(
    browser: Client, client_id: str
) -> None:
    """A client may change its addresses, and a metadata document is not checked when it is read."""
    unsafe = "http://evil.example/cb"
    Application.objects.update(redirect_uris=f"{CALLBACK} {unsafe}")
    assert browser.get(authorize_path(client_id, redirect_uri=unsafe)).status_code == 400
    assert browser.get(authorize_path(client_id)).status_code == 200


def test_registrations_are_limited(settings: Any) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "oauth_registrations_per_hour": 1}
    assert register().status_code == 201
    assert register().status_code == 401


def limit_per_address(settings: Any, most: int) -> tuple[str, str]:
    """Two addresses that no test has used."""
    settings.HOLDPOINT = {**settings.HOLDPOINT, "oauth_registrations_per_address": most}
    network = f"2001:db8:{secrets.token_hex(2)}"
    return f"{network}:1::1", f"{network}:2::1"


def test_registrations_are_limited_per_address(settings: Any) -> None:
    first, second = limit_per_address(settings, 1)
    assert register(first, redirect_uris=[]).status_code == 400
    assert register(first).status_code == 401, "attempts that fail count too"
    assert register(second).status_code == 201


def test_refreshing_keeps_one_token_of_the_list(granted: dict[str, Any], client_id: str) -> None:
    first = ApiToken.objects.get()
    renewed = refresh(client_id, granted["refresh_token"])
    assert renewed.status_code == 200, renewed.content
    assert status_of(renewed.json()["access_token"]) == 200
    assert status_of(granted["access_token"]) == 401
    assert ApiToken.objects.get().pk == first.pk


def test_a_replayed_refresh_token_ends_the_consent(granted: dict[str, Any], client_id: str) -> None:
    renewed = refresh(client_id, granted["refresh_token"]).json()
    assert refresh(client_id, granted["refresh_token"]).status_code == 400
    assert status_of(renewed["access_token"]) == 401
    assert refresh(client_id, renewed["refresh_token"]).status_code == 400


def test_a_replayed_code_ends_the_tokens_of_its_first_use(browser: Client, client_id: str) -> None:
    code = code_of(consent(browser, client_id))
    other = exchange(client_id, code_of(consent(browser, client_id))).json()
    first = exchange(client_id, code).json()
    renewed = refresh(client_id, first["refresh_token"]).json()
    assert status_of(renewed["access_token"]) == 200
    # Whoever has the code: another client, and without the verifier.
    stranger = register().json()["client_id"]
    assert exchange(stranger, code, code_verifier="w" * 64).status_code == 400
    assert status_of(renewed["access_token"]) == 401
    assert refresh(client_id, renewed["refresh_token"]).status_code == 400
    assert status_of(other["access_token"]) == 200, "another consent"
    assert exchange(client_id, "no such code").status_code == 400
    assert status_of(other["access_token"]) == 200


@pytest.mark.django_db(transaction=True)
def test_a_code_that_is_used_twice_at_once_gives_no_token(
    browser: Client, client_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both requests have read the code before one of them deletes it."""
    code = code_of(consent(browser, client_id))
    both_have_it = Barrier(2)
    validate_code = OAuthValidator.validate_code

    def validated(self: OAuthValidator, *args: Any, **kwargs: Any) -> bool:
        valid = validate_code(self, *args, **kwargs)
        both_have_it.wait(20)
        return valid

    def used() -> Any:
        try:
            return exchange(client_id, code)
        finally:
            connections.close_all()

    monkeypatch.setattr(OAuthValidator, "validate_code", validated)
    with ThreadPoolExecutor() as pool:
        answers = [call.result() for call in [pool.submit(used), pool.submit(used)]]
    assert sorted(answer.status_code for answer in answers) in ([200, 400], [400, 400])
    for answer in answers:
        if answer.status_code == 200:
            assert status_of(answer.json()["access_token"]) == 401
    assert not tokens.usable().exists()


@pytest.mark.parametrize("name", ["access_token", "refresh_token"])
def test_a_client_gives_its_token_back(name: str, granted: dict[str, Any], client_id: str) -> None:
    form = {"token": granted[name], "client_id": client_id}
    assert Client().post("/oauth/revoke/", form).status_code == 200
    assert status_of(granted["access_token"]) == 401


def test_a_person_revokes_the_client(granted: dict[str, Any], client_id: str) -> None:
    tokens.revoke(tokens=ApiToken.objects.all())
    assert status_of(granted["access_token"]) == 401
    assert refresh(client_id, granted["refresh_token"]).status_code == 400
    assert status_of(granted["access_token"]) == 401


def test_a_revoked_client_gets_nothing_without_a_new_consent(
    browser: Client, granted: dict[str, Any], client_id: str
) -> None:
    code = code_of(consent(browser, client_id))
    tokens.revoke(tokens=ApiToken.objects.all())
    assert exchange(client_id, code).status_code == 400, "a code that was not used yet"
    assert (
        not AccessToken.objects.filter(application__client_id=client_id).exclude(user=None).exists()
    )
    assert not RefreshToken.objects.filter(revoked=None).exists()
    page = browser.get(authorize_path(client_id, scope="read", approval_prompt="auto"))
    assert page.status_code == 200
    assert consent_form(page)["scope"] == ["read"]


def test_a_valid_token_replaces_no_consent(
    browser: Client, granted: dict[str, Any], client_id: str
) -> None:
    for prompt in ("auto", "force", ""):
        page = browser.get(authorize_path(client_id, scope="read", approval_prompt=prompt))
        assert page.status_code == 200, prompt
        assert consent_form(page)["scope"] == ["read"]
    both = authorize_path(client_id, scope="read") + "&approval_prompt=force&approval_prompt=auto"
    assert browser.get(both).status_code == 200


def test_a_disabled_account_gets_no_further_token(
    ann: User, granted: dict[str, Any], client_id: str
) -> None:
    ann.is_active = False
    ann.save()
    assert status_of(granted["access_token"]) == 401
    assert refresh(client_id, granted["refresh_token"]).status_code == 400


def test_deleting_a_client_ends_its_tokens(granted: dict[str, Any]) -> None:
    Application.objects.all().delete()
    assert status_of(granted["access_token"]) == 401
    assert not ApiToken.objects.exists()


def test_clients_that_nobody_used_are_deleted(granted: dict[str, Any]) -> None:
    unused = register().json()["client_id"]
    Application.objects.update(created=timezone.now() - timedelta(days=2))
    assert clients.clean_up() == 1
    assert not Application.objects.filter(client_id=unused).exists()
    assert Application.objects.count() == 1


def test_cleaning_up_waits_an_hour(granted: dict[str, Any]) -> None:
    cache.delete("oauth.clean_up")
    register()
    Application.objects.update(created=timezone.now() - timedelta(days=2))
    assert [clients.clean_up_hourly(), clients.clean_up_hourly()] == [1, 0]


DOCUMENT = "https://agent.example/client.json"


class Documents:
    """In place of the fetcher of django-oauth-toolkit, which reads public addresses only."""

    more: dict[str, Any] = {}

    def fetch(self, client_id: str) -> tuple[dict[str, Any], int]:
        return {
            "client_id": client_id,
            "client_name": "Document agent",
            "redirect_uris": [CALLBACK],
            "token_endpoint_auth_method": "none",
            **self.more,
        }, 300


def with_documents(settings: Any, fetcher: str) -> None:
    settings.OAUTH2_PROVIDER = {**settings.OAUTH2_PROVIDER, "CIMD_METADATA_FETCHER": fetcher}


def test_a_client_may_be_an_address_of_its_document(browser: Client, settings: Any) -> None:
    with_documents(settings, f"{__name__}.Documents")
    assert "Connect Document agent" in browser.get(authorize_path(DOCUMENT)).content.decode()
    response = exchange(DOCUMENT, code_of(consent(browser, DOCUMENT)))
    assert response.status_code == 200, response.content
    assert status_of(response.json()["access_token"]) == 200
    assert ApiToken.objects.get().name == "Document agent"


class Unreachable:
    """A fetcher whose every document fails."""

    fetched: ClassVar[list[str]] = []

    def fetch(self, client_id: str) -> tuple[dict[str, Any], int]:
        self.fetched.append(client_id)
        raise CIMDError("not reachable")


def test_fetches_of_documents_are_limited_per_address(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_documents(settings, f"{__name__}.Unreachable")
    monkeypatch.setattr(Unreachable, "fetched", [])
    first, second = limit_per_address(settings, 6)

    def ask(address: str) -> int:
        """Ask with clients that nobody knows; returns how many documents were fetched."""
        Unreachable.fetched.clear()
        for _ in range(10):
            form = {
                "grant_type": "authorization_code",
                "code": "c",
                "redirect_uri": CALLBACK,
                "client_id": f"https://agent.example/{secrets.token_hex(4)}.json",
                "code_verifier": VERIFIER,
            }
            answer = Client(REMOTE_ADDR=address).post("/oauth/token/", form)
            assert answer.status_code == 401
        return len(Unreachable.fetched)

    assert 0 < ask(first) <= 6
    assert ask(first) == 0
    assert ask(second) > 0


@pytest.mark.parametrize(
    "more",
    [
        {"client_id": "https://other.example/client.json"},
        {"redirect_uris": ["http://evil.example/callback"]},
        {"redirect_uris": []},
        {"client_secret": "s"},
        {"token_endpoint_auth_method": "client_secret_post"},
    ],
)
def test_a_document_that_is_not_the_client_is_refused(
    browser: Client, settings: Any, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    with_documents(settings, f"{__name__}.Documents")
    monkeypatch.setattr(Documents, "more", more)
    redirect = (more.get("redirect_uris") or [CALLBACK])[0]
    answer = browser.get(authorize_path(DOCUMENT, redirect_uri=redirect))
    assert answer.status_code == 400


@pytest.mark.parametrize(
    "address",
    [
        "https://127.0.0.1:9/client.json",
        "https://[::1]/client.json",
        "https://169.254.169.254/latest",
        "https://localhost/client.json",
        "http://agent.example/client.json",
    ],
)
def test_documents_of_private_addresses_are_not_read(browser: Client, address: str) -> None:
    assert browser.get(authorize_path(address)).status_code == 400
    assert not Application.objects.filter(client_id=address).exists()


def test_a_token_for_a_gate_is_limited_to_it(browser: Client, client_id: str) -> None:
    gate = Gate.objects.create(name="ops")
    Gate.objects.create(name="other")

    def granted(scope: str, name: str) -> Any:
        resource = f"{site_url().rstrip('/')}/mcp/gate/{name}"
        path = authorize_path(client_id, scope=scope, resource=resource)
        done = browser.post(path, consent_form(browser.get(path)))
        return exchange(client_id, code_of(done.context["address"]), resource=resource)

    response = granted("read run gate", "ops").json()
    assert response["scope"] == "gate"
    token = ApiToken.objects.get(digest=tokens.digest_of(response["access_token"]))
    assert (token.scopes, token.only_gates) == (["gate"], [gate.pk])
    again = refresh(client_id, response["refresh_token"]).json()
    token.refresh_from_db()
    assert token.digest == tokens.digest_of(again["access_token"])
    assert (token.scopes, token.only_gates) == (["gate"], [gate.pk])
    assert AccessToken.objects.get(user=token.user).scope == "gate", "whatever was ticked"
    assert status_of(again["access_token"]) == 403
    for refused in (granted("read run", "ops"), granted("gate", "nowhere")):
        assert refused.status_code == 400
        assert refused.json()["error"] == "invalid_scope"
        assert refused["Cache-Control"] == "no-store"
