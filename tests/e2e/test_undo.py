"""Undo: a decision in the queue is taken back with one key, and a second browser sees it again."""

import re
from typing import Any

from playwright.sync_api import Browser, Page, expect

from tests.e2e.product import Product
from tests.e2e.test_review import Api, sign_in

LONG = 600


def start(api: Api, *names: str, undo_seconds: float) -> str:
    """A run that stops after each of these tasks at once; its number."""
    tasks = [
        {
            "id": name,
            "type": "tool",
            "tool": "builtin.echo",
            "arguments": {"value": f"the text of {name}"},
            "human_review": {"trigger_phase": "AFTER_EXECUTION"},
        }
        for name in names
    ]
    body = {"plan": {"tasks": tasks}, "policy": {"undo_seconds": undo_seconds}}
    status, answer = api("executions/", body)
    assert status == 201, answer
    return str(answer["id"])


def wait_for(page: Page, api: Api, run: str, holds: int) -> dict[str, Any]:
    """The run once so many of its holds are open."""
    for _ in range(300):
        _, found = api(f"executions/{run}/")
        if len(found["holds"]) == holds:
            return dict(found)
        page.wait_for_timeout(100)
    raise AssertionError(found)


def row(page: Page, hold: str) -> Any:
    return page.locator(f"[data-hold='{hold}'] a[data-open]")


def test_undo_from_the_toast_with_the_keyboard(
    page: Page, product: Product, browser: Browser
) -> None:
    api = Api(product, "operator", "read,run")
    run = start(api, "one", undo_seconds=LONG)
    other = start(api, "two", undo_seconds=LONG)
    for each in (run, other):
        wait_for(page, api, each, 1)
    hold = f"{run}-1"
    page.set_viewport_size({"width": 1440, "height": 900})
    sign_in(page, product, "reviewer")
    second = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    sign_in(second, product, "reviewer2")
    for each in (page, second):
        expect(each.get_by_text("live", exact=True)).to_be_visible()
        expect(row(each, hold)).to_be_visible()

    row(page, hold).click()
    expect(page.locator(f"#decision[data-hold='{hold}']")).to_be_visible()
    page.get_by_role("heading", name=re.compile("one")).first.focus()
    page.keyboard.press("a")
    page.keyboard.press("Enter")
    undo = page.locator("[data-undo-toast]")
    expect(undo).to_be_visible()
    expect(page.locator(".toast .seconds")).to_have_text(re.compile(r"^\d+$"))
    # The next one opens by itself, and the other browser no longer offers this one.
    expect(page.locator(f"#decision[data-hold='{hold}']")).to_have_count(0)
    expect(second.locator(f"li[data-hold='{hold}']:not(.gone)")).to_have_count(0)

    page.keyboard.press("u")
    expect(page.locator(f"#decision[data-hold='{hold}'][data-state=open]")).to_be_visible()
    expect(row(page, hold)).to_be_visible()
    expect(undo).to_have_count(0)
    expect(second.locator(f"li[data-hold='{hold}']:not(.gone)")).to_have_count(1, timeout=30_000)
    wait_for(page, api, run, 1)
    page.goto(f"{product.address}/history/?execution={run}")
    expect(page.get_by_text("reviewer withdrew the approval of one").first).to_be_visible()
    second.context.close()


def test_several_decisions_are_undone_together(page: Page, product: Product) -> None:
    api = Api(product, "operator", "read,run")
    runs = [start(api, name, undo_seconds=LONG) for name in ("first", "second", "third")]
    for each in runs:
        wait_for(page, api, each, 1)
    page.set_viewport_size({"width": 1440, "height": 900})
    sign_in(page, product, "reviewer")
    expect(page.get_by_text("live", exact=True)).to_be_visible()

    def choose() -> None:
        for each in runs:
            page.locator(f"[data-hold='{each}-1'] [data-pick]").check()
        page.locator("[data-bulk-do=approve]").click()
        page.get_by_role("button", name="Approve 3 reviews").click()
        expect(page.locator("[data-bulk-summary]")).to_have_text("3 reviews approved.")

    def gone(count: int) -> None:
        for each in runs:
            shown = page.locator(f"li[data-hold='{each}-1']:not(.gone)")
            expect(shown).to_have_count(count, timeout=30_000)
            if count:  # as it is now, so that it can be answered again
                version = str(wait_for(page, api, each, 1)["version"])
                expect(shown).to_have_attribute("data-version", version, timeout=30_000)

    # In the dialog that says what became of them,
    choose()
    page.get_by_role("button", name="Undo 3 decisions").click()
    expect(page.locator("[data-bulk-summary]")).to_have_text("3 decisions undone.")
    page.get_by_role("button", name="Done").click()
    gone(1)
    # and after it was closed, with one key.
    choose()
    page.get_by_role("button", name="Done").click()
    gone(0)
    expect(page.locator("[data-undo-toast]")).to_be_visible()
    page.keyboard.press("u")
    expect(page.get_by_text("3 decisions undone.")).to_be_visible()
    gone(1)


def test_the_page_undoes_until_the_run_continues_and_then_says_why_not(
    page: Page, product: Product
) -> None:
    api = Api(product, "operator", "read,run")
    sign_in(page, product, "reviewer")
    run = start(api, "one", undo_seconds=LONG)
    wait_for(page, api, run, 1)
    page.goto(f"{product.address}/review/{run}/{run}-1/")
    page.get_by_role("button", name="Reject…").click()
    page.get_by_label("Comment").fill("not this one")
    page.get_by_role("button", name="Reject and abort the run").click()
    form = page.locator("[data-undo=decision]")
    expect(form).to_be_visible()
    expect(form).to_contain_text("Nothing has run yet")
    page.keyboard.press("u")
    expect(page.locator("#decision[data-state=open]")).to_be_visible()
    expect(page.get_by_role("button", name="Approve")).to_be_enabled()
    _, found = api(f"executions/{run}/")
    assert found["status"] == "PAUSED_FOR_REVIEW"

    quick = start(api, "one", undo_seconds=2)
    wait_for(page, api, quick, 1)
    page.goto(f"{product.address}/review/{quick}/{quick}-1/")
    page.get_by_role("button", name="Approve").click()
    expect(form).to_be_visible()
    # Nobody undoes it: the sweeper lets the run go on, and the page says that it is too late.
    expect(page.locator("[data-no-undo]")).to_be_visible(timeout=60_000)
    expect(form).to_have_count(0)
    for _ in range(600):
        _, found = api(f"executions/{quick}/")
        if found["status"] == "COMPLETED":
            break
        page.wait_for_timeout(100)
    assert found["status"] == "COMPLETED"
