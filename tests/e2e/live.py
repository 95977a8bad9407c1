"""Measure the time from a pause in PostgreSQL to its row in a browser, with real processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page, Request, expect

from tests.e2e.desk import echo
from tests.e2e.product import Product
from tests.e2e.test_review import Api, sign_in

#: Notes when a row that came to the page has been painted, and how news reached the page.
WATCH = """() => {
  window.paintedAt = {};
  window.heard = { news: 0, poll: 0 };
  const waiting = new Map();
  // Nobody asks while it is waited for: what a question costs would be measured as well.
  window.whenPainted = (hold) => new Promise((resolve, reject) => {
    if (window.paintedAt[hold]) resolve(window.paintedAt[hold]);
    else waiting.set(hold, resolve);
    setTimeout(() => reject(new Error(`the row of ${hold} did not come`)), 30000);
  });
  const painted = (hold) =>
    requestAnimationFrame(() => requestAnimationFrame(() => {
      window.paintedAt[hold] = performance.timeOrigin + performance.now();
      waiting.get(hold)?.(window.paintedAt[hold]);
    }));
  const look = () => {
    for (const row of document.querySelectorAll("#queue-list [data-hold]:not(.gone)")) {
      if (row.dataset.hold in window.paintedAt) continue;
      window.paintedAt[row.dataset.hold] = null;
      painted(row.dataset.hold);
    }
  };
  new MutationObserver(look).observe(document.getElementById("queue-list"),
    { childList: true, subtree: true, attributes: true });
  for (const kind of ["news", "poll"])
    document.body.addEventListener(`holdpoint:${kind}`, () => (window.heard[kind] += 1));
}"""


@dataclass(frozen=True, slots=True)
class Seen:
    """A pause: milliseconds from when PostgreSQL wrote it down until its row was painted."""

    run: str
    ms: float


class Watcher:
    """A reviewer's open queue, and an operator who starts runs elsewhere.

    With a `word` the runs have it in their title, and the queue shows those alone.
    """

    def __init__(self, page: Page, product: Product, word: str = "") -> None:
        self.page = page
        self.word = word
        #: The runs that each look of the page named; [] for a look at the whole list.
        self.looks: list[list[str]] = []
        self.operator = Api(product, "operator", "read,run")
        self.reviewer = Api(product, "reviewer2", "read,run,decide")
        if not word:
            self._empty_the_queue()
        sign_in(page, product, "reviewer")
        if word:
            page.goto(f"{product.address}/review/?q={word}")
        expect(page.get_by_text("live", exact=True)).to_be_visible()
        page.evaluate(WATCH)
        page.on("request", self._note)

    def pause(self, *, works: float = 0.0) -> Seen:
        """Start a run that stops, wait for its row, and settle it again.

        With `works` it has that many seconds of work first: the answer to who started it, and what
        the page asks after the run before, are over when it stops.
        """
        stop = echo("stop", "text", "BEFORE_EXECUTION")
        tasks = [stop]
        if works:
            work = {"id": "work", "type": "tool", "tool": "builtin.wait"}
            tasks = [{**work, "arguments": {"seconds": works}}, {**stop, "depends_on": ["work"]}]
        body = {"plan": {"tasks": tasks}, "title": f"A run {self.word}"}
        status, run = self.operator("executions/", body)
        assert status == 201, run
        hold = f"{run['id']}-1"
        # An empty list shows the row at once, not behind a line.
        painted = float(self.page.evaluate("hold => window.whenPainted(hold)", hold))
        _, told = self.operator(f"executions/{run['id']}/events/")
        stopped = next(each for each in told["results"] if each["type"] == "workflow_paused")
        self._reject(run["id"], hold, stopped["version"])
        gone = f"#queue-list [data-hold='{hold}']:not(.gone)"
        expect(self.page.locator(gone)).to_have_count(0)
        return Seen(str(run["id"]), painted - stopped["timestamp"])

    def heard(self) -> dict[str, int]:
        """How often news and polls reached the page."""
        return dict(self.page.evaluate("window.heard"))

    def _empty_the_queue(self) -> None:
        while rows := self.reviewer("reviews/pending/")[1]["results"]:
            for row in rows:
                self._reject(row["execution_id"], row["hold_id"], row["version"])

    def _reject(self, run: Any, hold: str, version: int) -> None:
        body = {"execution_id": str(run), "hold_id": hold, "version": version}
        status, said = self.reviewer("reviews/resume/", {**body, "decision": "REJECT"})
        assert status == 200, said

    def _note(self, request: Request) -> None:
        if request.headers.get("hx-target") == "queue-list":
            named = parse_qs(urlsplit(request.url).query).get("changed", [])
            self.looks.append(named[0].split(",") if named else [])
