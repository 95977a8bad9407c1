"""A pause is pushed to an open queue, which fetches only its row and disturbs nobody."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page, Route, expect

from tests.e2e.desk import echo, started
from tests.e2e.live import Watcher
from tests.e2e.product import Product
from tests.e2e.test_review import Api, sign_in

#: What somebody is in the middle of: where they write and what they marked there, which review is
#: open, which are chosen, and where on the screen the last row is.
DOING = """() => {
  const field = document.activeElement;
  const rows = [...document.querySelectorAll("#queue-list [data-hold]")];
  return {
    field: field.name, text: field.value, from: field.selectionStart, to: field.selectionEnd,
    open: document.querySelector("#queue-list [aria-current]")?.closest("[data-hold]").dataset.hold,
    chosen: rows.filter((row) => row.querySelector("[data-pick]").checked)
                .map((row) => row.dataset.hold),
    last: rows.at(-1).getBoundingClientRect().top,
  };
}"""


def test_a_pause_is_pushed_and_fetches_only_its_row(page: Page, product: Product) -> None:
    watcher = Watcher(page, product, "quagga")
    runs = [watcher.pause().run for _ in range(3)]
    heard = watcher.heard()
    assert heard["news"] >= len(runs)
    assert heard["poll"] == 0
    # Each look names the runs that news came of; none of them asks for the whole list.
    assert {run for named in watcher.looks for run in named} >= set(runs)
    assert [] not in watcher.looks


def test_a_pause_before_the_socket_is_open_is_shown(page: Page, product: Product) -> None:
    api = Api(product, "operator", "read,run")
    sign_in(page, product, "reviewer")
    held: list[Route] = []
    page.route("**/socket*.js", lambda route: held.append(route))
    with page.expect_request("**/socket*.js"):
        page.goto(f"{product.address}/review/?q=dugong", wait_until="commit")
    expect(page.get_by_role("heading", name="Nothing matches “dugong”")).to_be_visible()
    run = started(api, echo("publish", "text", "BEFORE_EXECUTION"), title="A run dugong")
    assert held
    for route in held:
        route.continue_()
    expect(page.locator(f"#queue-list [data-hold='{run}-1']")).to_be_visible()


def test_a_new_row_does_not_disturb_the_user(page: Page, product: Product) -> None:
    api = Api(product, "operator", "read,run")
    task = echo("publish", "text", "BEFORE_EXECUTION")
    for _ in range(12):
        started(api, task, title="A run okapi")
    page.set_viewport_size({"width": 1440, "height": 600})
    sign_in(page, product, "reviewer")
    page.goto(f"{product.address}/review/?q=okapi")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    rows = page.locator("#queue-list [data-hold]")
    expect(rows).to_have_count(12)
    rows.nth(1).locator("[data-pick]").check()
    rows.nth(2).locator("[data-open]").click()
    comment = page.locator("#decision [data-comment]")
    comment.fill("not yet, because")
    comment.evaluate("field => field.setSelectionRange(4, 7)")
    page.locator(".pane-list").evaluate("pane => pane.scrollTo(0, pane.scrollHeight)")
    before = doing(page)
    assert (before["text"], before["from"], before["to"]) == ("not yet, because", 4, 7)

    run = started(api, task, title="A run okapi")
    line = page.get_by_role("button", name="1 new, show")
    expect(line).to_be_visible()
    now = doing(page)
    # The line takes its place above; what is in view stays there, but for a rounded pixel.
    assert abs(now.pop("last") - before.pop("last")) < 3
    assert now == before
    expect(rows).to_have_count(12)

    line.click()
    expect(rows).to_have_count(13)
    # Oldest first: the new one is the last.
    expect(rows.last).to_have_attribute("data-hold", f"{run}-1")
    expect(rows.last.locator("[data-open]")).to_be_focused()
    after = doing(page)
    assert (after["open"], after["chosen"]) == (before["open"], before["chosen"])
    expect(comment).to_have_value("not yet, because")


def test_a_failed_refresh_is_retried(page: Page, product: Product) -> None:
    api = Api(product, "operator", "read,run")
    sign_in(page, product, "reviewer")
    page.goto(f"{product.address}/review/?q=numbat")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    refused: list[str] = []

    def refuse_once(route: Route) -> None:
        if route.request.headers.get("hx-target") == "queue-list" and not refused:
            refused.append(route.request.url)
            route.abort()
        else:
            route.continue_()

    page.route("**/review/**", refuse_once)
    task = echo("publish", "text", "BEFORE_EXECUTION")
    run = started(api, task, title="A run numbat")
    expect(page.locator(f"#queue-list [data-hold='{run}-1']")).to_be_visible(timeout=30_000)
    assert refused


def doing(page: Page) -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate(DOING)
    return found
