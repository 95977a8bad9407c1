"""From a pause in PostgreSQL to its row in a browser: `make run`'s processes, and Chromium."""

from __future__ import annotations

import os
import statistics

from playwright.sync_api import sync_playwright

from tests.benchmarks.figures import Figure, middle
from tests.benchmarks.surroundings import Bench
from tests.e2e import browser
from tests.e2e.live import Watcher
from tests.e2e.product import running_product

P95_MS = 150.0
#: Seconds between a run's start and its pause: what is measured is the pause alone.
WORK = 0.6
#: The limits of a minute are not what is measured.
UNLIMITED = {f"HOLDPOINT_{name}_PER_MINUTE": "0" for name in ("REQUESTS", "STARTS", "DECISIONS")}


def measure(bench: Bench) -> list[Figure]:
    rounds = bench.rounds(120, 20)
    found = browser.find()
    if found is None:
        print(f"left out: {browser.ADVICE}", end=" ")
        return []
    times = _pauses(str(found), rounds + 5)[5:]
    name = "pause written -> row painted in a browser"
    p95 = statistics.quantiles(times, n=20)[-1]
    return [
        Figure(f"{name}, median", middle(times), "ms", rounds),
        Figure(f"{name}, p95", p95, "ms", rounds, target=P95_MS),
    ]


def _pauses(chromium: str, rounds: int) -> list[float]:
    """Milliseconds of so many pauses, one after the other."""
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with running_product(**UNLIMITED) as product, sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=arguments)
        try:
            watcher = Watcher(opened.new_page(), product, "measured")
            return [watcher.pause(works=WORK).ms for _ in range(rounds)]
        finally:
            opened.close()
