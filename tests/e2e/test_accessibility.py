"""WCAG 2.2 AA: every page in its main states is measured with axe, and one review needs no mouse.

Each state is measured wide and narrow in full. Another colour scheme changes colours alone, so the
dark pages are measured by the rules about colour. A page that nobody walked fails the last test.
"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.admin_walk import as_admin, unwalked_in_the_admin
from tests.e2e.product import Product, running_product
from tests.e2e.scene import Scene, echo
from tests.e2e.test_review import Api, password, sign_in, wait_for_pause
from tests.e2e.walk import (
    EVERYTHING,
    MEASURE,
    NARROW,
    NARROWEST,
    PARTS,
    SIDEWAYS,
    WIDE,
    Walk,
    profile,
    status_of,
    unwalked,
)
from tests.support.totp import totp

COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
LIGHT, DARK = ("light", EVERYTHING), ("dark", COLOURS)
LOOKS = ((WIDE["width"], (LIGHT, DARK)), (NARROW, (LIGHT, DARK)))
#: All rules and the layout once, narrow; the other colours once, wide.
BRIEF_LOOKS = ((WIDE["width"], (DARK,)), (NARROW, (LIGHT,)))


class Measured(Walk):
    """Each page in two sizes and two colour schemes, by the rules of axe."""

    def look_at(self, state: str) -> None:
        for width, looks in BRIEF_LOOKS if self.is_brief else LOOKS:
            self.resize(width)
            for scheme, options in looks:
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
        super().resize(width)
        tall = self.page.evaluate("document.documentElement.scrollHeight")
        self.page.set_viewport_size({"width": width, "height": min(tall, 6_000)})


class MeasuredElsewhere(Measured):
    """On an instance with routes that the settings of the tests do not have."""

    def measure(self, state: str) -> None:
        self.look_at(state)


@pytest.fixture(scope="module")
def walk(product: Product, browser: Browser) -> Walk:
    """Every page seen once, by those whose page it is."""
    walk = Measured(product)
    scene = None
    for user, part in {**PARTS, "admin": as_admin}.items():
        context = profile(browser)
        walk.page = context.new_page()
        if scene is None:
            scene = Scene(product, walk.page)
            walk.go("/login/?next=/review/")
        sign_in(walk.page, product, user)
        part(walk, scene)
        context.close()
    return walk


def test_no_page_violates_an_axe_rule(walk: Walk) -> None:
    assert not walk.faults, "\n\n".join(walk.faults)


def test_every_page_was_checked(walk: Walk, product: Product, page: Page) -> None:
    sign_in(page, product, "admin")
    missed = unwalked(walk.seen, status_of(page, product))
    missed += unwalked_in_the_admin(walk.seen, page, product)
    assert not missed, f"Pages that are not measured: {missed}"


def test_second_factors_and_a_lock_violate_no_axe_rule(browser: Browser) -> None:
    """On an instance of their own: it asks for codes, and one wrong password locks an account."""
    with running_product(HOLDPOINT_STEP_UP="high_risk", HOLDPOINT_SIGN_IN_FAILURES="1") as product:
        walk = MeasuredElsewhere(product)
        walk.page = profile(browser).new_page()
        with walk.briefly():
            second_factors(walk)
            a_locked_account(walk)
        walk.page.context.close()
    assert not walk.faults, "\n\n".join(walk.faults)


def second_factors(walk: Walk) -> None:
    """An authenticator app is set up, confirmed, and about to be removed."""
    page, product, start = walk.page, walk.product, "/account/second-factor/"
    sign_in(page, product, "reviewer")
    walk.go(start)
    walk.go(f"{start}totp/activate/")
    if page.get_by_label("Password").count():
        walk.fill("Password", password(product, "reviewer"))
        page.locator("main button[type=submit]").click()
        walk.measure("an authenticator app, about to be set up")
    key = page.locator("#totp-key").input_value()
    walk.fill("Code", totp(key, time.time()))
    walk.press("Set up")
    codes = page.locator("main li")
    expect(codes.first).to_be_visible()
    walk.measure("recovery codes")
    code = codes.first.inner_text()
    for path in ("", "recovery-codes/generate/", "totp/deactivate/"):
        walk.go(f"{start}{path}")
    walk.go(f"{start}confirmed/")
    walk.fill("Code", code)
    walk.press("Confirm")
    walk.measure("a confirmed code")


def a_locked_account(walk: Walk) -> None:
    walk.page.context.clear_cookies()
    for _ in range(2):
        walk.page.goto(f"{walk.product.address}/login/")
        walk.fill("User name", "auditor")
        walk.fill("Password", "a wrong one")
        walk.press("Sign in")
        walk.page.wait_for_load_state()
    expect(walk.page.get_by_role("heading", name="Too many failed sign-ins")).to_be_visible()
    walk.measure("a locked account")


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


def test_a_review_is_decided_with_the_keyboard_only(page: Page, product: Product) -> None:
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
