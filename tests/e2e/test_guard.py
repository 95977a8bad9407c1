"""The next review opens by itself after a decision: for a moment nothing is sent from it.

The moment lasts until the test lets it end, so that nothing here depends on how fast a machine is.
"""

from __future__ import annotations

import re

from playwright.sync_api import Page, Request, expect

from tests.e2e.desk import echo, started
from tests.e2e.product import Product
from tests.e2e.test_review import Api, sign_in

LATER = 30_000
#: The end of the guard (GUARD_MS in decision.js) is kept back; submits are counted before anybody.
HELD_BACK = """
window.ends = [];
window.submits = 0;
const later = window.setTimeout;
window.setTimeout = (act, ms, ...more) =>
  ms === 700 ? window.ends.push(act) : later(act, ms, ...more);
document.addEventListener("submit", () => { window.submits += 1; }, { capture: true });
"""


def test_the_next_review_ignores_an_early_press(page: Page, product: Product) -> None:
    api = Api(product, "operator", "read,run")
    for number in (1, 2):
        review = echo("a", "x", "AFTER_EXECUTION")
        started(api, review, title=f"Guard {number}", policy={"undo_seconds": 0})
    sent: list[str] = []

    def note(request: Request) -> None:
        if request.method == "POST" and re.search(r"/review/\d+/[\w-]+/$", request.url):
            sent.append(request.url)

    page.on("request", note)
    page.add_init_script(HELD_BACK)
    page.set_viewport_size({"width": 1440, "height": 900})
    sign_in(page, product, "reviewer")
    page.goto(f"{product.address}/review/?q=Guard")
    expect(page.get_by_text("live", exact=True)).to_be_visible(timeout=LATER)
    page.keyboard.press("j")
    decision, verdict = page.locator("#decision"), page.locator("#verdict")
    expect(decision).to_have_attribute("data-state", "open")
    first = decision.get_attribute("data-hold") or ""
    expect(page.locator("#verdict.guarded")).to_have_count(0)  # somebody opened this one
    page.locator("[data-approve]").click()

    expect(decision).not_to_have_attribute("data-hold", first, timeout=LATER)
    expect(verdict).to_contain_class("guarded")
    expect(verdict.locator("[data-approve]")).to_have_css("pointer-events", "none")
    before = page.evaluate("window.submits")
    page.keyboard.press("a")
    expect(page.locator("[data-approve]")).to_be_focused()
    page.keyboard.press("Enter")
    assert page.evaluate("window.submits") == before + 1
    # What had been sent would have been sent before this was asked.
    assert page.evaluate("fetch(location.href).then((answer) => answer.status)") == 200
    assert [each.split("/")[-2] for each in sent] == [first]

    page.evaluate("window.ends.splice(0).forEach((end) => end())")
    expect(page.locator("#verdict.guarded")).to_have_count(0)
    second = decision.get_attribute("data-hold") or ""
    page.keyboard.press("Enter")
    expect(page.locator(f"#queue-list [data-hold='{second}']")).to_have_count(0, timeout=LATER)
    assert [each.split("/")[-2] for each in sent] == [first, second]
