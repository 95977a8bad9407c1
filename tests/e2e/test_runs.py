"""The run page: start, watch, send a message, abort, fork from a checkpoint."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e.desk import until
from tests.e2e.product import Product
from tests.e2e.test_review import Api, sign_in, wait_for_pause

LONG_SECONDS = 5.0
#: ms until what a long task holds back has to be there.
LATER = 20_000


def echo(name: str, value: Any = "x", **more: Any) -> dict[str, Any]:
    arguments = {"value": value}
    return {"id": name, "type": "tool", "tool": "builtin.echo", "arguments": arguments, **more}


def wait(name: str, seconds: float) -> dict[str, Any]:
    arguments = {"seconds": seconds}
    return {"id": name, "type": "tool", "tool": "builtin.wait", "arguments": arguments}


@pytest.fixture(scope="module")
def api(product: Product) -> Api:
    return Api(product, "operator", "read,run")


def started(api: Api, *tasks: dict[str, Any]) -> str:
    """A run of a plan of its own; its number."""
    status, answer = api("executions/", {"plan": {"tasks": list(tasks)}})
    assert status == 201, answer
    return str(answer["id"])


def test_a_long_layer_is_watched_without_a_reload(page: Page, product: Product, api: Api) -> None:
    sign_in(page, product, "operator")
    quick = [echo(f"quick{number}") for number in range(7)]
    slow = [wait(f"slow{number}", LONG_SECONDS - 1) for number in range(4)]
    last = wait("longest", LONG_SECONDS)
    after = echo("after", {"$from": "longest"})
    run = started(api, *quick, *slow, last, after)
    page.goto(f"{product.address}/runs/{run}/")
    page.evaluate("window.notReloaded = true")
    story = page.get_by_label("Layer 1")
    expect(story.get_by_text("7 of 12 tasks")).to_be_visible()
    clock = page.locator("#task-longest time[data-clock=for]")
    expect(clock).to_have_text(re.compile(r"^\d+ s$"))
    before = clock.inner_text()
    expect(clock).not_to_have_text(before)
    expect(story.get_by_text("11 of 12 tasks")).to_be_visible(timeout=LATER)
    expect(page.locator(".run-story")).to_contain_text("the run is complete", timeout=LATER)
    # What can be done with a run goes with its state.
    expect(page.locator("#run-abort")).to_have_count(0)
    assert page.evaluate("window.notReloaded")


def test_a_message_during_a_layer_waits_for_its_end(page: Page, product: Product, api: Api) -> None:
    sign_in(page, product, "operator")
    run = started(api, wait("slow", LONG_SECONDS), echo("b", {"$from": "slow"}))
    page.goto(f"{product.address}/runs/{run}/")
    expect(page.locator("#task-slow time[data-clock=for]")).to_be_visible()
    page.locator("#run-steer summary").click()
    page.get_by_label("Message to the run").fill("be quick about it")
    page.get_by_role("button", name="Send").click()
    waiting = page.locator("#queued")
    expect(waiting.get_by_text("be quick about it")).to_be_visible()
    expect(waiting.get_by_text("will be applied after this layer")).to_be_visible()
    said = page.locator("li.message", has_text="be quick about it").filter(has_text="person")
    expect(said.get_by_text("operator")).to_be_visible(timeout=LATER)
    expect(waiting).to_have_count(0)


def test_a_run_is_aborted_and_goes_on_in_a_fork_with_other_inputs(
    page: Page, product: Product, api: Api
) -> None:
    violations: list[str] = []
    page.on("console", lambda m: violations.append(m.text) if "Security Policy" in m.text else None)
    sign_in(page, product, "operator")
    page.goto(f"{product.address}/runs/")
    page.get_by_role("button", name="Start a demo run").click()
    page.wait_for_url(re.compile(r"/runs/\d+/$"))
    run = page.url.rstrip("/").rpartition("/")[2]
    hold = page.locator(".run-hold")
    expect(hold).to_contain_text("draft waits for the reviewer group", timeout=60_000)

    page.locator("#run-steer summary").click()
    page.get_by_label("Message to the run").fill("the title is wrong")
    page.get_by_role("button", name="Send").click()
    page.wait_for_url(re.compile(r"#e\d+$"))
    expect(page.locator("li.message.marked")).to_contain_text("the title is wrong")
    expect(page.locator(".story details[open]")).to_have_count(0)
    page.locator("#run-abort summary").click()
    page.get_by_label("Reason (recorded in the audit log)").fill("wrong title")
    page.get_by_role("button", name="Abort the run").click()
    story = page.locator(".run-story")
    expect(story).to_contain_text("operator aborted the run: wrong title")

    page.get_by_role("link", name="after layer 1").click()
    expect(page.get_by_text("draft, after it ran; write, before it runs")).to_be_visible()
    page.get_by_label("Title").fill("Other notes")
    page.get_by_role("button", name="Start the new run").click()
    expect(page.locator(".lineage")).to_contain_text(f"forked from run {run} after layer 1")
    fork = page.url.rstrip("/").rpartition("/")[2]
    assert fork != run
    wait_for_pause(api, fork, "draft", page)
    assert violations == []


def test_a_deadline_is_moved_while_the_review_is_read(
    page: Page, product: Product, api: Api
) -> None:
    review = {"trigger_phase": "BEFORE_EXECUTION", "timeout_seconds": 1800}
    run = started(api, echo("a", human_review=review))
    sign_in(page, product, "reviewer")
    wait_for_pause(api, run, "a", page)
    page.goto(f"{product.address}/review/{run}/{run}-1/")
    expect(page.get_by_text("30 min left")).to_be_visible()
    page.get_by_label("Comment").fill("I need to ask somebody")
    page.get_by_role("button", name="Extend by 1 hour").click()
    expect(page.get_by_text("1 h left")).to_be_visible()
    # The page goes on where it was, and the form follows the run's version.
    expect(page.get_by_label("Comment")).to_have_value("I need to ask somebody")
    _, found = api(f"executions/{run}/")
    expect(page.locator("[name=version]")).to_have_value(str(found["version"]))
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("reviewer approved this")).to_be_visible()


def test_events_before_the_scripts_load_are_not_lost(
    page: Page, product: Product, api: Api
) -> None:
    """What happens between the page's answer and its last script is shown all the same."""
    sign_in(page, product, "operator")
    late: list[Route] = []
    script = re.compile(r"/js/run(\.\w+)?\.js$")
    page.route(script, lambda route: late.append(route))
    run = started(api, wait("slow", LONG_SECONDS))
    with page.expect_request(script):
        page.goto(f"{product.address}/runs/{run}/", wait_until="commit")
    expect(page.locator("#run-live")).to_be_attached()
    until(api, run, "COMPLETED")
    assert late
    for route in late:
        route.continue_()
    expect(page.locator(".run-story")).to_contain_text("the run is complete", timeout=LATER)


