"""A standing answer in the browser: given with an approval, used by the agent, revoked."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.e2e.product import Product
from tests.e2e.test_review import Api, sign_in

LATER = 30_000
POLICY = """
from workflows.models import ApprovalPolicy
ApprovalPolicy.objects.get_or_create(
    pattern="payments.*", groups=["reviewer"], allows_standing_answers=True
)
"""


def ask(agent: Api, **arguments: Any) -> dict[str, Any]:
    payment = {"to": "ACME", "amount": 250, "memo": "Invoice 4711", **arguments}
    action = {"name": "payments.transfer", "title": "Pay an invoice", "arguments": payment}
    asked = {"action": action, "risk": "medium", "requested_by": {"agent": "billing-bot"}}
    status, body = agent("approvals/", asked)
    assert status == 201, body
    return dict(body)


def test_a_reviewer_approves_similar_actions_for_a_day(page: Page, product: Product) -> None:
    violations: list[str] = []
    page.on("console", lambda m: violations.append(m.text) if "Security Policy" in m.text else None)
    product.command("shell", "-c", POLICY)
    agent = Api(product, "operator", "ask", "billing")
    body = ask(agent)
    sign_in(page, product, "reviewer")
    page.goto(body["review_url"])
    expect(page.locator(".action-facts")).to_contain_text("medium")
    page.get_by_text("Also approve similar actions of “billing-bot”").click()
    page.get_by_label("Approve later calls like this one without a review, for").check()
    approve = page.locator("[data-approve]")
    expect(approve).to_have_text("Approve and allow for 8 hours")
    page.get_by_label("For how long").select_option("1 hour")
    expect(approve).to_have_text("Approve and allow for 1 hour")
    page.get_by_label("memo").last.select_option("any value")
    page.locator(".standing-line", has_text="amount").get_by_role("combobox").select_option("up_to")
    page.get_by_label("Limit of amount").fill("300")
    assert Axe().run(page).response["violations"] == []
    approve.click()
    assert wait_until_approved(agent, body, page)

    covered = ask(agent, amount=299, memo="Invoice 4712")
    assert (covered["status"], covered["grant"]["given_by"]) == ("approved", "reviewer")
    assert ask(agent, amount=301)["status"] == "pending"

    page.goto(f"{product.address}/grants/")
    row = page.locator(".grant-row", has_text="Approve payments.transfer")
    expect(row).to_contain_text("any memo, amount up to 300, the rest as approved")
    expect(row).to_contain_text("for the agent billing-bot of operator")
    expect(row).to_contain_text("1 use")
    row.get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("Revoked:")).to_be_visible(timeout=LATER)
    assert ask(agent, amount=1)["status"] == "pending"
    assert violations == []


def wait_until_approved(agent: Api, body: dict[str, Any], page: Page) -> bool:
    for _ in range(400):
        if agent(f"approvals/{body['id']}/")[1]["status"] == "approved":
            return True
        page.wait_for_timeout(100)
    return False
