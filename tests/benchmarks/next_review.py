"""From an approval in the queue to the painted next review, in a browser."""

from __future__ import annotations

import os
import statistics
from itertools import pairwise

from playwright.sync_api import Page, expect, sync_playwright

from tests.benchmarks.figures import Figure, middle
from tests.benchmarks.pages import UNLIMITED
from tests.benchmarks.surroundings import Bench
from tests.e2e import browser
from tests.e2e.desk import echo, started
from tests.e2e.product import Product, running_product
from tests.e2e.test_review import Api, sign_in

GOAL_MS, MOST_REQUESTS = 120.0, 4
#: Milliseconds from the next key until the review of a hold is painted.
WATCH = """hold => {
  let pressed;
  addEventListener("keydown", () => (pressed = performance.now()), { once: true, capture: true });
  window.untilPainted = new Promise((resolve, reject) => {
    const seen = new MutationObserver(() => {
      if (!document.querySelector(`#decision[data-hold="${hold}"]`)) return;
      seen.disconnect();
      const painted = () => resolve(performance.now() - pressed);
      requestAnimationFrame(() => requestAnimationFrame(painted));
    });
    seen.observe(document.getElementById("detail"), { childList: true, subtree: true });
    setTimeout(() => reject(new Error(`the review of ${hold} did not come`)), 30000);
  });
}"""


def measure(bench: Bench) -> list[Figure]:
    """Approve one review after the other by keyboard, among others that wait."""
    found = browser.find()
    if found is None:
        print(f"left out: {browser.ADVICE}", end=" ")
        return []
    rounds = bench.rounds(40, 10)
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with running_product(**UNLIMITED) as product, sync_playwright() as playwright:
        operator = Api(product, "operator", "read,run")
        task = echo("stop", "text", "BEFORE_EXECUTION")
        runs = [started(operator, task, title=f"A run numbat {n}") for n in range(rounds + 4)]
        opened = playwright.chromium.launch(executable_path=str(found), args=arguments)
        try:
            times, requests = _approvals(opened.new_page(), product, runs)
        finally:
            opened.close()
    name = "approved in the queue -> next review painted"
    return [
        Figure(f"{name}, median", middle(times), "ms", rounds, target=GOAL_MS),
        Figure(f"{name}, p95", statistics.quantiles(times, n=20)[-1], "ms", rounds),
        Figure(f"{name}: requests until the page is quiet", middle(requests), "", rounds,
               target=MOST_REQUESTS),
    ]  # fmt: skip


def _approvals(page: Page, product: Product, runs: list[str]) -> tuple[list[float], list[float]]:
    """Milliseconds and requests of each approval but the first two."""
    page.set_viewport_size({"width": 1440, "height": 900})
    sign_in(page, product, "reviewer")
    page.goto(f"{product.address}/review/?q=numbat")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    page.locator(f"[data-hold='{runs[0]}-1'] a[data-open]").click()
    sent: list[str] = []
    # The browser asks for the page's icon again whenever the address changes.
    page.on("request", lambda each: each.url.endswith("icon.svg") or sent.append(each.url))
    times: list[float] = []
    requests: list[float] = []
    for run, following in pairwise(runs[:-1]):
        expect(page.locator(f"#decision[data-hold='{run}-1'][data-state=open]")).to_be_visible()
        expect(page.locator("#verdict.guarded")).to_have_count(0)
        page.wait_for_load_state("networkidle")
        page.keyboard.press("a")
        page.evaluate(WATCH, f"{following}-1")
        sent.clear()
        page.keyboard.press("Enter")
        times.append(float(page.evaluate("window.untilPainted")))
        page.wait_for_load_state("networkidle")
        requests.append(len(sent))
    return times[2:], requests[2:]
