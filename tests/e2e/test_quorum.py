"""Two of three people have to approve: open pages follow each vote, and the decision."""

from __future__ import annotations

from playwright.sync_api import Browser, Page, expect

from tests.e2e.desk import echo, started, until
from tests.e2e.product import Product
from tests.e2e.test_review import Api, sign_in

LATER = 30_000
THIRD = """
from django.contrib.auth.models import Group, User
user, _ = User.objects.get_or_create(username="reviewer3")
user.groups.add(Group.objects.get(name="reviewer"))
"""


def test_two_of_three_approvals_complete_a_quorum(
    page: Page, product: Product, browser: Browser
) -> None:
    product.command("shell", "-c", THIRD)
    operator = Api(product, "operator", "read,run")
    run = started(operator, echo("pay", {"sum": 7}, "BEFORE_EXECUTION", quorum=2))
    address = f"{product.address}/review/{run}/{run}-1/"

    other = browser.new_context().new_page()
    sign_in(other, product, "reviewer2")
    other.goto(address)
    expect(other.get_by_text("0 of 2 approvals")).to_be_visible()
    expect(other.get_by_text("live", exact=True)).to_be_visible(timeout=LATER)
    other.evaluate("window.notReloaded = true")

    sign_in(page, product, "reviewer")
    page.goto(address)
    second = page.context.new_page()
    second.goto(address)
    expect(second.locator("[data-approve]")).to_be_visible()
    expect(second.get_by_text("live", exact=True)).to_be_visible(timeout=LATER)
    page.get_by_role("button", name="Approve").click()
    mine = "You have already approved this; the quorum needs another person."
    expect(page.get_by_text(mine)).to_be_visible(timeout=LATER)
    expect(page.locator("[data-approve]")).to_have_count(0)
    # The same person's second tab offers no second vote, and offers the first again once undone.
    expect(second.locator("[data-approve]")).to_have_count(0, timeout=LATER)
    page.get_by_role("button", name="Undo").first.click()
    expect(second.locator("[data-approve]")).to_be_enabled(timeout=LATER)
    page.get_by_role("button", name="Approve").click()
    expect(second.locator("[data-approve]")).to_have_count(0, timeout=LATER)

    expect(other.get_by_text("1 of 2 approvals")).to_be_visible(timeout=LATER)
    expect(other.locator(".status-banner").get_by_text("reviewer approved")).to_be_visible()
    assert other.evaluate("window.notReloaded")

    # The same person again, by another door: refused with the reason.
    again = Api(product, "reviewer", "read,decide")
    answer = {
        "execution_id": run,
        "hold_id": f"{run}-1",
        "version": operator(f"executions/{run}/")[1]["version"],
        "decision": "APPROVE",
    }
    status, refused = again("reviews/resume/", answer)
    assert status == 409, refused
    assert mine in str(refused)
    status, refused = Api(product, "reviewer3", "read")("reviews/resume/", answer)
    assert status == 403, refused
    assert "decide" in str(refused)
    assert until(operator, run, "PAUSED_FOR_REVIEW", "COMPLETED")["status"] == "PAUSED_FOR_REVIEW"

    other.get_by_role("button", name="Approve").click()
    expect(other.get_by_text("reviewer2 approved this")).to_be_visible(timeout=LATER)
    until(operator, run, "COMPLETED")
    for each in (page, second, other):
        expect(each.locator("#decision-title")).to_have_text("Arguments of echo", timeout=LATER)
        expect(each).to_have_title("Arguments of echo · Holdpoint")
        expect(each.locator("#verdict")).to_have_count(0)
    other.context.close()
