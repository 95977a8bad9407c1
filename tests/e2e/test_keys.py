"""Every listed key has its effect, in the queue and on a review's page."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.e2e.desk import echo, started
from tests.e2e.product import Product
from tests.e2e.test_review import Api, sign_in

LATER = 30_000
WIDE = {"width": 1440, "height": 900}
QUEUE = ["J", "K", "A", "E", "R", "F", "U", "C", "M", "S", "X", "/", "?", "Esc"]
REVIEW = [each for each in QUEUE if each not in {"J", "K", "S", "X"}]


def listed(page: Page) -> list[str]:
    """The keys that `?` names; the list is closed again."""
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    keys = dialog.locator("kbd").all_inner_texts()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    return keys


def opened(page: Page) -> str:
    """The hold that is open beside the list."""
    return page.locator("#decision").get_attribute("data-hold") or ""


def the_keys_of_a_review(page: Page) -> None:
    """With an open review on the page: E, C, R, F, A and Esc, and none of them while typing."""
    press = page.keyboard.press
    comment, approve = page.locator("[data-comment]"), page.locator("[data-approve]")
    press("e")
    value = page.locator("[data-fields] [data-input]").first
    expect(value).to_be_focused()
    value.fill("")
    page.keyboard.type("jkaercmsxuf?/")
    expect(value).to_have_value("jkaercmsxuf?/")
    expect(page.get_by_role("dialog")).to_have_count(0)
    press("Escape")
    expect(value).not_to_be_focused()
    expect(page.get_by_role("button", name="Approve with 1 change")).to_be_visible()
    press("c")
    expect(comment).to_be_focused()
    press("Escape")
    for key, panel in (("r", "[data-reject-panel]"), ("f", "[data-changes-panel]")):
        press(key)
        expect(page.locator(f"{panel}.open")).to_be_visible()
        expect(comment).to_be_focused()
        press("Escape")  # leaves the field
        press("Escape")  # closes the panel
        expect(page.locator(f"{panel}.open")).to_have_count(0)
    press("r")
    expect(comment).to_be_focused()
    press("Escape")
    press("a")
    expect(approve).to_be_focused()
    expect(page.locator("[data-reject-panel].open")).to_have_count(0)


def test_the_keys_of_the_queue(page: Page, product: Product) -> None:
    api = Api(product, "operator", "read,run")
    slow = {"policy": {"undo_seconds": 600}}
    review = {"name": "a", "value": "x", "phase": "AFTER_EXECUTION"}
    for number in (1, 2):
        started(api, echo(**review), title=f"Keys {number}", **slow)
    page.set_viewport_size(WIDE)  # type: ignore[arg-type]
    sign_in(page, product, "reviewer")
    page.goto(f"{product.address}/review/?q=Keys")
    expect(page.get_by_text("live", exact=True)).to_be_visible(timeout=LATER)
    press = page.keyboard.press
    assert listed(page) == QUEUE

    press("j")
    expect(page.locator("#decision")).to_be_visible()
    first = opened(page)
    press("j")
    expect(page.locator("#decision")).not_to_have_attribute("data-hold", first)
    press("k")
    expect(page.locator(f"#decision[data-hold='{first}']")).to_be_visible()
    press("x")
    expect(page.locator(f"[data-pick][value='{first}']")).to_be_checked()
    press("x")
    expect(page.locator(f"[data-pick][value='{first}']")).not_to_be_checked()

    press("s")
    expect(page.locator("#decision")).not_to_have_attribute("data-hold", first)
    press("s")  # after the last one the first follows
    expect(page.locator(f"#decision[data-hold='{first}']")).to_be_visible()

    the_keys_of_a_review(page)
    press("Enter")
    expect(page.locator("[data-undo-toast]")).to_be_visible()
    expect(page.locator("#decision")).not_to_have_attribute("data-hold", first)
    press("u")
    expect(page.locator(f"#decision[data-hold='{first}'][data-state=open]")).to_be_visible()
    press("/")
    expect(page.locator("[data-search]").last).to_be_focused()
    press("Escape")
    press("Escape")
    expect(page.locator(f"[data-hold='{first}'] [data-open]")).to_be_focused()
    press("m")
    expect(page.locator("[data-claim=mine]")).to_be_visible()


def test_the_keys_of_a_review_by_itself(page: Page, product: Product) -> None:
    api = Api(product, "operator", "read,run")
    review = {"name": "a", "value": "x", "phase": "AFTER_EXECUTION"}
    run = started(api, echo(**review), title="Alone", policy={"undo_seconds": 600})
    sign_in(page, product, "reviewer")
    page.goto(f"{product.address}/review/{run}/{run}-1/")
    expect(page.get_by_text("live", exact=True)).to_be_visible(timeout=LATER)
    assert listed(page) == REVIEW
    the_keys_of_a_review(page)
    page.keyboard.press("Enter")
    expect(page.locator("#decision[data-state=decided]")).to_be_visible(timeout=LATER)
    page.keyboard.press("u")
    expect(page.locator("#decision[data-state=open]")).to_be_visible(timeout=LATER)

    # Switched off, they do nothing; the switch is kept.
    page.get_by_label("You: reviewer").click()
    page.get_by_label("Single-key shortcuts").uncheck()
    page.reload()
    expect(page.get_by_text("live", exact=True)).to_be_visible(timeout=LATER)
    for key in ("?", "c", "r"):
        page.keyboard.press(key)
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator("[data-reject-panel].open")).to_have_count(0)
    expect(page.locator("[data-comment]")).not_to_be_focused()
    page.get_by_label("You: reviewer").click()
    page.get_by_label("Single-key shortcuts").check()
    page.keyboard.press("Escape")
    page.keyboard.press("c")
    expect(page.locator("[data-comment]")).to_be_focused()
