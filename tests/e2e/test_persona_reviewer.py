"""A reviewer does the whole job in one place: edit arguments, edit an output, approve.

The run asks for each in turn, and the file that it writes at the end has both edits.
"""

from __future__ import annotations

import re
import secrets
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.desk import echo, started, until, until_open
from tests.e2e.personas import ADMIN, LATER, Job
from tests.e2e.product import Product
from tests.e2e.test_review import Api

OFFER, EDITED_OFFER = "ten pears", "twelve pears"
LETTER = "twelve pears, with our best regards"
BEFORE, AFTER = "BEFORE_EXECUTION", "AFTER_EXECUTION"


@pytest.fixture(scope="module")
def api(product: Product) -> Api:
    return Api(product, "operator", "read,run,loosen")


def letter(api: Api) -> tuple[str, str]:
    """A new run that asks about an offer, the letter with it, and its file; run and file name."""
    file = f"letter-{secrets.token_hex(4)}.txt"
    write: dict[str, Any] = {
        "id": "write",
        "type": "tool",
        "tool": "builtin.write_file",
        "arguments": {"path": file, "content": {"$from": "letter"}},
        "human_review": {"trigger_phase": BEFORE, "on_timeout": "keep_waiting"},
    }
    tasks = (echo("offer", OFFER, BEFORE), echo("letter", {"$from": "offer"}, AFTER), write)
    alone = {"four_eyes": False}
    return started(api, *tasks, title=f"Write {file}", policy=alone), file


def approved(page: Page) -> None:
    expect(page.get_by_text("reviewer approved this")).to_be_visible(timeout=LATER)


def decisions(product: Product, run: str) -> list[tuple[str, str, bool]]:
    """The records of a run, oldest first: task, decision, edited."""
    auditor = Api(product, "auditor", "read")
    status, history = auditor(f"reviews/history/?execution={run}")
    assert status == 200, history
    rows = sorted(history["results"], key=lambda row: int(row["id"]))
    return [(row["node_id"], row["decision"], row["is_edited"]) for row in rows]


DECIDED = [("offer", "APPROVE", True), ("letter", "APPROVE", True), ("write", "APPROVE", False)]


def test_in_the_admin_alone(page: Page, product: Product, api: Api) -> None:
    run, file = letter(api)
    job = Job(page, product, "reviewer", ADMIN)
    page.get_by_role("link", name="Waiting reviews").click()

    def open_review(sentence: str, hold: str) -> None:
        until_open(api, run, hold)
        page.get_by_role("textbox", name="Search").fill(file)
        page.get_by_role("button", name="Search").click()
        page.get_by_role("link", name=sentence).click()

    open_review("echo will run", f"{run}-1")
    page.get_by_role("textbox", name="Value").fill(EDITED_OFFER)
    page.get_by_role("button", name="Approve with 1 change").click()
    approved(page)
    page.get_by_role("link", name="Pending reviews").click()

    open_review("Review output of letter", f"{run}-2")
    page.get_by_role("textbox", name="Value").fill(LETTER)
    page.get_by_role("button", name="Approve with 1 change").click()
    approved(page)
    page.get_by_role("link", name="Pending reviews").click()

    open_review("write_file will run", f"{run}-3")
    expect(page.get_by_role("textbox", name="Content")).to_have_value(LETTER)
    page.get_by_role("button", name="Approve", exact=True).click()
    approved(page)

    page.get_by_role("link", name="Open the run in the admin").click()
    expect(page.get_by_role("region", name="Activity")).to_contain_text(
        "the run is complete", timeout=LATER
    )
    assert (product.home / "files" / "runs" / str(run) / file).read_text() == LETTER
    assert decisions(product, run) == DECIDED
    page.get_by_role("link", name="Audit records").click()
    expect(page.get_by_role("row", name="with 1 change")).to_have_count(2)
    page.get_by_role("link", name=re.compile("approved write_file")).click()
    expect(page.get_by_text("the executed data is the approved data")).to_be_visible()
    job.done_in_the_admin()


def test_on_the_desk_alone(page: Page, product: Product, api: Api) -> None:
    run, file = letter(api)
    job = Job(page, product, "reviewer", "/review/")

    filter_of_list = page.get_by_role("searchbox", name="Filter this list")
    filter_of_list.fill(file)
    filter_of_list.press("Enter")
    page.get_by_role("link", name=re.compile(f"echo will run.*{file}")).click()
    page.get_by_role("textbox", name="Value").fill(EDITED_OFFER)
    page.get_by_role("button", name="Approve with 1 change").click()

    until_open(api, run, f"{run}-2")
    page.get_by_role("link", name=re.compile("output of letter")).click()
    page.get_by_role("textbox", name="Value").fill(LETTER)
    page.get_by_role("button", name="Approve with 1 change").click()

    until_open(api, run, f"{run}-3")
    page.get_by_role("link", name=re.compile("write_file will run")).click()
    expect(page.get_by_role("textbox", name="Content")).to_have_value(LETTER)
    page.get_by_role("button", name="Approve", exact=True).click()

    until(api, run, "COMPLETED")
    assert (product.home / "files" / "runs" / str(run) / file).read_text() == LETTER
    assert decisions(product, run) == DECIDED
    page.get_by_role("link", name="History").click()
    main = page.get_by_role("main")
    main.get_by_role("searchbox", name="Search").fill(file)
    main.get_by_role("button", name="Show").click()
    expect(
        main.get_by_role("link", name=re.compile("reviewer approved .* with 1 change"))
    ).to_have_count(2)
    main.get_by_role("link", name=re.compile("reviewer approved write_file")).click()
    expect(main.get_by_text("the executed data is the approved data")).to_be_visible()
    job.done_on_the_desk()
