"""Requests that run at the same time: none takes the place of another, no late answer wins."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.e2e.desk import echo, note_errors, started, until
from tests.e2e.product import Product
from tests.e2e.test_press import DEALT_WITH, NOTE
from tests.e2e.test_review import Api, sign_in

CURRENT = "#queue-list [data-open][aria-current]"
REFRESH = """() => document.body.dispatchEvent(new CustomEvent("holdpoint:refresh"))"""
POLL = """() => document.body.dispatchEvent(new CustomEvent("holdpoint:poll"))"""

SPECULATED = """
from workflows.models import Speculation
result = {{"key": "k", "tool": "builtin.echo", "behind": "builtin.echo", "state": "{state}"}}
Speculation.objects.update_or_create(execution_id={run}, task_id="later", defaults=result)
"""


@pytest.fixture
def errors(page: Page) -> Iterator[list[str]]:
    found: list[str] = []
    note_errors(page, found)
    yield found
    page.unroute_all(behavior="ignoreErrors")
    assert found == []


@pytest.fixture(scope="module")
def api(product: Product) -> Api:
    return Api(product, "operator", "read,run")


def open_queue(
    page: Page, product: Product, api: Api, word: str, runs: int, **review: Any
) -> list[str]:
    """A reviewer's queue with the reviews of new runs; their ids, oldest first."""
    task = echo("publish", "text", "BEFORE_EXECUTION", **review)
    holds = [f"{started(api, task, title=f'A run {word}')}-1" for _ in range(runs)]
    page.set_viewport_size({"width": 1440, "height": 900})
    sign_in(page, product, "reviewer")
    page.goto(f"{product.address}/review/?q={word}")
    expect(page.locator("#queue-list [data-hold]")).to_have_count(runs)
    return holds


def open_review(page: Page, product: Product, api: Api, user: str) -> str:
    """The page of the only review of a new run; its path."""
    run = started(api, echo("a", "b", "BEFORE_EXECUTION"))
    sign_in(page, product, user)
    path = path_of(f"{run}-1")
    page.goto(product.address + path)
    return path


def hold_requests(page: Page, path: str, method: str = "GET") -> list[Route]:
    """Hold the requests of that path until the test continues them."""
    held: list[Route] = []

    def keep(route: Route) -> None:
        if route.request.method == method:
            held.append(route)
        else:
            route.continue_()

    page.route(re.compile(path), keep)
    return held


def path_of(hold: str) -> str:
    return f"/review/{hold.partition('-')[0]}/{hold}/"


def row(page: Page, hold: str) -> Locator:
    return page.locator(f"#queue-list [data-hold='{hold}'] [data-open]")


def test_a_review_that_is_chosen_while_another_loads_opens_beside_the_bell(
    page: Page, product: Product, api: Api, errors: list[str]
) -> None:
    first, second = open_queue(page, product, api, "wombat", 2)
    held = hold_requests(page, f"{path_of(first)}$")
    with page.expect_request(f"**{path_of(first)}"):
        row(page, first).click()
    row(page, second).click()
    page.locator("[data-bell] > summary").click()
    held[0].continue_()
    expect(page.locator("#decision")).to_have_attribute("data-hold", second)
    expect(page.locator("[data-bell-items]")).to_contain_text("Notification settings")
    # Who writes elsewhere meanwhile goes on there: in the review the letters would be shortcuts.
    held.clear()
    with page.expect_request(f"**{path_of(first)}"):
        row(page, first).click()
    page.keyboard.press("/")
    page.keyboard.type("a")
    held[0].continue_()
    expect(page.locator("#decision")).to_have_attribute("data-hold", first)
    page.keyboard.type("x")
    expect(page.locator("[data-search]").last).to_have_value(re.compile("ax"))


