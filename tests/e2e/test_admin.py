"""A reviewer does the whole job in the admin: edit an output, edit arguments, reject."""

import re
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.e2e.product import Product
from tests.e2e.test_review import Api, sign_in, start_run, wait_for_pause

EDIT = "Edited in the admin."


def test_a_reviewer_decides_three_reviews_in_the_admin_alone(page: Page, product: Product) -> None:
    violations: list[str] = []
    page.on("console", lambda m: violations.append(m.text) if "Security Policy" in m.text else None)
    api = Api(product, "operator", "read")
    run, other = start_run(product), start_run(product)
    for each in (run, other):
        wait_for_pause(api, each, "draft", page)
    sign_in(page, product, "reviewer")
    page.get_by_role("link", name="Admin", exact=True).click()
    expect(page.get_by_role("heading", name="Oldest reviews")).to_be_visible()
    page.get_by_role("link", name=re.compile("Waiting reviews")).click()
    expect(page.get_by_role("heading", name="Pending reviews")).to_be_visible()

    # After execution: the output is edited.
    page.locator(f"#result_list a[href*='/{run}-1/']").click()
    text = page.get_by_role("textbox", name="Markdown")
    text.fill(text.input_value() + f"\n{EDIT}\n")
    page.get_by_role("button", name="Approve with 1 change").click()
    expect(page.get_by_text("reviewer approved this")).to_be_visible(timeout=60_000)
    assert page.url.startswith(f"{product.address}/admin/")

    # Before execution: the arguments are edited.
    wait_for_pause(api, run, "write", page)
    page.goto(f"{product.address}/admin/workflows/hold/{run}-2/change/")
    expect(page.get_by_role("textbox", name="Content")).to_have_value(re.compile(EDIT))
    page.get_by_role("textbox", name="Path").fill(f"admin/{run}.md")
    page.get_by_role("button", name="Approve with 1 change").click()
    expect(page.get_by_text("reviewer approved this")).to_be_visible(timeout=60_000)

    # An action of the list rejects the other run's output.
    page.goto(f"{product.address}/admin/workflows/hold/?q={other}-1")
    page.locator("#result_list input[name=_selected_action]").check()
    page.get_by_role("combobox", name=re.compile("Action")).select_option(label="Reject…")
    page.get_by_role("button", name="Go").click()
    page.get_by_label(re.compile("Reason")).fill("Not this one")
    page.get_by_role("button", name="Reject", exact=True).click()
    expect(page.get_by_text(re.compile("Rejected"))).to_be_visible()

    # The run shows the outcome, in the admin as well.
    page.goto(f"{product.address}/admin/workflows/execution/{run}/change/")
    expect(page.locator(".run-story")).to_contain_text("the run is complete", timeout=60_000)
    assert EDIT in (Path(product.home) / "files" / "admin" / f"{run}.md").read_text()
    page.get_by_role("link", name="Audit records").click()
    expect(page.locator("#result_list tbody tr")).to_have_count(2)
    page.locator("#result_list tbody a").first.click()
    expect(page.get_by_text("the executed data is the approved data")).to_be_visible()
    page.get_by_role("link", name="Open on the desk").click()
    page.get_by_role("link", name="Open in the admin").click()
    assert page.url.startswith(f"{product.address}/admin/")
    assert violations == []
