"""Two users edit one review: the second sees both texts and loses nothing."""

import json
import re
from typing import Any

from playwright.sync_api import Browser, Page, expect

from tests.e2e.desk import echo, started
from tests.e2e.product import Product
from tests.e2e.test_review import Api, sign_in
from tests.e2e.walk import LATER, NARROW, SIDEWAYS, WIDE

SHOWN = {"both": 1, "kept": 1, "mine": 1, "theirs": 1}


def edited(page: Page, product: Product, run: str, user: str, **changes: int) -> None:
    """The review with these changes made in its JSON view, not sent yet."""
    sign_in(page, product, user)
    page.goto(f"{product.address}/review/{run}/{run}-1/")
    page.get_by_role("button", name="JSON").click()
    page.locator("#edits-json").fill(json.dumps({"value": {**SHOWN, **changes}}))
    expect(page.locator("[data-approve]")).to_have_text(f"Approve with {len(changes)} changes")


def cells(page: Page, path: str) -> list[str]:
    found: Any = page.get_by_role("row", name=re.compile(f"^{re.escape(path)} ")).locator("td")
    return [text.strip() for text in found.all_inner_texts()]


def test_the_second_decider_sees_both_texts(page: Page, product: Product, browser: Browser) -> None:
    run = started(Api(product, "operator", "read,run"), echo("a", SHOWN, "BEFORE_EXECUTION"))
    # The second one's news is slow: the first decision reaches them with their own answer.
    page.route_web_socket(re.compile("/ws/"), lambda socket: None)
    edited(page, product, run, "reviewer", both=3, mine=3)
    first = browser.new_context(locale="en-GB").new_page()
    edited(first, product, run, "reviewer2", both=2, theirs=2)
    first.locator("[data-approve]").click()
    expect(first.get_by_text("reviewer2 approved this with 2 changes")).to_be_visible(timeout=LATER)
    first.context.close()

    page.locator("[data-approve]").click()
    # Nothing moves before they want it to.
    expect(page.get_by_text("reviewer2 decided this while you were typing")).to_be_visible()
    assert json.loads(page.locator("#edits-json").input_value())["value"]["mine"] == 3
    page.get_by_role("button", name="Compare").click()
    title = page.get_by_role("heading", name="Your text beside what was decided")
    expect(title).to_be_visible(timeout=LATER)
    assert cells(page, "value.both") == ["1", "2", "3", "you changed it differently"]
    assert cells(page, "value.mine") == ["1", "1", "3", "only you changed it"]
    assert cells(page, "value.theirs") == ["1", "2", "1", "only the decision changed it"]
    page.get_by_text("Both edits together", exact=True).first.click()
    together = json.loads(page.locator("#both-together").input_value())
    assert together == {"value": {"both": 3, "kept": 1, "mine": 3, "theirs": 2}}
    for width in (WIDE["width"], NARROW):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(SIDEWAYS) == 0
    expect(page.get_by_role("button", name="Copy my text")).to_be_visible()
