"""The walk through every page in its main states: which there are, and how each is reached.

Several tests go the same way, and each measures its own things.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode, urlsplit

from axe_playwright_python.base import AXE_SCRIPT
from django.urls import Resolver404, URLPattern, resolve, reverse
from django.urls.converters import IntConverter
from playwright.sync_api import Browser, BrowserContext, Page, expect

from reviews.urls import urlpatterns
from tests.e2e.desk import answer_link
from tests.e2e.product import Product
from tests.e2e.scene import Scene

WIDE = {"width": 1440, "height": 900}
NARROW = 390
NARROWEST = 360
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
EVERYTHING = {
    "runOnly": {"type": "tag", "values": TAGS},
    "rules": {"target-size": {"enabled": True}},
}
# What passed is counted alone: a selector for each element that did is most of what axe would do.
MEASURE = """options => axe.run(document, {
  ...options, resultTypes: ["violations"],
}).then(found => ({
  contrasts: found.passes.filter(rule => rule.id === "color-contrast").length,
  faults: found.violations.flatMap(rule => rule.nodes.map(
    node => `${rule.id}: ${node.target.join(" ")}: ${node.failureSummary}`)),
}))"""
SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
#: Routes that answer a GET with something else than a page.
NOT_PAGES = {
    "bell": "a part of every page, measured open on the page of notices",
    "audit_key": "a file",
    "backtest_progress": "a part of the backtest's page",
    "decision_status": "a part of the decision page",
    "editor_tools": "a part of the plan editor",
    "workflow_json": "a file",
    "workflow_yaml": "a file",
    "extend": "a part of the decision page",
    "export_history": "a file",
    "impact": "a part of the decision page",
    "precedents": "a part of the decision page",
    "stylesheet": "a file",
}
#: ms until what a run does first has to be there.
LATER = 60_000


class Walk(ABC):
    """Goes from page to page, measures each, and keeps what is wrong and which routes were seen."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self.faults: list[str] = []
        self.seen: set[str] = set()
        self.is_brief = False
        self.page: Page

    def go(self, path: str) -> None:
        """Open a page, and measure it."""
        self.page.goto(f"{self.product.address}{path}", wait_until="load")
        self.measure(path)

    def open_link(self, path: str) -> None:
        """Open a link of an e-mail, whose page posts the token, and measure the review."""
        self.page.goto(f"{self.product.address}{path}", wait_until="commit")
        self.page.wait_for_url("**/answer/review/")
        self.measure("the review of a link")

    def measure(self, state: str) -> None:
        """The page as it now stands."""
        try:
            self.seen.add(resolve(urlsplit(self.page.url).path).view_name)
        except Resolver404:
            assert "/nothing/here/" in self.page.url
        self.look_at(state)

    @contextmanager
    def briefly(self) -> Iterator[None]:
        """States of pages that are measured in full elsewhere: two looks find their faults."""
        self.is_brief = True
        yield
        self.is_brief = False

    @abstractmethod
    def look_at(self, state: str) -> None:
        """Add what is wrong with the page to `faults`."""

    def press(self, button: str, **how: Any) -> None:
        self.page.get_by_role("button", name=button, **how).click()

    def fill(self, label: str, text: str, **how: Any) -> None:
        self.page.get_by_label(label, **how).fill(text)

    def resize(self, width: int) -> None:
        self.page.set_viewport_size({"width": width, "height": WIDE["height"]})


def profile(browser: Browser) -> BrowserContext:
    """A fresh one, with axe on every page; a script of its own, so the pages' policy stands."""
    context = browser.new_context(viewport=WIDE, locale="en-GB", reduced_motion="reduce")  # type: ignore[arg-type]
    context.set_default_timeout(15_000)
    context.add_init_script(AXE_SCRIPT)
    return context


