"""A click is not lost to news that comes while the button is down, nor is the focus."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.e2e.desk import echo, started
from tests.e2e.product import Product
from tests.e2e.test_review import Api, sign_in

#: Notes the addresses of the answers that the page's scripts have dealt with: those to htmx, and
#: those to fetch.  What awaits an answer's text goes on before the next task, in which it is noted.
NOTE = """() => {
  if (window.dealtWith) {
    window.dealtWith = [];
    return;
  }
  window.dealtWith = [];
  const note = (url) => setTimeout(() => window.dealtWith.push(url), 0);
  document.addEventListener("htmx:beforeSend", ({ detail: { xhr } }) =>
    xhr.addEventListener("loadend", () => note(xhr.responseURL)));
  const { text } = Response.prototype;
  Response.prototype.text = async function () {
    const found = await text.call(this);
    note(this.url);
    return found;
  };
}"""
DEALT_WITH = "path => window.dealtWith.some((url) => new URL(url).pathname === path)"
POLL = """() => document.body.dispatchEvent(new CustomEvent("holdpoint:poll"))"""
RING = """() => document.body.dispatchEvent(
  new CustomEvent("holdpoint:bell", { detail: { unread: 0 } }))"""
BELL = "/notifications/bell/"
QUEUE = "/review/"


@contextmanager
def pressing(page: Page, element: Locator) -> Iterator[None]:
    """The mouse's button is down on the element for as long as this lasts, and comes up there."""
    element.hover()
    page.mouse.down()
    yield
    page.mouse.up()


def hear(page: Page, news: str, path: str) -> None:
    """News reaches the page, and what it asks for at that path is answered and dealt with."""
    page.evaluate(NOTE)
    page.evaluate(news)
    page.wait_for_function(DEALT_WITH, arg=path)


@pytest.fixture
def run(product: Product) -> str:
    """The number of a run that waits for the reviewers."""
    return started(Api(product, "operator", "read,run"), echo("a", "b", "BEFORE_EXECUTION"))


@pytest.fixture
def reviewer(page: Page, product: Product) -> Iterator[Page]:
    sign_in(page, product, "reviewer")
    yield page
    # The page goes on asking: what a test would still have reworded has no reader any more.
    page.unroute_all(behavior="ignoreErrors")


def test_in_the_bell(reviewer: Page) -> None:
    page = reviewer
    page.locator("[data-bell] > summary").click()
    link = page.locator("[data-bell-items]").get_by_role("link", name="Notification settings")
    with pressing(page, link):
        hear(page, RING, BELL)
    page.wait_for_url("**/notifications/preferences/")


def test_in_the_bell_with_the_keyboard(reviewer: Page) -> None:
    page = reviewer
    page.locator("[data-bell] > summary").click()
    link = page.locator("[data-bell-items]").get_by_role("link", name="Notification settings")
    link.focus()
    old = link.element_handle()
    hear(page, RING, BELL)
    assert not old.evaluate("link => link.isConnected")
    expect(link).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**/notifications/preferences/")


def test_on_a_run(reviewer: Page, product: Product, run: str) -> None:
    page = reviewer
    here = f"/runs/{run}/"
    page.goto(product.address + here)
    task = page.locator("#task-a > summary")
    with pressing(page, task):
        hear(page, POLL, here)
    # The answer that waited for the mouse is dealt with before the key goes down.
    hear(page, POLL, here)
    expect(page.locator("#task-a")).to_have_attribute("open", "")
    task.focus()
    page.keyboard.down(" ")
    hear(page, POLL, here)
    page.keyboard.up(" ")
    expect(page.locator("#task-a")).not_to_have_attribute("open", "")
    hear(page, POLL, here)
    expect(task).to_be_focused()
    with pressing(page, page.locator(".run-hold a")):
        hear(page, POLL, here)
    page.wait_for_url(f"**/review/{run}/{run}-1/")


def test_in_the_queue(reviewer: Page, product: Product, run: str) -> None:
    page = reviewer
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(f"{product.address}/review/")

    def reworded(route: Route) -> None:
        if route.request.headers.get("hx-target") != "queue-list":
            return route.continue_()
        answer = route.fetch()
        return route.fulfill(
            response=answer, body=answer.text().replace('class="in-run">', 'class="in-run">Now: ')
        )

    page.route("**/review/**", reworded)
    row = page.locator(f"[data-hold='{run}-1']")
    in_run = row.locator(".in-run")
    with pressing(page, in_run):
        hear(page, POLL, QUEUE)
    expect(row.locator("[data-open]")).to_have_attribute("aria-current", "true")
    # What was told in the meantime shows once the button is up.
    expect(in_run).to_have_text(re.compile("^Now: "))


def test_on_a_review(reviewer: Page, product: Product, run: str) -> None:
    page = reviewer
    here = f"/review/{run}/{run}-1/"
    page.goto(product.address + here)
    claim = page.locator("#decision-status").get_by_role("button").first

    def reworded(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text().replace("</button>", " now</button>"))

    page.route(re.compile(r"/status/"), reworded)
    with pressing(page, claim):
        hear(page, POLL, f"{here}status/")
    expect(page.locator("#decision-status [data-claim=mine]")).to_be_visible()
