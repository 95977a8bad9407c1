"""WCAG 2.2 AA: every page in its main states is measured with axe, and one review needs no mouse.

Each state is measured wide and narrow in full. Another colour scheme changes colours alone, so the
dark pages are measured by the rules about colour. A page that nobody walked fails the last test.
"""

import json
import re
from typing import Any
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from django.urls import URLPattern, resolve, reverse
from django.urls.converters import IntConverter
from playwright.sync_api import Browser, BrowserContext, Page, expect

from reviews.urls import urlpatterns
from tests.e2e.product import Product
from tests.e2e.test_review import Api, sign_in, wait_for_pause

WIDE = {"width": 1440, "height": 900}
NARROW = 390
NARROWEST = 360
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
EVERYTHING = {
    "runOnly": {"type": "tag", "values": TAGS},
    "rules": {"target-size": {"enabled": True}},
}
COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
MEASURE = """options => axe.run(document, options).then(found => ({
  contrasts: found.passes.filter(rule => rule.id === "color-contrast").length,
  faults: found.violations.flatMap(rule => rule.nodes.map(
    node => `${rule.id}: ${node.target.join(" ")}: ${node.failureSummary}`)),
}))"""
SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
#: Routes that answer a GET with something else than a page.
NOT_PAGES = {
    "bell": "a part of every page, measured open on the page of notices",
    "backtest_progress": "a part of the backtest's page",
    "decision_status": "a part of the decision page",
    "extend": "a part of the decision page",
    "export_history": "a file",
    "impact": "a part of the decision page",
    "precedents": "a part of the decision page",
}
#: ms until what a run does first has to be there.
LATER = 60_000


class Walk:
    """Goes from page to page, and keeps what axe found wrong and which routes were seen."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self.faults: list[str] = []
        self.seen: set[str] = set()
        self.page: Page

    def go(self, path: str) -> None:
        """Open a page, and measure it."""
        self.page.goto(f"{self.product.address}{path}", wait_until="load")
        self.measure(path)

    def measure(self, state: str) -> None:
        """The page as it now stands, in two sizes and two colour schemes."""
        self.seen.add(resolve(urlsplit(self.page.url).path).view_name)
        for width in (WIDE["width"], NARROW):
            self.resize(width)
            for scheme, options in (("light", EVERYTHING), ("dark", COLOURS)):
                self.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
                found = self.page.evaluate(MEASURE, options)
                assert found["contrasts"], f"axe measured no contrast at all: {state}"
                self.faults += [f"{state} ({width}, {scheme}): {each}" for each in found["faults"]]
            self.resize(NARROWEST if width == NARROW else width)
            if self.page.evaluate(SIDEWAYS) > 0:
                self.faults.append(f"{state}: scrolls sideways at {self.page.viewport_size}")
        self.page.set_viewport_size(WIDE)  # type: ignore[arg-type]

    def resize(self, width: int) -> None:
        """As tall as the page: what a sticky bar covers just now is no small target."""
        self.page.set_viewport_size({"width": width, "height": WIDE["height"]})
        tall = self.page.evaluate("document.documentElement.scrollHeight")
        self.page.set_viewport_size({"width": width, "height": min(tall, 6_000)})


class Scene:
    """Runs in the states that the pages show."""

    def __init__(self, product: Product, page: Page) -> None:
        self.api = Api(product, "operator", "read,run")
        self.page = page
        self.before = self.start("Before it runs", echo("a", phase="BEFORE_EXECUTION"))
        self.after = self.start("After it ran", echo("a", phase="AFTER_EXECUTION"))
        self.decided = self.start("Soon decided", echo("a", phase="BEFORE_EXECUTION"), echo("b"))
        self.done = self.start("Done", echo("a"))
        self.escalated = self.start("Escalated", ask(product))
        waits = {"per_layer_validation": True, "replan_review": False}
        self.grown = self.start("Grown", echo("a"), echo("b", {"$from": "a"}), policy=waits)
        self.until(self.grown, "AWAITING_AGENT")
        grow = {"kind": "replan", "new_requirement": "parse XML files"}
        status, answer = self.api(f"executions/{self.grown}/commands/", grow)
        assert status in {200, 202}, answer
        for run in (self.before, self.after, self.decided):
            wait_for_pause(self.api, run, "a", page)
        wait_for_pause(self.api, self.escalated, "page_status", page)

    def start(self, title: str, *tasks: dict[str, Any], **more: Any) -> str:
        status, answer = self.api("executions/", {"title": title, "plan": {"tasks": tasks}, **more})
        assert status == 201, answer
        return str(answer["id"])

    def until(self, run: str, status: str) -> None:
        for _ in range(300):
            _, found = self.api(f"executions/{run}/")
            if found["status"] == status:
                return
            self.page.wait_for_timeout(100)
        raise AssertionError(f"run {run} never was {status}: {found}")


def echo(name: str, value: Any = "x", phase: str = "") -> dict[str, Any]:
    arguments = {"value": value}
    task = {"id": name, "type": "tool", "tool": "builtin.echo", "arguments": arguments}
    return (
        {**task, "human_review": {"trigger_phase": phase, "timeout_seconds": 3600}}
        if phase
        else task
    )


def ask(product: Product) -> dict[str, Any]:
    inputs = {"page": f"{product.address}/static/reviews/icon.svg"}
    code = "answer = fetch(page)\nanswer['status']"
    task = {"id": "page_status", "type": "code_execution", "language": "python", "code": code}
    return {**task, "inputs": inputs, "timeout_seconds": 20}


def profile(browser: Browser) -> BrowserContext:
    """A fresh one, with axe on every page; a script of its own, so the pages' policy stands."""
    context = browser.new_context(viewport=WIDE, locale="en-GB", reduced_motion="reduce")  # type: ignore[arg-type]
    context.set_default_timeout(15_000)
    context.add_init_script(AXE_SCRIPT)
    return context


