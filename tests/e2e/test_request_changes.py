"""Request changes: the demo's draft is sent back, runs again, and its second try is approved."""

import re

from playwright.sync_api import Page, expect

from tests.e2e.desk import until_open
from tests.e2e.product import Product
from tests.e2e.test_review import Api, sign_in, start_run, wait_for_pause


def test_a_draft_is_sent_back_and_revised(page: Page, product: Product) -> None:
    api = Api(product, "operator", "read")
    run = start_run(product)
    first = wait_for_pause(api, run, "draft", page)
    before = next(task for task in first["tasks"] if task["id"] == "draft")["output"]
    sign_in(page, product, "reviewer")
    page.goto(f"{product.address}/review/{run}/{run}-1/")
    page.get_by_role("heading", name=re.compile("draft")).first.focus()

    # F opens the panel; without words nothing is sent.
    page.keyboard.press("f")
    comment = page.get_by_role("textbox", name="Comment")
    expect(comment).to_be_focused()
    send = page.get_by_role("button", name="Request changes", exact=True)
    send.click()
    expect(page.locator("#decision[data-state=open]")).to_be_visible()
    comment.fill("Shorter, and no contributors please.")
    send.click()
    expect(page.locator("#decision[data-state=decided]")).to_be_visible()
    expect(page.get_by_text("reviewer requested changes to this")).to_be_visible()

    found = until_open(api, run, f"{run}-2")
    assert found["paused_node_id"] == "draft"
    draft = next(task for task in found["tasks"] if task["id"] == "draft")
    assert "## Contributors" not in draft["output"]["markdown"]
    assert len(draft["output"]["markdown"]) < len(before["markdown"])

    page.goto(f"{product.address}/review/{run}/{run}-2/")
    earlier = page.locator(".round")
    expect(earlier).to_contain_text("reviewer requested changes")
    expect(earlier).to_contain_text("Shorter, and no contributors please.")
    expect(earlier.get_by_role("link", name="Earlier attempt")).to_have_attribute(
        "href", f"/review/{run}/{run}-1/"
    )
    expect(earlier.locator("del, td.removed").first).to_be_visible()
    page.get_by_role("button", name="Approve").click()
    wait_for_pause(api, run, "write", page)
    page.goto(f"{product.address}/history/?execution={run}")
    expect(
        page.get_by_role("link", name=re.compile("reviewer requested changes to draft"))
    ).to_be_visible()
