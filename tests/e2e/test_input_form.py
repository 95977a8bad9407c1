"""The inputs of a workflow are built by keyboard as a form, and a run is started with that form."""

from __future__ import annotations

import re

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, Page, expect

from tests.e2e.desk import until
from tests.e2e.product import Product
from tests.e2e.test_plan_editor import add_by_keys, fill_by_keys, tab_to, violations
from tests.e2e.test_review import Api, sign_in
from tests.e2e.walk import EVERYTHING, MEASURE, NARROW, SIDEWAYS, WIDE

__all__ = ["violations"]

ROWS = ".input-row"


def add_row(page: Page, number: int, name: str, label: str, letter: str) -> None:
    """Add an input by keyboard; `letter` chooses its type in the menu."""
    tab_to(page, "Add an input")
    page.keyboard.press("Enter")
    expect(page.locator(ROWS)).to_have_count(number)
    expect(page.locator(f"[name='in{number - 1}.name']")).to_be_focused()
    page.keyboard.press("Control+A")
    page.keyboard.type(name)
    fill_by_keys(page, "Label", label)
    tab_to(page, "Type|Text")
    page.keyboard.type(letter)


def test_a_form_is_built_by_keyboard_and_starts_a_run(
    page: Page, product: Product, violations: list[str]
) -> None:
    sign_in(page, product, "admin")
    page.set_viewport_size(WIDE)  # type: ignore[arg-type]
    page.goto(f"{product.address}/workflows/edit/")
    fill_by_keys(page, "Name", "Say it in a colour")
    add_by_keys(page, "return the value unchanged", "builtin.echo", 1)
    page.locator("h1").evaluate("element => element.focus()")
    add_row(page, 1, "word", "Word to say", "Te")
    tab_to(page, "Required")
    page.keyboard.press("Space")
    add_row(page, 2, "colour", "Colour", "Ch")
    fill_by_keys(page, "Choices", "red")
    page.keyboard.press("Enter")
    page.keyboard.type("green")
    add_row(page, 3, "times", "Times", "Wh")
    fill_by_keys(page, "Default", "three")
    page.keyboard.press("Tab")
    error = page.locator(f"{ROWS} .field-error", has_text="enter a whole number")
    expect(error).to_be_visible()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Control+A")
    page.keyboard.type("3")
    page.keyboard.press("Tab")
    expect(error).to_have_count(0)

    # The form beside the rows is that of a starter; the order follows the arrows.
    preview = page.locator("#editor-input-preview")
    expect(preview.get_by_label("Times")).to_have_attribute("placeholder", "3")
    tab_to(page, "↑ ?Move input 3 up")
    page.keyboard.press("Enter")
    expect(page.locator("[name='in1.name']")).to_have_value("times")
    expect(page.get_by_role("button", name="Move input 2 up")).to_be_focused()
    labels = preview.locator(".label")
    expect(labels).to_have_text([re.compile("Word to say"), "Times", "Colour"])

    # The task reads the first input, which then gets another name.
    page.locator("[data-node]").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#task-title")).to_be_focused()
    tab_to(page, "Source of value")
    page.keyboard.type("from the in")
    fill_by_keys(page, "Part of the source", "word")
    page.keyboard.press("Tab")
    page.locator("[name='in0.name']").focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("saying")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Part of the source")).to_have_value("saying")
    expect(page.get_by_text("Read by echo.")).to_be_visible()

    # An example is kept as a default value.
    fill_by_keys(page, "Word to say", "hello")
    tab_to(page, "Keep as default values")
    page.keyboard.press("Enter")
    expect(page.locator("#default-inputs")).to_have_value(re.compile('"saying": "hello"'))

    page.locator("h1").evaluate("element => element.focus()")
    tab_to(page, "Save the workflow")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/workflows/\d+/$"))
    expect(page.get_by_label("Word to say")).to_have_value("hello")
    fill_by_keys(page, "Word to say", "good evening")
    tab_to(page, "Colour")
    page.keyboard.type("gr")
    page.get_by_role("button", name="Start Say it in a colour").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/*/")
    run = page.url.rstrip("/").rpartition("/")[2]
    api = Api(product, "operator", "read,run")
    found = until(api, run, "COMPLETED")
    assert found["inputs"] == {"saying": "good evening", "times": 3, "colour": "green"}
    assert violations == []


def test_items_of_a_list_are_added_where_a_run_starts(
    page: Page, product: Product, violations: list[str]
) -> None:
    sign_in(page, product, "admin")
    page.goto(f"{product.address}/workflows/edit/")
    page.get_by_role("button", name="Add an input").click()
    page.locator("[name='in0.type']").select_option("list")
    preview = page.locator("#editor-input-preview")
    for word in ("one", "two"):
        preview.get_by_role("button", name="Add").click()
        page.keyboard.type(word)
    preview.get_by_role("button", name="Remove").first.click()
    page.get_by_role("button", name="Keep as default values").click()
    expect(page.locator("#default-inputs")).to_have_value(re.compile(r'"input_1": \[\s*"two"\s*\]'))
    assert violations == []


def test_the_form_builder_breaks_no_rule(browser: Browser, product: Product) -> None:
    context = browser.new_context(viewport=WIDE, reduced_motion="reduce")  # type: ignore[arg-type]
    context.add_init_script(AXE_SCRIPT)
    page = context.new_page()
    sign_in(page, product, "admin")
    page.goto(f"{product.address}/workflows/edit/")
    kinds = ("text", "choice", "boolean", "list", "date", "object", "number")
    for number, kind in enumerate(kinds):
        page.get_by_role("button", name="Add an input").click()
        page.locator(f"[name='in{number}.type']").select_option(kind)
    page.locator("[name='in6.default']").fill("much")
    page.locator("[name='in0.title']").focus()
    expect(page.get_by_text("enter a number").first).to_be_visible()
    faults = []
    for width in (WIDE["width"], NARROW):
        for scheme in ("light", "dark"):
            page.set_viewport_size({"width": width, "height": 6_000})
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
            faults += page.evaluate(MEASURE, EVERYTHING)["faults"]
            if page.evaluate(SIDEWAYS) > 0:
                faults.append(f"scrolls sideways at {width}")
    context.close()
    assert faults == []