@pytest.fixture(scope="module")
def walk(product: Product, browser: Browser) -> Walk:
    """Every page seen once, by those whose page it is."""
    walk = Walk(product)
    for part in (as_operator, as_reviewer, as_auditor):
        context = profile(browser)
        walk.page = context.new_page()
        if part is as_operator:
            scene = Scene(product, walk.page)
            walk.go("/login/?next=/review/")
        sign_in(walk.page, product, part.__name__.removeprefix("as_"))
        part(walk, scene)
        context.close()
    return walk


def as_operator(walk: Walk, scene: Scene) -> None:
    page = walk.page
    walk.measure("an empty queue")
    for run in (scene.before, scene.escalated, scene.done, scene.grown):
        walk.go(f"/runs/{run}/")
    walk.go(f"/runs/{scene.done}/learned/")
    walk.go(f"/runs/{scene.done}/compare/{scene.grown}/")
    walk.go(f"/runs/{scene.grown}/plan/2/")
    walk.go(f"/runs/{scene.grown}/fork/1/")
    for path in ("/runs/", "/workflows/", "/grants/", "/capabilities/", "/tokens/", "/webhooks/"):
        walk.go(path)
    page.get_by_label("Name", exact=True).fill("Nobody listens")
    page.get_by_label("Address").fill(f"{walk.product.address}/nobody-listens")
    page.get_by_role("button", name="Add webhook").click()
    page.wait_for_url(re.compile(r"/webhooks/\d+/$"))
    walk.measure("a webhook")
    page.get_by_role("button", name="Send a test message").click()
    page.locator("main .tool-row").first.click()
    walk.measure("a webhook's delivery, opened")
    page.goto(f"{walk.product.address}/workflows/")
    page.locator("main a[href^='/workflows/']").first.click()
    page.wait_for_url("**/workflows/*/")
    walk.measure("a workflow")
    page.get_by_role("link", name="Try a rule on past reviews").click()
    page.get_by_label("Name of the rule").fill("nothing")
    # It spares nothing, here and in the other stories of this instance.
    page.get_by_label("Skip the review when").fill("`false`")
    expect(page.locator("#rule-check")).not_to_be_empty()
    walk.measure("a draft of a rule")
    page.get_by_role("button", name="Hold it against past reviews").click()
    expect(page.get_by_role("button", name="Publish")).to_be_visible(timeout=LATER)
    walk.measure("the report of a backtest")
    page.get_by_role("button", name="Publish").click()
    page.wait_for_url("**/workflows/*/rules/")
    walk.measure("the rules of a workflow")
    walk.go("/plan/")
    page.get_by_label("What is to be done?").fill("List the directory '.'")
    page.get_by_role("button", name="Suggest a plan").click()
    expect(page.locator("svg.dag .node")).to_have_count(1)
    walk.measure("a plan from words")


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
    walk.go("/review/?q=nothing-is-called-this")
    walk.go("/review/?tab=decided")
    for run in (scene.after, scene.escalated, scene.before):
        walk.go(f"/review/{run}/{run}-1/")
    page.get_by_role("textbox", name="Value").fill("y")
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Approve with 1 change")).to_be_visible()
    walk.measure("a decision with an edit")
    page.get_by_role("button", name="JSON").click()
    page.get_by_role("button", name="Reject…").click()
    walk.measure("a decision as JSON, about to be rejected")
    walk.go(f"/review/{scene.decided}/{scene.decided}-1/")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("reviewer approved this")).to_be_visible(timeout=LATER)
    walk.measure("a decision that was made")


