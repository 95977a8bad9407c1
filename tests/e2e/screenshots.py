"""`make screenshots`: the pictures of the documentation, taken from a demo of its own."""

import os
import re
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.architecture.files import ROOT
from tests.e2e.browser import ADVICE, find
from tests.e2e.product import Product, running_product

FOLDER = ROOT / "docs" / "images"
DECISION = re.compile(r"/review/\d+/[^/]+/")
SIZE = {"width": 1280, "height": 860}


def main() -> int:
    browser = find()
    if browser is None:
        print(ADVICE, file=sys.stderr)
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    with running_product() as product, sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        chromium = playwright.chromium.launch(executable_path=browser, args=arguments)
        for scheme in ("light", "dark"):
            page = chromium.new_page(viewport=SIZE, color_scheme=scheme, reduced_motion="reduce")
            take_all(page, product, scheme)
            page.close()
        chromium.close()
    return 0


def take_all(page: Page, product: Product, scheme: str) -> None:
    """The desk, a decision and its run, as the demo's reviewer sees them."""
    page.goto(f"{product.address}/login/?next=/review/")
    page.fill("[name=username]", "reviewer")
    page.fill("[name=password]", password(product, "reviewer"))
    page.click("[type=submit]")
    decision = first_decision(page)
    shoot(page, f"queue-{scheme}")
    page.goto(f"{product.address}{decision}")
    shoot(page, f"decision-{scheme}")
    run = page.url.split("/review/")[1].split("/")[0]
    page.goto(f"{product.address}/runs/{run}/")
    shoot(page, f"run-{scheme}")


def first_decision(page: Page) -> str:
    """The path of what waits first; the demo's runs need a moment to get there."""
    for _ in range(120):
        links = page.locator("main a[href]").evaluate_all("all => all.map(a => a.pathname)")
        if found := next(filter(DECISION.fullmatch, links), None):
            return str(found)
        page.wait_for_timeout(500)
    raise SystemExit("No decision came up in the queue within a minute.")


def password(product: Product, user: str) -> str:
    """As the console printed it."""
    line = next(line for line in product.lines if line.startswith(f"{user} "))
    return line.split()[1]


def shoot(page: Page, name: str) -> None:
    page.wait_for_load_state("load")
    path: Path = FOLDER / f"{name}.png"
    page.screenshot(path=path)
    print(f"{path.relative_to(ROOT)}")


if __name__ == "__main__":
    sys.exit(main())
