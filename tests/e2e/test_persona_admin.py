"""An admin does the whole job in one place: a person in a group, an MCP server, a review policy."""

from __future__ import annotations

import json
import re
import secrets
import sys

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.desk import echo
from tests.e2e.personas import ADMIN, Job
from tests.e2e.product import Product
from tests.e2e.test_review import Api

SECRET = "a-long-way-to-tipperary"


@pytest.fixture(scope="module")
def api(product: Product) -> Api:
    return Api(product, "admin", "read,run,admin")


@pytest.fixture
def name(api: Api) -> str:
    """A name that nothing has yet, and a workflow of it that no one reviews."""
    name = f"pears-{secrets.token_hex(3)}"
    body = {"name": name, "title": f"Workflow {name}", "plan": {"tasks": [echo("a", "x")]}}
    status, said = api("workflows/", body)
    assert status == 201, said
    return name


def set_policy(main: Locator) -> None:
    """The one task is reviewed before it runs, and the run pauses after each layer."""
    main.get_by_role("list", name="Tasks in order").get_by_role(
        "button", name="a", exact=True
    ).click()
    main.get_by_role("combobox", name="Reviewed", exact=True).select_option(label="before it runs")
    main.get_by_role("checkbox", name=re.compile("Pause after each layer")).check()
    main.get_by_role("button", name="Save the workflow").click()


def check_policy(api: Api, name: str) -> None:
    _, found = api(f"workflows/{name}/")
    (task,) = found["plan"]["tasks"]
    assert task["human_review"]["trigger_phase"] == "BEFORE_EXECUTION"
    assert found["policy"]["per_layer_validation"] is True


def test_in_the_admin_alone(page: Page, product: Product, api: Api, name: str) -> None:
    job = Job(page, product, "admin", ADMIN)
    main = page.get_by_role("main")

    main.get_by_role("link", name="Add to People").click()
    main.get_by_role("textbox", name="Username").fill(name)
    main.get_by_role("textbox", name="Password:", exact=True).fill(SECRET)
    main.get_by_role("textbox", name="Password confirmation").fill(SECRET)
    main.get_by_role("button", name="Save", exact=True).click()
    main.get_by_role("listbox", name="Groups").select_option(label="reviewer")
    main.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("was changed successfully")).to_be_visible()
    expect(main.get_by_role("row", name=re.compile(f"{name} .*reviewer"))).to_be_visible()

    page.get_by_role("link", name="Admin", exact=True).first.click()
    main.get_by_role("link", name="Add to MCP servers").click()
    main.get_by_role("textbox", name="Name").fill(name)
    main.get_by_role("textbox", name="Command").fill(sys.executable)
    main.get_by_role("textbox", name="Arguments").fill(json.dumps(["-m", "mcp_server_git"]))
    main.get_by_role("button", name="Save and continue editing").click()
    main.get_by_role("button", name="Test the connection and read the tools").click()
    expect(page.get_by_text(re.compile(rf"Read \d+ tools of {name}"))).to_be_visible()
    expect(main.get_by_text(f"{name}.git_log", exact=True)).to_be_visible()

    page.get_by_role("link", name="Admin", exact=True).first.click()
    main.get_by_role("link", name="Workflows", exact=True).last.click()
    main.get_by_role("link", name=f"Workflow {name}").click()
    main.get_by_role("link", name="Review policy").click()
    set_policy(main)
    expect(main.get_by_role("heading", name="Change workflow")).to_be_visible()
    check_policy(api, name)
    job.done_in_the_admin()
