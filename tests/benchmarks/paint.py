"""The queue page in a browser: what it loads, and when its first content is painted."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tests.benchmarks.figures import Figure, middle
from tests.benchmarks.pages import UNLIMITED
from tests.benchmarks.surroundings import Bench
from tests.e2e import browser
from tests.e2e.desk import echo, started
from tests.e2e.product import Product, running_product
from tests.e2e.test_review import Api, sign_in

WAITING = 20
COLD_KB, COLD_MS, WARM_MS = 90.0, 200.0, 100.0
_PAINTED = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"


@dataclass(slots=True)
class Loaded:
    """One load of a page; sizes are of bodies and headers as they were sent."""

    kilobytes: float = 0.0
    requests: int = 0
    painted: float = 0.0
    kinds: dict[str, float] = field(default_factory=dict)


def measure(bench: Bench) -> list[Figure]:
    """Load the page with an empty cache and with a full one."""
    found = browser.find()
    if found is None:
        print(f"left out: {browser.ADVICE}", end=" ")
        return []
    rounds = bench.rounds(20, 5)
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with running_product(**UNLIMITED) as product, sync_playwright() as playwright:
        operator = Api(product, "operator", "read,run")
        task = echo("stop", "text", "BEFORE_EXECUTION")
        for number in range(WAITING):
            started(operator, task, title=f"Run {number}")
        opened = playwright.chromium.launch(executable_path=str(found), args=arguments)
        try:
            cold, warm = _loads(opened, product, rounds)
        finally:
            opened.close()
    print(
        ", ".join(f"{kind} {size:.1f} kB" for kind, size in sorted(cold[0].kinds.items())), end=" "
    )
    return [
        Figure(
            "queue page, nothing in the cache", middle([each.kilobytes for each in cold]), "kB",
            rounds, target=COLD_KB,
        ),
        Figure("queue page, requests", middle([each.requests for each in cold]), "", rounds),
        Figure(
            "queue page, first contentful paint, cold", middle([each.painted for each in cold]),
            "ms", rounds, target=COLD_MS,
        ),
        Figure(
            "queue page, first contentful paint, warm", middle([each.painted for each in warm]),
            "ms", rounds, target=WARM_MS,
        ),
    ]  # fmt: skip


def _loads(opened: Browser, product: Product, rounds: int) -> tuple[list[Loaded], list[Loaded]]:
    page = opened.new_page()
    sign_in(page, product, "reviewer")
    state: Any = page.context.storage_state()
    page.context.close()
    cold, warm = [], []
    for _ in range(rounds + 2):
        context = opened.new_context(storage_state=state)
        page = context.new_page()
        cold.append(_load(page, product))
        warm.append(_load(page, product))
        context.close()
    return cold[2:], warm[2:]


def _load(page: Page, product: Product) -> Loaded:
    loaded = Loaded()
    kinds: dict[str, str] = {}
    client = page.context.new_cdp_session(page)
    client.send("Network.enable")

    def began(event: dict[str, Any]) -> None:
        if event["request"]["url"].startswith("http"):
            kinds[event["requestId"]] = event.get("type", "Other")

    def ended(event: dict[str, Any]) -> None:
        kind = kinds.get(event["requestId"])
        if kind is not None:
            size = event["encodedDataLength"] / 1000
            loaded.kilobytes += size
            loaded.requests += bool(size)
            loaded.kinds[kind] = loaded.kinds.get(kind, 0.0) + size

    client.on("Network.requestWillBeSent", began)
    client.on("Network.loadingFinished", ended)
    page.goto(f"{product.address}/review/", wait_until="networkidle")
    loaded.painted = float(page.evaluate(_PAINTED))
    client.detach()
    return loaded
