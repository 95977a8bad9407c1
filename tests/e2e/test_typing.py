"""Keys typed as text decide nothing, whatever other people decide meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from tests.e2e.desk import started
from tests.e2e.product import Product
from tests.e2e.test_review import Api, sign_in
from tests.e2e.walk import LATER

WIDE = {"width": 1440, "height": 900}
#: Shortcuts and the keys that press a button, all as text.
SENTENCE = "j a join us as a team, u x m s k a "
#: The title of a review, its scroll position and focus: they belong to the person at the page.
PLACE = """() => [
  document.querySelector("#decision").dataset.hold,
  document.querySelector("#queue-list [aria-current]").getAttribute("href"),
  document.querySelector("#detail").scrollTop,
  scrollY,
  document.activeElement.id || document.activeElement.name,
  document.activeElement.getBoundingClientRect().top,
]"""
NEWS = """hold => {
  const { dataset } = document.querySelector("#decision");
  return dataset.hold !== hold || dataset.state !== "open";
}"""
DECISIONS = """
from reviews.models import HumanReviewRecord
records = HumanReviewRecord.objects.filter(execution_id__in={runs}).order_by("id")
print([f"{{each.actor}} {{each.decision}}" for each in records.with_keys()])
"""


def write_file(path: str) -> dict[str, Any]:
    """A write that waits for the reviewers: of high risk."""
    return {
        "id": "write",
        "type": "tool",
        "tool": "builtin.write_file",
        "arguments": {"path": path, "content": "text"},
        "human_review": {"trigger_phase": "BEFORE_EXECUTION", "on_timeout": "keep_waiting"},
    }


def decisions(product: Product, runs: list[str]) -> str:
    return product.command("shell", "-v", "0", "-c", DECISIONS.format(runs=list(map(int, runs))))


def opened_in_queue(page: Page, product: Product, word: str, run: str) -> None:
    """The review of this run, open beside the list of the runs with this word."""
    page.set_viewport_size(WIDE)  # type: ignore[arg-type]
    sign_in(page, product, "reviewer2")
    page.goto(f"{product.address}/review/?q={word}")
    expect(page.get_by_text("live", exact=True)).to_be_visible(timeout=LATER)
    page.locator(f"[data-hold='{run}-1'] a[data-open]").click()
    expect(page.locator(f"#decision[data-hold='{run}-1']")).to_be_visible()
    page.wait_for_load_state("networkidle")


def decide_elsewhere(product: Product, browser: Browser, run: str, way: str) -> None:
    """Approve the run's review as another person, in another browser or over REST."""
    if way == "REST":
        api = Api(product, "reviewer", "read,decide,decide_high_risk")
        _, paused = api(f"reviews/pending/{run}/")
        version = api(f"executions/{run}/")[1]["version"]
        body = {"execution_id": run, "hold_id": f"{run}-1", "version": version}
        status, answer = api("reviews/resume/", {**body, "decision": "APPROVE"})
        assert status == 200, (answer, paused)
        return
    other = browser.new_context(locale="en-GB").new_page()
    sign_in(other, product, "reviewer")
    other.goto(f"{product.address}/review/{run}/{run}-1/")
    other.get_by_role("button", name="Approve", exact=True).click()
    expect(other.get_by_text("reviewer approved this")).to_be_visible(timeout=LATER)
    other.context.close()


def field_of(page: Page, place: str) -> Locator:
    if place == "comment":
        return page.locator("[data-comment]")
    return page.get_by_role("textbox", name="Content")


@pytest.mark.parametrize("way", ["browser", "REST"])
@pytest.mark.parametrize("place", ["comment", "field"])
def test_typing_decides_nothing_while_somebody_else_decides(
    page: Page, product: Product, browser: Browser, place: str, way: str
) -> None:
    word = f"numbat{place}{way.lower()}"
    api = Api(product, "operator", "read,run")
    policy = {"undo_seconds": 0}
    runs = [
        started(api, write_file(f"{word}{n}.txt"), title=f"A run {word}", policy=policy)
        for n in range(4)
    ]
    opened_in_queue(page, product, word, runs[0])
    sent: list[str] = []
    page.on("request", lambda request: sent.append(f"{request.method} {request.url}"))
    field = field_of(page, place)
    field.click()
    page.keyboard.type("I would rather have ")
    before = page.evaluate(PLACE)

    decide_elsewhere(product, browser, runs[0], way)
    page.wait_for_function(NEWS, arg=f"{runs[0]}-1")
    page.keyboard.type(SENTENCE)
    page.keyboard.press("Enter")
    page.keyboard.type(SENTENCE)

    assert decisions(product, runs).strip() == "['reviewer APPROVE']"
    assert [each for each in sent if each.startswith("POST") and "/looking/" not in each] == []
    expect(field).to_be_visible()
    assert "I would rather have " in field.input_value()
    assert page.evaluate(PLACE) == before
    bar = page.locator("[data-news-bar]")
    expect(bar).to_contain_text("reviewer decided this while you were typing")

    # The user goes on when they want to; then the keys work again.
    if place == "field":
        bar.get_by_role("button", name="Compare").click()
        title = page.get_by_role("heading", name="Your text beside what was decided")
        expect(title).to_be_visible()
        expect(page.locator(f"#decision[data-hold='{runs[0]}-1']")).to_be_visible()
        page.keyboard.press("j")
    else:
        bar.get_by_role("link", name="Next").click()
    expect(page.locator(f"#decision[data-hold='{runs[1]}-1'][data-state=open]")).to_be_visible()
    assert decisions(product, runs).strip() == "['reviewer APPROVE']"


