"""Enrolling, confirming and approving with a code, as a browser does it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.integration.config.auth.site import Site, running_site
from tests.support.totp import totp

PASSWORD = "correct horse battery"
CSRF = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
KEY = re.compile(r'id="totp-key"\s+value="([A-Z2-7]+)"')
CODES = re.compile(r"<li>([0-9a-z-]{6,})</li>")
ENROL = "/account/second-factor/totp/activate/"
CONFIRM = "/account/second-factor/confirmed/"
#: A run of the operator's that waits for `reviewer` before a task of high risk.
SEED = f"""
from django.contrib.auth.models import Group, User
from tests.support.catalogue import stock_catalogue
from tests.integration.reviews.conftest import echo, only_hold
from workflows.executions.jobs import run_to_rest
from workflows.executions.services import start_execution
stock_catalogue()
for name, group in (("operator", "operator"), ("reviewer", "reviewer"), ("other", "reviewer"),
                    ("leaver", "reviewer")):
    user = User.objects.create_user(name, password={PASSWORD!r})
    user.groups.add(Group.objects.get_or_create(name=group)[0])
for _ in range(4):
    task = echo("t", phase="BEFORE_EXECUTION", groups=["reviewer"])
    operator = User.objects.get(username="operator")
    execution = run_to_rest(start_execution(actor=operator, plan={{"tasks": [task]}}).pk)
    hold = only_hold(execution)
    hold.critical = True
    hold.save()
    print("HOLD", execution.pk, hold.pk, execution.version)
