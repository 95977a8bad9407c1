"""A run pauses, a reviewer edits and approves, and the edited values run."""

import json
import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.e2e.product import Product

EDIT = "Edited by a person before it was written."


def password(product: Product, user: str) -> str:
    found: dict[str, str] = json.loads((product.home / "demo_passwords.json").read_text())
    return found[user]


def sign_in(page: Page, product: Product, user: str) -> None:
    page.goto(f"{product.address}/review/")
    page.get_by_label("Name").fill(user)
    page.get_by_label("Password").fill(password(product, user))
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{product.address}/review/")


def start_run(product: Product) -> str:
    """A new demo run; its number."""
    return number_of(product.command("demo"))


def number_of(said: str) -> str:
    """The number of the run that the command `demo` speaks of."""
    match = re.search(r"run (\d+) started", said)
    assert match, said
    return match[1]


def append_text(field: Locator, text: str) -> None:
    """Type at the end of a text: a busy browser takes seconds to fill in many lines anew."""
    field.evaluate("field => { field.focus(); field.selectionStart = field.value.length; }")
    field.page.keyboard.insert_text(text)


class Api:
    """REST with a bearer token."""

    def __init__(self, product: Product, user: str, scopes: str, name: str = "") -> None:
        self.base = f"{product.address}/api/v1"
        said = product.command("create_token", user, "--scopes", scopes, "--name", name)
        self.token = said.strip()

    def __call__(self, path: str, body: Any = None) -> tuple[int, Any]:
        request = urllib.request.Request(
            f"{self.base}/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self.token}",
                "Content-Type": "application/json",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)


def wait_for_pause(api: Api, run: str, node: str, page: Page) -> dict[str, Any]:
    for _ in range(600):
        _, found = api(f"executions/{run}/")
        if found["status"] == "PAUSED_FOR_REVIEW" and found["paused_node_id"] == node:
            return dict(found)
        page.wait_for_timeout(100)
    raise AssertionError(f"run {run} did not pause before {node}: {found}")


def test_a_paused_run_appears_is_edited_approved_and_written(
    page: Page, product: Product, browser: Browser
) -> None:
    violations: list[str] = []
    page.on("console", lambda m: violations.append(m.text) if "Security Policy" in m.text else None)
    sign_in(page, product, "reviewer")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    page.evaluate("window.notReloaded = true")
    run = number_of(product.manage("demo"))

    # It appears by itself; rows never jump, so it waits behind a line.
    page.get_by_role("button", name=re.compile(r"\d+ new")).click(timeout=60_000)
    row = page.locator(f"a[href='/review/{run}/{run}-1/'], a[href*='hold={run}-1']").first
    expect(row).to_be_visible()
    assert page.evaluate("window.notReloaded")

    page.goto(f"{product.address}/review/{run}/{run}-1/")
    append_text(page.get_by_role("textbox", name="Markdown"), f"\n{EDIT}\n")
    page.get_by_role("button", name="Approve with 1 change").click()

    # The run goes on to the next hold, and the edit with it.
    api = Api(product, "operator", "read")
    wait_for_pause(api, run, "write", page)
    page.goto(f"{product.address}/review/{run}/{run}-2/")
    expect(page.get_by_role("textbox", name="Content")).to_have_value(
        re.compile(re.escape(EDIT)), timeout=60_000
    )
    path = page.get_by_role("textbox", name="Path")
    path.fill(f"release/{run}.md")
    page.get_by_role("button", name="Approve with 1 change").click()
    expect(page.get_by_text("reviewer approved this")).to_be_visible(timeout=60_000)
    page.goto(f"{product.address}/runs/{run}/")
    # The timeline alone: the outputs hold a diff of this repository, and with it any words.
    expect(page.locator(".run-story")).to_contain_text("the run is complete", timeout=60_000)
    assert (
        EDIT
        in (Path(product.home) / "files" / "runs" / str(run) / "release" / f"{run}.md").read_text()
    )
    assert violations == []

    auditor = browser.new_context().new_page()
    sign_in(auditor, product, "auditor")
    auditor.goto(f"{product.address}/history/?execution={run}")
    for node in ("draft", "write_file"):
        sentence = re.compile(f"reviewer approved {node} in Release notes with 1 change")
        expect(auditor.get_by_role("link", name=sentence)).to_be_visible()
    waiting = start_run(product)
    wait_for_pause(api, waiting, "draft", auditor)
    auditor.goto(f"{product.address}/review/{waiting}/{waiting}-1/")
    expect(auditor.get_by_role("button", name=re.compile("^Approve"))).to_have_count(0)
    auditor.context.close()


def test_a_token_reviews_over_rest(page: Page, product: Product) -> None:
    run = start_run(product)
    api = Api(product, "reviewer2", "read,decide")
    paused = wait_for_pause(api, run, "draft", page)
    status, pending = api(f"reviews/pending/{run}/")
    assert status == 200, pending
    status, listed = api("reviews/pending/")
    assert status == 200
    assert run in json.dumps(listed)
    draft = next(task for task in paused["tasks"] if task["id"] == "draft")["output"]
    body = {
        "execution_id": run,
        "hold_id": f"{run}-1",
        "version": paused["version"],
        "decision": "APPROVE",
        "edits": {**draft, "markdown": EDIT},
        "comment": "shorter",
    }
    stale, answer = api("reviews/resume/", {**body, "version": paused["version"] - 1})
    assert stale == 409, answer
    status, answer = api("reviews/resume/", body)
    assert status == 200, answer
    paused = wait_for_pause(api, run, "write", page)
    body |= {"hold_id": f"{run}-2", "version": paused["version"], "edits": {"path": f"{run}.md"}}
    bad, answer = api("reviews/resume/", {**body, "edits": {"path": 7}})
    assert bad == 422, answer
    assert "path" in json.dumps(answer)
    status, answer = api("reviews/resume/", body)
    assert status == 200, answer
    for _ in range(600):
        _, done = api(f"executions/{run}/")
        if done["status"] == "COMPLETED":
            break
        page.wait_for_timeout(100)
    assert done["status"] == "COMPLETED", done
    assert (product.home / "files" / "runs" / str(run) / f"{run}.md").read_text() == EDIT
    _, history = api(f"reviews/history/?execution={run}")
    assert [each["decision"] for each in history["results"]] == ["APPROVE", "APPROVE"]
    assert history["results"][1]["comment"] == "shorter"


@pytest.mark.parametrize("user", ["auditor", "operator", "integrator"])
def test_users_without_the_right_cannot_decide(page: Page, product: Product, user: str) -> None:
    run = start_run(product)
    paused = wait_for_pause(Api(product, "operator", "read"), run, "draft", page)
    api = Api(product, user, "read,decide")
    body = {
        "execution_id": run,
        "hold_id": f"{run}-1",
        "version": paused["version"],
        "decision": "APPROVE",
    }
    status, answer = api("reviews/resume/", body)
    assert status == (404 if user == "integrator" else 403), answer
