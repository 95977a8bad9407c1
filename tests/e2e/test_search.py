"""The search box at the top, by keyboard, and its results in groups."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.e2e.desk import echo, started
from tests.e2e.product import Product
from tests.e2e.test_review import Api, sign_in


def test_the_slash_key_leads_to_results(page: Page, product: Product) -> None:
    api = Api(product, "operator", "read,run")
    run = started(api, echo("beacon", "x", "BEFORE_EXECUTION"), title="Lighthouse")
    sign_in(page, product, "operator")
    page.goto(f"{product.address}/runs/{run}/")
    page.keyboard.press("/")
    box = page.get_by_role("searchbox", name="Search")
    expect(box).to_be_focused()
    page.keyboard.type("lighthouse")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{product.address}/search/?q=lighthouse")
    expect(box).to_have_value("lighthouse")
    reviews, runs = (page.get_by_role("region", name=name) for name in ("Open reviews", "Runs"))
    expect(reviews.get_by_role("link")).to_have_attribute("href", f"/review/{run}/{run}-1/")
    runs.get_by_role("link").click()
    page.wait_for_url(f"{product.address}/runs/{run}/")
