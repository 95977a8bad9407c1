"""Tokens: authentication, invalid tokens, stored data, creation and revocation."""

import io
import re
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from rest_framework.test import APIClient

from workflows.api.authentication import authenticate_token
from workflows.executions.access import groups_of
from workflows.executions.validation import InvalidRequest
from workflows.models import ApiToken
from workflows.permissions.tokens import create_token

pytestmark = pytest.mark.django_db
URL = "/api/v1/executions/"


def status(authorization: str | bytes) -> int:
    client = APIClient()
    response = client.get(URL, HTTP_AUTHORIZATION=authorization)
    if response.status_code == 401:
        assert response["WWW-Authenticate"].startswith("Bearer")
        assert response["Content-Type"] == "application/problem+json"
    return int(response.status_code)


@pytest.fixture
def made(people) -> tuple[ApiToken, str]:
    return create_token(user=people["operator"], name="ci", scopes=["read"])


def test_a_token_is_shown_once_and_stored_as_a_digest(made) -> None:
    token, text = made
    assert re.fullmatch(r"hp_[A-Za-z0-9]{8}_[A-Za-z0-9_-]{43}", text)
    token.refresh_from_db()
    assert text.startswith(token.prefix)
    secret = text.split("_", 2)[2]
    assert all(secret not in str(value) for value in vars(token).values())
    assert status(f"Bearer {text}") == 200
    assert status(f"bearer   {text}  ") == 200


def test_invalid_tokens_are_refused(made, people) -> None:
    _, text = made
    assert status(f"Bearer {text[:-1]}") == 401
    ApiToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert status(f"Bearer {text}") == 401
    ApiToken.objects.update(expires_at=timezone.now() + timedelta(hours=1))
    assert status(f"Bearer {text}") == 200
    people["operator"].is_active = False
    people["operator"].save()
    assert status(f"Bearer {text}") == 401
    people["operator"].is_active = True
    people["operator"].save()
    ApiToken.objects.update(revoked_at=timezone.now())
    assert status(f"Bearer {text}") == 401


@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "Bearer ",
        "Bearer x",
        "Bearer hp_x_y",
        "Bearer \x00",
        "Bearer hp_aaaaaaaa_" + "\x00" * 43,
        "Bearer hp_aaaaaaaa_" + "é" * 43,
        "Bearer \xff\xfe",
        "Bearer " + "a" * 100_000,
        "Bearer a b c",
        "Bearer hp_aaaaaaaa_" + "a" * 43 + "\n",
    ],
)
def test_a_malformed_token_is_401(db, header) -> None:
    assert status(header) == 401


def test_other_authorization_schemes_are_ignored(db) -> None:
    assert status("Basic dXNlcjpwYXNz") == 401


@pytest.mark.parametrize("text", ["", "\x00", "\ud800", "é", "hp_", "hp_aaaaaaaa_" + "\u0661" * 43])
def test_any_text_can_be_looked_up(db, text) -> None:
    assert authenticate_token(text) is None


def test_last_use_is_stored_at_most_once_a_minute(made) -> None:
    _, text = made
    assert authenticate_token(text).last_used_at is None
    first = ApiToken.objects.get().last_used_at
    assert first is not None
    authenticate_token(text)
    assert ApiToken.objects.get().last_used_at == first
    ApiToken.objects.update(last_used_at=first - timedelta(seconds=61))
    authenticate_token(text)
    assert ApiToken.objects.get().last_used_at >= first


def test_a_token_is_read_with_its_user_and_groups(
    made, people, django_assert_max_num_queries
) -> None:
    kept, text = made
    authenticate_token(text)  # its use is noted, which is not asked about here
    with django_assert_max_num_queries(2):
        read = authenticate_token(text, reading=True)
        assert groups_of(read.user) == {"operator"}
    kept.refresh_from_db()
    for one, other in ((read, kept), (read.user, people["operator"])):
        fields = [field.attname for field in one._meta.concrete_fields]
        assert {name: getattr(one, name) for name in fields} == {
            name: getattr(other, name) for name in fields
        }


def test_authentication_loads_no_groups(made, people) -> None:
    _, text = made
    doing = authenticate_token(text).user
    people["operator"].groups.clear()
    assert groups_of(doing) == frozenset()
    assert groups_of(authenticate_token(text, reading=True).user) == frozenset()


def test_making_listing_and_revoking_over_rest(session) -> None:
    client = session("operator")
    made = client.post("/api/v1/tokens/", {"name": "ci", "scopes": ["run", "read"]})
    assert made.status_code == 201
    assert made["Cache-Control"] == "no-store"
    body = made.json()
    assert body["scopes"] == ["read", "run"]
    assert authenticate_token(body["token"]) is not None
    listed = client.get("/api/v1/tokens/").json()["results"]
    assert [each["id"] for each in listed] == [body["id"]]
    assert "token" not in listed[0]
    assert client.delete(f"/api/v1/tokens/{body['id']}/").status_code == 204
    assert authenticate_token(body["token"]) is None
    shown = client.get(f"/api/v1/tokens/{body['id']}/").json()
    assert shown["revoked_at"] is not None


def test_a_token_is_no_stronger_than_its_owner(session, bearer, people) -> None:
    refused = session("operator").post("/api/v1/tokens/", {"scopes": ["admin"]})
    assert refused.status_code == 422
    assert refused.json()["errors"][0] == {
        "path": "scopes",
        "code": "not_admin",
        "message": "only an admin's token may have the scope 'admin'",
    }
    weak = bearer("admin", ["admin", "read"])
    assert weak.post("/api/v1/tokens/", {"scopes": ["decide"]}).status_code == 403
    assert weak.post("/api/v1/tokens/", {"scopes": ["read"]}).status_code == 201
    with pytest.raises(InvalidRequest, match="at most 100"):
        create_token(user=people["admin"], name="n" * 101, scopes=["read"])


def command(*arguments: str) -> str:
    out = io.StringIO()
    call_command("create_token", *arguments, stdout=out)
    return out.getvalue()


def test_the_command_prints_the_token_alone_on_its_line(people) -> None:
    out = command("operator", "--scopes", "read,run", "--name", "ci", "--days", "7")
    assert out.count("\n") == 1
    token = authenticate_token(out.strip())
    assert token is not None
    assert (token.user, token.name, token.scopes) == (people["operator"], "ci", ["read", "run"])
    left = token.expires_at - timezone.now()
    assert timedelta(days=6, hours=23) < left <= timedelta(days=7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ghost",), "no active user"),
        (("operator", "--scopes", "fly"), "no scope 'fly'"),
        (("operator", "--scopes", ""), "at least one scope"),
        (("operator", "--scopes", "admin"), "only an admin"),
        (("operator", "--days", "0"), "between 1 and"),
    ],
)
def test_the_command_explains_errors(people, arguments, message) -> None:
    with pytest.raises(CommandError, match=message):
        command(*arguments)
    assert ApiToken.objects.count() == 0
