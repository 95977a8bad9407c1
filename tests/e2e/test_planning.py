"""Words become a plan, the plan is edited and started, and a replan waits for a reviewer."""

from collections.abc import Callable

from playwright.sync_api import Browser, Page, expect

from tests.e2e.product import Product
from tests.e2e.test_review import Api, sign_in

INTENT = "List the directory '.', then read the file 'data.json'"


def until(page: Page, condition: Callable[[], bool], what: str) -> None:
    for _ in range(600):
        if condition():
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"gave up waiting: {what}")


def plan_and_start(page: Page, product: Product) -> str:
    """Intent, suggestion, edits, start; the run's number."""
    page.goto(f"{product.address}/runs/")
    page.get_by_role("link", name="Describe a task").click()
    page.get_by_label("Task description").fill(INTENT)
    page.get_by_role("button", name="Suggest a plan").click()
    expect(page.locator("svg.dag .node")).to_have_count(2)
    page.get_by_label("A tool of the catalogue").fill("builtin.parse_json")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_text("Fix 1 value first")).to_be_visible()
    page.get_by_label("Source of text of parse_json").select_option("read_file")
    page.get_by_label("Part of the source for text of parse_json").fill("content")
    page.get_by_role("button", name="Show the plan as edited").click()
    expect(page.locator("svg.dag .edge")).to_have_count(2)
    page.get_by_label("Layer approval").select_option(label="before no layer")
    page.get_by_label("Review each replan").check()
    page.get_by_label("Pause after each layer").check()
    page.get_by_label("Name", exact=True).fill("Looking around")
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url("**/runs/*/")
    return page.url.rstrip("/").rpartition("/")[2]


def test_part_of_a_replan_is_accepted(page: Page, product: Product, browser: Browser) -> None:
    violations: list[str] = []
    page.on("console", lambda m: violations.append(m.text) if "Security Policy" in m.text else None)
    api = Api(product, "operator", "read,run")
    # The files of the run are there before it starts.
    newest = max(int(each["id"]) for each in api("executions/")[1]["results"])
    folder = product.home / "files" / "runs" / str(newest + 1)
    folder.mkdir(parents=True)
    (folder / "data.json").write_text('{"n": 1}')
    (folder / "notes.xml").write_text("<notes><note>first</note></notes>")

    def status() -> str:
        return str(api(f"executions/{run}/")[1]["status"])

    sign_in(page, product, "operator")
    run = plan_and_start(page, product)
    until(page, lambda: status() == "AWAITING_AGENT", "the first layer ends")

    page.goto(f"{product.address}/runs/{run}/")
    page.get_by_text("Replan…").click()
    page.get_by_label("New requirement").fill("parse XML files")
    page.get_by_role("button", name="Replan", exact=True).click()
    until(page, lambda: status() == "PAUSED_FOR_REVIEW", "the plan change waits")

    other = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    sign_in(other, product, "reviewer")
    hold = api(f"executions/{run}/")[1]["holds"][-1]["id"]
    other.goto(f"{product.address}/review/{run}/{hold}/")
    expect(other.get_by_role("heading", name="Review plan change")).to_be_visible()
    expect(other.locator("svg.dag .node.good")).to_have_count(2)
    other.get_by_label("Keep parse_xml").uncheck()
    other.get_by_role("button", name="Approve the change").click()
    expect(other.get_by_text("You drop parse_xml")).to_be_visible()
    other.get_by_role("button", name="Approve without parse_xml").click()
    expect(other.get_by_text("reviewer approved this with 1 change")).to_be_visible()
    other.context.close()

    def finished() -> bool:
        if status() == "AWAITING_AGENT":
            api(f"executions/{run}/commands/", {"kind": "continue"})
        return status() == "COMPLETED"

    until(page, finished, "the run completes")
    page.goto(f"{product.address}/runs/{run}/")
    page.get_by_role("link", name="See what changed").click()
    expect(page.get_by_role("heading", name="A replan changed the plan")).to_be_visible()
    expect(page.locator("svg.dag .node.good")).to_have_count(1)
    tasks = {task["id"]: task["status"] for task in api(f"executions/{run}/")[1]["tasks"]}
    assert "parse_xml" not in tasks
    assert tasks["parse_json"] == "SUCCEEDED"
    assert violations == []
