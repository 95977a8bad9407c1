"""The admin's list of reviews decides several at once, and admin and desk link to each other."""

import re

from playwright.sync_api import Page, expect

from tests.e2e.personas import ADMIN, Job
from tests.e2e.product import Product
from tests.e2e.test_review import Api, start_run, wait_for_pause


def test_an_action_rejects_and_the_record_is_linked(page: Page, product: Product) -> None:
    run = start_run(product)
    wait_for_pause(Api(product, "operator", "read"), run, "draft", page)
    job = Job(page, product, "reviewer", ADMIN)
    page.goto(f"{product.address}/admin/workflows/hold/?q={run}-1")
    page.get_by_role("checkbox", name=f"Select this object for an action - {run}-1").check()
    page.get_by_role("combobox", name=re.compile("Action")).select_option(label="Reject…")
    page.get_by_role("button", name="Go").click()
    page.get_by_label(re.compile("Reason")).fill("Not this one")
    page.get_by_role("button", name="Reject", exact=True).click()
    expect(page.get_by_text(re.compile("Rejected"))).to_be_visible()

    page.goto(f"{product.address}/admin/workflows/execution/{run}/change/")
    expect(page.get_by_role("region", name="Activity")).to_contain_text("aborted", timeout=60_000)
    page.get_by_role("link", name="Audit records").click()
    page.get_by_role("link", name=re.compile("reviewer rejected draft")).click()
    job.done_in_the_admin()
    page.get_by_role("link", name="Open on the desk").click()
    page.wait_for_url("**/history/*/")
    page.get_by_role("link", name="Open in the admin").click()
    page.wait_for_url("**/admin/**")