def test_space_approves_nothing_and_enter_does(page: Page, product: Product) -> None:
    """The key `a` moves the focus to Approve, as it may while somebody types."""
    api = Api(product, "operator", "read,run")
    runs = [started(api, write_file(f"potoroo{n}.txt"), title="A run potoroo") for n in range(2)]
    opened_in_queue(page, product, "potoroo", runs[0])
    page.keyboard.press("a")
    approve = page.locator("[data-approve]")
    expect(approve).to_be_focused()
    page.keyboard.press("Space")
    expect(page.locator("#toasts")).to_contain_text("Press Enter to decide.")
    expect(approve).to_be_focused()
    assert decisions(product, runs).strip() == "[]"
    page.keyboard.press("Enter")
    expect(page.locator("#toasts")).to_contain_text("reviewer2 approved this")
    assert decisions(product, runs).strip() == "['reviewer2 APPROVE']"


def test_what_is_typed_after_the_own_decision_stays_text(page: Page, product: Product) -> None:
    """The next review opens where the user types: their letters are no shortcuts for it."""
    api = Api(product, "operator", "read,run")
    runs = [started(api, write_file(f"bettong{n}.txt"), title="A run bettong") for n in range(3)]
    opened_in_queue(page, product, "bettong", runs[0])
    held: list[Route] = []

    def hold(route: Route) -> None:
        if route.request.method == "POST":
            held.append(route)
        else:
            route.continue_()

    page.route(f"**/review/{runs[0]}/{runs[0]}-1/", hold)
    with page.expect_request(lambda request: request.method == "POST"):
        page.get_by_role("button", name="Approve", exact=True).click()
    field_of(page, "field").click()
    held[0].continue_()
    expect(page.locator(f"#decision[data-hold='{runs[1]}-1'][data-state=open]")).to_be_visible()
    page.keyboard.type("j a ")
    page.keyboard.press("Enter")
    expect(page.locator(f"#decision[data-hold='{runs[1]}-1'][data-state=open]")).to_be_visible()
    assert decisions(product, runs).strip() == "['reviewer2 APPROVE']"
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    expect(page.locator(f"#decision[data-hold='{runs[2]}-1'][data-state=open]")).to_be_visible()


def test_news_of_an_undo_or_an_end_keeps_text_and_focus(page: Page, product: Product) -> None:
    """The decision of somebody else is undone: the user types on where they were."""
    api = Api(product, "operator", "read,run")
    runs = [started(api, write_file(f"quoll{n}.txt"), title="A run quoll") for n in range(2)]
    opened_in_queue(page, product, "quoll", runs[0])
    comment = field_of(page, "comment")
    comment.click()
    page.keyboard.type("This ")
    other = Api(product, "reviewer", "read,decide,decide_high_risk")
    body = {
        "execution_id": runs[0],
        "hold_id": f"{runs[0]}-1",
        "version": other(f"executions/{runs[0]}/")[1]["version"],
        "decision": "APPROVE",
        "undo_seconds": 600,
    }
    status, answer = other("reviews/resume/", body)
    assert status == 200, answer
    expect(page.locator("[data-news-bar]")).to_contain_text("reviewer decided this")
    page.keyboard.type("j a ")
    status, answer = other(f"reviews/holds/{runs[0]}-1/withdraw/", {})
    assert status == 200, answer
    expect(page.locator("[data-news-bar]")).to_have_count(0)
    expect(comment).to_be_focused()
    page.keyboard.type("stays")
    expect(comment).to_have_value("This stays")

    status, answer = api(f"executions/{runs[0]}/commands/", {"kind": "abort"})
    assert status in (200, 202), answer
    bar = page.locator("[data-news-bar]")
    expect(bar).to_contain_text("This was closed while you were typing")
    page.keyboard.type(SENTENCE)
    page.keyboard.press("Enter")
    expect(comment).to_be_focused()
    expect(comment).to_have_value("This stays")
    expect(page.locator(f"#decision[data-hold='{runs[0]}-1']")).to_be_visible()
    assert decisions(product, runs[1:]).strip() == "[]"


def test_a_decision_that_comes_too_late_leaves_the_page_as_it_is(
    page: Page, product: Product
) -> None:
    api = Api(product, "operator", "read,run")
    runs = [started(api, write_file(f"dunnart{n}.txt"), title="A run dunnart") for n in range(2)]
    page.route_web_socket("**/ws/**", lambda socket: None)
    page.set_viewport_size(WIDE)  # type: ignore[arg-type]
    sign_in(page, product, "reviewer2")
    page.goto(f"{product.address}/review/?q=dunnart&hold={runs[0]}-1")
    page.locator(f"[data-hold='{runs[0]}-1'] a[data-open]").click()
    approve = page.get_by_role("button", name="Approve", exact=True)
    expect(approve).to_be_visible()
    other = Api(product, "reviewer", "read,decide,decide_high_risk")
    version = other(f"executions/{runs[0]}/")[1]["version"]
    body = {"execution_id": runs[0], "hold_id": f"{runs[0]}-1", "version": version}
    status, answer = other("reviews/resume/", {**body, "decision": "APPROVE"})
    assert status == 200, answer
    with page.expect_response(lambda response: response.status == 409):
        approve.click()
    expect(page.locator("#decision-status")).to_contain_text("reviewer approved this")
    expect(page.locator(f"#decision[data-hold='{runs[0]}-1'][data-state=decided]")).to_be_visible()
    expect(page.locator(f"li[data-hold='{runs[1]}-1'] a[aria-current]")).to_have_count(0)
    assert decisions(product, runs).strip() == "['reviewer APPROVE']"