def test_a_review_that_is_chosen_while_a_decision_is_sent_opens_after_it(
    page: Page, product: Product, api: Api, errors: list[str]
) -> None:
    first, _second, third = open_queue(page, product, api, "quokka", 3)
    row(page, first).click()
    expect(page.locator("#decision")).to_have_attribute("data-hold", first)
    held = hold_requests(page, f"{path_of(first)}$", "POST")
    with page.expect_request(lambda request: request.method == "POST"):
        page.get_by_role("button", name="Approve", exact=True).click()
    row(page, third).click()
    held[0].continue_()
    expect(page.locator("#toasts")).to_contain_text("Undo")
    expect(page.locator("#decision")).to_have_attribute("data-hold", third)
    expect(page.locator(CURRENT)).to_have_count(1)
    expect(row(page, third)).to_have_attribute("aria-current", "true")
    expect(page.locator(f"#queue-list [data-hold='{first}']")).to_have_count(0)


def test_a_review_that_is_chosen_while_a_vote_is_sent_opens_though_the_next_one_is_gone(
    page: Page, product: Product, api: Api, errors: list[str]
) -> None:
    first, second, third = open_queue(page, product, api, "numbat", 3, quorum=2)
    row(page, first).click()
    expect(page.locator("#decision")).to_have_attribute("data-hold", first)
    held = hold_requests(page, f"{path_of(first)}$", "POST")
    with page.expect_request(lambda request: request.method == "POST") as sent:
        page.get_by_role("button", name="Approve", exact=True).click()
    row(page, third).click()
    # The second one ends before the answer, which therefore has no next review.
    assert re.findall(r"queue_next\W+([\d-]+)", sent.value.post_data or "") == [second]
    run = second.partition("-")[0]
    status, said = api(f"executions/{run}/commands/", {"kind": "abort"})
    assert status in (200, 202), said
    until(api, run, "ABORTED")
    held[0].continue_()
    expect(page.locator("#toasts")).to_contain_text("Open it again")
    expect(page.locator("#decision")).to_have_attribute("data-hold", third)
    expect(page.locator(CURRENT)).to_have_count(1)
    expect(row(page, third)).to_have_attribute("aria-current", "true")


def test_a_run_page_shows_what_happened_while_it_was_refreshed(
    page: Page, product: Product, api: Api, errors: list[str]
) -> None:
    run = started(api, echo("a", "b", "BEFORE_EXECUTION"))
    sign_in(page, product, "operator")
    page.goto(f"{product.address}/runs/{run}/")
    seen: list[Route] = []
    page.route(f"**/runs/{run}/?*", lambda route: seen.append(route))
    with page.expect_request(f"**/runs/{run}/?*"):
        page.evaluate(REFRESH)
    page.evaluate(REFRESH)
    with page.expect_request(f"**/runs/{run}/?*"):
        seen[0].continue_()
    page.unroute(f"**/runs/{run}/?*")


def test_a_run_page_shows_results_that_are_precomputed(
    page: Page, product: Product, api: Api, errors: list[str]
) -> None:
    """No event says so: the page asks while one is computed, also after a late answer."""
    task = echo("a", "b", "BEFORE_EXECUTION")
    run = started(api, task, policy={"speculation": {"enabled": True}})
    product.command("shell", "-c", SPECULATED.format(run=run, state="RUNNING"))
    sign_in(page, product, "operator")
    page.goto(f"{product.address}/runs/{run}/")
    results = page.get_by_role("region", name="Precomputed results")
    expect(results).to_contain_text("1 task is being precomputed.")
    held: list[Route] = []
    page.route(f"**/runs/{run}/?*", lambda route: held.append(route), times=1)
    with page.expect_request(f"**/runs/{run}/?*"):
        pass
    page.locator("#task-a > summary").click()
    answer = held[0].fetch()
    product.command("shell", "-c", SPECULATED.format(run=run, state="READY"))
    held[0].fulfill(response=answer)
    expect(results).to_contain_text("already computed")
    expect(results).not_to_contain_text("being precomputed")
    expect(page.locator("#task-a")).to_have_attribute("open", "")
    expect(page.locator("#run-live")).not_to_have_attribute("hx-trigger", re.compile("load"))


