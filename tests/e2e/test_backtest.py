"""Reviews become history, an admin drafts and publishes a rule, and the next review is skipped."""

import psycopg
from playwright.sync_api import Browser, Page, expect

from tests.e2e.product import Product
from tests.e2e.test_review import Api, sign_in, wait_for_pause

NAME = "backtest-story"
#: ms until a worker has taken up what waits on its last queue.
LATER = 60_000
TAKE_GROUPS = """
DELETE FROM auth_user_groups USING auth_user
 WHERE auth_user.id = user_id AND username = %(name)s
RETURNING user_id, group_id"""
GIVE_GROUP = "INSERT INTO auth_user_groups (user_id, group_id) VALUES (%s, %s)"


def prepared(product: Product) -> None:
    """A workflow that asks for review after its one task."""
    task = {
        "id": "note",
        "type": "tool",
        "tool": "builtin.echo",
        "arguments": {"value": {"$from": "inputs", "select": "size"}},
        "human_review": {"trigger_phase": "AFTER_EXECUTION", "on_timeout": "keep_waiting"},
    }
    body = {"name": NAME, "title": "Backtest story", "plan": {"tasks": [task]}}
    status, answer = Api(product, "admin", "read,admin")("workflows/", body)
    assert status == 201, answer


def started(api: Api, size: int) -> str:
    status, answer = api("executions/", {"workflow": NAME, "inputs": {"size": size}})
    assert status == 201, answer
    return str(answer["id"])


def decided(api: Api, reviewer: Api, size: int, decision: str, page: Page) -> None:
    run = started(api, size)
    found = wait_for_pause(api, run, "note", page)
    answer = {
        "execution_id": run,
        "hold_id": found["holds"][0]["id"],
        "version": found["version"],
        "decision": decision,
        "comment": "too large" if decision == "REJECT" else "",
    }
    status, said = reviewer("reviews/resume/", answer)
    assert status == 200, said


def too_wide(page: Page) -> None:
    """A draft that would have spared what somebody rejected; the report names it."""
    page.get_by_label("Rule name").fill("small")
    page.get_by_label("Skip the review", exact=True).select_option("text")
    page.get_by_label("JMESPath expression").fill("output < `20`")
    examples = page.locator("#rule-check summary")
    expect(examples).to_have_count(3)
    expect(examples.first).to_contain_text("was rejected")
    page.get_by_label("JMESPath expression").fill("output < `20")
    expect(page.locator("#rule-check").get_by_role("alert")).to_contain_text("skip_when")
    page.get_by_label("JMESPath expression").fill("output < `20`")
    expect(examples).to_have_count(3)
    page.get_by_role("button", name="Run backtest").click()
    said = page.get_by_text("These rules would have skipped 3 of 3 reviews.")
    expect(said).to_be_visible(timeout=LATER)
    expect(page.get_by_text("1 of them had been edited or rejected")).to_be_visible()
    missed = page.get_by_role("region", name="but a reviewer rejected it")
    expect(missed.get_by_role("link")).to_have_count(1)


def test_a_rule_is_backtested_published_and_skips_the_next_review(
    page: Page, product: Product, browser: Browser
) -> None:
    violations: list[str] = []
    page.on("console", lambda m: violations.append(m.text) if "Security Policy" in m.text else None)
    prepared(product)
    api = Api(product, "operator", "read,run")
    reviewer = Api(product, "reviewer", "read,decide")
    for size, decision in ((1, "APPROVE"), (2, "APPROVE"), (9, "REJECT")):
        decided(api, reviewer, size, decision, page)

    sign_in(page, product, "admin")
    page.goto(f"{product.address}/insights/")
    page.get_by_role("link", name="Test a rule against past reviews").click()
    page.get_by_label("Workflow", exact=True).select_option(label="Backtest story")
    page.get_by_role("button", name="Choose").click()
    too_wide(page)

    # One good reason: the draft is narrowed, and holds.
    page.get_by_role("link", name="New draft").click()
    page.get_by_label("Rule name").fill("small")
    page.get_by_label("Skip the review", exact=True).select_option(label="when all conditions hold")
    page.get_by_label("Field of condition 1").fill("output")
    page.get_by_label("Operator of condition 1").select_option(label="is less than")
    page.get_by_label("Value of condition 1").fill("5")
    expect(page.get_by_text("On the last 3 reviews it would have skipped 2.")).to_be_visible()
    page.get_by_role("button", name="Run backtest").click()
    said = page.get_by_text("These rules would have skipped 2 of 3 reviews.")
    expect(said).to_be_visible(timeout=LATER)
    expect(page.get_by_text("Nobody edited or rejected any of them")).to_be_visible()
    page.get_by_label("Why", exact=True).fill("never changed a small one")
    page.get_by_role("button", name="Publish v1").click()
    expect(page.get_by_text("Rules v1 are active")).to_be_visible()
    expect(page.get_by_text("never changed a small one")).to_be_visible()

    run = started(api, 3)
    for _ in range(300):
        _, found = api(f"executions/{run}/")
        if found["status"] == "COMPLETED":
            break
        page.wait_for_timeout(100)
    assert found["status"] == "COMPLETED", found
    assert found["holds"] == []
    large = started(api, 7)
    wait_for_pause(api, large, "note", page)

    other = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    sign_in(other, product, "auditor")
    other.goto(f"{product.address}/history/")
    other.get_by_role("link", name="Skipped reviews").click()
    other.get_by_role("link", name="note in").first.click()
    other.wait_for_url(f"**/runs/{run}/*")
    why = "note was not reviewed after it ran: the condition of rule small v1 holds"
    expect(other.get_by_text(why)).to_be_visible()
    an_error_page_replaces_no_part(other, product)
    other.context.close()
    assert violations == []


def an_error_page_replaces_no_part(page: Page, product: Product) -> None:
    """A draft whose author loses the rights while they type says so, and stays."""
    page.goto(f"{product.address}/insights/")
    page.get_by_role("link", name="Test a rule against past reviews").click()
    page.get_by_label("Workflow", exact=True).select_option(label="Backtest story")
    page.get_by_role("button", name="Choose").click()
    with psycopg.connect(product.servers.layout.urls.owner) as connection:
        taken = connection.execute(TAKE_GROUPS, {"name": "auditor"}).fetchall()
    try:
        page.get_by_label("Rule name").fill("small")
        page.get_by_label("Skip the review", exact=True).select_option("text")
        page.get_by_label("JMESPath expression").fill("output < `20`")
        refused = "The server answered with an error (403). Nothing was changed."
        expect(page.get_by_text(refused).first).to_be_visible()
        expect(page.locator("#rule-check").get_by_role("heading")).to_have_count(0)
        expect(page.get_by_label("Rule name")).to_have_value("small")
    finally:
        with psycopg.connect(product.servers.layout.urls.owner) as connection:
            connection.cursor().executemany(GIVE_GROUP, taken)
