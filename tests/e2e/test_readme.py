"""README's five minutes: each step as written, and the REST sample against the running product."""

from __future__ import annotations

import json
import re
import subprocess

from playwright.sync_api import Browser, Page, expect

from tests.architecture.files import ROOT
from tests.e2e.desk import until_it
from tests.e2e.product import Product
from tests.e2e.test_review import Api, append_text, password, start_run, wait_for_pause

README = (ROOT / "README.md").read_text()
EDIT = "Edited as README says."


def sign_in(page: Page, product: Product, user: str) -> None:
    """Sign in on the page that the printed address leads to."""
    page.goto(f"{product.address}/")
    page.get_by_label("User name").fill(user)
    page.get_by_label("Password").fill(password(product, user))
    page.get_by_role("button", name="Sign in").click()


def test_the_five_minutes(page: Page, product: Product, browser: Browser) -> None:
    printed = "\n".join(product.lines)
    assert f"{product.address}/" in printed
    assert password(product, "reviewer") in printed

    # 1: the demo runs began with the instance: this one read the repository, and waits.
    api = Api(product, "operator", "read")
    first = api("executions/?workflow=release-notes&ordering=created_at")[1]["results"][0]["id"]
    waits = until_it(api, first, lambda found: bool(found["holds"]))
    (read,) = [each for each in waits["tasks"] if each["id"] == "log"]
    assert (read["target"], read["status"]) == ("git.git_log", "SUCCEEDED")
    assert waits["holds"][0]["node_id"] == "draft"

    # 2: the diff shows the edit before it is submitted.
    sign_in(page, product, "reviewer")
    page.wait_for_url(f"{product.address}/review/")
    title = "Review output of draft in “Release notes”"
    assert f"“{title}”" in README
    run = start_run(product)
    wait_for_pause(api, run, "draft", page)
    page.goto(f"{product.address}/review/?tab=open&q=release")
    page.locator(f"[data-hold='{run}-1'] [data-open]").click()
    append_text(page.get_by_role("textbox", name="Markdown"), f"\n{EDIT}\n")
    expect(page.locator("ins, .added", has_text=EDIT).first).to_be_visible()

    # 3: it stops again before write_file; the file is where the reviewer says.
    page.get_by_role("button", name="Approve with 1 change").click()
    wait_for_pause(api, run, "write", page)
    page.goto(f"{product.address}/review/{run}/{run}-2/")
    page.get_by_role("textbox", name="Path").fill(f"readme/{run}.md")
    page.get_by_role("button", name="Approve with 1 change").click()
    expect(page.get_by_text("reviewer approved this")).to_be_visible(timeout=60_000)

    # 4: the run from the review.
    page.locator(f"a[href^='/runs/{run}/']").first.click()
    expect(page.locator(".run-story")).to_contain_text("the run is complete", timeout=60_000)
    for heading in ("Plan", "Activity"):
        expect(page.get_by_role("heading", name=heading, exact=True)).to_be_visible()
    expect(page.locator("#task-write")).to_be_visible()
    assert EDIT in (product.home / "files" / "runs" / run / "readme" / f"{run}.md").read_text()

    # 5: the auditor compares and cannot decide.
    auditor = browser.new_context().new_page()
    sign_in(auditor, product, "auditor")
    auditor.wait_for_url(f"{product.address}/history/")
    auditor.goto(f"{product.address}/history/?execution={run}")
    auditor.get_by_role("link", name=re.compile("approved write_file")).click()
    for heading in ("Original", "Edited", "Executed"):
        expect(auditor.get_by_role("heading", name=heading, exact=True)).to_be_visible()

    # More runs: the button of operators and reviewers, and the command that the helper above used.
    operator = browser.new_context().new_page()
    sign_in(operator, product, "operator")
    operator.wait_for_url(f"{product.address}/runs/")
    page.goto(f"{product.address}/runs/")
    for starter in (operator, page):
        starter.get_by_role("button", name="Start a demo run").click()
        starter.wait_for_url(re.compile(r"/runs/\d+/$"))
    operator.context.close()

    # 5 again: auditors see what waits and cannot decide it, on the page or over REST.
    other = page.url.rstrip("/").rpartition("/")[2]
    version = wait_for_pause(api, other, "draft", page)["version"]
    for viewer, buttons in ((page, 1), (auditor, 0)):
        viewer.goto(f"{product.address}/review/{other}/{other}-1/")
        expect(viewer.get_by_role("heading", name="Review output of draft")).to_be_visible()
        expect(viewer.get_by_role("button", name="Approve", exact=True)).to_have_count(buttons)
    body = {"execution_id": other, "hold_id": f"{other}-1", "version": version}
    decide = Api(product, "auditor", "read,decide")
    assert decide("reviews/resume/", body | {"decision": "APPROVE"})[0] == 403
    auditor.context.close()


def test_the_rest_sample_approves_the_oldest_review(product: Product, page: Page) -> None:
    """As written; only the port is the one of this instance."""
    wait_for_pause(Api(product, "operator", "read"), start_run(product), "draft", page)
    (text,) = re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    query = "reviews/pending/?workflow=release-notes&ordering=opened_at"
    assert query in text
    oldest = Api(product, "reviewer", "read")(query)[1]["results"][0]
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text.replace(":8000/", f":{product.port}/")],
        cwd=ROOT,
        env=product.env,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    decision = json.loads(done.stdout)
    assert (decision["hold_id"], decision["decision"]) == (oldest["hold_id"], "APPROVE")