def as_operator(walk: Walk, scene: Scene) -> None:
    walk.measure("an empty queue")
    for run in (scene.before, scene.escalated, scene.done, scene.grown):
        walk.go(f"/runs/{run}/")
    walk.page.goto(f"{walk.product.address}/runs/{scene.before}/")
    walk.page.locator("#run-abort summary").click()
    walk.measure("a run, about to be aborted")
    walk.go(f"/runs/{scene.done}/learned/")
    walk.go(f"/runs/{scene.grown}/plan/2/")
    walk.go(f"/runs/{scene.grown}/fork/1/")
    walk.go("/search/")
    walk.go("/search/?q=grown")
    for path in ("/tokens/coding-agents/", "/answer/"):
        walk.go(path)
    walk.open_link("/answer/#no-such-link")
    for path in ("/runs/", "/workflows/", "/grants/", "/tokens/", "/webhooks/"):
        walk.go(path)
    a_webhook(walk)
    a_client(walk)
    walk.page.goto(f"{walk.product.address}/workflows/")
    walk.page.locator("main a.workflow-row").first.click()
    walk.page.wait_for_url("**/workflows/*/")
    walk.measure("a workflow")
    walk.go(f"{urlsplit(walk.page.url).path}versions/")
    walk.page.go_back()
    rules(walk)
    walk.go("/plan/")
    walk.fill("Task description", "List the directory '.'")
    walk.press("Suggest a plan")
    expect(walk.page.locator("svg.dag .node")).to_have_count(1)
    walk.measure("a plan from words")
    walk.press("Open in the plan editor")
    expect(walk.page.locator("#editor")).to_be_visible()
    walk.page.wait_for_load_state()
    walk.page.get_by_role("button", name="list_directory", exact=True).click()
    expect(walk.page.locator("#task-title")).to_be_focused()
    walk.measure("the plan editor with an open task")
    walk.go("/workflows/edit/")


def a_client(walk: Walk) -> None:
    """The consent for a client that registered itself, and what a wrong address gets."""
    redirect = "http://127.0.0.1:4711/callback"
    body = {
        "client_name": "Coding assistant",
        "redirect_uris": [redirect],
        "token_endpoint_auth_method": "none",
    }
    made = walk.page.request.post(f"{walk.product.address}/oauth/register/", data=body)
    assert made.ok, made.text()
    asked = {
        "response_type": "code",
        "client_id": made.json()["client_id"],
        "redirect_uri": redirect,
        "scope": "read run ask decide",
        "code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
        "code_challenge_method": "S256",
    }
    walk.go(f"/oauth/authorize/?{urlencode(asked)}")
    expect(walk.page.get_by_role("heading", name="Connect Coding assistant")).to_be_visible()
    for box in walk.page.get_by_role("checkbox").all():
        box.uncheck()
    walk.press("Connect", exact=True)
    expect(walk.page.get_by_role("heading", name="Connect Coding assistant")).to_be_visible()
    walk.measure("the consent without a scope")
    walk.go("/oauth/authorize/?client_id=nobody")


def a_webhook(walk: Walk) -> None:
    walk.fill("Name", "Nobody listens", exact=True)
    walk.fill("URL", f"{walk.product.address}/nobody-listens")
    walk.press("Add webhook")
    walk.page.wait_for_url(re.compile(r"/webhooks/\d+/$"))
    walk.measure("a webhook")
    walk.press("Send a test message")
    walk.page.locator("main .tool-row").first.click()
    walk.measure("a webhook's delivery, opened")


def rules(walk: Walk) -> None:
    """A draft, its report, and the rules once it is published.

    It spares nothing, here and in the other stories of this instance.
    """
    page = walk.page
    page.get_by_role("link", name="Test a rule against past reviews").click()
    walk.fill("Rule name", "nothing")
    page.get_by_label("Skip the review", exact=True).select_option("text")
    walk.fill("JMESPath expression", "`false`")
    expect(page.locator("#rule-check")).not_to_be_empty()
    walk.measure("a draft of a rule")
    walk.press("Run backtest")
    publish = page.get_by_role("button", name="Publish")
    expect(publish).to_be_visible(timeout=LATER)
    walk.measure("the report of a backtest")
    publish.click()
    page.wait_for_url("**/workflows/*/rules/")
    walk.measure("the rules of a workflow")


