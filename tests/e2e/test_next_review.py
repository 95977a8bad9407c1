"""From a decision in the queue to the next review: one request has both."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, Request, expect

from tests.e2e.desk import echo, started
from tests.e2e.product import Product
from tests.e2e.test_review import Api, sign_in

MOST_REQUESTS = 4
#: Notes the requests of the page's scripts until the review of a hold is open.
WATCH = """hold => {
  const sent = [];
  const note = (method, url) => sent.push(`${method} ${new URL(url, location.href).pathname}`);
  const { open } = XMLHttpRequest.prototype;
  XMLHttpRequest.prototype.open = function (method, url, ...more) {
    note(method, url);
    return open.call(this, method, url, ...more);
  };
  const { fetch } = window;
  window.fetch = (url, options) => {
    note(options?.method ?? "GET", url);
    return fetch(url, options);
  };
  window.untilThere = new Promise((resolve) => {
    const look = () => {
      if (document.querySelector(`#decision[data-hold="${hold}"]`)) resolve(sent.slice());
    };
    const detail = document.getElementById("detail");
    new MutationObserver(look).observe(detail, { childList: true, subtree: true });
  });
}"""


@pytest.mark.parametrize("undo_seconds", [0, 600])
def test_the_answer_to_a_decision_has_the_next_review(
    page: Page, product: Product, undo_seconds: int
) -> None:
    api = Api(product, "operator", "read,run")
    word = f"wombat{undo_seconds}"
    task = echo("stop", "text", "BEFORE_EXECUTION")
    policy = {"undo_seconds": undo_seconds}
    runs = [started(api, task, title=f"A run {word}", policy=policy) for _ in range(3)]
    page.set_viewport_size({"width": 1440, "height": 900})
    sign_in(page, product, "reviewer")
    page.goto(f"{product.address}/review/?q={word}")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    page.locator(f"[data-hold='{runs[0]}-1'] a[data-open]").click()
    expect(page.locator(f"#decision[data-hold='{runs[0]}-1']")).to_be_visible()
    page.wait_for_load_state("networkidle")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(_named(request)))
    waiting = page.locator("[data-tab=me] .count")
    before = int(waiting.inner_text())
    page.evaluate(WATCH, f"{runs[1]}-1")
    page.keyboard.press("a")
    page.keyboard.press("Enter")
    until_there = page.evaluate("window.untilThere")
    # First of all: a toast goes after six seconds.
    expect(page.locator(".toast").last).to_contain_text("reviewer approved this")
    expect(page.locator(".toast").last).to_contain_text("Now in another run")
    assert until_there[0] == f"POST /review/{runs[0]}/{runs[0]}-1/"
    assert len(until_there) <= MOST_REQUESTS, until_there
    expect(page.locator(f"#decision[data-hold='{runs[1]}-1'][data-state=open]")).to_be_visible()
    # The pane was not fetched by a request of its own.
    assert f"GET /review/{runs[1]}/{runs[1]}-1/" not in sent
    expect(page.locator("#decision-title")).to_be_focused()
    expect(page.locator("#queue-list [aria-current]")).to_have_attribute(
        "href", f"/review/{runs[1]}/{runs[1]}-1/"
    )
    assert f"hold={runs[1]}-1" in page.url
    expect(page.locator(f"li[data-hold='{runs[0]}-1']")).to_have_count(0)
    expect(waiting).to_have_text(str(before - 1))

    if undo_seconds:
        page.keyboard.press("u")
        expect(page.locator(f"#decision[data-hold='{runs[0]}-1'][data-state=open]")).to_be_visible()
        expect(page.locator(f"li[data-hold='{runs[0]}-1']:not(.gone)")).to_have_count(1)
        return
    # The page goes on to hear news, and the last review has no next one.
    expect(page.locator("#verdict.guarded")).to_have_count(0)
    page.keyboard.press("a")
    page.keyboard.press("Enter")
    expect(page.locator(f"#decision[data-hold='{runs[2]}-1'][data-state=open]")).to_be_visible()
    expect(page.locator("#verdict.guarded")).to_have_count(0)
    page.keyboard.press("a")
    page.keyboard.press("Enter")
    expect(page.locator("#decision-status")).to_contain_text("reviewer approved this")
    late = started(api, task, title=f"A run {word}", policy=policy)
    expect(page.locator(f"li[data-hold='{late}-1']")).to_be_visible(timeout=30_000)


def test_an_answer_without_the_next_review_does_not_stop_the_queue(
    page: Page, product: Product
) -> None:
    api = Api(product, "operator", "read,run")
    task = echo("stop", "text", "BEFORE_EXECUTION")
    runs = [started(api, task, title="A run potoroo") for _ in range(3)]
    page.set_viewport_size({"width": 1440, "height": 900})
    sign_in(page, product, "reviewer")
    page.goto(f"{product.address}/review/?q=potoroo")
    page.locator(f"[data-hold='{runs[0]}-1'] a[data-open]").click()
    expect(page.locator(f"#decision[data-hold='{runs[0]}-1']")).to_be_visible()
    page.evaluate("document.querySelector('[data-page-end]').dataset.pageEnd = 'broken'")
    page.keyboard.press("a")
    page.keyboard.press("Enter")
    # What the server cannot answer at once, the page fetches as before.
    expect(page.locator(f"#decision[data-hold='{runs[1]}-1'][data-state=open]")).to_be_visible()
    expect(page.locator(f"li[data-hold='{runs[0]}-1']")).to_have_count(0)


def test_a_decision_refreshes_the_layers_of_its_run(page: Page, product: Product) -> None:
    """Nothing of the page is stale afterwards: the layer is done, and the next one waits."""
    api = Api(product, "operator", "read,run")
    later = {**echo("two", {"$from": "one"}, "BEFORE_EXECUTION"), "title": "Second"}
    run = started(api, echo("one", "text", "BEFORE_EXECUTION"), later, title="A run quokka")
    sign_in(page, product, "reviewer")
    page.goto(f"{product.address}/review/{run}/{run}-1/")
    beads = page.get_by_role("list", name="Where the run stands").get_by_role("listitem")
    expect(beads).to_have_class(["current", "todo"])
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.locator("#decision-status")).to_contain_text("reviewer approved this")
    expect(beads).to_have_class(["done", "current"], timeout=30_000)


def _named(request: Request) -> str:
    path = request.url.partition("//")[2].partition("/")[2].partition("?")[0]
    return f"{request.method} /{path}"
