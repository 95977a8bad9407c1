"""Options of OpenID Connect in the environment, and errors that stop the start."""

from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured

from config.auth.oidc.options import options_of
from config.settings.topics import OpenId

SET = {
    "HOLDPOINT_OIDC_ISSUER": "https://id.example.com",
    "HOLDPOINT_OIDC_CLIENT_ID": "holdpoint",
    "HOLDPOINT_OIDC_CLIENT_SECRET": "s",
}


@pytest.fixture
def environment(monkeypatch):
    def give(**values: str):
        for name, value in (SET | values).items():
            monkeypatch.setenv(name, value)
        return options_of(OpenId.read())

    return give


def test_oidc_is_off_by_default(monkeypatch) -> None:
    for name in SET:
        monkeypatch.delenv(name, raising=False)
    assert options_of(OpenId.read()) is None
    with pytest.raises(ImproperlyConfigured, match="nobody could sign in"):
        options_of(OpenId.read().model_copy(update={"password_login": False}))


def test_the_defaults(environment) -> None:
    found = environment()
    assert (found.groups, found.domains, found.groups_claim) == ((), (), "groups")
    assert found.scopes == ("openid", "profile", "email")


def test_groups_and_domains(environment) -> None:
    found = environment(
        HOLDPOINT_OIDC_GROUPS="urn:a:reviewers:reviewer, ops:operator",
        HOLDPOINT_OIDC_EMAIL_DOMAINS="Example.com,example.org",
    )
    assert found.groups == (("urn:a:reviewers", "reviewer"), ("ops", "operator"))
    assert found.domains == ("example.com", "example.org")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOLDPOINT_OIDC_ISSUER", "http://id.example.com"),
        ("HOLDPOINT_OIDC_ISSUER", "id.example.com"),
        ("HOLDPOINT_OIDC_ISSUER", "https://id.example.com/?a=1"),
        ("HOLDPOINT_OIDC_CLIENT_ID", ""),
        ("HOLDPOINT_OIDC_CLIENT_SECRET", ""),
        ("HOLDPOINT_OIDC_GROUPS", "reviewers"),
        ("HOLDPOINT_OIDC_GROUPS", ":reviewer"),
    ],
)
def test_invalid_options_stop_the_start_and_are_named(environment, name, value) -> None:
    with pytest.raises(ImproperlyConfigured, match=name):
        environment(**{name: value})


def test_the_secret_may_be_a_file(environment, monkeypatch, tmp_path) -> None:
    (tmp_path / "secret").write_text("from a file\n")
    monkeypatch.setenv("HOLDPOINT_OIDC_CLIENT_SECRET_FILE", str(tmp_path / "secret"))
    assert environment(HOLDPOINT_OIDC_CLIENT_SECRET="").client_secret == "from a file"


def test_another_issuer_has_other_accounts(environment) -> None:
    other = environment(HOLDPOINT_OIDC_ISSUER="https://elsewhere.example").provider_id
    assert environment().provider_id != other
