"""The list of screenshots: user, address, and the actions before each one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from playwright.sync_api import Page, expect

from tests.e2e.desk import answer_link
from tests.e2e.staging import Stage

WORDS = "List the directory '.', then read the file 'data.json'"
RULE = "output.commits <= `10`"


def as_it_is(_page: Page) -> None:
    """Nothing has to be done first."""


@dataclass(frozen=True)
class Picture:
    """`path` has places for what `addresses` knows."""

    name: str
    who: str
    path: str
    first: Callable[[Page], None] = as_it_is


def addresses(stage: Stage) -> Mapping[str, str]:
    """The numbers that the paths of the pictures name."""
    weekly = stage.number_of("weekly-digest")
    return {
        "waits": f"{stage.waits}/{stage.waits}-2",
        "asking": f"{stage.asking}/{stage.asking}-1",
        "layer": stage.layer,
        "plan_change": stage.plan_review,
        "answer": answer_link(stage.product, f"{stage.reminded}-1"),
        "login": f"{stage.login}/{stage.login}-1",
        "half": f"{stage.half}/{stage.half}-1",
        "expired": f"{stage.expired}/{stage.expired}-1",
        "decided": f"{stage.written}/{stage.written}-3",
        "hold": f"{stage.waits}-2",
        "written": stage.written,
        "grown": stage.grown,
        "workflow": weekly,
        "release": stage.number_of("release-notes"),
        "tried": stage.tried,
        "record": stage.record_of(stage.written),
        "webhook": stage.webhook,
    }


def posted_token(page: Page) -> None:
    """The page of an answer link opens the review by itself."""
    page.wait_for_url("**/answer/review/")


def edit(page: Page) -> None:
    """One field is changed, so that the button and the difference say so."""
    field = page.get_by_role("textbox", name="Path")
    field.fill("release/NOTES.md")
    field.press("Escape")
    expect(page.locator("[data-approve]")).to_contain_text("1 ")
    page.evaluate("scrollTo(0, 0)")


def reject(page: Page) -> None:
    page.locator("body").press("r")
    expect(page.locator("[data-reject-panel].open")).to_be_visible()
    page.locator("[data-reject-panel]").scroll_into_view_if_needed()


def open_keys(page: Page) -> None:
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()


def open_bell(page: Page) -> None:
    page.locator("[data-bell] summary").click()
    expect(page.locator(".bell-list .told").first).to_be_visible()


def plan(page: Page) -> None:
    page.get_by_label("Task description").fill(WORDS)
    page.get_by_role("button", name="Suggest a plan").click()
    expect(page.locator("svg.dag .node")).to_have_count(2)
    page.evaluate("scrollTo(0, 0)")


def open_node(page: Page) -> None:
    page.locator("[data-node]").last.click()
    expect(page.locator("#task-title")).to_be_focused()
    page.evaluate("scrollTo(0, 0)")


def draft(page: Page) -> None:
    page.get_by_label("Rule name").fill("medium digests")
    page.get_by_label("Skip the review", exact=True).select_option("text")
    page.get_by_label("JMESPath expression").fill(RULE)
    expect(page.locator("#rule-check summary").first).to_be_visible()
    page.evaluate("scrollTo(0, 0)")


def open_task(page: Page) -> None:
    page.locator(".task > summary").first.click()
    page.evaluate("scrollTo(0, 0)")


def choose_reject(page: Page) -> None:
    page.get_by_role("checkbox", name="Select this object").first.check()
    page.get_by_role("combobox", name="Action").select_option(label="Reject…")
    page.get_by_role("button", name="Go").click()
    expect(page.get_by_role("link", name="Cancel")).to_be_visible()


def open_marks(page: Page) -> None:
    page.get_by_text("Permission set and marks").click()


PICTURES = (
    Picture("login", "", "/login/?next=/review/"),
    # the desk
    Picture("queue", "reviewer", "/review/?hold={hold}"),
    Picture("queue-keys", "reviewer", "/review/?hold={hold}", open_keys),
    Picture("queue-decided", "reviewer", "/review/?tab=decided"),
    Picture("decision", "reviewer", "/review/{waits}/"),
    Picture("decision-edited", "reviewer", "/review/{waits}/", edit),
    Picture("decision-rejecting", "reviewer", "/review/{waits}/", reject),
    Picture("decision-permission", "reviewer", "/review/{asking}/"),
    Picture("decision-layer", "reviewer", "/review/{layer}/"),
    Picture("decision-plan", "reviewer", "/review/{plan_change}/"),
    Picture("decision-masked", "reviewer", "/review/{login}/"),
    Picture("decision-quorum", "reviewer", "/review/{half}/"),
    Picture("decision-expired", "reviewer", "/review/{expired}/"),
    Picture("decision-decided", "reviewer", "/review/{decided}/"),
    Picture("bell", "reviewer", "/review/?tab=groups", open_bell),
    Picture("notices", "reviewer", "/notifications/"),
    Picture("notice-preferences", "reviewer", "/notifications/preferences/"),
    Picture("absences", "reviewer", "/absences/"),
    Picture("answer-link", "reviewer", "/answer/"),
    Picture("answer", "reviewer", "{answer}", posted_token),
    # runs
    Picture("runs", "operator", "/runs/"),
    Picture("run", "operator", "/runs/{written}/"),
    Picture("run-grown", "operator", "/runs/{grown}/"),
    Picture("search", "operator", "/search/?q=release"),
    Picture("learned", "operator", "/runs/{written}/learned/"),
    Picture("plan-change", "operator", "/runs/{grown}/plan/2/"),
    Picture("fork", "operator", "/runs/{written}/fork/1/"),
    Picture("plan", "operator", "/plan/", plan),
    Picture("plan-editor", "operator", "/workflows/edit/?copy={release}", open_node),
    Picture("workflows", "operator", "/workflows/"),
    Picture("workflow", "operator", "/workflows/{release}/"),
    Picture("workflow-versions", "operator", "/workflows/{release}/versions/"),
    Picture("rules", "operator", "/workflows/{workflow}/rules/"),
    Picture("grants", "operator", "/grants/?all=1"),
    Picture("webhooks", "operator", "/webhooks/"),
    Picture("webhook", "operator", "/webhooks/{webhook}/"),
    Picture("tokens", "operator", "/tokens/"),
    Picture("coding-agents", "operator", "/tokens/coding-agents/"),
    # the record
    Picture("history", "auditor", "/history/"),
    Picture("record", "auditor", "/history/{record}/"),
    Picture("denied", "auditor", "/history/denied/"),
    Picture("spared", "auditor", "/history/spared/"),
    Picture("reveals", "auditor", "/history/reveals/"),
    Picture("insights", "auditor", "/insights/"),
    Picture("backtest", "admin", "/insights/backtest/?workflow={workflow}", draft),
    Picture("backtest-report", "admin", "/insights/backtest/{tried}/"),
    # the desk of an admin
    Picture("tool-marks", "admin", "/tools/demo.draft_release_notes/", open_marks),
    # the admin
    Picture("admin", "reviewer", "/admin/"),
    Picture("admin-reviews", "reviewer", "/admin/workflows/hold/"),
    Picture("admin-decision", "reviewer", "/admin/workflows/hold/{hold}/change/"),
    Picture("admin-reject", "reviewer", "/admin/workflows/hold/?q={hold}", choose_reject),
    Picture("admin-runs", "operator", "/admin/workflows/execution/"),
    Picture("admin-run", "operator", "/admin/workflows/execution/{written}/change/"),
    Picture("admin-fork", "operator", "/admin/workflows/execution/{written}/fork/1/"),
    Picture("admin-workflows", "operator", "/admin/workflows/workflow/"),
    Picture(
        "admin-plan-editor",
        "operator",
        "/admin/workflows/workflow/editor/?copy={release}",
        open_node,
    ),
    Picture("admin-records", "auditor", "/admin/reviews/humanreviewrecord/"),
    Picture("admin-record", "auditor", "/admin/reviews/humanreviewrecord/{record}/change/"),
    Picture("admin-index", "admin", "/admin/"),
    Picture("admin-workflow", "admin", "/admin/workflows/workflow/{release}/change/"),
    Picture("admin-people", "admin", "/admin/auth/user/"),
    Picture("admin-person", "admin", "/admin/auth/user/1/change/"),
    Picture("admin-absences", "admin", "/admin/workflows/absence/"),
    Picture("admin-gates", "admin", "/admin/workflows/gate/"),
    Picture("admin-gate-add", "admin", "/admin/workflows/gate/add/"),
    Picture("admin-retention", "admin", "/admin/reviews/retentionpolicy/"),
    Picture("admin-retention-add", "admin", "/admin/reviews/retentionpolicy/add/"),
    Picture("admin-servers", "admin", "/admin/workflows/mcpserver/"),
    Picture("admin-server", "admin", "/admin/workflows/mcpserver/1/change/"),
    Picture("admin-server-add", "admin", "/admin/workflows/mcpserver/add/"),
    Picture("admin-servers-import", "admin", "/admin/workflows/mcpserver/import/"),
    Picture("admin-tools", "admin", "/admin/graphrag/tool/"),
    Picture("admin-system", "admin", "/admin/section/system/"),
    Picture("tools", "auditor", "/tools/"),
    Picture("tool", "auditor", "/tools/demo.draft_release_notes/"),
)
