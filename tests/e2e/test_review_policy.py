"""A review policy is set by keyboard; the run then stops exactly where the simulation said."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, Page, expect

from tests.e2e.desk import echo, note_errors, until
from tests.e2e.product import Product
from tests.e2e.test_plan_editor import fill_by_keys, tab_to
from tests.e2e.test_review import Api, sign_in
from tests.e2e.walk import EVERYTHING, MEASURE, NARROW, SIDEWAYS, WIDE

STOPS = "#editor-simulation li"


@pytest.fixture
def violations(page: Page) -> list[str]:
    found: list[str] = []
    page.on("console", lambda m: found.append(m.text) if "Security Policy" in m.text else None)
    note_errors(page, found)
    return found


def workflow(product: Product, name: str) -> int:
    """A workflow of two echoes; the second reads the output of the first."""
    second = echo("second", {"$from": "first", "select": "kind"})
    plan = {"tasks": [echo("first", {"kind": "small", "size": 3}), second]}
    code, made = Api(product, "admin", "read,admin")(
        "workflows/",
        {"name": name, "title": name, "plan": plan, "policy": {"hil": {"enabled": False}}},
    )
    assert code == 201, made
    return int(made["id"])


def select_by_keys(page: Page, label: str, option: int) -> None:
    """Choose an option of a select by arrow keys; options count from 0."""
    tab_to(page, label)
    page.keyboard.press("Home")
    for _ in range(option):
        page.keyboard.press("ArrowDown")


def open_task(page: Page, at: int) -> None:
    page.locator(f"#select-{at}").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#task-title")).to_be_focused()


def test_a_policy_is_set_simulated_saved_and_kept_to(
    page: Page, product: Product, violations: list[str]
) -> None:
    number = workflow(product, "policy-by-keys")
    sign_in(page, product, "admin")
    page.set_viewport_size(WIDE)  # type: ignore[arg-type]
    page.goto(f"{product.address}/workflows/{number}/")
    page.get_by_role("link", name="Review policy").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("A run would not stop for anybody.")).to_be_visible()
    page.wait_for_load_state()  # before its scripts run, a key sends the whole form

    # The first task is reviewed unless its own output is small; nothing has run yet.
    open_task(page, 0)
    select_by_keys(page, "Reviewed$", 2)
    expect(page.locator(STOPS)).to_have_count(1)
    fill_by_keys(page, "Timeout", "1 h")
    page.keyboard.press("Tab")
    expect(page.locator(STOPS)).to_contain_text("needs 1 of reviewer")
    expect(page.locator(STOPS)).to_contain_text("after 1 h without a decision it is rejected")
    select_by_keys(page, "Skip this review", 1)
    fill_by_keys(page, "Field of condition 1", "output.kind")
    fill_by_keys(page, "Value of condition 1", "small")
    tab_to(page, "Add a condition")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Field of condition 2")).to_be_focused()
    expect(page.locator(STOPS)).to_contain_text("depends on the output of first")

    # The second task always stops; its quorum needs more people than there are.
    open_task(page, 1)
    select_by_keys(page, "Reviewed$", 1)
    fill_by_keys(page, "Approvals needed", "20")
    page.keyboard.press("Tab")
    expect(page.locator(STOPS).nth(1)).to_contain_text("Too few people can decide")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Control+A")
    page.keyboard.type("1")
    page.keyboard.press("Tab")
    expect(page.locator(STOPS).nth(1)).not_to_contain_text("Too few")
    expect(page.locator("svg.dag .stop-mark")).to_have_count(2)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Save the workflow").focus()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/workflows/{number}/")

    # A run skips the first review and stops at the second one, and nowhere else.
    api = Api(product, "operator", "read,run")
    _, run = api("executions/", {"workflow": number})
    found = until(api, run["id"], "PAUSED_FOR_REVIEW")
    assert found["paused_node_id"] == "second"
    _, spared = api(f"executions/{run['id']}/events/")
    assert "review_spared" in str(spared)

    # With the data of that run the simulation knows it.
    page.goto(f"{product.address}/workflows/edit/?workflow={number}")
    expect(page.locator(STOPS).first).to_contain_text("skipped by the condition of the task")
    expect(page.locator(STOPS).nth(1)).to_contain_text("stops")
    assert violations == []


def test_the_forms_of_policies_break_no_rule(browser: Browser, product: Product) -> None:
    number = workflow(product, "policy-looks")
    context = browser.new_context(viewport=WIDE, reduced_motion="reduce")  # type: ignore[arg-type]
    context.add_init_script(AXE_SCRIPT)
    page = context.new_page()
    sign_in(page, product, "admin")
    page.goto(f"{product.address}/workflows/edit/?workflow={number}")
    page.locator("#select-1").click()
    expect(page.locator("#task-title")).to_be_focused()
    page.get_by_label("Reviewed", exact=True).select_option("BEFORE_EXECUTION")
    page.get_by_label("Skip this review", exact=True).select_option("all")
    page.get_by_label("Run this task", exact=True).select_option("any")
    for name in ("Reminders", "Escalation"):
        page.locator(".review-form").get_by_label(name, exact=True).last.select_option("own")
    page.get_by_label("Time of reminder 1").first.fill("soon")
    page.get_by_label("Time of reminder 1").first.blur()
    expect(page.get_by_text("enter a time such as 30 min").first).to_be_visible()
    for summary in page.locator(".policy-section > summary").all():
        summary.click()
    faults: list[Any] = []
    for width in (WIDE["width"], NARROW):
        for scheme in ("light", "dark"):
            # As tall as the page: what the sticky bar covers just now is no small target.
            page.set_viewport_size({"width": width, "height": 7_000})
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
            faults += page.evaluate(MEASURE, EVERYTHING)["faults"]
            if page.evaluate(SIDEWAYS) > 0:
                faults.append(f"scrolls sideways at {width}")
    context.close()
    assert faults == []
