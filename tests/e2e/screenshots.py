"""`make screenshots`: the pictures of the documentation, taken from a demo of its own."""

import os
import re
import sys
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Page, sync_playwright

from tests.architecture.files import ROOT
from tests.e2e.browser import ADVICE, find
from tests.e2e.product import Product, running_product

FOLDER = ROOT / "docs" / "screenshots"
DECISION = re.compile(r"/review/\d+/[^/]+/")
SIZES = {1440: 900, 390: 844}
#: Pages with an address of their own; the others are found on the way.
PAGES = ("runs", "workflows", "history", "insights", "tools", "plan", "tokens")

#: Of these there are pictures in French as well.
IN_FRENCH = ("queue", "decision", "run", "history")


def main() -> int:
    browser = find()
    if browser is None:
        print(ADVICE, file=sys.stderr)
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    with running_product() as product, sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        chromium = playwright.chromium.launch(executable_path=browser, args=arguments)
        page = chromium.new_page(reduced_motion="reduce")
        places = prepare(page, product)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            for width, height in SIZES.items():
                page.set_viewport_size({"width": width, "height": height})
                for name, path in places.items():
                    page.goto(f"{product.address}{path}")
                    shoot(page, f"{name}-{scheme}-{width}")
        page.emulate_media(color_scheme="light")
        speak_french(page, product)
        for width, height in SIZES.items():
            page.set_viewport_size({"width": width, "height": height})
            for name in IN_FRENCH:
                page.goto(f"{product.address}{places[name]}")
                shoot(page, f"{name}-french-{width}")
        chromium.close()
    return 0


def speak_french(page: Page, product: Product) -> None:
    """Choose the language in the person's menu."""
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(f"{product.address}/review/")
    page.get_by_label("You: reviewer").click()
    page.get_by_role("button", name="Français").click()
    page.wait_for_selector("html[lang=fr]")


def prepare(page: Page, product: Product) -> dict[str, str]:
    """Sign in as the demo's reviewer, decide once; the path of every page by its name."""
    page.goto(f"{product.address}/login/?next=/review/")
    page.fill("[name=username]", "reviewer")
    page.fill("[name=password]", password(product, "reviewer"))
    page.click("[type=submit]")
    page.goto(f"{product.address}{first_decision(page)}")
    page.click("[data-approve]")
    page.click("text=See the record")
    record = path_of(page)
    page.goto(f"{product.address}/review/")
    decision = first_decision(page)
    page.goto(f"{product.address}/workflows/")
    page.click("main a[href^='/workflows/']")
    run = decision.split("/")[2]
    return {
        "queue": f"/review/?hold={decision.split('/')[3]}",
        "decision": decision,
        "run": f"/runs/{run}/",
        "record": record,
        "workflow": path_of(page),
        **{name: f"/{name}/" for name in PAGES},
    }


def path_of(page: Page) -> str:
    """The path of the page that is open."""
    page.wait_for_load_state()
    return urlsplit(page.url).path


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
