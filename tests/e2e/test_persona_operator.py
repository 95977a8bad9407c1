"""An operator does the whole job in one place: author a plan without JSON, start, replan, fork.

The admin has the plan editor, the run and the fork as pages of its own, in its frame.
"""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.desk import until, until_it
from tests.e2e.personas import ADMIN, LATER, Job
from tests.e2e.product import Product
from tests.e2e.test_review import Api

TITLE = "Pears, counted twice"
PEARS = "<pears>ten</pears>"
REQUIREMENT = "parse XML files"


@pytest.fixture(scope="module")
def api(product: Product) -> Api:
    return Api(product, "operator", "read,run")


def author(main: Locator) -> None:
    """Two tasks, the second reads the first; the run pauses after each layer.

    A replan needs no reviewer: this person may loosen policies.
    """
    main.get_by_label("Name", exact=True).fill(TITLE)
    tasks = main.get_by_role("list", name="Tasks in order").get_by_role("listitem")
    main.get_by_role("button", name="+ builtin.echo").click()
    expect(tasks).to_have_count(1)
    main.get_by_role("textbox", name=re.compile("^value")).fill(PEARS)
    main.get_by_role("button", name="+ builtin.echo").click()
    expect(tasks).to_have_count(2)
    main.get_by_role("combobox", name="Source of value of echo_2").select_option(label="from echo")
    expect(main.get_by_role("group", name=re.compile("2 tasks in 2 layers"))).to_be_visible()
    main.get_by_role("checkbox", name=re.compile("Pause after each layer")).check()
    main.get_by_role("checkbox", name=re.compile("Review each replan")).uncheck()


def start(main: Locator, page: Page) -> str:
    """The number of the run whose page the editor leads to."""
    main.get_by_role("button", name="Start the run").click()
    expect(main.get_by_role("heading", name=TITLE)).to_be_visible(timeout=LATER)
    found = re.search(r"/(?:execution|runs)/(\d+)/", page.url)
    assert found, page.url
    return found[1]


def replan(main: Locator, api: Api, run: str) -> None:
    """A new requirement changes the plan; the tasks that are done stay."""
    until(api, run, "AWAITING_AGENT")
    main.get_by_text("Replan…", exact=True).click()
    main.get_by_label("New requirement").fill(REQUIREMENT)
    main.get_by_role("button", name="Replan", exact=True).click()
    until_it(api, run, lambda found: found["revision"] == 2)
    activity = main.get_by_role("region", name="Activity")
    expect(activity).to_contain_text(REQUIREMENT, timeout=LATER)
    until(api, run, "COMPLETED")
    expect(activity).to_contain_text("the run is complete", timeout=LATER)


def fork(main: Locator, page: Page, run: str) -> str:
    """The number of the new run; the page of the form says what runs again."""
    main.get_by_role("link", name=re.compile("Fork from here… after layer")).click()
    expect(main.get_by_role("heading", name=f"Fork run {run}")).to_be_visible()
    main.get_by_role("button", name="Start the new run").click()
    activity = main.get_by_role("region", name="Activity")
    expect(activity).to_contain_text(f"forked from run {run} after layer 1")
    found = re.search(r"/(?:execution|runs)/(\d+)/", page.url)
    assert found, page.url
    assert found[1] != run
    return found[1]


def finish(main: Locator, api: Api, run: str) -> None:
    """The fork goes on with the second task, which reads the first one's reused output."""
    until(api, run, "AWAITING_AGENT")
    main.get_by_role("button", name="Continue").click()
    done = until(api, run, "COMPLETED")
    assert {task["id"]: task["output"] for task in done["tasks"]} == {
        "echo": PEARS,
        "echo_2": PEARS,
    }


def test_in_the_admin_alone(page: Page, product: Product, api: Api) -> None:
    job = Job(page, product, "operator", ADMIN)
    main = page.get_by_role("main")
    main.get_by_role("link", name="Workflows", exact=True).last.click()
    main.get_by_role("link", name="New in the plan editor").click()
    author(main)
    run = start(main, page)
    replan(main, api, run)
    new = fork(main, page, run)
    finish(main, api, new)
    job.done_in_the_admin()


def test_on_the_desk_alone(page: Page, product: Product, api: Api) -> None:
    job = Job(page, product, "operator", "/runs/")
    main = page.get_by_role("main")
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Workflows").click()
    main.get_by_role("link", name="New workflow").click()
    author(main)
    run = start(main, page)
    replan(main, api, run)
    new = fork(main, page, run)
    finish(main, api, new)
    job.done_on_the_desk()