def as_reviewer(walk: Walk, scene: Scene) -> None:
    page = walk.page
    walk.measure("a queue with rows")
    page.keyboard.press("j")
    expect(page.locator("#detail #decision")).to_be_visible()
    page.keyboard.press("x")
    expect(page.locator("[data-bulk]")).to_be_visible()
    walk.measure("a queue with a review open and one chosen")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    walk.measure("the list of keys")
    page.keyboard.press("Escape")
    walk.go("/notifications/")
    page.locator("[data-bell] summary").click()
    expect(page.locator(".bell-list .told").first).to_be_visible()
    walk.measure("the bell, open")
    walk.go("/notifications/?show=unread")
    walk.go("/notifications/preferences/")
    walk.go("/absences/")
    walk.go("/review/?q=nothing-is-called-this")
    walk.go("/review/?tab=decided")
    walk.open_link(answer_link(walk.product, f"{scene.after}-1"))
    with walk.briefly():
        walk.go(f"/review/{scene.layered}/{scene.layer_approval}/")
        walk.go(f"/review/{scene.changed}/{scene.plan_review}/")
        for run in (scene.half, scene.expired):
            walk.go(f"/review/{run}/{run}-1/")
            walk.go(f"/admin/workflows/hold/{run}-1/change/")
        (first, second) = scene.overtaken
        overtaken(walk, scene, first, f"/review/{first}/{first}-1/")
        overtaken(walk, scene, second, f"/admin/workflows/hold/{second}-1/change/")
    for run in (scene.after, scene.escalated, scene.before):
        walk.go(f"/review/{run}/{run}-1/")
    page.get_by_role("textbox", name="Value").fill("y")
    page.keyboard.press("Escape")
    changed = page.get_by_role("button", name="Approve with 1 change")
    expect(changed).to_be_visible()
    walk.measure("a decision with an edit")
    walk.press("JSON")
    walk.press("Reject…")
    walk.measure("a decision as JSON, about to be rejected")
    walk.go(f"/review/{scene.decided}/{scene.decided}-1/")
    walk.press("Approve")
    said = page.get_by_text("reviewer approved this")
    expect(said).to_be_visible(timeout=LATER)
    walk.measure("a decision that was made")


def overtaken(walk: Walk, scene: Scene, run: str, path: str) -> None:
    """The run has moved on when an edit is sent; then somebody else decides before it is."""
    page = walk.page
    page.goto(f"{walk.product.address}{path}")
    page.get_by_role("textbox", name="Value").fill("y")
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Approve with 1 change")).to_be_enabled()
    # In one step: news sets the version again.
    page.locator("#decision [name=version]").evaluate(
        "field => { field.value = 1; field.form.querySelector('[data-approve]').click(); }"
    )
    expect(page.get_by_text("The run has changed while you were deciding")).to_be_visible()
    walk.measure(f"a decision with an old version, {path}")
    scene.approve(run)
    compare = page.get_by_role("button", name="Compare")
    expect(compare).to_be_visible(timeout=LATER)
    walk.measure(f"a decision that somebody else made while this one was written, {path}")
    compare.click()
    both = page.get_by_role("heading", name="Your text beside what was decided")
    expect(both).to_be_visible(timeout=LATER)
    walk.measure(f"a decision that somebody else made first, {path}")


def as_auditor(walk: Walk, scene: Scene) -> None:
    page = walk.page
    walk.go(f"/review/{scene.before}/{scene.before}-1/")
    for name in ("denied", "spared", "reveals"):
        walk.go(f"/history/{name}/")
    for path in ("/insights/", "/tools/", "/tools/builtin.echo/"):
        walk.go(path)
    walk.go(f"/history/?execution={scene.decided}")
    page.get_by_role("link", name="reviewer approved").first.click()
    page.wait_for_url("**/history/*/")
    walk.measure("a record")
    walk.go("/nothing/here/")
    nothing = page.get_by_role("heading", name="There is nothing here for you")
    expect(nothing).to_be_visible()


#: Who goes where.
PARTS = {"operator": as_operator, "reviewer": as_reviewer, "auditor": as_auditor}


def unwalked(seen: set[str], status: Callable[[str], int]) -> list[str]:
    """The pages of the URLconf whose names are not among `seen`.

    `status` gets the path of a route for an admin, and gives the status of the answer.
    """
    routes = [each for each in urlpatterns if each.name not in NOT_PAGES]
    assert len(routes) == len(urlpatterns) - len(NOT_PAGES), "NOT_PAGES names routes that are gone"
    return [
        str(each.name)
        for each in routes
        if f"reviews:{each.name}" not in seen and status(path_of(each)) != 405
    ]


def path_of(route: URLPattern) -> str:
    """A path of the route; whether there is what it would show does not matter."""
    converters = route.pattern.converters.items()
    values = {name: 1 if isinstance(kind, IntConverter) else "x" for name, kind in converters}
    return reverse(f"reviews:{route.name}", kwargs=values)


def status_of(page: Page, product: Product) -> Callable[[str], int]:
    """What the product answers to a GET of the person who is signed in."""
    return lambda path: page.request.get(f"{product.address}{path}", max_redirects=0).status