"""


class Desk:
    """The site, and the holds that wait in it."""

    def __init__(self, site: Site, holds: list[tuple[str, str, int]]) -> None:
        self.site, self.holds = site, holds

    def status(self, hold: str) -> str:
        rows = self.site.rows("SELECT status FROM workflows_hold WHERE id = %s", hold)
        return str(rows[0][0])


@pytest.fixture(scope="module")
def desk(django_db_setup: None, tmp_path_factory: Any) -> Iterator[Desk]:
    with running_site(tmp_path_factory.mktemp("step-up"), HOLDPOINT_STEP_UP="high_risk") as site:
        checked = site.manage("check", "-v0")
        assert checked.returncode == 0, checked.stderr
        seeded = site.manage("shell", "-v", "0", "-c", SEED)
        assert seeded.returncode == 0, seeded.stderr
        holds = [line.split()[1:] for line in seeded.stdout.splitlines() if line.startswith("HOLD")]
        yield Desk(site, [(execution, hold, int(version)) for execution, hold, version in holds])


class Browser:
    """A person at the desk, with cookies of their own; closed after the test."""

    opened: list[httpx.Client] = []

    def __init__(self, site: Site, name: str) -> None:
        self.http = httpx.Client(base_url=site.url, timeout=60, follow_redirects=True)
        self.opened.append(self.http)
        self.key = ""
        self.codes: list[str] = []
        self.post("/login/", username=name, password=PASSWORD)

    def post(self, path: str, **fields: str) -> httpx.Response:
        """Open the page, fill in its form and send it."""
        page = self.http.get(path)
        found = CSRF.search(page.text)
        assert found, page.text
        data = {"csrfmiddlewaretoken": found[1], **fields}
        return self.http.post(str(page.url), data=data)

    def enrol(self) -> httpx.Response:
        """Set an authenticator app up, after the password."""
        page = self.post(ENROL, password=PASSWORD)
        found = KEY.search(page.text)
        assert found, page.text
        self.key = found[1]
        csrf = CSRF.search(page.text)
        assert csrf
        answer = self.http.post(
            ENROL, data={"csrfmiddlewaretoken": csrf[1], "code": totp(self.key, time.time())}
        )
        self.codes = CODES.findall(answer.text)
        return answer

    def confirm(self, code: str) -> httpx.Response:
        return self.post(CONFIRM, code=code)

    def approve(self, hold: tuple[str, str, int], **more: str) -> httpx.Response:
        execution, name, version = hold
        path = f"/review/{execution}/{name}/"
        page = self.http.get(path)
        csrf = CSRF.search(page.text)
        assert csrf, (page.status_code, page.text)
        data = {
            "csrfmiddlewaretoken": csrf[1], "decision": "APPROVE", "version": str(version), **more,
        }  # fmt: skip
        return self.http.post(path, data=data)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while Browser.opened:
        Browser.opened.pop().close()


def test_a_high_risk_approval_needs_a_code_and_keeps_the_draft(desk: Desk) -> None:
    hold = desk.holds[0]
    browser = Browser(desk.site, "reviewer")
    refused = browser.approve(hold, comment="I looked at it twice.")
    assert refused.status_code == 403
    assert "Confirm with your code" in refused.text
    assert "I looked at it twice." in refused.text
    assert desk.status(hold[1]) == "OPEN"
    # Somebody without a second factor is shown how to set one up.
    assert "Set up an authenticator app" in browser.http.get(CONFIRM).text

    enrolled = browser.enrol()
    assert len(browser.codes) == 10, enrolled.text
    secret = desk.site.rows("SELECT data::text FROM mfa_authenticator WHERE type = 'totp'")[0][0]
    assert browser.key not in secret
    # Enrolling is no confirmation.
    assert browser.approve(hold).status_code == 403

    wrong = browser.confirm("000000")
    assert "That did not work" in wrong.text
    assert browser.approve(hold).status_code == 403
    code = totp(browser.key, time.time() + 30)
    assert "You can approve for 10 minutes" in browser.confirm(code).text
    assert browser.approve(hold).status_code == 200
    assert desk.status(hold[1]) != "OPEN"

    # Another session of the same person is not confirmed, and the code counts once.
    second = Browser(desk.site, "reviewer")
    assert second.approve(desk.holds[1]).status_code == 403
    assert "That did not work" in second.confirm(code).text
    assert "You can approve" in second.confirm(browser.codes[0]).text
    assert second.approve(desk.holds[1]).status_code == 200
    third = Browser(desk.site, "reviewer")
    assert "That did not work" in third.confirm(browser.codes[0]).text


def test_rest_with_a_session_needs_the_code(desk: Desk) -> None:
    execution, hold, version = desk.holds[2]
    browser = Browser(desk.site, "other")
    csrf = browser.http.cookies["holdpoint_csrf"]
    body = {
        "execution_id": execution, "hold_id": hold, "decision": "APPROVE", "version": version,
    }  # fmt: skip

    def approve() -> httpx.Response:
        headers = {"X-CSRFToken": csrf}
        return browser.http.post("/api/v1/reviews/resume/", json=body, headers=headers)

    refused = approve()
    assert (refused.status_code, refused.json()["reason"]) == (403, "step_up")
    browser.enrol()
    browser.confirm(browser.codes[0])
    csrf = browser.http.cookies["holdpoint_csrf"]
    assert approve().status_code == 200
    assert desk.status(hold) != "OPEN"


def test_wrong_codes_lock_the_account_from_this_address(desk: Desk) -> None:
    browser = Browser(desk.site, "operator")
    browser.enrol()
    statuses = [browser.confirm("000000").status_code for _ in range(6)]
    assert statuses[:4] == [200] * 4
    assert statuses[4:] == [429] * 2
    assert browser.confirm(browser.codes[0]).status_code == 429
    rows = desk.site.rows("SELECT kind, account FROM workflows_signinalert")
    assert rows == [("account_and_address", "operator")]


def test_second_factors_are_security_events(desk: Desk) -> None:
    browser = Browser(desk.site, "leaver")
    browser.enrol()
    browser.post("/account/second-factor/totp/deactivate/")
    found = desk.site.rows(
        "SELECT kind, subject, details FROM workflows_securityevent"
        " WHERE kind LIKE 'factor%%' AND actor = %s ORDER BY id",
        "leaver",
    )
    (person,) = desk.site.rows("SELECT id FROM auth_user WHERE username = %s", "leaver")
    for kind in ("factor_added", "factor_removed"):
        events = [each for each in found if each[0] == kind]
        assert {each[1] for each in events} == {f"user:{person[0]}"}
        assert sorted(each[2]["factor"] for each in events) == ["recovery_codes", "totp"]
    assert {key for each in found for key in each[2]} == {"factor"}


def test_a_password_does_not_remove_the_second_factor(desk: Desk) -> None:
    """Last: the account `other` has one since the test above, or gets one here."""
    browser = Browser(desk.site, "other")
    page = browser.http.get("/account/second-factor/totp/deactivate/")
    if "Confirm with your password" in page.text or page.status_code == 404:
        browser.enrol()
        page = Browser(desk.site, "other").http.get("/account/second-factor/totp/deactivate/")
    assert "Confirm with your code" in page.text
    assert 'name="password"' not in page.text
