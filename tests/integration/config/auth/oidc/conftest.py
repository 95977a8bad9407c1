"""A site that signs in with a real issuer, and people with browsers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.config.auth.site import Site, running_site
from tests.support.oidc_provider import Issuer, environment, issuing

TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
AWAY = re.compile(r'http-equiv="refresh" content="0; url=([^"]+)"')


@pytest.fixture(scope="session")
def issuer() -> Iterator[Issuer]:
    with issuing(Issuer()) as found:
        yield found


class Person:
    """A browser with its own cookies; closed after the test."""

    opened: list[httpx.Client] = []

    def __init__(self, site: Site) -> None:
        self.site = site
        # Nothing here speaks TLS, and reading the authorities takes longer than all else.
        self.http = httpx.Client(base_url=site.url, timeout=60, verify=False)
        self.opened.append(self.http)

    def begin(self, **fields: str) -> str:
        """Press the button; the address at the issuer."""
        form = self.http.get("/login/").text
        token = TOKEN.search(form)
        assert token
        answer = self.http.post("/login/oidc/", data={"csrfmiddlewaretoken": token[1], **fields})
        away = AWAY.search(answer.text)
        assert away, answer.text
        return away[1].replace("&amp;", "&")

    def approve(self, address: str) -> str:
        """At the issuer; the address that leads back."""
        answer = self.http.get(address)
        assert answer.status_code == 302
        return str(answer.headers["Location"])

    def sign_in(self, **fields: str) -> httpx.Response:
        """The whole way; the answer at the callback."""
        return self.http.get(self.approve(self.begin(**fields)))

    def name(self) -> str:
        """Who the site takes them for, "" for nobody."""
        answer = self.http.get("/review/")
        found = re.search(r'person-name">([^<]*)<', answer.text)
        return found[1] if found and answer.status_code == 200 else ""


@pytest.fixture(scope="module")
def site(issuer: Issuer, django_db_setup: None, tmp_path_factory: Any) -> Iterator[Site]:
    yield from running(issuer, tmp_path_factory.mktemp("oidc"))


def running(issuer: Issuer, folder: Path, **more: str) -> Iterator[Site]:
    """Yield a site whose users sign in with the issuer."""
    with running_site(folder, **environment(issuer, **more)) as site:
        yield site


@pytest.fixture(autouse=True)
def _browsers_closed() -> Iterator[None]:
    yield
    while Person.opened:
        Person.opened.pop().close()


@pytest.fixture
def clean(site: Site, issuer: Issuer) -> Issuer:
    """Nobody is known, and the issuer is honest."""
    issuer.reset()
    site.rows("DELETE FROM socialaccount_socialaccount")
    site.rows("DELETE FROM django_session")
    site.rows("DELETE FROM auth_user_groups")
    site.rows("DELETE FROM auth_user")
    return issuer
