"""Signing in through an issuer, in a browser, under our content security policy."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, ConsoleMessage, Page, expect

from tests.e2e.walk import NARROW
from tests.integration.config.auth.oidc.conftest import running
from tests.integration.config.auth.site import Site
from tests.support.oidc_provider import Issuer, issuing
from tests.support.totp import totp


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing(Issuer()) as found:
        yield found


@pytest.fixture(scope="module")
def site(issuer: Issuer, servers: None, tmp_path_factory: Any) -> Iterator[Site]:
    yield from running(issuer, tmp_path_factory.mktemp("oidc"), HOLDPOINT_STEP_UP="high_risk")


@pytest.fixture
def complaints(page: Page, issuer: Issuer) -> list[str]:
    """What the browser refused or could not do on our pages."""
    found: list[str] = []

    def note(said: ConsoleMessage) -> None:
        if said.type == "error" and not said.location["url"].startswith(issuer.url):
            found.append(said.text)

    page.on("console", note)
    page.on("pageerror", lambda error: found.append(str(error)))
    return found


def check_accessible(page: Page) -> None:
    results = Axe().run(page)
    assert results.violations_count == 0, results.generate_report()


def test_sign_in_through_an_issuer(page: Page, site: Site, issuer: Issuer, complaints) -> None:
    issuer.reset()
    issuer.interactive = True
    issuer.person |= {"groups": ["team:reviewers"]}
    page.goto(f"{site.url}/review/")
    expect(page).to_have_url(re.compile(r"/login/\?next="))
    check_accessible(page)
    page.get_by_role("button", name="Sign in with Example ID").click()
    expect(page).to_have_title("Issuer")
    page.get_by_role("link", name="Let me in").click()
    expect(page).to_have_url(f"{site.url}/review/")
    expect(page.locator(".person-name")).to_have_text("ada")
    assert complaints == []


def test_a_person_with_an_app_enters_its_code(page: Page, site: Site, issuer: Issuer) -> None:
    issuer.reset()
    issuer.person |= {"sub": "with-an-app", "preferred_username": "grace"}
    start = f"{site.url}/account/second-factor/totp/activate/"
    page.goto(f"{site.url}/login/")
    page.get_by_role("button", name="Sign in with Example ID").click()
    page.wait_for_url(f"{site.url}/review/")
    page.goto(start)
    key = page.locator("#totp-key").input_value()
    page.get_by_label("Code").fill(totp(key, time.time()))
    page.get_by_role("button", name="Set up").click()
    # Without a password, the recovery codes are shown to whoever has another code of the app.
    expect(page.get_by_role("heading", name="Confirm with your code")).to_be_visible()
    page.get_by_label("Code").fill(totp(key, time.time() + 30))
    page.get_by_role("button", name="Confirm").click()
    codes = page.locator("main li")
    expect(codes.first).to_be_visible()
    unused = codes.first.inner_text()

    page.context.clear_cookies()
    page.goto(f"{site.url}/login/")
    page.get_by_role("button", name="Sign in with Example ID").click()
    title = page.get_by_role("heading", name="Sign in with your code")
    expect(title).to_be_visible()
    check_accessible(page)
    page.get_by_label("Code").fill("000000")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("That did not work.")).to_be_visible()
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": NARROW, "height": 844})
    check_accessible(page)
    page.get_by_label("Code").fill(unused)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{site.url}/review/")


def test_a_refused_sign_in_names_the_next_step(
    page: Page, context: BrowserContext, site: Site, issuer: Issuer
) -> None:
    issuer.reset()
    issuer.spoil = lambda claims: {**claims, "nonce": "another"}
    page.goto(f"{site.url}/login/")
    page.get_by_role("button", name="Sign in with Example ID").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("not signed in with Example ID")
    expect(page.get_by_role("main")).to_contain_text("Try again")
    check_accessible(page)
    page.get_by_role("link", name="Back to the sign-in page").click()
    expect(page.get_by_role("button", name="Sign in with Example ID")).to_be_visible()
    page.goto(f"{site.url}/review/")
    expect(page).to_have_url(re.compile("/login/"))