def test_every_task_of_a_long_plan_can_be_reached(page: Page, product: Product, api: Api) -> None:
    sign_in(page, product, "operator")
    first = [echo(f"a{number}") for number in range(50)]
    later = [echo(f"b{number}", f"text {number}", depends_on=["a0"]) for number in range(50)]
    run = started(api, *first, *later)
    until(api, run, "COMPLETED")
    page.goto(f"{product.address}/runs/{run}/")
    tasks = page.locator("details.task")
    expect(tasks).to_have_count(25)
    expect(page.get_by_text("Tasks 51 to 75 of 100, from layer 2")).to_be_visible()
    # A task that is listed opens here, and loads its data.
    page.locator("#task-b20 summary").click()
    expect(page.locator("#task-b20 .task-body")).to_contain_text("text 20")
    # The rest of a layer, and a task of another page, are listed on the page they lead to.
    page.locator("svg.dag a", has_text="43 more").first.click()
    expect(page.locator("#task-a7")).to_have_attribute("open", "")
    expect(page.locator("#task-a7 .task-body")).to_contain_text("Output")
    page.get_by_role("link", name="Show later tasks").click()
    expect(page.locator("#task-a32")).to_be_visible()
    page.get_by_role("link", name="Show earlier events").click()
    expect(page.get_by_role("link", name="Show the newest events")).to_be_visible()
    # A link to an event that the page does not show first, as records have it.
    page.goto(f"{product.address}/runs/{run}/#e3")
    expect(page.locator("#e3.marked")).to_be_visible()
