"""Off, and on without passwords, and with the extra missing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.integration.config.auth.oidc.conftest import Person, running
from tests.integration.config.auth.site import Site
from tests.support.oidc_provider import Issuer
from tests.support.processes import ROOT

EVERYTHING = """
import sys
{before}
import django
django.setup()
from django.urls import get_resolver
get_resolver().url_patterns
import config.asgi
from django.core.management import call_command
call_command("check")
found = sorted(name for name in sys.modules if name.split(".")[0] == "allauth")
ours = sorted(name for name in sys.modules if name.startswith("config.auth.oidc"))
print(found, ours)
"""
MISSING = """
import importlib.abc
class Gone(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "allauth":
            raise ModuleNotFoundError(name)
import importlib.util as util
real = util.find_spec
util.find_spec = lambda name, *rest: None if name.split(".")[0] == "allauth" else real(name, *rest)
sys.meta_path.insert(0, Gone())
"""
OIDC = {
    "HOLDPOINT_OIDC_ISSUER": "https://id.example.com",
    "HOLDPOINT_OIDC_CLIENT_ID": "holdpoint",
    "HOLDPOINT_OIDC_CLIENT_SECRET": "s",
}


def started(before: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings.test", **more}
    code = EVERYTHING.format(before=before)
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def test_without_an_issuer_no_oidc_code_is_loaded() -> None:
    off = started()
    assert off.returncode == 0, off.stderr
    assert off.stdout.splitlines()[-1] == "[] ['config.auth.oidc', 'config.auth.oidc.options']"


def test_without_an_issuer_the_extra_is_not_needed() -> None:
    off = started(MISSING)
    assert off.returncode == 0, off.stderr


def test_with_an_issuer_oidc_is_loaded_and_the_checks_pass() -> None:
    on = started(**OIDC)
    assert on.returncode == 0, on.stderr
    assert "allauth.socialaccount" in on.stdout


def test_without_the_extra_the_start_names_the_package() -> None:
    on = started(MISSING, **OIDC)
    assert on.returncode != 0
    assert "uv pip install -c requirements/production.txt" in on.stderr
    assert "--extra oidc" in on.stderr


@pytest.fixture(scope="module")
def strict(issuer: Issuer, django_db_setup: None, tmp_path_factory) -> Iterator[Site]:
    """No passwords, and addresses of one domain alone."""
    more = {"HOLDPOINT_PASSWORD_LOGIN": "0", "HOLDPOINT_OIDC_EMAIL_DOMAINS": "example.com"}
    yield from running(issuer, tmp_path_factory.mktemp("strict"), **more)


def test_without_passwords_no_form_takes_one(strict, issuer) -> None:
    issuer.reset()
    made = strict.manage(
        "shell", "-c",
        "from django.contrib.auth.models import User;"
        " User.objects.create_superuser('root', password='right one')",
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    person = Person(strict)
    page = person.http.get("/login/")
    assert 'name="password"' not in page.text
    assert "Sign in with Example ID" in page.text
    token = page.text.split('csrfmiddlewaretoken" value="')[1].split('"')[0]
    fields = {"csrfmiddlewaretoken": token, "username": "root", "password": "right one"}
    assert person.http.post("/login/", data=fields).status_code == 405
    admin = person.http.post("/admin/login/", data=fields)
    assert admin.status_code == 200
    assert "That did not work." in admin.text
    assert person.name() == ""


@pytest.mark.parametrize(
    ("claims", "status"),
    [
        ({"email": "a@example.com", "email_verified": True}, 302),
        ({"email": "a@EXAMPLE.com", "email_verified": True}, 302),
        ({"email": "a@example.com", "email_verified": False}, 403),
        ({"email": "a@example.com", "email_verified": "true"}, 403),
        ({"email": "a@example.com"}, 403),
        ({"email": "a@example.com.evil.example", "email_verified": True}, 403),
        ({"email": "a@sub.example.com", "email_verified": True}, 403),
        ({}, 403),
    ],
)
def test_only_addresses_of_an_allowed_domain_sign_in(strict, issuer, claims, status) -> None:
    issuer.reset()
    issuer.person |= claims
    answer = Person(strict).sign_in()
    assert answer.status_code == status
    assert ("your work account" in answer.text) == (status == 403)