def test_a_late_answer_about_a_review_is_not_shown(
    page: Page, product: Product, api: Api, errors: list[str]
) -> None:
    here = open_review(page, product, api, "reviewer")
    held = hold_requests(page, "/status/$")
    with page.expect_request("**/status/"):
        page.evaluate(POLL)
    with page.expect_request("**/status/"):
        page.evaluate(POLL)
    answer = held[0].fetch()
    page.evaluate(NOTE)
    # The page may have asked once more: it reports itself as a viewer, and hears of that.
    newest = len(held) - 1
    for number, route in reversed(list(enumerate(held))):
        body = answer.text().replace("data-headline>", f"data-headline>{number} ")
        route.fulfill(response=answer, body=body)
        page.wait_for_function(DEALT_WITH, arg=f"{here}status/")
        page.evaluate(NOTE)
    expect(page.locator("#decision-title")).to_contain_text(re.compile(f"^{newest} "))


def test_a_menu_of_the_banner_stays_while_something_is_chosen_in_it(
    page: Page, product: Product, api: Api, errors: list[str]
) -> None:
    here = open_review(page, product, api, "admin")

    def reworded(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text().replace("</summary>", " now</summary>"))

    page.route(re.compile("/status/$"), reworded)
    menu = page.locator("#claim summary")
    menu.click()
    people = page.get_by_label("Reviewer", exact=True)
    people.select_option("reviewer2")
    page.evaluate(NOTE)
    page.evaluate(POLL)
    page.wait_for_function(DEALT_WITH, arg=f"{here}status/")
    expect(people).to_have_value("reviewer2")
    expect(people).to_be_visible()
    menu.click()
    expect(menu).to_have_text("Assign… now")


def test_a_preview_that_comes_late_does_not_replace_the_chosen_view(
    page: Page, product: Product, api: Api, errors: list[str]
) -> None:
    here = open_review(page, product, api, "reviewer")
    held = hold_requests(page, "/preview/$", "POST")
    with page.expect_request("**/preview/"):
        page.get_by_role("button", name="Preview", exact=True).click()
    page.get_by_role("button", name="JSON", exact=True).click()
    page.evaluate(NOTE)
    held[0].continue_()
    page.wait_for_function(DEALT_WITH, arg=f"{here}preview/")
    expect(page.get_by_label("The whole value as JSON")).to_be_visible()
    expect(page.locator("[data-preview]")).to_be_hidden()


def test_results_of_a_dialog_that_was_closed_are_said(
    page: Page, product: Product, api: Api, errors: list[str]
) -> None:
    open_queue(page, product, api, "bilby", 1)
    page.locator("#queue-list [data-pick]").check()
    page.locator("[data-bulk-do=approve]").click()
    held = hold_requests(page, "/review/", "POST")
    with page.expect_request(lambda request: request.method == "POST"):
        page.locator("[data-bulk-send]").click()
    page.keyboard.press("Escape")
    held[0].continue_()
    expect(page.locator("#toasts")).to_contain_text("Undo")
    expect(page.locator("#queue-list [data-hold]:not(.gone)")).to_have_count(0)


def test_an_open_review_follows_what_others_decide(
    page: Page, product: Product, api: Api, errors: list[str]
) -> None:
    """The changes that somebody made, and the activity of the run, are shown without a reload."""
    run = started(api, echo("a", "b", "BEFORE_EXECUTION"), echo("c", "d", "BEFORE_EXECUTION"))
    second = Api(product, "reviewer2", "read,decide")
    sign_in(page, product, "reviewer")
    page.goto(product.address + path_of(f"{run}-2"))
    expect(page.get_by_text("live", exact=True)).to_be_visible()

    def approve(number: int, **edits: Any) -> None:
        _, found = second(f"executions/{run}/")
        place = {"execution_id": run, "hold_id": f"{run}-{number}", "version": found["version"]}
        said = second("reviews/resume/", {**place, "decision": "APPROVE", **edits})
        assert said[0] == 200, said

    approve(1)
    expect(page.locator("[data-activity]")).to_contain_text("reviewer2 approved")
    approve(2, edits={"value": "e"})
    changes = page.locator("[data-decided-changes]")
    expect(changes).to_contain_text("1 change made by reviewer2")
    expect(changes.locator("ins")).to_have_text("e")
