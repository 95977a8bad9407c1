"""The decision form: the payload in view, one line of answers, reasons, cards and grants."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from tests.e2e.desk import echo, started, until, until_open
from tests.e2e.product import Product
from tests.e2e.test_review import Api, sign_in

LATER = 30_000
SIZE = {"width": 1440, "height": 900}


def at_review(page: Page, product: Product, run: str, number: int = 1) -> None:
    page.set_viewport_size(SIZE)  # type: ignore[arg-type]
    sign_in(page, product, "reviewer")
    page.goto(f"{product.address}/review/{run}/{run}-{number}/")
    expect(page.get_by_text("live", exact=True)).to_be_visible(timeout=LATER)


def box(locator: Locator) -> dict[str, float]:
    found = locator.bounding_box()
    assert found is not None
    return dict(found)


def test_the_payload_is_in_view_and_the_bar_covers_nothing(page: Page, product: Product) -> None:
    api = Api(product, "operator", "read,run")
    text = "\n".join(f"line {number}" for number in range(60))
    value = {"path": "a.md", "content": text, "mode": "w"}
    run = started(api, echo("a", value, "AFTER_EXECUTION", instructions="Look at the path."))
    at_review(page, product, run)
    bar, content = page.locator("#verdict"), page.get_by_label("Content", exact=True)
    assert box(bar)["height"] <= 60, "one line"
    # The first two fields, and a good part of the long one, above the bar.
    assert box(content)["y"] + 160 < box(bar)["y"]
    last = page.get_by_label("Mode", exact=True)
    last.focus()
    assert box(last)["y"] + box(last)["height"] <= box(bar)["y"], "the focus is never covered"

    # The difference stands below its field, in the payload.
    page.get_by_label("Path", exact=True).fill("b.md")
    field = page.locator("[data-field]", has=page.get_by_label("Path", exact=True))
    expect(field.locator("[data-diff] ins")).to_have_text("b.md")
    expect(page.get_by_role("button", name="Approve with 1 change")).to_be_visible()
    assert box(bar)["height"] <= 60

    # A button that is off says why, beside it.
    page.get_by_role("button", name="JSON").click()
    page.locator("#edits-json").fill("{")
    expect(page.locator("[data-approve]")).to_be_disabled()
    expect(bar.locator("[data-why-off]")).to_have_text("The JSON is not valid.")


def test_a_rejection_has_one_button_a_reason_and_a_way_back(page: Page, product: Product) -> None:
    run = started(Api(product, "operator", "read,run"), echo("a", "x", "BEFORE_EXECUTION"))
    at_review(page, product, run)
    bar = page.locator("#verdict")
    page.get_by_role("button", name="Reject…").click()
    expect(bar.locator("button.danger:visible")).to_have_count(1)
    expect(bar.get_by_role("button", name="Cancel")).to_be_visible()
    bar.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name="Reject…")).to_be_focused()
    page.keyboard.press("r")
    expect(page.get_by_label("Comment")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(page.locator("[data-reject-panel].open")).to_have_count(0)

    page.get_by_role("button", name="Reject…").click()
    reject = page.get_by_role("button", name=re.compile("^Reject and abort"))
    reject.click()
    expect(page.locator("#decision[data-state=open]")).to_be_visible()
    assert page.get_by_label("Comment").evaluate("field => field === document.activeElement")
    page.get_by_role("button", name="Not now").click()
    reject.click()
    expect(page.get_by_text("reviewer rejected this")).to_be_visible(timeout=LATER)


def test_a_layer_approval_shows_a_card_for_each_task(page: Page, product: Product) -> None:
    api = Api(product, "operator", "read,run")
    facts = [{"name": "Pear", "amount": 12}, {"name": "Fig", "amount": 80}]
    tasks = [
        echo("facts", {"path": "q3.md", "rows": facts}),
        {
            **echo("report", {"to": {"$from": "facts", "select": "path"}}),
            "title": "Write the report",
        },
        {
            "id": "mail",
            "type": "code_execution",
            "language": "python",
            "code": "rows",
            "inputs": {"rows": {"$from": "facts", "select": "rows"}},
        },
    ]
    policy = {"hil": {"enabled": True, "approval_required": "always", "timeout_seconds": 3600}}
    run = started(api, *tasks, policy=policy)
    at_review(page, product, run)
    page.get_by_role("button", name="Approve").click()
    until_open(api, run, f"{run}-2")
    page.goto(f"{product.address}/review/{run}/{run}-2/")
    report, mail = page.locator("[data-task=report]"), page.locator("[data-task=mail]")
    expect(report.get_by_role("heading")).to_contain_text("Write the report")
    expect(report).to_contain_text("q3.md")
    expect(report).not_to_contain_text("$from")
    expect(report.locator(".touches")).to_contain_text("Use nothing beyond its inputs.")
    expect(mail.get_by_role("cell", name="Pear")).to_be_visible()
    # Nothing to edit, because the server takes no edits here.
    expect(page.locator(".payload")).to_be_hidden()
    assert page.locator("#edits-json").is_disabled()
    page.get_by_role("button", name="Approve").click()
    until(api, run, "COMPLETED")


def test_with_a_quorum_nothing_can_be_edited(page: Page, product: Product) -> None:
    api = Api(product, "operator", "read,run")
    run = started(api, echo("a", {"path": "a.md"}, "BEFORE_EXECUTION", quorum=2))
    at_review(page, product, run)
    expect(page.get_by_text("Several people approve this, so nobody can edit it.")).to_be_visible()
    assert page.locator("[data-input]").first.is_disabled()
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("1 of 2 approvals")).to_be_visible(timeout=LATER)


def test_a_preview_renders_markdown_and_tables_and_is_searched(
    page: Page, product: Product
) -> None:
    value = {
        "markdown": "# Notes\n\n[here](https://a.example) <b>bold</b>\n",
        "orders": [{"id": number, "customer": f"Customer {number}"} for number in range(3)],
    }
    api = Api(product, "operator", "read,run")
    run = started(api, echo("a", value, "AFTER_EXECUTION"))
    at_review(page, product, run)
    page.get_by_label("Markdown", exact=True).fill("# Changed\n\n[here](https://b.example)\n")
    page.get_by_role("button", name="Preview").click()
    preview = page.locator("[data-preview]")
    expect(preview.get_by_role("heading", name="Changed")).to_be_visible()
    expect(preview.get_by_role("link", name="here")).to_have_attribute(
        "rel", "noopener noreferrer nofollow"
    )
    expect(preview.get_by_role("cell", name="Customer 2")).to_be_visible()
    expect(page.locator("[data-fields]")).to_be_hidden()
    page.get_by_label("Find in payload").fill("customer")
    expect(page.locator("[data-find-count]")).to_have_text("1 of 4")
    page.keyboard.press("Enter")
    expect(page.locator("[data-find-count]")).to_have_text("2 of 4")
    page.get_by_role("button", name="Form", exact=True).click()
    expect(page.get_by_role("button", name="Approve with 1 change")).to_be_visible()
    expect(preview).to_be_hidden()