def as_auditor(walk: Walk, scene: Scene) -> None:
    page = walk.page
    walk.go(f"/review/{scene.before}/{scene.before}-1/")
    walk.go("/history/denied/")
    walk.go("/history/spared/")
    walk.go("/history/reveals/")
    walk.go("/insights/")
    walk.go("/tools/")
    walk.go("/tools/builtin.echo/")
    walk.go(f"/history/?execution={scene.decided}")
    page.get_by_role("link", name="reviewer approved").first.click()
    page.wait_for_url("**/history/*/")
    walk.measure("a record")
    page.goto(f"{walk.product.address}/nothing/here/")
    expect(page.get_by_role("heading", name="There is nothing here for you")).to_be_visible()
    assert page.evaluate(MEASURE, EVERYTHING)["faults"] == []


def test_no_page_breaks_a_rule(walk: Walk) -> None:
    assert not walk.faults, "\n\n".join(walk.faults)


def test_every_page_was_walked(walk: Walk, product: Product, page: Page) -> None:
    sign_in(page, product, "admin")
    missed = unwalked(walk.seen, page, product)
    assert not missed, f"Pages that are not measured: {missed}"


def unwalked(seen: set[str], page: Page, product: Product) -> list[str]:
    """The pages of the URLconf whose names are not among `seen`; an admin is signed in."""
    routes = [each for each in urlpatterns if each.name not in NOT_PAGES]
    assert len(routes) == len(urlpatterns) - len(NOT_PAGES), "NOT_PAGES names routes that are gone"
    return [
        str(each.name)
        for each in routes
        if f"reviews:{each.name}" not in seen and answers_get(page, product, each)
    ]


def answers_get(page: Page, product: Product, route: URLPattern) -> bool:
    """Whether the route takes a GET at all; what it would show does not matter."""
    converters = route.pattern.converters.items()
    values = {name: 1 if isinstance(kind, IntConverter) else "x" for name, kind in converters}
    path = reverse(f"reviews:{route.name}", kwargs=values)
    return page.request.get(f"{product.address}{path}", max_redirects=0).status != 405


