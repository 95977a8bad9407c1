"""One web process that signs in with a real issuer, on a database of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from django.conf import settings

from tests.integration.workflows.webhooks.installation import free_port
from tests.support.oidc_provider import Issuer, environment, issuing
from tests.support.processes import ROOT, database_url, end, wait_for
from tests.support.processes import environment as process_environment

TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
AWAY = re.compile(r'http-equiv="refresh" content="0; url=([^"]+)"')


@pytest.fixture(scope="session")
def issuer() -> Iterator[Issuer]:
    with issuing(Issuer()) as found:
        yield found


class Site:
    """The web process: `get`/`post` as a browser of its own would."""

    def __init__(self, port: int, database: str, env: dict[str, str]) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.database, self.env = database, env

    def manage(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=self.env, capture_output=True, text=True, check=False
        )

    def rows(self, query: str, *values: Any) -> list[Any]:
        with psycopg.connect(self.database, autocommit=True) as connection:
            cursor = connection.execute(query, values)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []


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
    """A migrated database and a web process on it; both gone afterwards."""
    whole = database_url()
    name = f"oidc_{free_port()}"
    with psycopg.connect(whole, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')  # type: ignore[arg-type]
    test_name = re.search(r"@/([^?]+)", whole)
    assert test_name
    database = whole.replace(f"/{test_name[1]}?", f"/{name}?")
    port = free_port()
    env = process_environment(
        DATABASE_URL=database,
        HOLDPOINT_ROLE="web",
        HOLDPOINT_HOME=str(folder),
        HOLDPOINT_SITE_URL=f"http://127.0.0.1:{port}",
        REDIS_URL=settings.REDIS_URL,
        **environment(issuer, **more),
    )
    site = Site(port, database, env)
    made = site.manage("migrate", "--skip-checks", "-v", "0")
    assert made.returncode == 0, made.stderr
    command = [sys.executable, "-m", "daphne", "-b", "127.0.0.1", "-p", str(port)]
    command += ["--verbosity", "0", "config.asgi:application"]
    web = subprocess.Popen(command, cwd=ROOT, env=env, start_new_session=True)
    try:
        wait_for(lambda: _up(site), seconds=90, what="the web process")
        yield site
    finally:
        end(web)
        with psycopg.connect(whole, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')  # type: ignore[arg-type]


def _up(site: Site) -> bool:
    try:
        return httpx.get(f"{site.url}/livez", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


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
