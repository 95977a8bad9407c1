"""Masked values and the impact of an edit, in the browser."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, Page, expect

from tests.e2e.desk import echo, started, until
from tests.e2e.product import Product
from tests.e2e.test_review import Api, sign_in

PASSWORD = "correct-horse-battery"
LATER = 30_000


def test_a_secret_is_revealed_and_an_edit_shows_its_impact(
    page: Page, product: Product, browser: Browser
) -> None:
    api = Api(product, "operator", "read,run")
    run = started(
        api,
        echo("draft", {"city": "Graz", "password": PASSWORD}, "AFTER_EXECUTION"),
        echo("letter", {"$from": "draft", "select": "city"}),
        echo("login", {"$from": "draft", "select": "password"}),
    )
    sign_in(page, product, "reviewer")
    address = f"{product.address}/review/{run}/{run}-1/"
    page.goto(address)
    expect(page.get_by_text("1 value is masked").first).to_be_visible()
    assert PASSWORD not in page.content()

    # Beside the field and above the button: who reads what is being changed.
    page.get_by_label("City", exact=True).fill("Linz")
    expect(page.locator("[data-impact]:visible")).to_have_text("used by letter", timeout=LATER)
    expect(page.locator("[data-impact-list]")).to_contain_text("city used by letter")
    secret = page.get_by_label("Password", exact=True)
    secret.fill("another-secret")
    expect(page.locator("[data-impact-list]")).to_contain_text(
        "password used by login", timeout=LATER
    )
    # The diff masks both sides of what was masked.
    expect(page.locator("[data-changes]")).not_to_contain_text("another-secret")
    page.get_by_role("button", name="Reset Password").click()
    expect(page.get_by_role("button", name="Approve with 1 change")).to_be_visible()

    page.locator(".decision-main").get_by_role("button", name=re.compile("^Reveal")).click()
    expect(page.locator(".revealed")).to_contain_text(PASSWORD, timeout=LATER)
    page.get_by_role("button", name="Approve with 1 change").click()
    expect(page.get_by_text("reviewer approved this with 1 change")).to_be_visible(timeout=LATER)
    done = until(api, run, "COMPLETED")
    outputs = {task["id"]: task["output"] for task in done["tasks"]}
    assert outputs["letter"] == "Linz"
    assert outputs["login"] == PASSWORD

    auditor = browser.new_context().new_page()
    sign_in(auditor, product, "auditor")
    auditor.goto(f"{product.address}/history/reveals/")
    expect(auditor.get_by_text("reviewer revealed password of the payload").first).to_be_visible()
    assert PASSWORD not in auditor.content()
    auditor.context.close()


def test_a_secret_is_revealed_without_scripts(product: Product, browser: Browser) -> None:
    run = started(
        Api(product, "operator", "read,run"),
        echo("draft", {"password": PASSWORD}, "AFTER_EXECUTION"),
    )
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    sign_in(page, product, "auditor")
    page.goto(f"{product.address}/review/{run}/{run}-1/")
    page.locator(".decision-main").get_by_role("button", name=re.compile("^Reveal")).click()
    expect(page.locator(".revealed")).to_contain_text(PASSWORD)
    context.close()


def long_payload(api: Api) -> str:
    """A run that waits with more than a page shows at once; its number."""
    twice = {"$from": "inputs", "select": "[big, big]"}
    return started(api, echo("long", twice, "AFTER_EXECUTION"), inputs={"big": "word " * 45_000})


def test_approval_needs_the_whole_payload_to_be_shown(page: Page, product: Product) -> None:
    api = Api(product, "operator", "read,run")
    run = long_payload(api)
    sign_in(page, product, "reviewer")
    address = f"{product.address}/review/{run}/{run}-1/"
    page.goto(address)
    expect(page.get_by_text("You cannot approve yet: part of the payload")).to_be_visible()
    approve = page.locator("[data-approve]")
    expect(approve).to_be_disabled()
    # A page that was tampered with is refused by the server, and the hold stays open.
    approve.evaluate("button => { button.disabled = false; }")
    approve.click()
    expect(page.get_by_text("Not all of it was shown").first).to_be_visible(timeout=LATER)
    assert until(api, run, "PAUSED_FOR_REVIEW")["holds"]
    page.goto(address)
    expect(page.get_by_text("live", exact=True)).to_be_visible(timeout=LATER)
    page.get_by_label("Comment").fill("read to the end")
    page.get_by_role("button", name=re.compile("^Show the next")).click()
    expect(page.get_by_text("All of its")).to_be_focused()
    assert page.locator("#edits-json").evaluate("text => text.scrollTop > 0"), "it reads on"
    expect(page.get_by_label("Comment")).to_have_value("read to the end")
    expect(approve).to_be_enabled()
    approve.click()
    expect(page.get_by_text("reviewer approved this")).to_be_visible(timeout=LATER)


def test_a_partly_read_payload_can_be_rejected(page: Page, product: Product) -> None:
    run = long_payload(Api(product, "operator", "read,run"))
    sign_in(page, product, "reviewer")
    page.goto(f"{product.address}/review/{run}/{run}-1/")
    expect(page.get_by_text("live", exact=True)).to_be_visible(timeout=LATER)
    expect(page.locator("[data-approve]")).to_be_disabled()
    page.get_by_role("button", name="Reject…").click()
    page.get_by_label("Comment").fill("too long")
    page.locator("[data-reject]").click()
    expect(page.get_by_text("reviewer rejected this")).to_be_visible(timeout=LATER)
