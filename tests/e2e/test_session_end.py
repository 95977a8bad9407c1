"""A session that ends during work: the sign-in page fills the window and no text is lost."""

from __future__ import annotations

import re

from playwright.sync_api import Page, Route, expect

from tests.e2e.desk import echo, started
from tests.e2e.product import Product
from tests.e2e.test_review import Api, password, sign_in

WIDE = {"width": 1440, "height": 900}


def end_session(page: Page) -> None:
    """The browser loses its session, as after eight hours; the CSRF cookie stays."""
    name = re.compile("session")
    page.context.clear_cookies(name=name)


def only_posts(route: Route) -> None:
    if route.request.method == "POST":
        route.continue_()
    else:
        route.abort()


def sign_in_again(page: Page, product: Product, user: str) -> None:
    page.get_by_label("User name").fill(user)
    page.get_by_label("Password").fill(password(product, user))
    page.get_by_role("button", name="Sign in").click()


def test_the_sign_in_page_replaces_the_queue_and_gives_the_draft_back(
    page: Page, product: Product
) -> None:
    api = Api(product, "operator", "read,run")
    run = started(api, echo("a", "the text", "AFTER_EXECUTION"), title="Ends")
    page.set_viewport_size(WIDE)  # type: ignore[arg-type]
    sign_in(page, product, "reviewer")
    there = f"{product.address}/review/?q=Ends&hold={run}-1"
    page.goto(there)
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    page.locator("[data-fields] [data-input]").first.fill("an edited text")
    page.locator("[data-comment]").fill("Written before the session ended")
    # The decision is the first to hear of it, before what the page asks for by itself.
    page.route("**/review/**", only_posts)
    end_session(page)
    page.get_by_role("button", name="Approve with 1 change").click()
    page.wait_for_url(re.compile(r"/login/\?ended=1"))
    page.unroute_all(behavior="ignoreErrors")
    expect(page.get_by_text("Your session has ended.")).to_be_visible()
    expect(page.locator(".rail")).to_have_count(0)
    sign_in_again(page, product, "reviewer")
    page.wait_for_url(there)
    expect(page.locator("[data-comment]")).to_have_value("Written before the session ended")
    expect(page.get_by_role("button", name="Approve with 1 change")).to_be_enabled()

    # Another person in the same tab sees nothing of it, and neither does the tab afterwards.
    page.locator("[data-comment]").fill("Only mine")
    end_session(page)
    page.evaluate("document.body.dispatchEvent(new CustomEvent('holdpoint:poll'))")
    page.wait_for_url(re.compile(r"/login/\?ended=1"))
    sign_in_again(page, product, "reviewer2")
    page.wait_for_url(there)
    expect(page.locator("[data-comment]")).to_have_value("")
    expect(page.get_by_role("button", name="Approve", exact=True)).to_be_visible()
    assert "Only mine" not in page.evaluate("JSON.stringify(sessionStorage)")


def test_a_form_of_the_run_page_keeps_its_text(page: Page, product: Product) -> None:
    api = Api(product, "operator", "read,run")
    run = started(api, echo("a", "x", "BEFORE_EXECUTION"), title="Keeps")
    sign_in(page, product, "operator")
    there = f"{product.address}/runs/{run}/"
    page.goto(there)
    page.locator("#run-steer summary").click()
    page.get_by_label("Message to the run").fill("Not sent yet")
    end_session(page)
    page.get_by_role("button", name="Send", exact=True).click()
    page.wait_for_url(re.compile(r"/login/\?ended=1"))
    sign_in_again(page, product, "operator")
    page.wait_for_url(there)
    expect(page.get_by_label("Message to the run")).to_have_value("Not sent yet")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.locator(".run-story")).to_contain_text("Not sent yet")
    page.goto(there)
    expect(page.get_by_label("Message to the run")).to_have_value("")