FOCUS = """() => {
  const here = document.activeElement;
  const style = getComputedStyle(here);
  const box = here.getBoundingClientRect();
  const top = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
  const before = window.lastStop;
  window.lastStop = here;
  return {
    name: (here.getAttribute("aria-label") ?? here.labels?.[0]?.textContent ?? here.textContent)
      .replace(/\\s+/g, " ").trim(),
    outlined: here.matches(":focus-visible") && style.outlineStyle !== "none"
      && parseFloat(style.outlineWidth) >= 2,
    uncovered: !!top && (here.contains(top) || top.contains(here)),
    onwards: !before?.isConnected
      || !!(before.compareDocumentPosition(here) & Node.DOCUMENT_POSITION_FOLLOWING),
  };
}"""


def focus(page: Page) -> dict[str, Any]:
    """Where the focus is: it can be seen, and nothing lies on it."""
    found: dict[str, Any] = page.evaluate(FOCUS)
    assert found["outlined"], found
    assert found["uncovered"], found
    return found


def tab_to_approve(page: Page) -> None:
    """From the title on, Tab goes through the review in the order in which it is read."""
    page.locator("#decision-title").focus()
    page.evaluate("window.lastStop = null")
    stops: list[str] = []
    while not stops or not stops[-1].startswith("Approve"):
        page.keyboard.press("Tab")
        stop = focus(page)
        assert stop["onwards"], (stops, stop)
        stops.append(stop["name"])
        assert len(stops) < 40, stops
    assert stops[-2] == "Comment", stops
    assert "Value" in stops[-3], stops


def test_a_review_without_a_mouse(page: Page, product: Product) -> None:
    api = Api(product, "operator", "read,run")
    runs = []
    for number in (1, 2):
        plan = {"tasks": [echo("a", phase="BEFORE_EXECUTION")]}
        _, answer = api("executions/", {"title": f"Keyboard {number}", "plan": plan})
        runs.append(str(answer["id"]))
        wait_for_pause(api, runs[-1], "a", page)
    page.set_viewport_size(WIDE)  # type: ignore[arg-type]
    sign_in(page, product, "reviewer")
    page.goto(f"{product.address}/review/?q=Keyboard")
    page.keyboard.press("Tab")
    assert focus(page)["name"].startswith("Skip"), "the first stop leads past the menus"

    press = page.keyboard.press
    article = page.locator("#decision")
    press("j")
    expect(article).to_be_visible()
    first = article.get_attribute("data-hold")
    assert first is not None
    press("x")
    expect(page.locator(f"[data-pick][value='{first}']")).to_be_checked()
    press("x")
    expect(page.locator(f"[data-pick][value='{first}']")).not_to_be_checked()

    tab_to_approve(page)
    press("r")
    expect(page.locator("[data-comment]")).to_be_focused()
    assert focus(page)["name"] == "Comment"
    press("Escape")  # leaves the field
    press("Escape")  # closes the panel
    assert focus(page)["name"] == "Reject…"
    press("a")
    assert focus(page)["name"] == "Approve"
    press("Enter")

    # The other one opens by itself.
    expect(article).not_to_have_attribute("data-hold", first)
    second = article.get_attribute("data-hold")
    assert second is not None
    expect(page.locator("#decision-title")).to_be_focused()
    expect(page.locator("[data-approve]")).to_be_enabled()
    press("r")
    expect(page.locator("[data-comment]")).to_be_focused()
    page.keyboard.type("not today")
    button = page.locator("[data-reject]")
    for _ in range(12):
        press("Tab")
        focus(page)
        if button.evaluate("element => element === document.activeElement"):
            break
    expect(page.locator("#verdict.guarded")).to_have_count(0)  # nothing is sent for a moment
    press("Enter")
    expect(page.locator("#announce, #toasts").filter(has_text="rejected")).to_be_visible()
    decisions = {
        hold["id"]: hold["decision"]
        for run in runs
        for hold in api(f"executions/{run}/")[1]["holds"]
    }
    assert decisions == {first: "APPROVE", second: "REJECT"}, json.dumps(decisions)
