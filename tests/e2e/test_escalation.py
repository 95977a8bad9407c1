"""Escalations in the browser: granted, saved as a capability, raised, revoked."""

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.product import Product
from tests.e2e.test_review import Api, sign_in, wait_for_pause

LATER = 30_000
POLICY = "Security Policy"
SOURCE = "answer = fetch(page)\nanswer['status']"


@pytest.fixture(scope="module")
def api(product: Product) -> Api:
    return Api(product, "operator", "read,run")


def started(api: Api, *tasks: dict[str, Any]) -> str:
    status, answer = api("executions/", {"plan": {"tasks": list(tasks)}})
    assert status == 201, answer
    return str(answer["id"])


def ask(product: Product, language: str, name: str, code: str) -> dict[str, Any]:
    inputs = {"page": f"{product.address}/static/reviews/icon.svg"}
    return {
        "id": name,
        "type": "code_execution",
        "language": language,
        "code": code,
        "inputs": inputs,
        "timeout_seconds": 20,
    }


def review(page: Page, product: Product, api: Api, run: str, node: str) -> None:
    """Open the page of what waits in this run."""
    found = wait_for_pause(api, run, node, page)
    hold = next(each for each in found["holds"] if each["status"] == "OPEN")
    page.goto(f"{product.address}/review/{run}/{hold['id']}/")


def test_an_escalation_is_granted_and_its_code_becomes_a_capability(
    page: Page, product: Product, api: Api, browser: Browser
) -> None:
    violations: list[str] = []
    # A browser each: an answer to the one's page must not meet the other's cookies.
    operator = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB")
    for each in (page.context, operator):
        each.on("console", lambda m: violations.append(m.text) if POLICY in m.text else None)
    sign_in(page, product, "reviewer")
    host = product.address.removeprefix("http://")
    run = started(api, ask(product, "python", "page_status", SOURCE))
    review(page, product, api, run, "page_status")
    asked = page.locator(".escalation")
    expect(asked).to_contain_text(f"connect to {host} in line 1")
    expect(asked.locator("ins")).to_contain_text(host)
    expect(asked.locator(".code-line.marked")).to_contain_text("answer = fetch(page)")
    # The narrowest is chosen already; there is no capability and no workflow to grant it to.
    expect(page.get_by_label("This task only")).to_be_checked()
    expect(page.get_by_role("radio")).to_have_count(2)
    page.get_by_label("Comment").fill("our own server")
    # The button says how far it reaches.
    page.get_by_label("Every task of this run").check()
    expect(page.get_by_role("button", name="Allow for this run")).to_be_visible()
    page.get_by_label("This task only").check()
    page.get_by_role("button", name="Allow for this task").click()
    expect(page.get_by_text("reviewer approved this")).to_be_visible(timeout=LATER)

    page = operator.new_page()
    sign_in(page, product, "operator")
    page.goto(f"{product.address}/runs/{run}/")
    expect(page.locator(".run-story")).to_contain_text("the run is complete", timeout=LATER)
    page.locator("#task-page_status summary").first.click()
    expect(page.locator("#task-page_status")).to_contain_text("200")
    page.get_by_label("Name of the capability").fill(f"page_status_{run}")
    page.get_by_role("button", name="Keep as a capability").click()
    page.wait_for_url(re.compile(rf"/tools/capability.page_status_{run}/"))
    expect(page.get_by_text(f"Created the capability page_status_{run}.")).to_be_visible()
    assert violations == []
    operator.close()


CAREFUL = "if (page === '') return 'nothing';\nreturn (await fetch(page)).statusText;"


def test_a_capability_grant_is_given_and_revoked(page: Page, product: Product, api: Api) -> None:
    made = started(api, {**ask(product, "typescript", "kept", CAREFUL), "inputs": {"page": ""}})
    keep = {"execution_id": made, "task_id": "kept", "name": "status", "approval_mode": "auto"}
    _until(page, lambda: api("capabilities/", keep)[0] == 201)
    inputs = ask(product, "typescript", "any", "1")["inputs"]
    use = {"id": "use", "type": "capability", "capability": "status", "inputs": inputs}
    run = started(api, use)
    sign_in(page, product, "reviewer")
    review(page, product, api, run, "use")
    expect(page.locator(".code-line.marked")).to_contain_text("await fetch(page)")
    page.get_by_label("The capability status").check()
    page.get_by_role("button", name="Allow for every use of status").click()
    expect(page.get_by_text("reviewer approved this")).to_be_visible(timeout=LATER)
    _until(page, lambda: api(f"executions/{run}/")[1]["status"] == "COMPLETED")
    kinds = [each["type"] for each in api(f"executions/{run}/events/")[1]["results"]]
    assert "capability.permission.updated" in kinds
    page.goto(f"{product.address}/grants/")
    row = page.locator(".grant-row", has_text="for the capability status")
    expect(row).to_contain_text("1 use")
    row.get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("Revoked: connect to")).to_be_visible()
    expect(row).to_have_count(0)
    wait_for_pause(api, started(api, use), "use", page)


def _until(page: Page, holds: Any) -> None:
    for _ in range(300):
        if holds():
            return
        page.wait_for_timeout(100)
    raise AssertionError("it did not come about")
