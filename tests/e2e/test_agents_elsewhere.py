"""Agents of three frameworks ask; one reviewer decides on every surface; each agent goes on so.

A pydantic-ai agent and a LangGraph graph (the examples of the documentation, in processes of their
own, with stub models) and a client of the MCP gateway.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.architecture.files import ROOT
from tests.e2e.personas import LATER
from tests.e2e.product import Product, running_product
from tests.e2e.test_bell import mails
from tests.e2e.test_review import Api, sign_in
from tests.integration.workflows.mcp_server.web import Agent
from tests.support.slack_server import Slack, press, signed, slack_on_loopback

CLIENT = ROOT / "workflows/approvals/client"
T = TypeVar("T")
SLACK_USER = "U0ANA"
SECONDS = 90


@dataclass
class Review:
    """What an agent asked: the run and its hold."""

    run: str
    hold: str


class Agents:
    """Starts agents, which ask and wait."""

    def __init__(self, product: Product, pool: ThreadPoolExecutor) -> None:
        self._product, self._pool = product, pool
        self._api = Api(product, "integrator", "ask")
        self._known: set[str] = set()

    def example(self, name: str) -> tuple[Review, Future[str]]:
        """An example of the documentation; what it printed at its end."""
        return self._asked(self._pool.submit(self._run, name))

    def mcp(self, **arguments: Any) -> tuple[Review, Future[dict[str, Any]]]:
        """A client of the MCP gateway; the structured result of its call."""
        agent = Agent(f"{self._product.address}/mcp", self._api.token)
        asks = {
            "action": {"name": "payments.transfer", "arguments": arguments},
            "risk": "low",
            "idempotency_key": "invoice-4711",
            "wait_seconds": 20,
        }

        def call() -> dict[str, Any]:
            while (answer := agent.answer("request_approval", **asks))["status"] == "pending":
                pass
            return answer

        return self._asked(self._pool.submit(call))

    def _asked(self, answer: Future[T]) -> tuple[Review, Future[T]]:
        def new() -> Review | None:
            assert not answer.done(), answer.result()
            rows = self._api("approvals/?status=pending")[1]["results"]
            for row in rows:
                if row["id"] not in self._known:
                    self._known.add(row["id"])
                    return Review(row["execution_id"], row["hold_id"])
            return None

        return until(new), answer

    def _run(self, name: str) -> str:
        env = {
            **os.environ,
            "PYTHONPATH": f"{CLIENT}{os.pathsep}{CLIENT / 'adapters'}",
            "HOLDPOINT_URL": self._product.address,
            "HOLDPOINT_TOKEN": self._api.token,
        }
        command = [sys.executable, str(ROOT / f"docs/examples/{name}.py")]
        found = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=2 * SECONDS, check=False
        )
        assert found.returncode == 0, found.stderr
        return found.stdout.strip()


def until(condition: Callable[[], T | None]) -> T:
    end = time.monotonic() + SECONDS
    while (found := condition()) is None:
        assert time.monotonic() < end, condition
        time.sleep(0.2)
    return found


@pytest.fixture
def slack() -> Iterator[Slack]:
    with slack_on_loopback() as slack:
        yield slack


@pytest.fixture
def product(slack: Slack) -> Iterator[Product]:
    with running_product(
        HOLDPOINT_SLACK_API_URL=slack.url,
        HOLDPOINT_UNDO_SECONDS="0",
        HOLDPOINT_NOTICE_GATHER_SECONDS="0",
        HOLDPOINT_NOTICE_PAUSE_SECONDS="0",
    ) as product:
        yield product


@pytest.fixture
def slack_path(product: Product) -> str:
    """Where Slack sends its requests; the reviewer has linked their account, and gets e-mails."""
    said = product.manage(
        "shell",
        "--no-imports",
        "-c",
        "from django.contrib.auth.models import User\n"
        "from reviews.slack import accounts\n"
        "from tests.support.slack_server import connect_workspace\n"
        "from reviews.notifications.preferences import KINDS, save_preferences\n"
        "workspace = connect_workspace()\n"
        "reviewer = User.objects.get(username='reviewer')\n"
        f"accounts.link(workspace, {SLACK_USER!r}, reviewer)\n"
        "save_preferences(user=reviewer, shown=KINDS, mailed=KINDS)\n"
        "print(workspace.pk)",
    )
    return f"/chat/slack/{said.strip()}/"


@pytest.fixture
def agents(product: Product) -> Iterator[Agents]:
    with ThreadPoolExecutor(4) as pool:
        yield Agents(product, pool)


def test_every_agent_goes_on_with_exactly_what_was_decided(
    page: Page, browser: Browser, product: Product, slack: Slack, slack_path: str, agents: Agents
) -> None:
    to_edit, edited = agents.example("approve_pydantic_ai")
    to_reject, rejected = agents.example("approve_langgraph")
    to_approve, approved = agents.mcp(account="DE02", amount=250, memo=None)
    to_press, pressed = agents.example("approve_langgraph")

    sign_in(page, product, "reviewer")
    edit_in_the_queue(page, to_edit)
    reject_in_the_admin(page, product, to_reject)
    approve_by_link(browser, product, to_approve)
    approve_in_slack(product, slack, slack_path, to_press)

    assert edited.result(SECONDS) == "transferred 100 to DE02"
    assert rejected.result(SECONDS) == "Not this month."
    answer = approved.result(SECONDS)
    assert (answer["status"], answer["edited"]) == ("approved", False)
    assert answer["arguments"] == {"account": "DE02", "amount": 250, "memo": None}
    assert pressed.result(SECONDS) == "transferred 250 to DE02"

    # One record each, of the one person, with the surface it came from.
    auditor = Api(product, "auditor", "read")
    rows = auditor("reviews/history/")[1]["results"]
    names = ("hold_id", "actor", "decision", "is_edited", "source")
    assert {tuple(row[name] for name in names) for row in rows} == {
        (to_edit.hold, "reviewer", "APPROVE", True, "web"),
        (to_reject.hold, "reviewer", "REJECT", False, "bulk"),
        (to_approve.hold, "reviewer", "APPROVE", False, "link"),
        (to_press.hold, "reviewer", "APPROVE", False, "slack"),
    }
    assert len(rows) == 4


def edit_in_the_queue(page: Page, review: Review) -> None:
    page.locator(f"#queue-list [data-hold='{review.hold}'] [data-open]").click()
    decision = page.locator("#decision")
    decision.get_by_label("Amount", exact=True).fill("100")
    decision.get_by_role("button", name="Approve with 1 change").click()
    gone = page.locator(f"#queue-list [data-hold='{review.hold}']:not(.gone)")
    expect(gone).to_have_count(0, timeout=LATER)


def reject_in_the_admin(page: Page, product: Product, review: Review) -> None:
    page.goto(f"{product.address}/admin/workflows/hold/?q={review.hold}")
    name = f"Select this object for an action - {review.hold}"
    page.get_by_role("checkbox", name=name).check()
    page.get_by_role("combobox", name=re.compile("Action")).select_option(label="Reject…")
    page.get_by_role("button", name="Go").click()
    page.get_by_label(re.compile("Reason")).fill("Not this month.")
    page.get_by_role("button", name="Reject", exact=True).click()
    expect(page.get_by_text(re.compile("Rejected"))).to_be_visible()


def approve_by_link(browser: Browser, product: Product, review: Review) -> None:
    """As from the mailbox: in a browser in which nobody has signed in."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(until(lambda: mailed_link(product, review)))
    expect(page.get_by_text("DE02")).to_be_visible()
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_role("button", name="Approve", exact=True)).to_have_count(0)
    context.close()


def mailed_link(product: Product, review: Review) -> str | None:
    """The link that decides the review, from the e-mails that were sent."""
    place = re.escape(f"/review/{review.run}/{review.hold}/")
    for mail in mails(product, ""):
        text = mail.get_body(("plain",)).get_content()
        if found := re.search(rf"{place}\n.*(http\S+/answer/\S+)", text):
            return found[1]
    return None


def approve_in_slack(product: Product, slack: Slack, path: str, review: Review) -> None:
    """The reviewer presses the button of the message that Slack got."""

    def message() -> dict[str, Any] | None:
        marks = f'"{review.hold}\\"'
        found = [each for each in slack.messages.values() if marks in json.dumps(each["blocks"])]
        return found[0] if found else None

    payload = press(until(message), "approve", user=SLACK_USER)
    body, headers = signed({"payload": json.dumps(payload)})
    request = urllib.request.Request(f"{product.address}{path}", data=body, headers=headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 200
    assert slack.views == []  # a refused press opens a dialog that says why
