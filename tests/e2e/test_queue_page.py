"""The queue page: rows that tell themselves apart, no blank end, nothing that moves or clips."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.e2e.desk import echo, started, until_open
from tests.e2e.product import Product
from tests.e2e.test_review import Api, sign_in

LATER = 30_000
SIZE = {"width": 1440, "height": 900}
#: What tells rows apart: the focused one has a ring, the open one its own ground and a bar.
LOOK = """element => {
  const { outlineStyle, outlineWidth, backgroundColor, boxShadow } = getComputedStyle(element);
  const ring = outlineStyle === "none" ? "none 0px" : `${outlineStyle} ${outlineWidth}`;
  return { ring, ground: backgroundColor, bar: boxShadow };
}"""


def payment(name: str, amount: int, recipient: str) -> dict[str, object]:
    task = echo(name, {"amount": amount, "recipient": recipient}, "BEFORE_EXECUTION")
    return {**task, "title": f"Pay {recipient}"}


def at_queue(page: Page, product: Product, query: str) -> None:
    page.set_viewport_size(SIZE)  # type: ignore[arg-type]
    sign_in(page, product, "reviewer")
    page.goto(f"{product.address}/review/?{query}")
    expect(page.get_by_text("live", exact=True)).to_be_visible(timeout=LATER)


def test_rows_tell_themselves_apart_and_stay_in_place(page: Page, product: Product) -> None:
    api = Api(product, "operator", "read,run")
    runs = [
        started(api, payment("pay", 12, "Pear"), title="Rows"),
        started(api, payment("pay", 80, "Fig"), title="Rows"),
    ]
    at_queue(page, product, "q=Rows")
    rows = page.locator("#queue-list [data-hold]")
    expect(rows).to_have_count(2)
    first, second = rows.nth(0), rows.nth(1)
    # Oldest first, each with its task, key arguments, run, layer and requester.
    for row, run, who, amount in ((first, runs[0], "Pear", "12"), (second, runs[1], "Fig", "80")):
        expect(row).to_contain_text(f"Pay {who}")
        expect(row).to_contain_text(re.compile(rf"recipient\s+{who}\s+amount\s+{amount}"))
        expect(row).to_contain_text(f"run {run}")
        expect(row).to_contain_text("layer 1/1")
        expect(row).to_contain_text("by operator")
        height = row.bounding_box()["height"]  # type: ignore[index]
        assert 55 <= height <= 58, height

    # Selecting moves nothing; selected, open and focused look different.
    place = second.bounding_box()
    first.locator("[data-pick]").check()
    expect(page.get_by_text("1 selected")).to_be_visible()
    assert second.bounding_box() == place
    second.locator("[data-open]").click()
    expect(page.locator("#decision")).to_be_visible()
    first.locator("[data-open]").focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    expect(first.locator("[data-open]")).to_be_focused()
    focused, opened = (each.locator("[data-open]").evaluate(LOOK) for each in (first, second))
    assert focused == {"ring": "solid 2px", "ground": "rgba(0, 0, 0, 0)", "bar": "none"}
    assert opened["ring"] == "none 0px"
    assert opened["ground"] != focused["ground"]
    assert opened["bar"] != "none"

    # The page itself has no end below the panes, however long the payload is.
    ends = page.evaluate("[document.documentElement.scrollHeight, innerHeight]")
    assert ends[0] == ends[1], ends
    # The ring of the title is inside the pane.
    title = page.locator("#decision-title")
    title.focus()
    gap = page.evaluate(
        "document.querySelector('#decision-title').getBoundingClientRect().left"
        " - document.querySelector('#detail').getBoundingClientRect().left"
    )
    assert gap >= 4, "2 px of ring at 2 px of distance"


def test_after_a_decision_the_same_run_comes_first(page: Page, product: Product) -> None:
    api = Api(product, "operator", "read,run")
    policy = {"undo_seconds": 600}
    both = (payment("one", 1, "Pear"), payment("two", 2, "Fig"))
    two = started(api, *both, title="Advance", policy=policy)
    other = started(api, payment("pay", 3, "Plum"), title="Advance", policy=policy)
    until_open(api, two, f"{two}-2")
    at_queue(page, product, "q=Advance")
    # Between the two of one run another one would be the next in the list when it is decided last.
    page.locator(f"[data-hold='{two}-2'] [data-open]").click()
    expect(page.locator(f"#decision[data-hold='{two}-2']")).to_be_visible()
    page.keyboard.press("a")
    page.keyboard.press("Enter")
    expect(page.locator(f"#decision[data-hold='{two}-1']")).to_be_visible(timeout=LATER)
    expect(page.locator("[data-another-run]")).to_have_count(0)

    # The key hint of the toast has the toast's own colours.
    key = page.locator(".toast kbd").first
    expect(key).to_be_visible()
    colours = key.evaluate("e => [getComputedStyle(e).color, getComputedStyle(e).backgroundColor]")
    assert colours[0] != colours[1]
    assert colours[1] == "rgba(0, 0, 0, 0)"

    expect(page.locator("#verdict.guarded")).to_have_count(0)
    page.keyboard.press("a")
    page.keyboard.press("Enter")
    expect(page.locator(f"#decision[data-hold='{other}-1']")).to_be_visible(timeout=LATER)
    expect(page.locator("[data-another-run]").last).to_contain_text(f"run {other}")
